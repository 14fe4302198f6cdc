"""Turns a request's body into lines for the archive and lines for the rejected log."""

import re
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec

from eventlake.collect.check import EventHead, is_missing, rejection_reason
from eventlake.collect.levels import is_too_deep, truncate_levels
from eventlake.collect.limits import MAX_BATCH_EVENTS, MAX_EVENT_BYTES, MAX_SHARED_BYTES
from eventlake.collect.refusal import Refusal
from eventlake.collect.stamp import (
    NO_SHARED_FIELDS,
    Arrival,
    Fields,
    SharedFields,
    decode_fields,
    decode_object,
    format_timestamp,
    stamp_event,
)
from eventlake.kernels.jsontext import MAX_LEVELS
from eventlake.model.types import NumberText
from eventlake.model.types import plain as plain_number

_MISSING = msgspec.Raw()
_NUMBER_STARTS = frozenset(b"%c" % c for c in b"-0123456789")
_RAW_FIELDS = frozenset(("properties", "traits", "context", "integrations"))
_BATCH_LEVELS = MAX_LEVELS + 3
"""Where a batch is truncated: its own two levels, and one more than an event may have."""


class Batch(msgspec.Struct, gc=False):
    """The body of a batch request, with its events undecoded."""

    batch: list[msgspec.Raw]
    context: msgspec.Raw = _MISSING
    integrations: msgspec.Raw = _MISSING
    sentAt: msgspec.Raw = _MISSING  # noqa: N815 - the batch's own spelling
    writeKey: msgspec.Raw = _MISSING  # noqa: N815

    @property
    def shared_fields(self) -> SharedFields:
        """The batch's fields that apply to all its events; objects are {} if they are not one."""
        sent_at = None if is_missing(self.sentAt) else decode_string(self.sentAt) or self.sentAt
        return SharedFields(decode_object(self.context), decode_object(self.integrations), sent_at)


_decode_batch = msgspec.json.Decoder(Batch).decode
_decode_strict_head = msgspec.json.Decoder(EventHead).decode
_decode_value = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


@dataclass
class IntakeResult:
    """The lines to store for a request, and counts of the events that are not archived."""

    arrival: Arrival
    lines: list[bytes] = field(default_factory=list)
    rejected: list[bytes] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    suppressed: int = 0

    @property
    def size(self) -> int:
        """The bytes of all lines, archived and rejected."""
        return sum(map(len, self.lines)) + sum(map(len, self.rejected))

    def reject(self, raw: msgspec.Raw, reason: str) -> None:
        """Add one line to `rejected`: the reason, the time of receipt, and the event.

        The event is without its write key, and truncated if it nests too deep. Counts the reason.
        """
        event = _remove_write_key(_limit_depth(raw))
        received = format_timestamp(self.arrival.received)
        record = {"reason": reason, "receivedAt": received, "event": event}
        self.rejected.append(_encode_line(record))
        self.reasons[reason] += 1


def parse_single(body: bytes) -> EventHead:
    """Decode the head of a single event.

    Raises a 400 `Refusal` if the body is too large, too deep, or not one JSON object in UTF-8.
    """
    if len(body) > MAX_EVENT_BYTES:
        message = f"the event is too large: the limit is {MAX_EVENT_BYTES:,} bytes"
        raise Refusal(400, "event_too_large", message)
    if is_too_deep(body):
        raise Refusal(400, "too_deep", f"the event has more than {MAX_LEVELS} levels of nesting")
    head = _decode_body(decode_head, body, "the body must be one JSON object")
    assert isinstance(head, EventHead)
    return head


def parse_batch(body: bytes) -> Batch:
    """Decode a batch but not its events.

    Raises a 400 `Refusal` if it is not an object with an array `batch`, has too many events, or has
    too large a context for them. Fields that are shared by the events and too deep are truncated,
    so that the events are rejected one by one.
    """
    expected = "the body must be an object with an array `batch`"
    try:
        batch = _decode_body(_decode_batch, body, expected)
    except RecursionError:
        batch = _decode_body(_decode_batch, truncate_levels(body, _BATCH_LEVELS), expected)
    assert isinstance(batch, Batch)
    if len(batch.batch) > MAX_BATCH_EVENTS:
        message = f"the batch is too long: the limit is {MAX_BATCH_EVENTS:,} events"
        raise Refusal(400, "batch_too_long", message)
    shared_bytes = len(memoryview(batch.context)) + len(memoryview(batch.integrations))
    if shared_bytes * len(batch.batch) > MAX_SHARED_BYTES:
        message = "the batch's context is too large for its number of events"
        raise Refusal(400, "context_too_large", message)
    for name in ("context", "integrations", "sentAt"):
        setattr(batch, name, _limit_depth(getattr(batch, name)))
    return batch


def _limit_depth(raw: msgspec.Raw) -> msgspec.Raw:
    """Truncate a too deep value to one level more than an event may have, so it is rejected.

    Returns any other value as it is.
    """
    text = bytes(raw)
    return msgspec.Raw(truncate_levels(text, MAX_LEVELS + 1)) if is_too_deep(text) else raw


