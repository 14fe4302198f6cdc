"""Objects in a container of ADLS or of an emulator."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from obstore.store import AzureStore
from pyarrow.fs import AzureFileSystem, FileSystem

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.model.azure import AZURE_SECRETS, AzureLogin
from eventlake.stores.azure_login import Login
from eventlake.stores.bucket import MAX_REQUESTS, Bucket, as_options

ROLE = "Storage Blob Data Contributor"
SAS_PERMISSIONS = "read, add, create, write, delete and list (sp=racwdl)"


@dataclass(frozen=True)
class Adls(Bucket):
    """A container of a storage account, with or without hierarchical namespace."""

    account: str
    container: str
    login: Login
    endpoint: str = ""
    """URL of an emulator, which has the account in its paths."""

    @property
    def root(self) -> str:  # type: ignore[override]
        return f"abfss://{self.container}@{self.account}.dfs.core.windows.net"

    @cached_property
    def _store(self) -> Any:
        return AzureStore(
            self.container,
            config=self._config(),
            client_options={"allow_http": self.endpoint.startswith("http://")},
            retry_config=self.retry_config(),
        )

    @property
    def _url(self) -> str:
        own = f"https://{self.account}.blob.core.windows.net"
        return f"{self.endpoint}/{self.account}" if self.endpoint else own

    def _config(self) -> Any:
        return {
            "account_name": self.account,
            # Set explicitly: obstore would take it from the environment, and Arrow would not.
            "endpoint": self._url,
            "use_emulator": False,
            "skip_signature": False,
            **self.login.for_obstore(),
        }

    def storage_options(self) -> dict[str, str]:
        options = {
            **self._config(),
            "allow_http": self.endpoint.startswith("http://"),
            "use_azure_cli": self.login.method is AzureLogin.CLI,
        }
        return as_options(options)

    def filesystem(self) -> tuple[FileSystem, str]:
        scheme, _, host = self.endpoint.partition("://")
        emulator = {
            "blob_storage_authority": host,
            "blob_storage_scheme": scheme,
            "dfs_storage_authority": host,
            "dfs_storage_scheme": scheme,
        }
        options = {**self.login.for_arrow(), **(emulator if host else {})}
        return AzureFileSystem(self.account, **options), self.container

    @cached_property
    def _requests(self) -> Any:
        # Collectors do without this client, which is large.
        from eventlake.stores.azure_requests import AzureRequests  # noqa: PLC0415

        return AzureRequests(self._url, self.account, self.container, self.login)

    def _copy(self, source: str, target: str) -> None:
        self._requests.copy(source, target)

    def _delete(self, paths: list[str]) -> None:
        """Delete in one batch; if an object is gone, which fails the batch, delete one by one."""
        with self.translate_errors("delete", paths[0]):
            if self.login.method is not AzureLogin.SAS:
                with suppress(FileNotFoundError):
                    self._store.delete(paths)
                    return
            with ThreadPoolExecutor(MAX_REQUESTS) as pool:
                list(pool.map(self._delete_one, paths))

    def _delete_one(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._requests.delete(path)

    def explain(self, problem: Exception, verb: str, path: str) -> EventLakeError:
        text, where = str(problem), f"{self.root}/{path}"
        name, status = _first_group(r"<Code>(\w+)", text), _first_group(_STATUS, text)
        if wrong := self._wrong_setting(name, status, text):
            return InvalidSettings(f"could not {verb} {where}: {wrong}")
        if status == "403":  # obstore raises PermissionDeniedError for it, but not in listings
            return InsufficientPermissions(self._denied(name, verb, where), self._role_assignment)
        if isinstance(problem, FileNotFoundError):
            return InvalidSettings(f"cannot {verb} {where}: it does not exist")
        reason = text.partition("\n")[0].partition(": <?xml")[0]
        hint = f" (is storage_account {self.account!r} its name?)" if "dns error" in text else ""
        return Unavailable(f"could not {verb} {where}: {name} {reason}{hint}")

    def _wrong_setting(self, name: str, status: str, text: str) -> str:
        """The setting that caused an error, and what is wrong with it; empty if none did."""
        if name == "ContainerNotFound":
            return (
                f"storage_container is {self.container!r}, and the storage account "
                f"{self.account} has no such container"
            )
        if name == "AccountIsDisabled":
            return f"storage_account is {self.account!r}, and it is disabled"
        if name == "KeyBasedAuthenticationNotPermitted":
            return (
                f"the storage account {self.account} does not accept account keys: set tenant_id, "
                f"client_id and {AZURE_SECRETS['client_secret']}, or login = 'identity'"
            )
        if "Invalid Access Key" in text:
            return f"{self._credentials} not accepted: not valid base64"
        if no_token := self._no_token(status, text):
            return no_token
        accepted = name not in NOT_ACCEPTED and status != "401"
        return "" if accepted else f"{self._credentials} not accepted ({name or status})"

    def _no_token(self, status: str, text: str) -> str:
        """Why there is no token, if that is the problem; else empty."""
        if "az account get-access-token" in text:
            return (
                "login is 'cli', and the Azure CLI returned no token: install it and run az login"
            )
        if "token request: " not in text or not re.fullmatch(r"4(?!29)\d\d", status):
            return ""
        name = _first_group(r"(AADSTS\d+)", text)
        cause = _TOKEN_ERRORS.get(name, "check tenant_id, client_id and the secret or the identity")
        return f"there is no token for {self.login.who}: {cause}" + (f" ({name})" if name else "")

    @property
    def _credentials(self) -> str:
        if self.login.method is AzureLogin.KEY:
            return f"the account key ({_SOURCES['account_key']}) is"
        if self.login.method is AzureLogin.SAS:
            return f"the shared access signature ({_SOURCES['sas_token']}) has expired or is"
        return f"the credentials of {self.login.who} are"

    def _denied(self, name: str, verb: str, where: str) -> str:
        denied = f"no permission to {verb} {where}" + (f" ({name})" if name else "")
        network = f"let this machine through the network rules of {self.account}"
        if self.login.method is AzureLogin.KEY:  # an account key may do everything
            source = _SOURCES["account_key"]
            return f"{denied}: {network}, or check that {source} has a key of this account"
        if self.login.method is AzureLogin.SAS:
            source = f"make a new {_SOURCES['sas_token']}"
            return f"{denied}: {source} for the container with {SAS_PERMISSIONS}, or {network}"
        grant = f"grant {ROLE} on the container {self.container} to {self.login.who}"
        # Responses to HEAD have no code, and AuthorizationFailure can mean either.
        either = name in ("", "AuthorizationFailure")
        return f"{denied}: {grant}" + (f", or {network}" if either else "")

    @property
    def _role_assignment(self) -> str:
        """The command that gives the login the role; empty if it signs in without a role."""
        if self.login.method in (AzureLogin.KEY, AzureLogin.SAS):
            return ""
        account = f"$(az storage account show --name {self.account} --query id --output tsv)"
        return (
            f'az role assignment create --role "{ROLE}" \\\n'
            f"  --assignee {self.login.client_id or '<principal>'} \\\n"
            f'  --scope "{account}/blobServices/default/containers/{self.container}"'
        )


def _first_group(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""


_STATUS = r"(?:status code: |\(code: )(\d{3})"
"""In an error of a request, or of one object of a batch."""
_SOURCES = {name: f"{variable} or the credentials_file" for name, variable in AZURE_SECRETS.items()}
NOT_ACCEPTED = frozenset(
    ("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation")
)
_TOKEN_ERRORS = {
    "AADSTS7000215": f"the client secret ({_SOURCES['client_secret']}) is wrong",
    "AADSTS7000222": f"the client secret ({_SOURCES['client_secret']}) has expired",
    "AADSTS700016": "client_id is not an application of the tenant",
    "AADSTS90002": "tenant_id does not exist",
}
