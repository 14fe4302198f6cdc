"""A second opinion on a lake: its archive read again, by other code, and compared with its tables.

Nothing that lands events is used here, so that a mistake there cannot hide itself. What is kept of
an event is its id and place, in a database that goes to disk when it is large.
"""

import json
import re
import zlib
from bisect import bisect, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from glob import escape
from hashlib import sha1
from itertools import accumulate, groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import url2pathname

import duckdb
import msgspec
import pyarrow as pa
import zstandard

from eventlake.errors import InvalidSettings
from eventlake.model.values import Value

EXAMPLES = 20
"""How many ids or files one problem names."""


class TableCheck(Value):
    """One table: `found` is `expected` less `missing`, with `extra` and `doubled` on top."""

    table: str
    expected: int = 0
    found: int = 0
    missing: int = 0
    extra: int = 0
    doubled: int = 0
    misplaced: int = 0


class Verification(Value):
    """What the archive holds, what the tables hold, and every way in which they differ."""

    source: str
    files_read: int
    lines: int
    events: int
    landed: int
    expected: int
    tables: tuple[TableCheck, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(root: Path, source: str, progress: Callable[[str], None] | None = None) -> Verification:
    """Compare all that a source has landed with its archive; `source` is its slug or its id."""
    say = progress or (lambda _: None)
    folder = _find(root, source)
    with (
        TemporaryDirectory(prefix="eventlake-verify-") as scratch,
        duckdb.connect(config={"temp_directory": scratch, "memory_limit": "2GB"}) as db,
    ):
        check = _Check(db, root.resolve(), folder, _commits(root, folder))
        say("reading the tables")
        _read_tables(check)
        _read_archive(check, say)
        say("comparing")
        _replay(check)
        _settle_suppressed(check)
        tables = _compare(check)
        _check_books(check)
        return _verification(check, source, tables)


def _verification(check: "_Check", source: str, tables: tuple[TableCheck, ...]) -> Verification:
    total = sum(check.ours.values(), Counter[str]())
    return Verification(
        source=source,
        files_read=check.files_read,
        lines=total["received"] - total["damaged_file"],
        events=total["received"] - total["quarantined"],
        landed=sum(table.found for table in tables),
        expected=sum(table.expected for table in tables),
        tables=tables,
        problems=tuple(check.problems),
    )


# The ledger

_BOOKS = ("received", "landed", "duplicates", "suppressed", "quarantined", "skipped")
_DAY = 86_400_000_000


@dataclass(frozen=True)
class _Commit:
    """What a commit says; what it leaves out is filled in."""

    seq: int
    run: str
    settings: dict[str, Any]
    uris: list[str]
    counts: dict[str, int]
    tables: dict[str, dict[str, int]]
    files: list[str]

    @property
    def window(self) -> int:
        return int(self.settings["dedup_days"]) * _DAY


_DEFAULTS = {
    "naming": "warehouse",
    "date_partition": "day/hour",
    "table_prefix": "",
    "dedup_days": 7,
    "skip_events": (),
}


def _commit(path: Path) -> _Commit:
    body = json.loads(path.read_bytes())
    tables = body.get("tables", ())
    return _Commit(
        seq=int(path.stem),
        run=body["run_id"],
        settings=_DEFAULTS | body["settings"],
        uris=sorted(one["uri"] for one in body["inputs"]),
        counts=dict.fromkeys(_BOOKS, 0) | body["counts"],
        tables={one["table"]["name"]: dict.fromkeys(_BOOKS, 0) | one["counts"] for one in tables},
        files=[file["path"] for one in tables for file in one.get("files", ())],
    )


def _commit_paths(root: Path, folder: str) -> list[Path]:
    return sorted((root / "segment-data/ledger" / folder).glob("[0-9]" * 12 + ".json"))


def _commits(root: Path, folder: str) -> list[_Commit]:
    return [_commit(path) for path in _commit_paths(root, folder)]


def _find(root: Path, source: str) -> str:
    """The folder of a source; an id goes before a slug, which two sources may share."""
    known: dict[str, tuple[str, str]] = {}
    for folder in sorted((root / "segment-data/ledger").glob("*/")):
        for path in _commit_paths(root, folder.name)[-1:]:
            slug = _commit(path).settings["source"]
            known[folder.name] = _commit(path).settings.get("source_id", slug), slug
    for which in (0, 1):
        matches = [folder for folder, names in known.items() if names[which] == source]
        if len(matches) == 1:
            return matches[0]
    listed = ", ".join(f"{slug} (id {identity})" for identity, slug in known.values())
    raise InvalidSettings(f"source is {source!r}; this lake has: {listed or 'none'}")


_SCHEMA = """
    SET preserve_insertion_order = false;
    CREATE TABLE event (seq INT, tbl TEXT, id TEXT, received INT8, file INT, line INT8, doubt INT);
    CREATE TABLE outcome (seq INT, tbl TEXT, id TEXT, received INT8, kept BOOL);
    CREATE TABLE file (number INT, path TEXT, tbl TEXT, place TEXT, seq INT);
    CREATE TABLE found (tbl TEXT, id TEXT, received INT8, file INT);
"""


@dataclass
class _Check:
    """The state of one verification."""

    db: Any
    root: Path
    folder: str
    commits: list[_Commit]
    problems: list[str] = field(default_factory=list)
    ours: dict[int, Counter[str]] = field(default_factory=dict)
    """The books as the archive gives them, and how often each reason for quarantine, by commit."""
    gaps: list[int] = field(default_factory=list)
    """Commits of which an archive file cannot be read any more."""
    files_read: int = 0

    def __post_init__(self) -> None:
        self.db.execute(_SCHEMA)

    @property
    def settings(self) -> dict[str, Any]:
        return self.commits[-1].settings

    def report(self, what: str, examples: Collection[str]) -> None:
        if examples:
            shown = ", ".join(sorted(examples)[:EXAMPLES])
            self.problems.append(f"{what}: {shown}{', …' if len(examples) > EXAMPLES else ''}")

    def rows(self, query: str, *given: object) -> list[Any]:
        found: list[Any] = self.db.execute(query, given).fetchall()
        return found

    def insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows, some at a time."""
        left = iter(rows)
        names = [column[0] for column in self.rows(f"DESCRIBE {table}")]
        while batch := list(islice(left, 50_000)):
            self.db.register("batch", pa.table(list(zip(*batch, strict=True)), names))
            self.db.execute(f"INSERT INTO {table} FROM batch")
            self.db.unregister("batch")


# The tables

_ROWS = """
    INSERT INTO found SELECT f.tbl, r.{}, epoch_us(r.received_at), f.number
    FROM read_parquet(?, filename = true, hive_partitioning = false) r
    JOIN file f ON f.path = r.filename
"""


def _read_tables(check: _Check) -> None:
    """Every row's table, id and moment, and of every file its partition and its commit."""
    data = check.root / "segment-data/data" / check.folder
    there = sorted(data.glob("segment_type=*/**/*.parquet"))
    files = {path.relative_to(check.root).as_posix(): path for path in there}
    named = {name: commit.seq for commit in check.commits for name in commit.files}
    check.report("Parquet files that no commit names", files.keys() - named.keys())
    check.report("Parquet files that a commit names and that are gone", named.keys() - files.keys())
    rows = []
    for number, (name, path) in enumerate(files.items()):
        table, *place = path.relative_to(data).parts[:-1]
        table = table.removeprefix("segment_type=")
        rows.append((number, str(path), table, "/".join(place), named.get(name)))
    check.insert("file", rows)
    identity = "message_id" if check.settings["naming"] == "native" else "id"
    for _, same in groupby(rows, key=lambda row: row[2]):
        _from_parquet(check, _ROWS.format(identity), [row[1] for row in same])


def _from_parquet(check: _Check, query: str, paths: list[str]) -> list[Any]:
    """What a query gives; a file that cannot be read is a problem and is left out."""
    if not paths:
        return []
    try:
        return check.rows(query, [escape(path) for path in paths])
    except duckdb.Error as error:
        if len(paths) == 1:
            check.problems.append(f"{paths[0]} cannot be read: {str(error).splitlines()[0]}")
            return []
    half = len(paths) // 2
    first = _from_parquet(check, query, paths[:half])
    return first + _from_parquet(check, query, paths[half:])


# The archive


def _read_archive(check: _Check, say: Callable[[str], None]) -> None:
    """Every event of the archive that may have landed, and a count of all the others."""
    check.insert("event", _archive(check, say))


Row = tuple[int, str, str, int, int, int, int]
"""The last is a doubt: 0 cannot be suppressed, 1 may be but has a row, 2 may be and has none."""


def _archive(check: _Check, say: Callable[[str], None]) -> Iterator[Row]:
    for commit in check.commits:
        check.ours[commit.seq] = Counter()
        for number, uri in enumerate(commit.uris):
            say(f"reading {uri}")
            try:
                yield from _events(uri, number, commit, check.ours[commit.seq])
                check.files_read += 1
            except OSError as error:
                check.gaps.append(commit.seq)
                check.problems.append(f"{uri} cannot be re-read: {error.strerror}")


def _events(uri: str, number: int, commit: _Commit, ours: Counter[str]) -> Iterator[Row]:
    naming, prefix = commit.settings["naming"], commit.settings["table_prefix"]
    skip = frozenset(commit.settings["skip_events"])
    # The lake does not say who is suppressed: anyone may be, in a commit that suppressed someone.
    doubt = 2 if commit.counts["suppressed"] else 0
    for at, line in enumerate(_lines(Path(url2pathname(uri.removeprefix("file://")))), 1):
        if line is not None and not line.strip(b" \t\r"):
            continue
        ours["received"] += 1
        try:
            event, moment = _event(line)
        except _NoEventError as refused:
            ours.update(("quarantined", str(refused)))
            continue
        name = event["event"] if event["type"] == "track" else ""
        table = _table(event["type"], name, naming, prefix)
        if skip and not skip.isdisjoint((table, name)):
            ours["skipped"] += 1
            continue
        unsure = 0 if event.get("userId") is None else doubt
        yield commit.seq, table, event["messageId"], moment, number, at, unsure


_LARGEST = 1 << 20


def _lines(path: Path) -> Iterator[bytes | None]:
    """A file's lines; None comes last when what follows is damaged."""
    rest, whole = b"", True
    for piece in _inflated(path):
        *lines, rest = (rest + (piece or b"")).split(b"\n")
        yield from lines
        rest = rest[: _LARGEST + 1]  # enough to see that it is too large
        whole = piece is not None
    if rest:
        yield rest
    if not whole:
        yield None


def _inflated(path: Path) -> Iterator[bytes | None]:
    head = next(_pieces(path, 4), b"")
    if head.startswith(b"\x1f\x8b"):
        return _unpacked(path, lambda: zlib.decompressobj(31))
    if head == b"\x28\xb5\x2f\xfd":
        return _unpacked(path, zstandard.ZstdDecompressor().decompressobj)
    return _pieces(path, 1 << 16)


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(size), b"")


