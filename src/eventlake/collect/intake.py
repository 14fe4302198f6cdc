"""A request's body turned into lines for the archive and lines for the rejected log."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec

from eventlake.collect.check import Head, fault, is_absent
from eventlake.collect.levels import cut_levels, is_too_deep
from eventlake.collect.limits import MAX_BATCH, MAX_EVENT, MAX_SHARED
from eventlake.collect.refusal import Refusal
from eventlake.collect.stamp import ALONE, Arrival, Fields, Shared, fields_of, iso, stamp
from eventlake.kernels.jsontext import MAX_LEVELS
from eventlake.model.types import NumberText
from eventlake.model.types import plain as plain_number

_NOTHING = msgspec.Raw()
_NUMBER_STARTS = frozenset(b"%c" % c for c in b"-0123456789")
_RAW_FIELDS = frozenset(("properties", "traits", "context", "integrations"))
_BATCH_LEVELS = MAX_LEVELS + 3
"""Where a batch is cut: its own two levels, and one more than an event may have."""


class Envelope(msgspec.Struct, gc=False):
    """A batch as it is sent."""

    batch: list[msgspec.Raw]
    context: msgspec.Raw = _NOTHING
    integrations: msgspec.Raw = _NOTHING
    sentAt: msgspec.Raw = _NOTHING  # noqa: N815 - the batch's own spelling
    writeKey: msgspec.Raw = _NOTHING  # noqa: N815

    @property
    def shared(self) -> Shared:
        sent_at = None if is_absent(self.sentAt) else text_of(self.sentAt) or self.sentAt
        return Shared(fields_of(self.context), fields_of(self.integrations), sent_at)


_envelope = msgspec.json.Decoder(Envelope).decode
_head = msgspec.json.Decoder(Head).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_value = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


@dataclass
class Taken:
    """What became of a request's events."""

    arrival: Arrival
    lines: list[bytes] = field(default_factory=list)
    rejected: list[bytes] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    suppressed: int = 0

    @property
    def size(self) -> int:
        """The bytes of all its lines."""
        return sum(map(len, self.lines)) + sum(map(len, self.rejected))

    def reject(self, raw: msgspec.Raw, reason: str) -> None:
        """Keep an event that is not valid, with its reason."""
        event = _keyless(_shallow(raw))
        kept = {"reason": reason, "receivedAt": iso(self.arrival.received), "event": event}
        self.rejected.append(_line(kept))
        self.reasons[reason] += 1


def open_single(body: bytes) -> Head:
    """A single call, for its write key and its type."""
    if len(body) > MAX_EVENT:
        raise Refusal(400, "event_too_large", f"an event may have {MAX_EVENT:,} bytes")
    if is_too_deep(body):
        raise Refusal(400, "too_deep", f"an event may nest {MAX_LEVELS} levels")
    head = _decoded(decode_head, body, "the body must be one JSON object")
    assert isinstance(head, Head)
    return head


def open_batch(body: bytes) -> Envelope:
    """A batch, its events still unread."""
    wanted = "the body must be an object with an array `batch`"
    try:
        envelope = _decoded(_envelope, body, wanted)
    except RecursionError:
        envelope = _decoded(_envelope, cut_levels(body, _BATCH_LEVELS), wanted)
    assert isinstance(envelope, Envelope)
    if len(envelope.batch) > MAX_BATCH:
        raise Refusal(400, "batch_too_long", f"a batch may have {MAX_BATCH:,} events")
    common = len(memoryview(envelope.context)) + len(memoryview(envelope.integrations))
    if common * len(envelope.batch) > MAX_SHARED:
        raise Refusal(400, "context_too_large", "the batch's context is too large for its events")
    for name in ("context", "integrations", "sentAt"):
        setattr(envelope, name, _shallow(getattr(envelope, name)))
    return envelope


def _shallow(raw: msgspec.Raw) -> msgspec.Raw:
    """A value as it is, or cut to one level more than an event may have, so that it is rejected."""
    text = bytes(raw)
    return msgspec.Raw(cut_levels(text, MAX_LEVELS + 1)) if is_too_deep(text) else raw


