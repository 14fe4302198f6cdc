"""Which line is an event, and of which table; every other line gets its reason."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import pyarrow as pa

from eventlake.kernels.jsontext import MAX_LEVELS, NotJson, TooDeep, decode_line
from eventlake.kernels.lines import MAX_KEPT_LINE
from eventlake.kernels.times import as_micros, parse_times
from eventlake.model.naming import Call, Naming, catalog_name, table_name
from eventlake.model.types import Json, NumberText, plain, timestamp

MAX_LINE = 1 << 20
LINE_BITS = 40
"""A place is a file's number and a line's, in one integer that sorts as the two do."""

_CALLS = {call.value: call for call in Call}
_BLANK = b" \t\r"
_NO_TIME = -(1 << 62)


class Routing(msgspec.Struct, gc=False):
    """The fields of an event that decide its way."""

    type: str
    messageId: str  # noqa: N815 - the event's own spelling
    receivedAt: str  # noqa: N815
    event: str | None = None
    userId: str | None = None  # noqa: N815


_decode = msgspec.json.Decoder(Routing).decode


class Refused(ValueError):
    """A line that is no event, with the reason the quarantine gives."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


class Rejected(NamedTuple):
    """A line that is no event, as it is kept."""

    reason: str
    detail: str
    raw: bytes
    place: int


@dataclass(frozen=True)
class Rules:
    """What a source's settings say about an event's way."""

    naming: Naming = Naming.WAREHOUSE
    prefix: str = ""
    skip: Collection[str] = ()
    suppressed: Collection[str] = ()

    def table(self, call: Call, event: str) -> str:
        return table_name(call, event, self.naming)

    def skips(self, call: Call, event: str) -> bool:
        """Whether `skip` has the event, its table, or that table as the catalog calls it."""
        table = self.table(call, event)
        names = {table, catalog_name(table, self.prefix)}
        if call is Call.TRACK:
            names.add(event)
        return not names.isdisjoint(self.skip)


Event = tuple[bytes, str, int, int]
"""An event on its way to a table: its line, its message id, when it was received, its place."""


@dataclass
class Pile:
    """The events of one table that wait to be parsed."""

    call: Call
    events: list[Event] = field(default_factory=list)
    bytes: int = 0

    def take(self) -> list[Event]:
        """All the events; none are left."""
        events, self.events, self.bytes = self.events, [], 0
        return events


@dataclass
class Aside:
    """Events of a table that were counted and not kept."""

    call: Call
    suppressed: int = 0
    skipped: int = 0


@dataclass
class Router:
    """Sorts lines into a pile per table."""

    rules: Rules
    piles: dict[str, Pile] = field(default_factory=dict)
    aside: dict[str, Aside] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    ways: dict[tuple[str, str | None], Pile | str | None] = field(default_factory=dict)

    def sort(self, lines: list[bytes], place: int, valid_utf8: bool) -> None:
        """Put each line where it belongs; `place` is the first line's, the others follow."""
        routings, kept, places = [], [], []
        for at, line in enumerate(lines, place):
            try:
                if len(line) > MAX_LINE or not (valid_utf8 or line.decode()):
                    raise RecursionError  # let the careful reader say why
                routings.append(_decode(line))
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                routing = self._examined(line, at) if line.strip(_BLANK) else None
                if routing is None:
                    continue
                routings.append(routing)
            kept.append(line)
            places.append(at)
        self._spread(routings, kept, places)

    def _examined(self, line: bytes, place: int) -> Routing | None:
        try:
            return examine(line)
        except Refused as refused:
            self.rejected.append(Rejected(refused.reason, refused.detail, line, place))
            return None

    def _spread(self, routings: list[Routing], lines: list[bytes], places: list[int]) -> None:
        texts = pa.array([routing.receivedAt for routing in routings], pa.string())
        moments = as_micros(parse_times(texts).cast(pa.int64()).fill_null(_NO_TIME)).tolist()
        ids = [routing.messageId for routing in routings]
        events = zip(lines, ids, moments, places, strict=True)
        ways, suppressed = self.ways, self.rules.suppressed
        for routing, event in zip(routings, events, strict=True):
            line, identity, moment, place = event
            key = (routing.type, routing.event if routing.type == "track" else None)
            way = ways.get(key, "")
            if way == "":
                way = ways[key] = self._way(*key)
            if way is None or moment == _NO_TIME or not identity:
                self._examined(line, place)
            elif routing.userId in suppressed or isinstance(way, str):
                self._set_aside(routing, line, place)
            else:
                way.events.append(event)
                way.bytes += len(line)

    def _way(self, kind: str, event: str | None) -> Pile | str | None:
        """The pile of a table, the name of a table that is skipped, or None for no event."""
        call = _CALLS.get(kind)
        if call is None or (call is Call.TRACK and not event):
            return None
        table = self.rules.table(call, event or "")
        if self.rules.skips(call, event or ""):
            return table
        return self.piles.setdefault(table, Pile(call))

    def _set_aside(self, routing: Routing, line: bytes, place: int) -> None:
        if line.count(b"{") + line.count(b"[") > MAX_LEVELS and not self._examined(line, place):
            return
        call = _CALLS[routing.type]
        table = self.rules.table(call, routing.event or "")
        aside = self.aside.setdefault(table, Aside(call))
        if routing.userId in self.rules.suppressed:
            aside.suppressed += 1
        else:
            aside.skipped += 1


