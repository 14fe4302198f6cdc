"""The users' ids in a line: its user id, anonymous id and an alias's previous id."""

import re
from collections.abc import Iterator

import msgspec

from eventlake.kernels.jsontext import NotJson, TooDeep, decode_line
from eventlake.model.erasure import ID_FIELDS
from eventlake.model.types import Json, NumberText, plain

_IN_TEXT = re.compile(
    rb'"(?:%s)"\s*:\s*(?:("(?:[^"\\]|\\.)*+(?:"|$))|(-?\d[\d.eE+-]*))'
    % "|".join(ID_FIELDS).encode(),
    re.DOTALL,
)
"""An id in a line that is not an object, with its field; the line may end within the id."""
_STRING = re.compile(rb'("(?:[^"\\]|\\.)*+(?:"|$))', re.DOTALL)
"""Any string of such a line, also the last one if it has no end."""


class EventIds(msgspec.Struct, gc=False):
    """The fields of an event that say whose it is."""

    userId: str | None = None  # noqa: N815 - the event's own spelling
    anonymousId: str | None = None  # noqa: N815
    previousId: str | None = None  # noqa: N815
    type: str | None = None


class _RejectedEvent(msgspec.Struct):
    event: msgspec.Raw


_decode = msgspec.json.Decoder(EventIds).decode
_decode_rejected = msgspec.json.Decoder(_RejectedEvent).decode
_decode_text = msgspec.json.Decoder(str).decode


def list_ids(line: bytes) -> list[str]:
    """Return the users' ids in a line, numbers as they land.

    Of a line that is not a JSON object, all strings count, as it cannot be told whose it is.
    """
    event = read_ids(line)
    if event is None:
        return list(_find_in_text(line))
    ids = (event.userId, event.anonymousId, event.previousId)
    return [one for one in ids if one]


def list_rejected_ids(line: bytes) -> list[str]:
    """Return the users' ids in a line of a collector's rejected log, which wraps the event."""
    try:
        return list_ids(bytes(_decode_rejected(line).event))
    except (msgspec.MsgspecError, RecursionError):
        return list(_find_in_text(line))


def read_ids(line: bytes) -> EventIds | None:
    """Decode the ids and the type of a line exactly; None if it is not a JSON object."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_ids_slowly(line)


def _read_ids_slowly(line: bytes) -> EventIds | None:
    """Do `read_ids` for a line with ids that are not strings, or that is not JSON."""
    try:
        event = decode_line(line)
    except (NotJson, TooDeep):
        return None
    if not isinstance(event, dict):
        return None
    kind = event.get("type")
    user, anonymous, previous = (_format_id(event.get(name)) for name in ID_FIELDS)
    return EventIds(user, anonymous, previous, kind if isinstance(kind, str) else None)


def _format_id(value: Json) -> str | None:
    """Return an id as it lands: a number in its plain form; None for an array or object."""
    if isinstance(value, NumberText):
        return plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def _find_in_text(line: bytes) -> Iterator[str]:
    numbers = [number for _, number in _IN_TEXT.findall(line) if number]
    strings = [text for text, _ in _IN_TEXT.findall(line) if text] + _STRING.findall(line)
    for number in numbers:
        try:
            yield plain(NumberText(number.decode()))
        except (ArithmeticError, ValueError):
            yield number.decode()
    for text in dict.fromkeys(strings):
        whole = text if len(text) > 1 and text.endswith(b'"') else text + b'"'
        try:
            yield _decode_text(whole)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            yield whole[1:-1].decode(errors="replace")