def _unpacked(path: Path, start: Callable[[], Any]) -> Iterator[bytes | None]:
    given = 0
    # A damaged piece gives nothing; fed byte by byte it gives all that stands before the damage.
    for size in (1 << 16, 1):
        seen = 0
        try:
            for out in _frames(_pieces(path, size), start):
                seen += len(out)
                if seen > given:
                    yield out[given - seen :]
                    given = seen
            return
        except EOFError:
            break
        except (zlib.error, zstandard.ZstdError):
            continue
    yield None


def _frames(pieces: Iterable[bytes], start: Callable[[], Any]) -> Iterator[bytes]:
    """A file may hold several frames, with zeros between them and at the end."""
    frame = start()
    for piece in pieces:
        data = piece
        while data:
            if not frame.eof:
                yield frame.decompress(data)
                data = frame.unused_data
            elif data := data.lstrip(b"\0"):
                frame = start()
    if not frame.eof:
        raise EOFError


# One line

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


class _NoEventError(Exception):
    """A line that is no event; the text is its reason."""


def _event(line: bytes | None) -> tuple[dict[str, Any], int]:
    """An event and the moment of its receipt; raises the first reason that applies."""
    if line is None:
        raise _NoEventError("damaged_file")
    event = _json(line)
    if not isinstance(event, dict):
        raise _NoEventError("not_object")
    kind = event.get("type")
    if not isinstance(kind, str) or (kind != "track" and kind not in _PLURALS):
        raise _NoEventError("bad_type")
    if not _is_text(event.get("messageId")):
        raise _NoEventError("no_message_id")
    if kind == "track" and not _is_text(event.get("event")):
        raise _NoEventError("no_event_name")
    moment = _moment(event.get("receivedAt"))
    if moment is None:
        raise _NoEventError("no_received_at")
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
    if len(line) > _LARGEST:
        raise _NoEventError("too_large")
    try:
        value = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _slow_json(line)
    many = line.count(b"{") + line.count(b"[") > _DEEPEST
    if many and isinstance(value, dict) and max(_levels(line)) > _DEEPEST:
        raise _NoEventError("too_deep")
    return value


