"""What a request to the blob service asks for, in the words of S3, so that rules serve both."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from tests.aws.calls import Call, Need

_PUTS = {"block": "UploadPart", "blocklist": "CompleteMultipartUpload"}
_ACTIONS = {"GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject", "POST": "AskToken"}
_PERMISSIONS = {"GetObject": "read", "HeadObject": "read", "ListObjects": "list"}


def understood(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Call:
    """A request's call; the caller is how it is signed, and nobody if it is not."""
    lower = {name.lower(): value for name, value in headers.items()}
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    _, _, container, *rest = (*unquote(parts.path).split("/", 3), "", "")[:4]
    key = rest[0] if rest else ""
    word = query.get("comp", [""])[0]
    source = lower.get("x-ms-copy-source", "")
    action = _action(method, word, bool(source))
    key = key or query.get("prefix", [""])[0]
    return Call(
        service="adls",
        action=action,
        method=method,
        target=target,
        headers=lower,
        body=body,
        caller=lower.get("authorization", "").partition(" ")[0] or ("sig" in query and "SAS") or "",
        bucket=container,
        key=key,
        needs=_needs(action, key, body, source),
    )


def _action(method: str, word: str, is_copy: bool) -> str:
    if word == "list":
        return "ListObjects"
    if word == "batch":
        return "DeleteObjects"
    if method == "PUT":
        return "CopyObject" if is_copy else _PUTS.get(word, "PutObject")
    return _ACTIONS[method]


def _needs(action: str, key: str, body: bytes, source: str) -> tuple[Need, ...]:
    if action in ("DeleteObject", "DeleteObjects"):
        return tuple(Need("delete", one) for one in ([key] if key else batch_keys(body)))
    own = Need(_PERMISSIONS.get(action, "write"), key)
    return (Need("read", key_of(source)), own) if source else (own,)


def batch_keys(body: bytes) -> list[str]:
    """The keys that a batch deletes."""
    found = re.findall(rb"^DELETE (\S+) HTTP/1.1", body, re.MULTILINE)
    return [key_of(one.decode()) for one in found]


def key_of(url: str) -> str:
    """The key in a URL or a path: what comes after the account and the container."""
    return unquote(urlsplit(url).path).split("/", 3)[3]
