"""Decide for each line whether it is an event, and of which table; reject the other lines.

Fast path: a typed msgspec decoder reads the five fields of a line that matter and skips the rest.
From the call and event name follows the line's destination (cached per name): the buffer of a
table, or a table whose events are skipped. Events of suppressed users and of skipped tables are
only counted.

Slow path: a line that the fast path does not accept for any reason is decoded completely by
`validate_line`, which raises the first reason that applies, or accepts the line after all (a key
with escapes or given twice, for example). Only the slow path rejects lines.

The fast path does not see how deep a line nests. The parser finds out later and raises `TooDeep`;
`split_deep` then rejects the lines that are.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import compress
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from eventlake.kernels.jsontext import MAX_LEVELS, NotJson, TooDeep, decode_line
from eventlake.kernels.lines import MAX_KEPT_LINE_BYTES
from eventlake.kernels.times import as_micros, parse_times
from eventlake.model.naming import Call, Naming, prefix_table, table_name
from eventlake.model.types import Json, NumberText, plain, timestamp

MAX_LINE_BYTES = 1 << 20
EVENT_BYTES = 256
"""Approximate memory of an event in addition to its line."""
LINE_BITS = 40
"""A place is `file number << LINE_BITS | line number`; places sort by file, then by line."""

_CALLS = {call.value: call for call in Call}
_BLANK = b" \t\r"
_NO_TIME = -(1 << 62)


class Routing(msgspec.Struct, gc=False):
    """The fields of an event that decide where it goes."""

    type: str
    messageId: str  # noqa: N815 - the event's own spelling
    receivedAt: str  # noqa: N815
    event: str | None = None
    userId: str | None = None  # noqa: N815


_decode = msgspec.json.Decoder(Routing).decode


class InvalidLine(ValueError):
    """A line is not a valid event, for a reason as stored in the quarantine."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


class RejectedLine(NamedTuple):
    """A row of the quarantine: a line that is not a valid event, and why."""

    reason: str
    detail: str
    raw: bytes
    place: int


@dataclass(frozen=True)
class Rules:
    """The settings of a source that decide where an event goes."""

    naming: Naming = Naming.SEGMENT
    prefix: str = ""
    skip: Collection[str] = ()
    suppressed: Container[str] = ()
    """User ids whose events do not land."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The tables of track events for which the naming gives another name."""
    since: int | None = None
    """A replay ignores events received before this, in microseconds."""
    until: int | None = None
    """A replay ignores events received at this time or later."""
    tables: Collection[str] = ()
    """A replay ignores events of other tables; empty for all tables."""
    known: Collection[str] | None = None
    """Events and tables that are not new, where those that are new are skipped; else None."""

    def table(self, call: Call, event: str) -> str:
        """Return an event's table, without prefix; `event`, its name, matters for track only."""
        name = table_name(call, event, self.naming)
        return self.renamed.get(name, name) if call is Call.TRACK else name

    def skips(self, call: Call, event: str) -> bool:
        """Whether `skip` contains the event, its table, or that table's name in the catalog.

        So it is if `known` contains none of them. The event's name counts for track calls only.
        """
        table = self.table(call, event)
        names = {table, prefix_table(table, self.prefix)}
        if call is Call.TRACK:
            names.add(event)
        if not names.isdisjoint(self.skip):
            return True
        return self.known is not None and names.isdisjoint(self.known)


Event = tuple[bytes, str, int, int]
"""A valid event: its line, its message id, when it was received (microseconds), its place."""


@dataclass
class EventBuffer:
    """The events of one table that wait to be parsed."""

    call: Call
    events: list[Event] = field(default_factory=list)
    bytes: int = 0
    """Approximate memory of the events."""

    def drain(self) -> list[Event]:
        """Return all events and empty the buffer."""
        events, self.events, self.bytes = self.events, [], 0
        return events


@dataclass
class ExcludedCounts:
    """How many events of a table were valid but do not land."""

    call: Call
    suppressed: int = 0
    skipped: int = 0


class Ignored(Enum):
    """The destination of events of tables that a replay does not replace."""

    IGNORED = 0


Destination = EventBuffer | str | Ignored | None
"""The buffer of a table, the name of a skipped table, or None if the line is not a valid event."""