def _slow_json(line: bytes) -> Any:
    """As the standard library reads it: a number may have any size, a string may not be broken."""
    try:
        return _unbroken([("", _decode_slowly(line.decode()))])[""]
    except RecursionError:
        # So deep that the library gives up: brackets that all close are taken for JSON.
        closed = [*_levels(line)][-1] == 0
        raise _NoEventError(_reason_deep(line) if closed else "not_json") from None
    except ValueError:
        raise _NoEventError("not_json") from None


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
def _table(kind: str, event: str, naming: str, prefix: str) -> str:
    name = kind if naming == "native" else _PLURALS.get(kind, "")
    if kind == "track":
        words = re.findall("[A-Z0-9]+[a-z0-9]*|[a-z0-9]+", event)
        name = "_".join(words).lower() or f"event_{_digest(event)}"
        if naming == "native" or name in _PLURALS.values():
            name = f"track_{name}"
    name = f"{prefix}_{name}" if prefix else name
    return name if len(name) <= 127 else f"{name[:118]}_{_digest(name)}"


def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]


# What should have landed

_TRUST = """
    INSERT INTO event SELECT seq, tbl, id, received, 0, 0, 0
    FROM (SELECT f.seq, r.tbl, r.id, r.received FROM found r JOIN file f ON f.number = r.file)
    ANTI JOIN event USING (seq, tbl, id, received) WHERE seq IN (SELECT unnest(?::INT[]))
"""
_SINGLE = """
    UPDATE event SET doubt = 1 FROM found r JOIN file f ON f.number = r.file WHERE doubt = 2
        AND r.id = event.id AND r.tbl = event.tbl AND r.received = event.received
        AND f.seq = event.seq;
    CREATE TABLE repeated AS SELECT id FROM event GROUP BY id HAVING count(*) > 1;
    INSERT INTO outcome
        SELECT seq, tbl, id, received, doubt < 2 FROM event ANTI JOIN repeated USING (id);
"""
_REPEATED = """
    SELECT seq, tbl, id, received, doubt FROM event SEMI JOIN repeated USING (id)
    ORDER BY id, seq, doubt = 2, received, file, line
"""


