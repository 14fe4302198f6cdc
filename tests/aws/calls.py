"""What a request to AWS asks for: its service, its action, and the permissions that it takes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET


class Need(NamedTuple):
    """A permission, and what for: a key or prefix of the bucket, a table, a role, a cluster."""

    permission: str
    resource: str


@dataclass(frozen=True)
class Call:
    """A request as AWS understands it."""

    service: str
    action: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    caller: str
    """The access key that the request is signed with."""
    bucket: str = ""
    key: str = ""
    """An object's, or the prefix of a listing."""
    needs: tuple[Need, ...] = ()

    @property
    def token(self) -> str:
        return self.headers.get("x-amz-security-token", "")

    @property
    def changes(self) -> bool:
        """Whether the lake is another one after it."""
        return self.action.startswith(CHANGES)

    @property
    def given(self) -> Any:
        """The JSON or the form that the request carries."""
        if self.service == "sts":
            return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}
        return json.loads(self.body or b"{}")

    def __str__(self) -> str:
        return f"{self.service}:{self.action} {self.key or self.needs[:1]}"


CHANGES = ("Put", "Copy", "Delete", "Complete", "Create", "Update", "BatchCreate", "BatchUpdate")


def understood(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Call:
    """A request's call; every one is signed, and the signature names caller and service."""
    lower = {name.lower(): value for name, value in headers.items()}
    signed = re.search(r"Credential=([^/]+)/\d+/[^/]*/([\w-]+)/", lower.get("authorization", ""))
    caller, service = signed.groups() if signed else ("", "")
    read = {"s3": _s3, "sts": _sts}.get(service, _json)
    whole = Call(service, "", method, target, lower, body, caller)
    return read(whole)


# S3

_ACTIONS = (
    ("GET", True, "uploadId", "ListParts"),
    ("GET", True, "", "GetObject"),
    ("GET", False, "uploads", "ListMultipartUploads"),
    ("GET", False, "location", "GetBucketLocation"),
    ("GET", False, "", "ListObjects"),
    ("HEAD", True, "", "HeadObject"),
    ("HEAD", False, "", "HeadBucket"),
    ("PUT", True, "partNumber", "UploadPart"),
    ("PUT", True, "", "PutObject"),
    ("PUT", False, "", "CreateBucket"),
    ("POST", True, "uploads", "CreateMultipartUpload"),
    ("POST", True, "uploadId", "CompleteMultipartUpload"),
    ("POST", False, "delete", "DeleteObjects"),
    ("DELETE", True, "uploadId", "AbortMultipartUpload"),
    ("DELETE", True, "", "DeleteObject"),
)
"""By method, whether there is a key, and a word of the query."""

_PERMISSIONS = {
    "HeadObject": "GetObject",
    "ListObjects": "ListBucket",
    "HeadBucket": "ListBucket",
    "UploadPart": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "CompleteMultipartUpload": "PutObject",
}
ENCRYPTED = ("PutObject", "CopyObject", "CreateMultipartUpload")
"""The calls that say how an object is to be encrypted."""


def _s3(call: Call) -> Call:
    parts = urlsplit(call.target)
    query = parse_qs(parts.query, keep_blank_values=True)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    action = next(
        action
        for method, has_key, word, action in _ACTIONS
        if (method, has_key) == (call.method, bool(key)) and (not word or word in query)
    )
    key = key or query.get("prefix", [""])[0]
    source = _source(call)
    if action == "PutObject" and source:
        action = "CopyObject"
    needs = _s3_needs(action, key, call, source)
    return _with(call, action=action, bucket=bucket, key=key, needs=needs)


def _source(call: Call) -> str:
    """The key that a copy is made of."""
    return unquote(call.headers.get("x-amz-copy-source", "")).lstrip("/").partition("/")[2]


def _s3_needs(action: str, key: str, call: Call, source: str) -> tuple[Need, ...]:
    if action == "DeleteObjects":
        return tuple(Need("s3:DeleteObject", one) for one in keys_of(call.body))
    kms = call.headers.get("x-amz-server-side-encryption") == "aws:kms"
    key_id = call.headers.get("x-amz-server-side-encryption-aws-kms-key-id", "")
    if action == "CopyObject":
        own = [Need("s3:GetObject", source), Need("s3:PutObject", key)]
    else:
        own = [Need(f"s3:{_PERMISSIONS.get(action, action)}", key)]
    data_key = [Need("kms:GenerateDataKey", key_id)] if kms and action in ENCRYPTED else []
    decrypt = [Need("kms:Decrypt", key_id)] if action == "GetObject" or source else []
    return tuple(own + data_key + decrypt)


def keys_of(body: bytes) -> list[str]:
    """The keys that a DeleteObjects names."""
    return [one.text or "" for one in ET.fromstring(body).iter() if one.tag.endswith("Key")]


# The others


def _sts(call: Call) -> Call:
    given = call.given
    action = given["Action"]
    return _with(call, action=action, needs=(Need(f"sts:{action}", given.get("RoleArn", "")),))


def _json(call: Call) -> Call:
    action = call.headers.get("x-amz-target", "").rpartition(".")[2]
    need = Need(f"{call.service}:{action}", _resource(call.given))
    return _with(call, action=action, needs=(need,))


def _resource(given: Any) -> str:
    inner = given.get("TableInput") or given.get("DatabaseInput") or {}
    name = given.get("TableName") or given.get("Name") or inner.get("Name", "")
    if database := given.get("DatabaseName"):
        return f"table/{database}/{name}" if name else f"database/{database}"
    if name:
        return f"database/{name}"
    return str(given.get("ClusterId") or given.get("JobFlowId") or "")


def _with(call: Call, **found: Any) -> Call:
    return Call(**{**call.__dict__, **found})
