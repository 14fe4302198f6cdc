"""A lake's root in an S3 bucket, or in a store that speaks as S3 does."""

import io
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from obstore import exceptions
from obstore.store import S3Store
from pyarrow.fs import FileSystem, S3FileSystem

from eventlake.aws import DENIED, NOT_ACCEPTED, Access
from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.model.layout import STAGE
from eventlake.stores.ranges import RangeFile
from eventlake.stores.store import PIECE, Change, Object, Store

RETRIES: Any = {"max_retries": 12, "retry_timeout": timedelta(minutes=4)}
TRIES = 4
BROKEN = "response body error"
"""How obstore calls an answer that ends before its end."""
ACTIONS = {
    "read": "s3:GetObject",
    "write": "s3:PutObject",
    "delete": "s3:DeleteObject",
    "list": "s3:ListBucket",
}

T = TypeVar("T")


@dataclass(frozen=True)
class S3(Store):
    """A bucket."""

    near = False
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

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

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

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}"

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

    def open(self, path: str) -> pa.NativeFile:
        with self.errors("read", path):
            size = self._store.head(path)["size"]
        raw = RangeFile(size, lambda at, count: bytes(self.read_range(path, at, count)))
        return pa.PythonFile(io.BufferedReader(raw, PIECE), "r")

    @contextmanager
    def writing(self, path: str) -> Iterator[pa.NativeFile]:
        """Through a file on disk: what the bucket gets is whole, or nothing at all."""
        with tempfile.TemporaryDirectory(prefix="eventlake-") as folder:
            part = Path(folder) / "part"
            with pa.OSFile(str(part), "wb") as file:
                yield file
            with self.errors("write", path), part.open("rb") as whole:
                self._store.put(path, whole)  # in parts when it is large; aborted when one fails

    placing = writing

    def change(self, path: str, change: Change) -> None:
        """Tried again when somebody else was faster."""
        with self.errors("write", path):
            while not self._changed(path, change):
                pass

    def _changed(self, path: str, change: Change) -> bool:
        known, mode = self._known(path)
        data = change(known)
        if data is None:
            return True
        try:
            self._store.put(path, data, mode=mode)
        except (exceptions.PreconditionError, exceptions.AlreadyExistsError):
            return False
        return True

    def _known(self, path: str) -> tuple[bytes | None, Any]:
        """An object, and the condition under which it may be replaced."""
        try:
            found = self._store.get(path)
        except FileNotFoundError:
            return None, "create"
        return bytes(found.bytes()), {"e_tag": found.meta["e_tag"]}

    def move(self, source: str, target: str) -> None:
        if _unbroken(partial(self._copy, source, target)):
            self.delete([source])

    def _copy(self, source: str, target: str) -> bool:
        """False when an earlier try has moved it."""
        with self.errors("write", target):
            try:
                self._store.copy(source, target)
            except FileNotFoundError:
                self._store.head(target)
                return False
        return True

    def delete(self, paths: Iterable[str]) -> None:
        given = list(paths)
        if given:
            _unbroken(partial(self._delete, given))

    def _delete(self, paths: list[str]) -> None:
        with self.errors("delete", paths[0]):
            self._store.delete(paths)

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        return _unbroken(partial(super().names, prefix))

    def objects(self, prefix: str, after: str = "") -> Iterator[Object]:
        """A listing that breaks off goes on after the last object that it told."""
        for left in reversed(range(TRIES)):
            try:
                for found in super().objects(prefix, after):
                    after = found.path
                    yield found
            except Unavailable as problem:
                if not left or BROKEN not in str(problem):
                    raise
            else:
                return

    def settle(self, path: str) -> None:
        """A bucket keeps what it has acknowledged."""

    secure = settle

    def prune(self, folder: str) -> None:
        """A bucket has no folders."""

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


def _unbroken(work: Callable[[], T]) -> T:
    """Do again what may be done twice, when its answer broke off: obstore leaves that to us."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except Unavailable as problem:
            if BROKEN not in str(problem):
                raise
    return work()
