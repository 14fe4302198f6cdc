"""A request's body turned into lines for the archive and lines for the rejected log."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import msgspec

from eventlake.collect.check import Head, fault
from eventlake.collect.limits import MAX_BATCH, MAX_EVENT, MAX_SHARED
from eventlake.collect.refusal import Refusal
from eventlake.collect.stamp import ALONE, Arrival, Fields, Shared, fields_of, iso, stamp
from eventlake.kernels.jsontext import MAX_LEVELS
from eventlake.kernels.route import Refused, examine

_NOTHING = msgspec.Raw()


class Envelope(msgspec.Struct, gc=False):
    """A batch as it is sent."""

    batch: list[msgspec.Raw]
    context: msgspec.Raw = _NOTHING
    integrations: msgspec.Raw = _NOTHING
    sentAt: Any = None  # noqa: N815 - the batch's own spelling
    writeKey: Any = None  # noqa: N815

    @property
    def shared(self) -> Shared:
        return Shared(fields_of(self.context), fields_of(self.integrations), self.sentAt)


_envelope = msgspec.json.Decoder(Envelope).decode
_head = msgspec.json.Decoder(Head).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


@dataclass
class Taken:
    """What became of a request's events."""

    arrival: Arrival
    lines: list[bytes] = field(default_factory=list)
    rejected: list[bytes] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    suppressed: int = 0

    def reject(self, raw: msgspec.Raw, reason: str) -> None:
        """Keep an event that is not valid, with its reason."""
        self.reasons[reason] += 1
        kept = {"reason": reason, "receivedAt": iso(self.arrival.received), "event": _keyless(raw)}
        self.rejected.append(_line(kept))


def open_single(body: bytes) -> Head:
    """A single call, for its write key and its type."""
    if len(body) > MAX_EVENT:
        raise Refusal(400, "event_too_large", f"an event may have {MAX_EVENT:,} bytes")
    head = _decoded(_head, body, "the body must be one JSON object")
    assert isinstance(head, Head)
    return head


def open_batch(body: bytes) -> Envelope:
    """A batch, its events still unread."""
    envelope = _decoded(_envelope, body, "the body must be an object with an array `batch`")
    assert isinstance(envelope, Envelope)
    if len(envelope.batch) > MAX_BATCH:
        raise Refusal(400, "batch_too_long", f"a batch may have {MAX_BATCH:,} events")
    common = len(memoryview(envelope.context)) + len(memoryview(envelope.integrations))
    if common * len(envelope.batch) > MAX_SHARED:
        raise Refusal(400, "context_too_large", "the batch's context is too large for its events")
    return envelope


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
            head = _head(raw)
        except msgspec.ValidationError:
            taken.reject(raw, "event_not_object")
        else:
            _take(taken, raw, head, shared, suppressed)
    return taken


def _take(
    taken: Taken, raw: msgspec.Raw, head: Head, shared: Shared, suppressed: Collection[str]
) -> None:
    if suppressed and _user(head) in suppressed:  # first: not even the rejected log may keep them
        taken.suppressed += 1
        return
    reason = "event_too_large" if len(memoryview(raw)) > MAX_EVENT else fault(head)
    if reason:
        taken.reject(raw, reason)
        return
    line = _line(stamp(_fields(raw), head, shared, taken.arrival))
    reason = _no_event(line)
    if reason:
        taken.reject(raw, reason)
    else:
        taken.lines.append(line)


def _user(head: Head) -> str | None:
    return None if head.userId is None else str(head.userId)


def _no_event(line: bytes) -> str | None:
    """Why a load would quarantine the line; only depth is left to go wrong."""
    if line.count(b"{") + line.count(b"[") <= MAX_LEVELS:
        return None
    try:
        examine(line[:-1])
    except Refused as refused:
        return refused.reason
    return None


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
    except RecursionError as problem:
        raise Refusal(400, "too_deep", "the body is nested too deeply") from problem
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