def _replay(check: _Check) -> None:
    """Apply the rule of duplicates, commit after commit; only an id that comes again needs it."""
    # What a lost archive file brought is taken from the tables: later events may repeat it.
    check.rows(_TRUST, check.gaps)
    check.db.execute(_SINGLE)
    repeated = check.db.cursor().execute(_REPEATED)
    check.insert("outcome", _outcomes(check, iter(repeated.fetchone, None)))


def _outcomes(check: _Check, rows: Iterable[Any]) -> Iterator[tuple[int, str, str, int, bool]]:
    windows = {commit.seq: commit.window for commit in check.commits}
    for identity, same in groupby(rows, key=lambda row: row[2]):
        kept: list[int] = []
        for seq, table, _, received, doubt in same:
            if _is_near(kept, received, windows[seq]):
                check.ours[seq]["unsure" if doubt else "duplicates"] += 1
                continue
            if doubt < 2:
                insort(kept, received)
            yield seq, table, identity, received, doubt < 2


def _is_near(kept: list[int], moment: int, window: int) -> bool:
    at = bisect(kept, moment)
    return any(abs(moment - other) <= window for other in kept[max(0, at - 1) : at + 1])


_FORGET = """
    DELETE FROM outcome WHERE rowid IN (
        SELECT rowid FROM outcome WHERE seq = ? AND NOT kept ORDER BY received, id LIMIT ?)
"""


def _settle_suppressed(check: _Check) -> None:
    """Of the events that are nowhere, as many as were suppressed are right to be so."""
    left = dict(check.rows("SELECT seq, count(*) FROM outcome WHERE NOT kept GROUP BY seq"))
    for commit in check.commits:
        ours, budget = check.ours[commit.seq], commit.counts["suppressed"]
        # Whoever is suppressed is so in a skipped table too, and when sending a thing again.
        skipped = max(0, min(ours["skipped"] - commit.counts["skipped"], budget))
        nowhere = min(left.get(commit.seq, 0), budget - skipped)
        again = min(ours["unsure"], budget - skipped - nowhere)
        ours["skipped"] -= skipped
        ours["duplicates"] += ours["unsure"] - again
        ours["suppressed"] = skipped + nowhere + again
        if nowhere:
            check.rows(_FORGET, commit.seq, nowhere)
    for seq, landed in check.rows("SELECT seq, count(*) FROM outcome GROUP BY seq"):
        check.ours[seq]["landed"] = landed


# What differs

