"""Parses a line to an event and its table, or to the reason for its quarantine."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha1
from itertools import accumulate
from typing import Any

import msgspec

from eventlake.verify.lines import MAX_LINE_BYTES

_PLURALS = {
    "identify": "identifies",
    "page": "pages",
    "screen": "screens",
    "group": "groups",
    "alias": "aliases",
}
CALL_TABLES = frozenset((*_PLURALS, *_PLURALS.values()))
"""Names of tables of other calls than track, by any naming."""
_MAX_DEPTH = 100
_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?"
    r"(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class InvalidLineError(Exception):
    """A line that is not a valid event; the text is the reason for its quarantine."""


def read_event(line: bytes | None) -> tuple[dict[str, Any], int]:
    """An event and its `receivedAt` in microseconds; raises the first reason that applies."""
    if line is None:
        raise InvalidLineError("damaged_file")
    event = _parse_json(line)
    if not isinstance(event, dict):
        raise InvalidLineError("not_object")
    kind = event.get("type")
    if not isinstance(kind, str) or (kind != "track" and kind not in _PLURALS):
        raise InvalidLineError("bad_type")
    if not _is_nonempty_string(event.get("messageId")):
        raise InvalidLineError("no_message_id")
    if kind == "track" and not _is_nonempty_string(event.get("event")):
        raise InvalidLineError("no_event_name")
    moment = _parse_time(event.get("receivedAt"))
    if moment is None:
        raise InvalidLineError("no_received_at")
    return event, moment


def _is_nonempty_string(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _parse_time(text: object) -> int | None:
    """Microseconds since 1970; None if it is not a timestamp."""
    if not isinstance(text, str) or not _TIMESTAMP.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text)
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return (at - _EPOCH) // _MICROSECOND


_decode = msgspec.json.Decoder().decode


def _parse_json(line: bytes) -> Any:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidLineError("too_large")
    try:
        value = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _parse_json_slowly(line)
    many = len(line) - len(line.translate(None, b"{[")) > _MAX_DEPTH
    if many and isinstance(value, dict) and max(_depths(line)) > _MAX_DEPTH:
        raise InvalidLineError("too_deep")
    return value


def _parse_json_slowly(line: bytes) -> Any:
    """Parse with the standard library: numbers of any size, no unpaired surrogates."""
    try:
        return _check_surrogates([("", _decode_slowly(line.decode()))])[""]
    except RecursionError:
        # Too deep for the library: balanced brackets count as JSON.
        closed = [*_depths(line)][-1] == 0
        raise InvalidLineError(_reason_if_deep(line) if closed else "not_json") from None
    except ValueError:
        raise InvalidLineError("not_json") from None


def _check_surrogates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    json.dumps(pairs, ensure_ascii=False).encode()  # fails at an unpaired surrogate
    return dict(pairs)


def _refuse(constant: str) -> float:
    raise ValueError(constant)


_decode_slowly = json.JSONDecoder(
    object_pairs_hook=_check_surrogates, parse_int=float, parse_constant=_refuse
).decode


def _reason_if_deep(line: bytes) -> str:
    return "too_deep" if line.lstrip().startswith(b"{") else "not_object"


def _depths(line: bytes) -> Iterator[int]:
    """The number of open brackets at each byte outside of strings."""
    return accumulate((byte in b"{[") - (byte in b"}]") for byte in _STRING.sub(b"", line))


@lru_cache(65536)
def table_name(kind: str, event: str, naming: str) -> str:
    """The name of an event's table in folders."""
    calls = _PLURALS if naming == "warehouse" else {call: call for call in _PLURALS}
    name = calls.get(kind, "")
    if kind == "track":
        words = re.findall("[A-Z0-9]+[a-z0-9]*|[a-z0-9]+", event)
        name = "_".join(words).lower() or f"event_{_digest(event)}"
        if naming == "native" or name in calls.values():
            name = f"track_{name}"
    return _shorten(name)


@lru_cache(65536)
def catalog_name(table: str, prefix: str) -> str:
    """The name of a table in the catalog."""
    return _shorten(f"{prefix}_{table}") if prefix else table


def _shorten(name: str) -> str:
    return name if len(name) <= 127 else f"{name[:118]}_{_digest(name)}"


def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