def split_deep(events: list[Event]) -> tuple[list[Event], list[Rejected]]:
    """Events without those that nest too deep, and these; routing does not look that far."""
    kept, rejected = [], []
    for event in events:
        line, _, _, place = event
        refused = _refusal(line)
        if refused:
            rejected.append(Rejected(refused.reason, refused.detail, line, place))
        else:
            kept.append(event)
    return kept, rejected


def _refusal(line: bytes) -> Refused | None:
    try:
        examine(line)
    except Refused as refused:
        return refused
    return None


def examine(line: bytes) -> Routing:
    """Read a line with care: what routes it, or `Refused` with the first reason that applies."""
    if len(line) > MAX_LINE:
        raise Refused("too_large", _size(line))
    try:
        event = decode_line(line)
    except NotJson as problem:
        raise Refused("not_json", str(problem)) from problem
    except TooDeep as problem:
        if line.lstrip(_BLANK).startswith(b"["):
            raise Refused("not_object", "the line is an array") from problem
        raise Refused("too_deep", str(problem)) from problem
    if not isinstance(event, dict):
        raise Refused("not_object", f"the line is {_kind(event)}")
    return _checked(event)


def _size(line: bytes) -> str:
    if len(line) >= MAX_KEPT_LINE:
        return f"over {MAX_KEPT_LINE} bytes, of which no more are kept; the file has the rest"
    return f"{len(line)} bytes, over {MAX_LINE}"


def _checked(event: dict[str, Json]) -> Routing:
    kind, name, received = event.get("type"), event.get("event"), event.get("receivedAt")
    if not _is_text(kind) or kind not in _CALLS:
        raise Refused("bad_type", f"type is {_kind(kind)}" if not _is_text(kind) else f"{kind!r}")
    identity = _text(event.get("messageId"), "no_message_id", "messageId")
    if kind == "track":
        _text(name, "no_event_name", "event")
    if timestamp(_text(received, "no_received_at", "receivedAt")) is None:
        raise Refused("no_received_at", f"receivedAt is no timestamp: {received!r}")
    return Routing(
        type=str(kind),
        messageId=identity,
        receivedAt=str(received),
        event=str(name) if kind == "track" else None,
        userId=_user(event.get("userId")),
    )


def _user(value: Json) -> str | None:
    if isinstance(value, NumberText):
        return plain(value)
    return value if isinstance(value, str) else None


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and not isinstance(value, NumberText)


def _text(value: Json, reason: str, name: str) -> str:
    if not isinstance(value, str) or not _is_text(value) or not value:
        raise Refused(reason, f"{name} is {_kind(value)}")
    return value


def _kind(value: Json) -> str:
    if value is None:
        return "missing or null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, NumberText):
        return "a number"
    if isinstance(value, str):
        return "a string" if value else "empty"
    return "an array" if isinstance(value, list) else "an object"