def decode_head(raw: bytes | msgspec.Raw) -> EventHead:
    """Decode the head of an event; a number that a float cannot hold becomes infinite.

    Raises msgspec's ValidationError for JSON that is not an object, and its DecodeError for invalid
    JSON.
    """
    try:
        return _decode_strict_head(raw)
    except msgspec.ValidationError:  # not an object, or a number that a float cannot hold
        fields = decode_fields(raw)
    names = [name for name in EventHead.__struct_fields__ if name in fields]
    return EventHead(**{name: _decode_field(name, fields[name]) for name in names})


def _decode_field(name: str, raw: msgspec.Raw) -> Any:
    """Decode a field; numbers that are too large are infinite, values that contain one are [].

    The fields that an `EventHead` has as raw text stay raw.
    """
    if name in _RAW_FIELDS:
        return raw
    try:
        return _decode_value(raw)
    except msgspec.ValidationError:
        return inf if bytes(memoryview(raw)[:1]) in _NUMBER_STARTS else []


def decode_string(raw: msgspec.Raw) -> str | None:
    """Decode a JSON string; None for any other value."""
    if bytes(memoryview(raw)[:1]) != b'"':
        return None
    return str(_decode_value(raw))


def process_single(
    head: EventHead, body: bytes, suppressed: Container[str], arrival: Arrival
) -> IntakeResult:
    """Return what to store for a single event: a line, a rejected line, or nothing if suppressed.

    The caller has set the type of `head` from the path.
    """
    result = IntakeResult(arrival)
    _add_event(result, msgspec.Raw(body), head, NO_SHARED_FIELDS, suppressed)
    return result


def process_batch(batch: Batch, suppressed: Container[str], arrival: Arrival) -> IntakeResult:
    """Return the lines to store for a batch; an invalid event is rejected without the others."""
    result, shared = IntakeResult(arrival), batch.shared_fields
    for raw in batch.batch:
        try:
            _add_raw_event(result, raw, shared, suppressed)
        except RecursionError:  # only events that are too deep in any case
            _add_raw_event(result, _limit_depth(raw), shared, suppressed)
    return result


def _add_raw_event(
    result: IntakeResult, raw: msgspec.Raw, shared: SharedFields, suppressed: Container[str]
) -> None:
    """Decode an event of a batch and add it to `result`; one that is not an object is rejected.

    Raises RecursionError for one that nests extremely deep.
    """
    try:
        head = decode_head(raw)
    except msgspec.ValidationError:
        result.reject(raw, "event_not_object")
    else:
        _add_event(result, raw, head, shared, suppressed)


def _add_event(
    result: IntakeResult,
    raw: msgspec.Raw,
    head: EventHead,
    shared: SharedFields,
    suppressed: Container[str],
) -> None:
    """Add one event to `result`: as a line, as a rejected line, or to the suppressed ones.

    Events of suppressed users are not checked; those that are invalid, too large or too deep are
    rejected; all others are stamped and become a line.
    """
    # Suppression comes first: the rejected log must not have these users either.
    if suppressed and _user_id(head, raw) in suppressed:
        result.suppressed += 1
        return
    too_large = len(memoryview(raw)) > MAX_EVENT_BYTES
    reason = "event_too_large" if too_large else rejection_reason(head)
    if reason:
        result.reject(raw, reason)
        return
    line = _encode_line(stamp_event(decode_fields(raw), head, shared, result.arrival))
    if is_too_deep(line):  # a load would quarantine it
        result.reject(raw, "too_deep")
    else:
        result.lines.append(line)


def _user_id(head: EventHead, raw: msgspec.Raw) -> str | None:
    """Return the user's id as a load compares it: a number in its plain form; None without one."""
    user = head.userId
    if isinstance(user, float):
        return plain_number(NumberText(bytes(decode_fields(raw)["userId"]).decode()))
    return None if user is None else str(user)


def _encode_line(fields: Fields) -> bytes:
    """Encode as one line of JSON, with a line end; those within raw values become spaces."""
    line = _encode(fields)
    if b"\n" in line or b"\r" in line:  # between tokens, as pretty-printers put them
        line = line.replace(b"\n", b" ").replace(b"\r", b" ")
    return line + b"\n"


def _remove_write_key(raw: msgspec.Raw) -> Any:
    """Return an event without its write key, which must never be written to disk.

    Returns what is not an object as it is.
    """
    try:
        fields = decode_fields(raw)
    except msgspec.ValidationError:
        return raw
    fields.pop("writeKey", None)
    return fields


def _decode_body(decode: Any, body: bytes, expected: str) -> object:
    """Return the result of `decode`; raises a 400 `Refusal` for invalid JSON or UTF-8.

    The refusal of valid JSON of the wrong shape has the message `expected`. RecursionError is not
    caught.
    """
    try:
        body.decode()  # the decoder does not check the bytes of values that it skips
        return decode(body)
    except msgspec.ValidationError as problem:
        raise Refusal(400, "invalid_request", expected) from problem
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Refusal(400, "not_json", "the body is not valid JSON in UTF-8") from problem


# A surrogate pair, a lone surrogate (6 bytes), or any other escape (2 bytes).
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F]..|\\.",
    re.DOTALL,
)


def replace_lone_surrogates(body: bytes) -> bytes:
    """Replace escapes of half a surrogate pair, as browsers send of a cut emoji, with U+FFFD."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda match: rb"\ufffd" if len(match[0]) == 6 else match[0], body)