@dataclass
class Router:
    """Collects events in a buffer per table, counts of excluded events, and rejected lines."""

    rules: Rules
    buffers: dict[str, EventBuffer] = field(default_factory=dict)
    excluded: dict[str, ExcludedCounts] = field(default_factory=dict)
    rejected: list[RejectedLine] = field(default_factory=list)
    destinations: dict[tuple[str, str | None], Destination] = field(default_factory=dict)
    """The destination by call and event name."""
    excluded_lines: list[tuple[bytes, int]] = field(default_factory=list)
    """Lines of excluded events, with their places; whoever reads them empties the list."""
    span: tuple[int, int] | None = None
    """First and last time of receipt since it was set to None."""

    def route_lines(self, lines: list[bytes], place: int, valid_utf8: bool) -> None:
        """Add each line to a buffer, a count or `rejected`; blank lines to none.

        `place` is the first line's; the others follow. `valid_utf8` spares a check of each line.
        """
        routings, valid_lines, places = [], [], []
        for at, line in enumerate(lines, place):
            decodable = len(line) <= MAX_LINE_BYTES and (valid_utf8 or _is_utf8(line))
            try:
                routing = _decode(line) if decodable else self._validate(line, at)
            except (msgspec.MsgspecError, RecursionError):
                routing = self._validate(line, at)
            if routing is None:
                continue
            routings.append(routing)
            valid_lines.append(line)
            places.append(at)
        self._add_events(routings, valid_lines, places)

    def _validate(self, line: bytes, place: int) -> Routing | None:
        """Return a valid line's routing, else None; a line that is not blank is then rejected."""
        if not line.strip(_BLANK):
            return None
        try:
            return validate_line(line)
        except InvalidLine as invalid:
            self.rejected.append(RejectedLine(invalid.reason, invalid.detail, line, place))
            return None

    def _add_events(self, routings: list[Routing], lines: list[bytes], places: list[int]) -> None:
        """Add decoded lines to the buffers of their tables; count those that are excluded.

        Rejects lines with an unknown type, or without a message id, timestamp or track event's
        name. The lists have one item for each line.
        """
        texts = pa.array([routing.receivedAt for routing in routings], pa.string())
        times = as_micros(parse_times(texts).cast(pa.int64()).fill_null(_NO_TIME))
        self._extend_span(times[times != _NO_TIME])
        ids = [routing.messageId for routing in routings]
        events = zip(lines, ids, times.tolist(), places, strict=True)
        destinations, suppressed = self.destinations, self.rules.suppressed
        ignored = Ignored.IGNORED  # an enum's member takes long to look up for every event
        for routing, event in self._select(zip(routings, events, strict=True), times):
            line, message_id, moment, place = event
            key = (routing.type, routing.event if routing.type == "track" else None)
            try:
                destination = destinations[key]
            except KeyError:
                destination = destinations[key] = self._find_destination(*key)
            if destination is ignored:
                continue
            if destination is None or moment == _NO_TIME or not message_id:
                self._validate(line, place)
            elif routing.userId in suppressed or isinstance(destination, str):
                self._count_excluded(routing, line, place)
            else:
                destination.events.append(event)
                destination.bytes += len(line) + EVENT_BYTES

    def _extend_span(self, times: np.ndarray) -> None:
        if len(times):
            first, last = int(times.min()), int(times.max())
            known = self.span or (first, last)
            self.span = min(first, known[0]), max(last, known[1])

    def _select(
        self, events: Iterable[tuple[Routing, Event]], times: np.ndarray
    ) -> Iterable[tuple[Routing, Event]]:
        """Leave out the events that were not received in the time of a replay."""
        since, until = self.rules.since, self.rules.until
        if since is None or until is None:
            return events
        return compress(events, ((times >= since) & (times < until)).tolist())

    def _find_destination(self, call_type: str, event: str | None) -> Destination:
        """Return the table's buffer, a new one if needed, or only its name if it is skipped.

        None for an unknown call, and for a track call without an event name.
        """
        call = _CALLS.get(call_type)
        if call is None or (call is Call.TRACK and not event):
            return None
        table = self.rules.table(call, event or "")
        if self.rules.tables and table not in self.rules.tables:
            return Ignored.IGNORED
        if self.rules.skips(call, event or ""):
            return table
        return self.buffers.setdefault(table, EventBuffer(call))

    def _count_excluded(self, routing: Routing, line: bytes, place: int) -> None:
        """Count an event in `excluded`, as suppressed if its user is, else as skipped.

        Rejects it instead if it nests too deep.
        """
        if line.count(b"{") + line.count(b"[") > MAX_LEVELS and not self._validate(line, place):
            return
        self.excluded_lines.append((line, place))
        call = _CALLS[routing.type]
        table = self.rules.table(call, routing.event or "")
        counts = self.excluded.setdefault(table, ExcludedCounts(call))
        if routing.userId in self.rules.suppressed:
            counts.suppressed += 1
        else:
            counts.skipped += 1


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def split_deep(events: list[Event]) -> tuple[list[Event], list[RejectedLine]]:
    """Return the valid events, and the others (those that nest too deep) as rejected lines.

    Decodes every line completely; the fast path does not check the depth.
    """
    valid, rejected = [], []
    for event in events:
        line, _, _, place = event
        try:
            validate_line(line)
        except InvalidLine as invalid:
            rejected.append(RejectedLine(invalid.reason, invalid.detail, line, place))
        else:
            valid.append(event)
    return valid, rejected


