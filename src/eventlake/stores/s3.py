"""A lake's root in an S3 bucket, or in a store that speaks as S3 does."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from obstore import exceptions
from obstore.store import S3Store
from pyarrow.fs import FileSystem, S3FileSystem

from eventlake.aws import DENIED, NOT_ACCEPTED, Access
from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.model.layout import STAGE
from eventlake.stores.bucket import RETRIES, Bucket

ACTIONS = {
    "read": "s3:GetObject",
    "write": "s3:PutObject",
    "delete": "s3:DeleteObject",
    "list": "s3:ListBucket",
}


@dataclass(frozen=True)
class S3(Bucket):
    """A bucket."""

    bucket: str
    access: Access
    endpoint: str = ""
    """Of a store that is not AWS's own."""
    path_style: bool = False
    encryption: str = ""
    """`SSE-S3`, `SSE-KMS`, or what the bucket does by itself."""
    kms_key_id: str = ""

    @property
    def root(self) -> str:  # type: ignore[override]
        return f"s3://{self.bucket}"

    @cached_property
    def _store(self) -> Any:
        return S3Store(
            self.bucket,
            config=self._config(),
            client_options={"allow_http": self.endpoint.startswith("http://")},
            retry_config=RETRIES,
            credential_provider=self.access.credentials(),
        )

    def _config(self) -> Any:
        config: dict[str, Any] = {
            "region": self.access.region,
            "virtual_hosted_style_request": not self.path_style,
        }
        if self.endpoint:
            scheme, _, host = self.endpoint.partition("://")
            own = self.endpoint if self.path_style else f"{scheme}://{self.bucket}.{host}"
            config["endpoint"] = own
        if self.encryption == "SSE-S3":
            config["server_side_encryption"] = "AES256"
        if self.encryption == "SSE-KMS":
            config |= {"server_side_encryption": "aws:kms", "sse_bucket_key_enabled": True}
            if self.kms_key_id:
                config["sse_kms_key_id"] = self.kms_key_id
        return config

    def filesystem(self) -> tuple[FileSystem, str]:
        given = self.access.credentials()()
        scheme, _, host = self.endpoint.rpartition("://")
        return S3FileSystem(
            access_key=given["access_key_id"],
            secret_key=given["secret_access_key"],
            session_token=given["token"],
            region=self.access.region,
            endpoint_override=host or None,
            scheme=scheme or "https",
            force_virtual_addressing=bool(host) and not self.path_style,
        ), self.bucket

    def explain(self, problem: Exception, verb: str, path: str) -> EventLakeError:
        text, where = str(problem), f"{self.root}/{path}"
        # An answer of its own names its code in XML, one of many keys at once beside the key.
        found = re.search(r"(?:<Code>|\(code: )(\w+)", text)
        name = found[1] if found else ""
        if wrong := self._wrong_setting(problem, name, text):
            return InvalidSettings(f"could not {verb} {where}: {wrong}")
        if name in DENIED or isinstance(problem, exceptions.PermissionDeniedError):
            return InsufficientPermissions(self._denied(text, verb, path))
        if isinstance(problem, FileNotFoundError):
            return InvalidSettings(f"cannot {verb} {where}: it does not exist")
        reason = text.partition("\n")[0].partition(": <?xml")[0]
        return Unavailable(f"could not {verb} {where}: {name} {reason}")

    def _wrong_setting(self, problem: Exception, name: str, text: str) -> str:
        """Which setting a refusal speaks of, if any."""
        if isinstance(problem, exceptions.UnauthenticatedError):
            return text.partition("credential provider: ")[2].partition("\n")[0]
        if name == "NoSuchBucket":
            return f"s3_bucket is {self.bucket!r}, and there is no such bucket"
        if name in NOT_ACCEPTED:
            return f"the AWS credentials are not accepted ({name})"
        if name in _ELSEWHERE or "redirect without LOCATION" in text:
            return f"aws_region is {self.access.region!r}, and the bucket is in another one"
        if not name and "400 Bad Request" in text:  # which says no more when it answers a HEAD
            return (
                f"S3 takes no such request: the bucket may not be in {self.access.region} "
                "(aws_region), or the AWS credentials have expired"
            )
        return ""

    def _denied(self, text: str, verb: str, path: str) -> str:
        stage = " (the stage)" if path.startswith(STAGE) else ""
        if "kms:" in text:
            key = self.kms_key_id or "the bucket's key"
            return (
                f"may not {verb} {self.root}/{path}{stage}: grant kms:GenerateDataKey and "
                f"kms:Decrypt on {key}"
            )
        return f"may not {verb} {self.root}/{path}{stage}: grant {self._lacks(text, verb, path)}"

    def _lacks(self, text: str, verb: str, path: str) -> str:
        """A permission: AWS mostly names it, and it need not be the one that the verb takes."""
        named = _NAMED.search(text)
        action, folder = named.groups() if named else (ACTIONS[verb], path.partition("/")[0])
        bucket = f"arn:{self._partition}:s3:::{self.bucket}"
        if action == ACTIONS["list"]:
            return f"{action} on {bucket}"
        if verb == "read" and not named:
            hint = f" (or {ACTIONS['list']} on {bucket}: without it S3 refuses what is not there)"
            return f"{action} on {bucket}/{folder}/*{hint}"
        return f"{action} on {bucket}/{folder}/*"

    @property
    def _partition(self) -> str:
        """What AWS calls the regions that stand apart."""
        apart = ("cn", "us-gov")
        found = (name for name in apart if self.access.region.startswith(f"{name}-"))
        return "-".join(("aws", *found))


_NAMED = re.compile(
    r"not authorized to perform: (s3:\w+) on resource: \W*(?:quot;)?arn:[\w-]+:s3:::[^/\"&\s]+"
    r"/?([^/\"&\s]*)"
)
_ELSEWHERE = frozenset(
    ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
)