_SENTENCES = {
    "missing": "events of the archive are missing",
    "extra": "rows are not from the archive",
    "doubled": "rows are there already",
    "misplaced": "rows are in the wrong partition",
}
_PLACES = {
    "day/hour": "day=%Y-%m-%d/hr=%H",
    "year/month/day/hour": "year=%Y/month=%m/day=%d/hr=%H",
    "year/month/day": "year=%Y/month=%m/day=%d",
    "day": "day=%Y-%m-%d",
}
_FINDINGS = """
    WITH
    landed AS (SELECT tbl, id, received, count(*) AS n FROM found GROUP BY ALL),
    odd AS MATERIALIZED (FROM landed ANTI JOIN outcome USING (tbl, id, received)),
    near AS MATERIALIZED (
        SELECT DISTINCT odd.* FROM odd JOIN landed other ON odd.id = other.id
        AND (odd.tbl <> other.tbl OR odd.received <> other.received)
        AND abs(odd.received - other.received) <= $window),
    finding AS (
        SELECT 'missing' AS kind, tbl, id, 1 AS n
        FROM outcome ANTI JOIN landed USING (tbl, id, received)
        UNION ALL SELECT 'doubled', tbl, id, n - 1 FROM landed WHERE n > 1
        UNION ALL SELECT 'doubled', tbl, id, 1 FROM near
        UNION ALL SELECT 'extra', tbl, id, 1 FROM odd ANTI JOIN near USING (tbl, id, received)
        UNION ALL SELECT 'misplaced', file.tbl, id, 1 FROM found JOIN file ON number = found.file
        WHERE strftime(make_timestamp(received), $place) <> place)
    SELECT tbl, kind, sum(n)::INT8, min(id, $examples) FROM finding GROUP BY ALL ORDER BY ALL
"""


def _compare(check: _Check) -> tuple[TableCheck, ...]:
    """The differences of each table, which are told as problems too."""
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for kind, rows in (("expected", "outcome"), ("found", "found")):
        for table, n in check.rows(f"SELECT tbl, count(*) FROM {rows} GROUP BY tbl"):  # noqa: S608
            counts[table][kind] = n
    place, window = _PLACES[check.settings["date_partition"]], check.commits[-1].window
    given = {"place": place, "window": window, "examples": EXAMPLES + 1}
    for table, kind, n, examples in check.db.execute(_FINDINGS, given).fetchall():
        counts[table][kind] = n
        check.report(f"table {table}: {n} {_SENTENCES[kind]}", examples or ["(no id)"])
    return tuple(TableCheck(table=table, **counts[table]) for table in sorted(counts))


def _check_books(check: _Check) -> None:
    """Whether every commit balances and says what the archive and the quarantine say."""
    quarantine = _quarantine(check)
    for commit in check.commits:
        books = {f"table {name}": counts for name, counts in commit.tables.items()}
        unbalanced = [name for name, c in (books | {"all": commit.counts}).items() if _is_off(c)]
        check.report(f"commit {commit.seq}: the books do not balance", unbalanced)
        kept = quarantine.pop(commit.run, Counter())
        differs = _differences(
            {"quarantined": commit.counts["quarantined"]}, {"quarantined": kept.total()}
        )
        check.report(f"commit {commit.seq}, and what its quarantine holds", differs)
        if commit.seq not in check.gaps:
            _check_counts(check, commit, kept)
    check.report("runs in the quarantine that never committed", quarantine.keys())


def _check_counts(check: _Check, commit: _Commit, kept: Counter[str]) -> None:
    ours = check.ours[commit.seq]
    differs = _differences({name: commit.counts[name] for name in _BOOKS}, ours)
    check.report(f"commit {commit.seq}, and what the archive gives", differs)
    reasons = ours.keys() - {*_BOOKS, "unsure"} | kept.keys()
    differs = _differences({reason: kept[reason] for reason in reasons}, ours)
    check.report(f"quarantine of commit {commit.seq}, and what the archive gives", differs)


def _is_off(books: dict[str, int]) -> bool:
    return books["received"] != sum(books[name] for name in _BOOKS[1:])


def _differences(said: dict[str, int], ours: dict[str, int]) -> list[str]:
    return [f"{name} {n}, not {ours[name]}" for name, n in said.items() if n != ours[name]]


def _quarantine(check: _Check) -> dict[str, Counter[str]]:
    """By run how many lines were kept for each reason."""
    folder = check.root / "segment-data/quarantine" / check.folder
    query = "SELECT run_id, reason, count(*) FROM read_parquet(?) GROUP BY ALL"
    kept: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run, reason, n in _from_parquet(
        check, query, [*map(str, sorted(folder.rglob("*.parquet")))]
    ):
        kept[run][reason] += n
    return kept