def validate_line(line: bytes) -> Routing:
    """Decode a line completely and return its routing fields.

    Raises `InvalidLine` with the first reason that applies: too large, not JSON, too deep, not an
    object, or a field that is missing or wrong.
    """
    if len(line) > MAX_LINE_BYTES:
        raise InvalidLine("too_large", _describe_excess(line))
    try:
        event = decode_line(line)
    except NotJson as problem:
        raise InvalidLine("not_json", str(problem)) from problem
    except TooDeep as problem:
        if line.lstrip(_BLANK).startswith(b"["):
            raise InvalidLine("not_object", "the line is an array") from problem
        raise InvalidLine("too_deep", str(problem)) from problem
    if not isinstance(event, dict):
        raise InvalidLine("not_object", f"the line is {_describe_kind(event)}")
    return _validate_fields(event)


def _describe_excess(line: bytes) -> str:
    """Say how much too large a line is, or that it was cut when read and is larger still."""
    if len(line) >= MAX_KEPT_LINE_BYTES:
        return f"over {MAX_KEPT_LINE_BYTES} bytes; cut here, the file has the whole line"
    return f"{len(line)} bytes, over {MAX_LINE_BYTES}"


def _validate_fields(event: dict[str, Json]) -> Routing:
    """Return the routing fields of a decoded line; raises `InvalidLine` for the first invalid one.

    The order is type, messageId, event (of track calls only), receivedAt. Any `userId` is valid.
    """
    call, name, received = event.get("type"), event.get("event"), event.get("receivedAt")
    if not _is_string(call) or call not in _CALLS:
        detail = f"{call!r}" if _is_string(call) else f"type is {_describe_kind(call)}"
        raise InvalidLine("bad_type", detail)
    message_id = _require_string(event.get("messageId"), "no_message_id", "messageId")
    if call == "track":
        _require_string(name, "no_event_name", "event")
    if timestamp(_require_string(received, "no_received_at", "receivedAt")) is None:
        raise InvalidLine("no_received_at", f"receivedAt is not a timestamp: {received!r}")
    return Routing(
        type=str(call),
        messageId=message_id,
        receivedAt=str(received),
        event=str(name) if call == "track" else None,
        userId=_format_user_id(event.get("userId")),
    )


def _format_user_id(value: Json) -> str | None:
    """Return a user id as text, a number in its plain form; None for a value of any other kind."""
    if isinstance(value, NumberText):
        return plain(value)
    return value if isinstance(value, str) else None


def _is_string(value: Json) -> bool:
    """Whether a value is a JSON string; numbers are not, though `NumberText` is a `str`."""
    return isinstance(value, str) and not isinstance(value, NumberText)


def _require_string(value: Json, reason: str, name: str) -> str:
    """Return a non-empty string as it is; raises `InvalidLine` with `reason` for other values.

    `name` is the event's field that has the value, for the message.
    """
    if not isinstance(value, str) or not _is_string(value) or not value:
        raise InvalidLine(reason, f"{name} is {_describe_kind(value)}")
    return value


def _describe_kind(value: Json) -> str:
    """Say what a value is, for a message: "a number", "missing or null", "empty" and so on."""
    if value is None:
        return "missing or null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, NumberText):
        return "a number"
    if isinstance(value, str):
        return "a string" if value else "empty"
    return "an array" if isinstance(value, list) else "an object"
