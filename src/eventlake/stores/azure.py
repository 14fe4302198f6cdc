"""A lake's root in a container of ADLS, or of an emulator."""

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from obstore.store import AzureStore
from pyarrow.fs import AzureFileSystem, FileSystem

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.model.lake import AZURE_SECRETS, AzureLogin
from eventlake.stores.azure_login import Login
from eventlake.stores.bucket import RETRIES, Bucket

ROLE = "Storage Blob Data Contributor"


@dataclass(frozen=True)
class Adls(Bucket):
    """A container of a storage account, with folders or without."""

    account: str
    container: str
    login: Login
    endpoint: str = ""
    """Of an emulator, which has the account in its paths."""

    @property
    def root(self) -> str:  # type: ignore[override]
        return f"abfss://{self.container}@{self.account}.dfs.core.windows.net"

    @cached_property
    def _store(self) -> Any:
        return AzureStore(
            self.container,
            config=self._config(),
            client_options={"allow_http": self.endpoint.startswith("http://")},
            retry_config=RETRIES,
        )

    def _config(self) -> Any:
        own = f"https://{self.account}.blob.core.windows.net"
        return {
            "account_name": self.account,
            # Said here, or the environment would say it to obstore and not to Arrow.
            "endpoint": f"{self.endpoint}/{self.account}" if self.endpoint else own,
            "use_emulator": False,
            "skip_signature": False,
            **self.login.for_obstore(),
        }

    def filesystem(self) -> tuple[FileSystem, str]:
        scheme, _, host = self.endpoint.partition("://")
        emulator = {
            "blob_storage_authority": host,
            "blob_storage_scheme": scheme,
            "dfs_storage_authority": host,
            "dfs_storage_scheme": scheme,
        }
        given = {**self.login.for_arrow(), **(emulator if host else {})}
        return AzureFileSystem(self.account, **given), self.container

    def _delete(self, paths: list[str]) -> None:
        """One that has gone already ends a batch with an error: then each is a request."""
        with self.translate_errors("delete", paths[0]):
            try:
                self._store.delete(paths)
            except FileNotFoundError:
                for path in paths:
                    with suppress(FileNotFoundError):
                        self._store.delete(path)

    def explain(self, problem: Exception, verb: str, path: str) -> EventLakeError:
        text, where = str(problem), f"{self.root}/{path}"
        name, status = _first(r"<Code>(\w+)", text), _first(_STATUS, text)
        if wrong := self._wrong_setting(name, status, text):
            return InvalidSettings(f"could not {verb} {where}: {wrong}")
        if status == "403":  # obstore has an exception for it, but not when it lists
            return InsufficientPermissions(self._denied(name, verb, where))
        if isinstance(problem, FileNotFoundError):
            return InvalidSettings(f"cannot {verb} {where}: it does not exist")
        reason = text.partition("\n")[0].partition(": <?xml")[0]
        doubt = f" (is storage_account {self.account!r} its name?)" if "dns error" in text else ""
        return Unavailable(f"could not {verb} {where}: {name} {reason}{doubt}")

    def _wrong_setting(self, name: str, status: str, text: str) -> str:
        """Which setting a refusal speaks of, if any."""
        if name == "ContainerNotFound":
            return (
                f"storage_container is {self.container!r}, and the storage account "
                f"{self.account} has no such container"
            )
        if name == "AccountIsDisabled":
            return f"storage_account is {self.account!r}, and it is disabled"
        if name == "KeyBasedAuthenticationNotPermitted":
            return (
                f"the storage account {self.account} takes no account key: set tenant_id, "
                f"client_id and {AZURE_SECRETS['client_secret']}, or login = 'identity'"
            )
        if "Invalid Access Key" in text:
            return f"{self._credentials} not accepted: it is no base64"
        if lacking := self._no_token(status, text):
            return lacking
        accepted = name not in NOT_ACCEPTED and status != "401"
        return "" if accepted else f"{self._credentials} not accepted ({name or status})"

    def _no_token(self, status: str, text: str) -> str:
        """Why Microsoft Entra, a machine or the CLI does not vouch for us."""
        if "az account get-access-token" in text:
            return "login is 'cli', and the Azure CLI gives no token: install it and run az login"
        if "token request: " not in text or not re.fullmatch(r"4(?!29)\d\d", status):
            return ""
        name = _first(r"(AADSTS\d+)", text)
        blamed = _BLAMED.get(name, "see tenant_id, client_id and the secret or the identity")
        return f"there is no token for {self.login.who}: {blamed}" + (f" ({name})" if name else "")

    @property
    def _credentials(self) -> str:
        if self.login.found is AzureLogin.KEY:
            return f"the account key ({_PLACES['account_key']}) is"
        return f"the credentials of {self.login.who} are"

    def _denied(self, name: str, verb: str, where: str) -> str:
        said = f"may not {verb} {where}" + (f" ({name})" if name else "")
        network = f"let this machine through the network rules of {self.account}"
        if self.login.found is AzureLogin.KEY:  # which may do everything
            return f"{said}: {network}, or see that {_PLACES['account_key']} has a key of it"
        grant = f"grant {ROLE} on the container {self.container} to {self.login.who}"
        # An answer to HEAD has no code, and this one is Azure's for both.
        either = name in ("", "AuthorizationFailure")
        return f"{said}: {grant}" + (f", or {network}" if either else "")


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


_STATUS = r"(?:status code: |\(code: )(\d{3})"
"""Of an answer, or of one object among many."""
_PLACES = {name: f"{place} or the credentials_file" for name, place in AZURE_SECRETS.items()}
NOT_ACCEPTED = frozenset(
    ("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation")
)
_BLAMED = {
    "AADSTS7000215": f"the client secret ({_PLACES['client_secret']}) is not its own",
    "AADSTS7000222": f"the client secret ({_PLACES['client_secret']}) has expired",
    "AADSTS700016": "client_id is no application of the tenant",
    "AADSTS90002": "tenant_id is no tenant",
}
