"""A second, simple implementation of docs/lake.md, to compare the product with.

It shares no code with the product and uses the standard library only. It handles one event after
the other, and follows the wording of the rules; speed does not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha1
from typing import Any

RESCUED = "_rescued_data"
TYPES = ("track", "identify", "page", "screen", "group", "alias")
PLURALS = {"identify": "identifies", "alias": "aliases"} | {
    kind: f"{kind}s" for kind in ("page", "screen", "group")
}
OWN = {
    "track": ("event",),
    "page": ("name", "category"),
    "screen": ("name", "category"),
    "group": ("groupId",),
    "alias": ("previousId",),
    "identify": (),
}
TIMES = ("receivedAt", "sentAt", "originalTimestamp", "timestamp")
PARTITIONS = {
    "day/hour": ("day", "hr"),
    "year/month/day/hour": ("year", "month", "day", "hr"),
    "year/month/day": ("year", "month", "day"),
    "day": ("day",),
}
LARGEST = 1_048_576
DEEPEST = 100
LONGEST_PLAIN = 10_000


@dataclass(frozen=True)
class Settings:
    """The settings of a source."""

    naming: str = "segment"
    date_partition: str = "day/hour"
    table_prefix: str = ""
    dedup_days: int = 7
    skip_events: tuple[str, ...] = ()
    max_columns: int = 2000
    suppressed: frozenset[str] = frozenset()


@dataclass
class Counts:
    """The counts of one load, or of one table in it."""

    received: int = 0
    landed: int = 0
    duplicates: int = 0
    suppressed: int = 0
    quarantined: int = 0
    skipped: int = 0
    rescued: int = 0


@dataclass
class LoadResult(Counts):
    """The counts of a load in total and per table, its new columns, and its quarantined lines."""

    tables: dict[str, Counts] = field(default_factory=dict)
    new_columns: dict[str, dict[str, str]] = field(default_factory=dict)
    quarantine: list[tuple[str, str, int, bytes]] = field(default_factory=list)

    def add(self, table: str, what: str, times: int = 1) -> None:
        for counts in (self, self.tables.setdefault(table, Counts())):
            setattr(counts, what, getattr(counts, what) + times)


@dataclass
class TableState:
    """A table: the types of its columns, in order, and its rows."""

    columns: dict[str, str]
    rows: list[dict[str, Any]] = field(default_factory=list)


# Numbers


@dataclass(frozen=True)
class Number:
    """A JSON number: digits x 10^exponent, the digits without leading or trailing zeros."""

    spelling: str
    negative: bool
    digits: str
    exponent: int

    @property
    def places(self) -> int:
        """Digits before the decimal point; zero or negative for numbers below 1."""
        return len(self.digits) + self.exponent


def number(spelling: str) -> Number:
    """Parse the text of a JSON number."""
    form = r"([+-]?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?"
    sign, whole, fraction, power_sign, power = re.fullmatch(form, spelling).groups("")
    digits = (whole + fraction).lstrip("0")
    bare = digits.rstrip("0")
    if not bare:
        return Number(spelling, False, "", 0)
    size = bounded(power)
    shift = -size if power_sign == "-" else size
    return Number(spelling, sign == "-", bare, shift - len(fraction) + len(digits) - len(bare))


def bounded(power: str) -> int:
    """Parse an exponent; 10^18 if it has over 18 digits, as larger ones make no difference."""
    bare = power.lstrip("0") or "0"
    return int(bare) if len(bare) <= 18 else 10**18


def plain(of: Number) -> str:
    """Format without an exponent, or as it was sent if that would be very long."""
    if not of.digits:
        return "0"
    if abs(of.exponent) > LONGEST_PLAIN:
        return of.spelling
    whole, fraction = of.digits + "0" * of.exponent, ""
    if of.exponent < 0:
        padded = of.digits.rjust(1 - of.exponent, "0")
        whole, fraction = padded[: of.exponent], "." + padded[of.exponent :]
    text = ("-" if of.negative else "") + whole + fraction
    return text if len(text) <= LONGEST_PLAIN else of.spelling


def shifted(of: Number, by: int) -> tuple[int, bool]:
    """Return the integer part of |of| x 10^by, and whether the next digit is 5 or more."""
    exponent = of.exponent + by
    if exponent >= 0:
        return int(of.digits or "0") * 10**exponent, False
    kept, cut = of.digits[:exponent], of.digits[exponent:]
    return int(kept or "0"), len(cut) == -exponent and cut[0] >= "5"


def rounded(of: Number) -> Decimal | None:
    """Round to decimal(38,6), half away from zero; None if it does not fit."""
    if of.places > 32:
        return None
    whole, up = shifted(of, 6)
    millionths = whole + up
    if millionths >= 10**38:
        return None
    sign = int(of.negative and millionths > 0)
    return Decimal((sign, tuple(int(digit) for digit in str(millionths)), -6))


def truncated(of: Number) -> int | None:
    """Truncate to an integer; None if it does not fit in 64 bits."""
    if of.places > 19:
        return None
    size, _ = shifted(of, 0)
    value = -size if of.negative else size
    return value if -(2**63) <= value < 2**63 else None


# JSON


class NotJsonError(Exception):
    """The text is not one JSON value."""


TOKEN = re.compile(
    r"(?P<mark>[{}\[\],:])"
    r'|(?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
    r"|(?P<word>true|false|null)"
)
SPACE = re.compile(r"[ \t\r\n]*")
WORDS = {"true": True, "false": False, "null": None}


def tokens(text: str) -> Iterator[tuple[str, str]]:
    at = SPACE.match(text).end()
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise NotJsonError
        yield found.lastgroup, found.group()
        at = SPACE.match(text, found.end()).end()


def string(token: str) -> str:
    value = json.loads(token)
    if re.search("[\ud800-\udfff]", value):
        raise NotJsonError
    return value


def scalar(kind: str, token: str) -> Any:
    if kind == "word":
        return WORDS[token]
    return string(token) if kind == "string" else number(token)


class Parser:
    """A parser without recursion.

    `expect` has the tokens that may come next, `stack` the open containers with their last keys.
    """

    def __init__(self) -> None:
        self.stack: list[tuple[Any, list[str]]] = []
        self.deepest = 0
        self.expect = {"value"}
        self.result: Any = None

    def take(self, kind: str, token: str) -> None:
        if kind == "mark":
            self.need(token)
            self.mark(token)
        elif kind == "string" and "key" in self.expect:
            self.stack[-1][1][:] = [string(token)]
            self.expect = {":"}
        else:
            self.need("value")
            self.put(scalar(kind, token))

    def need(self, what: str) -> None:
        if ("value" if what in ("{", "[") else what) not in self.expect:
            raise NotJsonError

    def mark(self, token: str) -> None:
        if token == "{":
            self.open({}, {"key", "}"})
        elif token == "[":
            self.open([], {"value", "]"})
        elif token == ":":
            self.expect = {"value"}
        elif token == ",":
            self.expect = {"key"} if isinstance(self.stack[-1][0], dict) else {"value"}
        else:
            self.put(self.stack.pop()[0])

    def open(self, container: Any, expect: set[str]) -> None:
        self.stack.append((container, []))
        self.deepest = max(self.deepest, len(self.stack))
        self.expect = expect

    def put(self, value: Any) -> None:
        if not self.stack:
            self.result, self.expect = value, set()
            return
        container, key = self.stack[-1]
        if isinstance(container, dict):
            container[key[0]] = value
            self.expect = {",", "}"}
        else:
            container.append(value)
            self.expect = {",", "]"}


def parse(raw: bytes) -> tuple[Any, int]:
    """Parse a line; return its value and how deep it nests. Raises `NotJsonError`."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise NotJsonError from exc
    parser = Parser()
    for kind, token in tokens(text):
        parser.take(kind, token)
    if parser.expect:
        raise NotJsonError
    return parser.result, parser.deepest