def decode_head(raw: bytes | msgspec.Raw) -> Head:
    """The fields of an event that the collector looks at; a number may be of any size."""
    try:
        return _head(raw)
    except msgspec.ValidationError:  # no object, or a number beyond what a float holds
        fields = _fields(raw)
    known = {name: fields[name] for name in Head.__struct_fields__ if name in fields}
    return Head(**{name: _lenient(name, value) for name, value in known.items()})


def _lenient(name: str, raw: msgspec.Raw) -> Any:
    if name in _RAW_FIELDS:
        return raw
    try:
        return _value(raw)
    except msgspec.ValidationError:
        # A number that is too large, or something that has one inside.
        return inf if bytes(memoryview(raw)[:1]) in _NUMBER_STARTS else []


def text_of(raw: msgspec.Raw) -> str | None:
    """The text of a JSON string; None for any other value."""
    if bytes(memoryview(raw)[:1]) != b'"':
        return None
    text = _value(raw)
    assert isinstance(text, str)
    return text


def take_single(head: Head, raw: bytes, suppressed: Collection[str], arrival: Arrival) -> Taken:
    """One event; its type is that of the path."""
    taken = Taken(arrival)
    _take(taken, msgspec.Raw(raw), head, ALONE, suppressed)
    return taken


def take_batch(envelope: Envelope, suppressed: Collection[str], arrival: Arrival) -> Taken:
    """The events of a batch, each for itself: a bad one does not harm its neighbours."""
    taken, shared = Taken(arrival), envelope.shared
    for raw in envelope.batch:
        try:
            _take_one(taken, raw, shared, suppressed)
        except RecursionError:  # only what is too deep in any case
            _take_one(taken, _shallow(raw), shared, suppressed)
    return taken


def _take_one(taken: Taken, raw: msgspec.Raw, shared: Shared, suppressed: Collection[str]) -> None:
    try:
        head = decode_head(raw)
    except msgspec.ValidationError:
        taken.reject(raw, "event_not_object")
    else:
        _take(taken, raw, head, shared, suppressed)


def _take(
    taken: Taken, raw: msgspec.Raw, head: Head, shared: Shared, suppressed: Collection[str]
) -> None:
    if (
        suppressed and _user(head, raw) in suppressed
    ):  # first: not even the rejected log may keep them
        taken.suppressed += 1
        return
    reason = "event_too_large" if len(memoryview(raw)) > MAX_EVENT else fault(head)
    if reason:
        taken.reject(raw, reason)
        return
    line = _line(stamp(_fields(raw), head, shared, taken.arrival))
    if is_too_deep(line):  # a load would quarantine it
        taken.reject(raw, "too_deep")
    else:
        taken.lines.append(line)


def _user(head: Head, raw: msgspec.Raw) -> str | None:
    """The user's id as a load compares it: a number in its plain form."""
    user = head.userId
    if isinstance(user, float):
        return plain_number(NumberText(bytes(_fields(raw)["userId"]).decode()))
    return None if user is None else str(user)


def _line(value: Fields) -> bytes:
    line = _encode(value)
    if b"\n" in line or b"\r" in line:  # between tokens, as pretty-printers put them
        line = line.replace(b"\n", b" ").replace(b"\r", b" ")
    return line + b"\n"


def _keyless(raw: msgspec.Raw) -> Any:
    """An event without its write key, which nothing may write down."""
    try:
        fields = _fields(raw)
    except msgspec.ValidationError:
        return raw
    fields.pop("writeKey", None)
    return fields


def _decoded(decode: Any, body: bytes, wanted: str) -> object:
    try:
        body.decode()  # the decoder passes what it does not look at
        return decode(body)
    except msgspec.ValidationError as problem:
        raise Refusal(400, "invalid_request", wanted) from problem
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Refusal(400, "not_json", "the body is not valid JSON in UTF-8") from problem


_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F]..|\\.",
    re.DOTALL,
)


def mended(body: bytes) -> bytes:
    """Halves of surrogate pairs, as browsers send of a cut emoji, as U+FFFD."""
    return _ESCAPE.sub(_whole, body) if b"\\ud" in body or b"\\uD" in body else body


def _whole(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    return rb"\ufffd" if len(escape) == 6 else escape
