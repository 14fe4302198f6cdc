"""Objects in an S3 bucket or in an S3-compatible store."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from obstore import exceptions
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store
from pyarrow.fs import FileSystem, S3FileSystem

from eventlake.aws import DENIED, MIN_VALIDITY, NOT_ACCEPTED, Access, policy_statement
from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.stores.bucket import DEFAULT_ATTEMPTS, Bucket, as_options

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
    """URL of an S3-compatible store."""
    path_style: bool = False
    encryption: str = ""
    """`SSE-S3`, `SSE-KMS`, or empty for the bucket's default."""
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
            retry_config=self.retry_config(self.access.max_attempts or DEFAULT_ATTEMPTS),
            credential_provider=self._credentials(),
        )

    def _credentials(self) -> Callable[[], Any]:
        """A function that returns valid credentials; raises InvalidSettings if there are none."""
        if self.access.role_arn:
            return self.access.role_credentials()
        provider: Callable[[], Any] = Boto3CredentialProvider(
            self.access.session(), ttl=MIN_VALIDITY
        )
        return provider

    def _config(self) -> Any:
        config: dict[str, Any] = {
            "region": self.access.region,
            "virtual_hosted_style_request": not self.path_style,
        }
        if self.endpoint:
            scheme, _, host = self.endpoint.partition("://")
            virtual_host = f"{scheme}://{self.bucket}.{host}"
            config["endpoint"] = self.endpoint if self.path_style else virtual_host
        if self.encryption == "SSE-S3":
            config["server_side_encryption"] = "AES256"
        if self.encryption == "SSE-KMS":
            config |= {"server_side_encryption": "aws:kms", "sse_bucket_key_enabled": True}
            if self.kms_key_id:
                config["sse_kms_key_id"] = self.kms_key_id
        return config

    def storage_options(self) -> dict[str, str]:
        credentials = self._credentials()()
        options = {
            **self._config(),
            "access_key_id": credentials["access_key_id"],
            "secret_access_key": credentials["secret_access_key"],
            "session_token": credentials["token"] or "",
            "allow_http": self.endpoint.startswith("http://"),
            "conditional_put": "etag",
        }
        return as_options({f"aws_{name}": value for name, value in options.items()})

    def filesystem(self) -> tuple[FileSystem, str]:
        credentials = self._credentials()()
        scheme, _, host = self.endpoint.rpartition("://")
        return S3FileSystem(
            access_key=credentials["access_key_id"],
            secret_key=credentials["secret_access_key"],
            session_token=credentials["token"],
            region=self.access.region,
            endpoint_override=host or None,
            scheme=scheme or "https",
            force_virtual_addressing=bool(host) and not self.path_style,
        ), self.bucket

    def explain(self, problem: Exception, verb: str, path: str) -> EventLakeError:
        text, where = str(problem), f"{self.root}/{path}"
        # The code is in XML, or for one key of a batch in parentheses after the key.
        match = re.search(r"(?:<Code>|\(code: )(\w+)", text)
        name = match[1] if match else ""
        if wrong := self._wrong_setting(problem, name, text):
            return InvalidSettings(f"could not {verb} {where}: {wrong}")
        if name in DENIED or isinstance(problem, exceptions.PermissionDeniedError):
            return self._denied(text, verb, path)
        if isinstance(problem, FileNotFoundError):
            return InvalidSettings(f"cannot {verb} {where}: it does not exist")
        reason = text.partition("\n")[0].partition(": <?xml")[0]
        return Unavailable(f"could not {verb} {where}: {name} {reason}")

    def _wrong_setting(self, problem: Exception, name: str, text: str) -> str:
        """The setting that caused an error, and what is wrong with it; empty if none did."""
        if isinstance(problem, exceptions.UnauthenticatedError):
            return text.partition("credential provider: ")[2].partition("\n")[0]
        if name == "NoSuchBucket":
            return f"s3_bucket is {self.bucket!r}, and that bucket does not exist"
        if name in NOT_ACCEPTED:
            return f"the AWS credentials are not accepted ({name})"
        if name in _WRONG_REGION or "redirect without LOCATION" in text:
            return f"aws_region is {self.access.region!r}, and the bucket is in another one"
        if not name and "400 Bad Request" in text:  # responses to HEAD have no code
            return (
                f"S3 rejected the request: the bucket may not be in {self.access.region} "
                "(aws_region), or the AWS credentials have expired"
            )
        return ""

    def _denied(self, text: str, verb: str, path: str) -> InsufficientPermissions:
        """The error for a denied request, with the permission that AWS names or `verb` needs."""
        denied = f"no permission to {verb} {self.root}/{path}: grant"
        if "kms:" in text:
            return self._key_denied(denied)
        match = _NAMED_PERMISSION.search(text)
        action, folder = match.groups() if match else (ACTIONS[verb], path.partition("/")[0])
        bucket = f"arn:{self._partition}:s3:::{self.bucket}"
        resource = bucket if action == ACTIONS["list"] else f"{bucket}/{folder}/*"
        hint = ""
        if verb == "read" and not match:
            hint = f" (or {ACTIONS['list']} on {bucket}: without it S3 denies missing objects too)"
        statement = policy_statement([action], [resource])
        return InsufficientPermissions(f"{denied} {action} on {resource}{hint}", statement)

    def _key_denied(self, denied: str) -> InsufficientPermissions:
        key, actions = self.kms_key_id or "the bucket's key", ("kms:GenerateDataKey", "kms:Decrypt")
        named = self.kms_key_id if self.kms_key_id.startswith("arn:") else f"<ARN of {key}>"
        message = f"{denied} {' and '.join(actions)} on {key}"
        return InsufficientPermissions(message, policy_statement(actions, [named]))

    @property
    def _partition(self) -> str:
        """The ARN partition of the region, such as `aws-cn`."""
        prefixes = ("cn", "us-gov")
        matches = (name for name in prefixes if self.access.region.startswith(f"{name}-"))
        return "-".join(("aws", *matches))


_NAMED_PERMISSION = re.compile(
    r"not authorized to perform: (s3:\w+) on resource: \W*(?:quot;)?arn:[\w-]+:s3:::[^/\"&\s]+"
    r"/?([^/\"&\s]*)"
)
_WRONG_REGION = frozenset(
    ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
)
