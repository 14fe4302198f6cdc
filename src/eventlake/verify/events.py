"""One line: an event and its table, or the reason why it is none."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha1
from itertools import accumulate
from typing import Any

import msgspec

from eventlake.verify.lines import LARGEST

_PLURALS = {
    "identify": "identifies",
    "page": "pages",
    "screen": "screens",
    "group": "groups",
    "alias": "aliases",
}
_DEEPEST = 100
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?"
    r"(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class NoEventError(Exception):
    """A line that is no event; the text is its reason."""


def read_event(line: bytes | None) -> tuple[dict[str, Any], int]:
    """An event and the moment of its receipt; raises the first reason that applies."""
    if line is None:
        raise NoEventError("damaged_file")
    event = _json(line)
    if not isinstance(event, dict):
        raise NoEventError("not_object")
    kind = event.get("type")
    if not isinstance(kind, str) or (kind != "track" and kind not in _PLURALS):
        raise NoEventError("bad_type")
    if not _is_text(event.get("messageId")):
        raise NoEventError("no_message_id")
    if kind == "track" and not _is_text(event.get("event")):
        raise NoEventError("no_event_name")
    moment = _moment(event.get("receivedAt"))
    if moment is None:
        raise NoEventError("no_received_at")
    return event, moment


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _moment(text: object) -> int | None:
    """Microseconds since 1970; None for what names no moment."""
    if not isinstance(text, str) or not _MOMENT.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text)
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return (at - _EPOCH) // _MICROSECOND


_decode = msgspec.json.Decoder().decode


def _json(line: bytes) -> Any:
    if len(line) > LARGEST:
        raise NoEventError("too_large")
    try:
        value = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _slow_json(line)
    many = len(line) - len(line.translate(None, b"{[")) > _DEEPEST
    if many and isinstance(value, dict) and max(_levels(line)) > _DEEPEST:
        raise NoEventError("too_deep")
    return value


def _slow_json(line: bytes) -> Any:
    """As the standard library reads it: a number may have any size, a string may not be broken."""
    try:
        return _unbroken([("", _decode_slowly(line.decode()))])[""]
    except RecursionError:
        # So deep that the library gives up: brackets that all close are taken for JSON.
        closed = [*_levels(line)][-1] == 0
        raise NoEventError(_reason_deep(line) if closed else "not_json") from None
    except ValueError:
        raise NoEventError("not_json") from None


def _unbroken(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    json.dumps(pairs, ensure_ascii=False).encode()  # fails at an unpaired surrogate
    return dict(pairs)


def _refuse(constant: str) -> float:
    raise ValueError(constant)


_decode_slowly = json.JSONDecoder(
    object_pairs_hook=_unbroken, parse_int=float, parse_constant=_refuse
).decode


def _reason_deep(line: bytes) -> str:
    return "too_deep" if line.lstrip().startswith(b"{") else "not_object"


def _levels(line: bytes) -> Iterator[int]:
    """How many brackets are open at each byte outside of strings."""
    return accumulate((byte in b"{[") - (byte in b"}]") for byte in _STRING.sub(b"", line))


@lru_cache(65536)
def table_of(kind: str, event: str, naming: str) -> str:
    """The table of an event, as its folder is called."""
    name = kind if naming == "native" else _PLURALS.get(kind, "")
    if kind == "track":
        words = re.findall("[A-Z0-9]+[a-z0-9]*|[a-z0-9]+", event)
        name = "_".join(words).lower() or f"event_{_digest(event)}"
        if naming == "native" or name in _PLURALS.values():
            name = f"track_{name}"
    return _shortened(name)


@lru_cache(65536)
def catalog_name(table: str, prefix: str) -> str:
    """What the catalog calls a table."""
    return _shortened(f"{prefix}_{table}") if prefix else table


def _shortened(name: str) -> str:
    return name if len(name) <= 127 else f"{name[:118]}_{_digest(name)}"


def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