def encode(value: Any) -> str:
    """Encode as compact JSON, numbers as they were sent."""
    if isinstance(value, Number):
        return value.spelling
    if isinstance(value, list):
        return "[" + ",".join(encode(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode(key)}:{encode(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


# Types and casts


def timestamp(text: str) -> datetime | None:
    """Parse a timestamp by section 5 of docs/lake.md; None for any other string."""
    form = r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?"
    found = re.fullmatch(form, text, re.ASCII)
    if found is None:
        return None
    *parts, fraction, zone = found.groups("")
    micros = int(fraction[:6].ljust(6, "0"))
    try:
        return datetime(*map(int, parts), micros, UTC) - offset(zone)
    except (ValueError, OverflowError):
        return None


def offset(zone: str) -> timedelta:
    if zone in ("", "Z"):
        return timedelta(0)
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    size = timedelta(hours=hours, minutes=minutes)
    return -size if zone[0] == "-" else size


def observed(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Number):
        return observed_number(value)
    if isinstance(value, str) and timestamp(value) is not None:
        return "timestamp"
    return "string"


def observed_number(of: Number) -> str:
    if re.fullmatch("-?[0-9]+", of.spelling) and truncated(of) is not None:
        return "bigint"
    return "decimal(38,6)" if of.places <= 32 else "string"


def join(types: set[str]) -> str:
    if len(types) == 1:
        return next(iter(types))
    return "decimal(38,6)" if types == {"bigint", "decimal(38,6)"} else "string"


def numeric(value: Any, form: str) -> Number | None:
    if isinstance(value, str):
        return number(value) if re.fullmatch(form, value) else None
    return value if isinstance(value, Number) else None


def to_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    return plain(value) if isinstance(value, Number) else encode(value)


def to_decimal(value: Any) -> Decimal | None:
    of = numeric(value, r"[+-]?[0-9]+(\.[0-9]+)?")
    return None if of is None else rounded(of)


def to_bigint(value: Any) -> int | None:
    of = numeric(value, "[+-]?[0-9]+")
    return None if of is None else truncated(of)


def to_boolean(value: Any) -> bool | None:
    if isinstance(value, Number):
        return {"0": False, "1": True}.get(plain(value))
    if isinstance(value, str):
        return {"false": False, "true": True}.get(value.lower())
    return value if isinstance(value, bool) else None


def to_timestamp(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    if len(value) == 10:
        return timestamp(value + "T00:00:00")
    return timestamp(value[:10] + "T" + value[11:] if value[10:11] == " " else value)


CASTS = {
    "string": to_string,
    "decimal(38,6)": to_decimal,
    "bigint": to_bigint,
    "boolean": to_boolean,
    "timestamp": to_timestamp,
}


def cast(value: Any, to: str) -> tuple[Any, bool]:
    """Cast a value to a column type; return it and whether nothing was lost."""
    result = CASTS[to](value)
    cut = to == "bigint" and isinstance(value, Number) and value.exponent < 0
    return result, result is not None and not cut


# Names


def hash8(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]


def snake(text: str) -> str:
    return "_".join(re.findall("[A-Z0-9]+[a-z0-9]*|[a-z0-9]+", text)).lower()


def shorten(name: str, limit: int) -> str:
    return name if len(name) <= limit else f"{name[: limit - 9]}_{hash8(name)}"


def table_name(event: Mapping[str, Any], settings: Settings) -> str:
    calls = PLURALS if settings.naming == "warehouse" else {call: call for call in PLURALS}
    name = calls.get(event["type"], "")
    if event["type"] == "track":
        name = snake(event["event"]) or "event_" + hash8(event["event"])
        if settings.naming == "native" or name in calls.values():
            name = f"track_{name}"
    return shorten(name, 127)


def catalog_name(table: str, prefix: str) -> str:
    """Return the name of a table in the catalog; in the lake it has no prefix."""
    return shorten(f"{prefix}_{table}", 127) if prefix else table


def named_keys(keys: tuple[str, ...], kind: str, naming: str) -> tuple[str, ...]:
    """Return the keys of a path that its column is named by."""
    bag = "traits" if kind in ("identify", "group", "alias") else "properties"
    return keys[1:] if naming != "native" and len(keys) > 1 and keys[0] == bag else keys


def column_name(keys: Iterable[str]) -> str:
    return shorten("_".join(snake(key) or "field_" + hash8(key) for key in keys), 250)


def standard(kind: str, naming: str) -> dict[str, tuple[str, str]]:
    """Return the source field and type of each standard column, in order."""
    texts = ("anonymousId", "userId", *OWN[kind], "type", "channel", "version", "projectId")
    columns = {"message_id" if naming == "native" else "id": ("messageId", "string")}
    columns |= {snake(key): (key, "string") for key in texts}
    return columns | {snake(key): (key, "timestamp") for key in TIMES}


def partitions(received: datetime, date_partition: str) -> dict[str, str]:
    columns = PARTITIONS[date_partition]
    values = {
        "year": f"{received.year:04}",
        "month": f"{received.month:02}",
        "day": f"{received.day:02}",
        "hr": f"{received.hour:02}",
    }
    if "year" not in columns:
        values["day"] = received.date().isoformat()
    return {column: values[column] for column in columns}


# Events


Rank = tuple[bool, str, tuple[str, ...]]


@dataclass(frozen=True)
class Value:
    """A value that is not an object, with its path and the column that it is for."""

    keys: tuple[str, ...]
    value: Any
    column: str
    exact: bool

    @property
    def path(self) -> str:
        return ".".join(self.keys)

    @property
    def rank(self) -> Rank:
        # The keys break the tie between two values with one dotted path (`a.b` and a: {b}).
        return not self.exact, self.path, self.keys


@dataclass(frozen=True)
class Event:
    """A valid event, with the file and line that it is from."""

    body: Mapping[str, Any]
    table: str
    received: datetime
    file: str
    line: int

    @property
    def kind(self) -> str:
        return self.body["type"]

    @property
    def order(self) -> tuple[datetime, str, int]:
        return self.received, self.file, self.line


@dataclass
class Placed:
    """An event's fixed columns, the one value of each inferred column, and the rescued values."""

    fixed: dict[str, Any]
    winners: dict[str, Value]
    rescued: list[Value]


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def reason_against(raw: bytes) -> str | None:
    """Return why a line is not a valid event; None if it is one."""
    if len(raw) > LARGEST:
        return "too_large"
    try:
        body, depth = parse(raw)
    except NotJsonError:
        return "not_json"
    if not isinstance(body, dict):
        return "not_object"
    return "too_deep" if depth > DEEPEST else missing(body)


def missing(body: Mapping[str, Any]) -> str | None:
    received = body.get("receivedAt")
    checks = {
        "bad_type": isinstance(body.get("type"), str) and body["type"] in TYPES,
        "no_message_id": is_text(body.get("messageId")),
        "no_event_name": body.get("type") != "track" or is_text(body.get("event")),
        "no_received_at": is_text(received) and timestamp(received) is not None,
    }
    return next((reason for reason, fine in checks.items() if not fine), None)


def leaves(keys: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves((*keys, key), inner)
    elif value is not None:
        yield keys, value


def values(event: Event, naming: str) -> list[Value]:
    found = []
    for keys, value in leaves((), event.body):
        named = named_keys(keys, event.kind, naming)
        column = column_name(named)
        found.append(Value(keys, value, column, "_".join(named) == column))
    return found


def place(event: Event, settings: Settings) -> Placed:
    columns = standard(event.kind, settings.naming)
    sources = {(source,): (column, to) for column, (source, to) in columns.items()}
    types = {column: to for column, (_, to) in columns.items()}
    parts = partitions(event.received, settings.date_partition)
    types |= dict.fromkeys((*parts, RESCUED), "string")

    everything = values(event, settings.naming)
    placed = Placed(parts, {}, [])
    for one in everything:
        if one.keys in sources:
            column, to = sources[one.keys]
            placed.fixed[column], whole = cast(one.value, to)
            placed.rescued += [] if whole else [one]

    others = [one for one in everything if one.keys not in sources]
    for one in others:
        if one.column in types and not holds(placed.fixed, one, types[one.column]):
            placed.rescued.append(one)
    compete(placed, [one for one in others if one.column not in types])
    return placed


def holds(fixed: Mapping[str, Any], one: Value, to: str) -> bool:
    """Whether the fixed column of that name has the same value."""
    result, whole = cast(one.value, to)
    return whole and fixed.get(one.column) == result


def compete(placed: Placed, inferred: list[Value]) -> None:
    """Give each column the value of the best path; rescue the others."""
    for one in sorted(inferred, key=lambda value: value.rank):
        if one.column in placed.winners:
            placed.rescued.append(one)
        else:
            placed.winners[one.column] = one


def new_columns(placed: list[Placed], known: Mapping[str, str], room: int) -> dict[str, str]:
    """Return the columns that a load adds: at most `room`, best paths first."""
    ranks: dict[str, Rank] = {}
    types: dict[str, set[str]] = {}
    for one in (winner for event in placed for winner in event.winners.values()):
        if one.column not in known:
            ranks[one.column] = min(one.rank, ranks.get(one.column, one.rank))
            types.setdefault(one.column, set()).add(observed(one.value))
    chosen = sorted(ranks, key=lambda column: ranks[column])[: max(room, 0)]
    return {column: join(types[column]) for column in chosen}


def row(placed: Placed, columns: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """Return the row that lands, and how many of its values are rescued."""
    cells, rescued = dict(placed.fixed), list(placed.rescued)
    for column, one in placed.winners.items():
        whole = False
        if column in columns:
            cells[column], whole = cast(one.value, columns[column])
        rescued += [] if whole else [one]
    if rescued:
        cells[RESCUED] = rescue(rescued)
    return {column: cell for column, cell in cells.items() if cell is not None}, len(rescued)


def rescue(rescued: list[Value]) -> str:
    """Encode rescued values as one JSON object, which may have a key twice."""
    ordered = sorted(rescued, key=lambda one: (one.path, one.keys))
    return "{" + ",".join(f"{encode(one.path)}:{encode(one.value)}" for one in ordered) + "}"


class Oracle:
    """A lake in memory: its tables, and the message ids of landed events, over several loads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tables: dict[str, TableState] = {}
        self.kept: dict[str, list[datetime]] = {}

    def load(self, files: Mapping[str, list[bytes]]) -> LoadResult:
        result = LoadResult()
        events = [one for one in self.read(files, result) if self.wanted(one, result)]
        events.sort(key=lambda event: event.order)
        lands = [self.keeps(event) for event in events]
        for table in sorted({event.table for event in events}):
            mine = [
                (event, kept)
                for event, kept in zip(events, lands, strict=True)
                if event.table == table
            ]
            self.land(table, mine, result)
        return result

    def read(self, files: Mapping[str, list[bytes]], result: LoadResult) -> Iterator[Event]:
        for file in sorted(files):
            for line, raw in enumerate(files[file], 1):
                if not raw.strip(b" \t\r\n"):
                    continue
                reason = reason_against(raw)
                if reason is not None:
                    result.received += 1
                    result.quarantined += 1
                    result.quarantine.append((reason, file, line, raw))
                    continue
                body, _ = parse(raw)
                table = table_name(body, self.settings)
                result.add(table, "received")
                yield Event(body, table, timestamp(body["receivedAt"]), file, line)

    def wanted(self, event: Event, result: LoadResult) -> bool:
        user = event.body.get("userId")
        if isinstance(user, str | Number) and to_string(user) in self.settings.suppressed:
            result.add(event.table, "suppressed")
            return False
        names = {event.table, catalog_name(event.table, self.settings.table_prefix)}
        names |= {event.body["event"]} if event.kind == "track" else set()
        if names & set(self.settings.skip_events):
            result.add(event.table, "skipped")
            return False
        return True

    def keeps(self, event: Event) -> bool:
        """Whether an event is not a duplicate; its message id is then remembered."""
        times = self.kept.setdefault(event.body["messageId"], [])
        window = timedelta(days=self.settings.dedup_days)
        if any(abs(event.received - other) <= window for other in times):
            return False
        times.append(event.received)
        return True

    def land(self, table: str, events: list[tuple[Event, bool]], result: LoadResult) -> None:
        if table not in self.tables and not any(kept for _, kept in events):
            for _ in events:  # a table is created with its first row
                result.add(table, "duplicates")
            result.new_columns[table] = {}
            return
        if table not in self.tables:
            columns = standard(events[0][0].kind, self.settings.naming)
            self.tables[table] = TableState({column: to for column, (_, to) in columns.items()})
        state = self.tables[table]
        placed = [place(event, self.settings) for event, _ in events]
        room = self.settings.max_columns - len(state.columns.keys() - {RESCUED})
        new = new_columns(placed, state.columns, room)
        for one, (_, kept) in zip(placed, events, strict=True):
            if not kept:
                result.add(table, "duplicates")
                continue
            cells, rescued = row(one, state.columns | new)
            state.rows.append(cells)
            result.add(table, "landed")
            result.add(table, "rescued", rescued)
        if RESCUED not in state.columns and any(RESCUED in cells for cells in state.rows):
            new[RESCUED] = "string"
        result.new_columns[table] = {column: new[column] for column in sorted(new)}
        state.columns |= result.new_columns[table]
