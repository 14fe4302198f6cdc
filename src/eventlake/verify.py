"""A second opinion on a lake: its archive read again, by other code, and compared with its tables.

Nothing that lands events is used here, so that a mistake there cannot hide itself. Ids go to a
database on disk, so memory does not grow with the lake.
"""

import json
import re
from bisect import bisect, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from glob import escape
from hashlib import sha1
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.request import url2pathname
from zlib import decompressobj as gzip_frame
from zlib import error as GzipError  # noqa: N812 - it is an exception

import duckdb
import msgspec
import pyarrow as pa
import zstandard

from eventlake.errors import InvalidSettings
from eventlake.model.values import Value

EXAMPLES = 20
"""How many ids or files one problem names."""

_BATCH = 50_000
_PIECE = 1 << 16
_LARGEST = 1 << 20
_DEEPEST = 100
_DAY = 86_400_000_000
_PLURALS = {
    "identify": "identifies",
    "page": "pages",
    "screen": "screens",
    "group": "groups",
    "alias": "aliases",
}
_CALLS = {"track", *_PLURALS}
_PLACES = {
    "day/hour": "day=%Y-%m-%d/hr=%H",
    "year/month/day/hour": "year=%Y/month=%m/day=%d/hr=%H",
    "year/month/day": "year=%Y/month=%m/day=%d",
    "day": "day=%Y-%m-%d",
}
_BOOKS = ("received", "landed", "duplicates", "suppressed", "quarantined", "skipped")


class TableCheck(Value):
    """One table: `found` is `expected`, less `missing`, and `extra` and `doubled` on top."""

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


def verify(
    root: Path, source: str, progress: Callable[[str], None] | None = None
) -> Verification:
    """Compare all that a source has landed with the archive; `source` is its slug or its id."""
    say = progress or (lambda _: None)
    folder = _find(root.resolve(), source)
    with TemporaryDirectory(prefix="eventlake-verify-") as scratch:
        with duckdb.connect(f"{scratch}/ids.duckdb") as db:
            check = _Check(db, root.resolve(), folder)
            check.commits = _commits(check)
            say("reading the tables")
            _read_tables(check)
            _read_archive(check, say)
            say("comparing")
            _replay(check)
            _settle_suppressed(check)
            _compare(check)
            _check_books(check)
            return _verification(check, source)


# The ledger


@dataclass(frozen=True)
class _Commit:
    seq: int
    body: dict[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        return {"naming": "warehouse", "date_partition": "day/hour", **self.body["settings"]}

    @property
    def names(self) -> tuple[str, str]:
        """The source's id and its slug."""
        slug = self.settings["source"]
        return self.settings.get("source_id") or slug, slug

    @cached_property
    def counts(self) -> dict[str, int]:
        return dict.fromkeys(_BOOKS, 0) | self.body["counts"]

    @property
    def window(self) -> int:
        return int(self.settings.get("dedup_days", 7)) * _DAY

    @property
    def uris(self) -> list[str]:
        return sorted(one["uri"] for one in self.body["inputs"])

    @property
    def files(self) -> dict[str, int]:
        """The Parquet files that it added, each with its rows."""
        tables = self.body.get("tables", ())
        return {file["path"]: file["rows"] for table in tables for file in table.get("files", ())}


@dataclass
class _Check:
    db: Any
    root: Path
    folder: str
    commits: list[_Commit] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ours: dict[int, Counter[str]] = field(default_factory=dict)
    """By commit what was found in its archive files: the books, and a count for each reason."""
    gaps: set[int] = field(default_factory=set)
    """Commits of which an archive file cannot be read any more."""
    files_read: int = 0

    def __post_init__(self) -> None:
        self.db.execute(_SCHEMA)

    @property
    def settings(self) -> dict[str, Any]:
        return self.commits[-1].settings

    def say(self, what: str, examples: Sequence[str]) -> None:
        if examples:
            shown = ", ".join(examples[:EXAMPLES])
            self.problems.append(f"{what}: {shown}{', …' * (len(examples) > EXAMPLES)}")


_SCHEMA = """
    SET memory_limit = '2GB';
    SET preserve_insertion_order = false;
    CREATE TABLE event (seq INT, tbl TEXT, id TEXT, received INT8, file INT, line INT8, doubt BOOL);
    CREATE TABLE outcome (seq INT, tbl TEXT, id TEXT, received INT8, kept BOOL);
    CREATE TABLE file (number INT, path TEXT, tbl TEXT, place TEXT, seq INT, said INT8);
    CREATE TABLE found (tbl TEXT, id TEXT, received INT8, file INT);
"""


def _find(root: Path, source: str) -> str:
    """The folder of a source, known by its id before its slug."""
    known: dict[str, tuple[str, str]] = {}
    for folder in sorted((root / "segment-data/ledger").glob("*/")):
        for path in _ledger_files(folder)[-1:]:
            known[folder.name] = _Commit(0, json.loads(path.read_bytes())).names
    for which in (0, 1):
        matches = [folder for folder, names in known.items() if names[which] == source]
        if len(matches) == 1:
            return matches[0]
    listed = ", ".join(f"{slug} ({identity})" for identity, slug in known.values())
    raise InvalidSettings(f"source is {source!r}; this lake has: {listed or 'none'}")


def _ledger_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]" * 12 + ".json"))


def _commits(check: _Check) -> list[_Commit]:
    paths = _ledger_files(check.root / "segment-data/ledger" / check.folder)
    commits = [_Commit(int(path.stem), json.loads(path.read_bytes())) for path in paths]
    gaps = [str(a.seq + 1) for a, b in pairwise(commits) if b.seq != a.seq + 1]
    check.say("the ledger has no commit", gaps)
    loads = Counter((i["uri"], i["fingerprint"]) for one in commits for i in one.body["inputs"])
    check.say("loaded more than once", [uri for (uri, _), times in loads.items() if times > 1])
    return commits


# The tables


def _read_tables(check: _Check) -> None:
    """Every row's table, id and moment, and each file's commit."""
    data = check.root / "segment-data/data" / check.folder
    paths = sorted(data.glob("segment_type=*/**/*.parquet"))
    named = {name: (one.seq, rows) for one in check.commits for name, rows in one.files.items()}
    rows = []
    for number, path in enumerate(paths):
        table, *place = path.relative_to(data).parts[:-1]
        seq, said = named.get(path.relative_to(check.root).as_posix(), (None, None))
        table = table.removeprefix("segment_type=")
        rows.append((number, str(path), table, "/".join(place), seq, said))
    if rows:
        _insert(check.db, "file", rows)
    there = {path.relative_to(check.root).as_posix() for path in paths}
    check.say("Parquet files that no commit names", sorted(there - named.keys()))
    check.say("Parquet files that are not there", sorted(named.keys() - there))
    for _, same in groupby(rows, key=lambda row: row[2]):
        _read_parquet(check, _ROWS.format(_identity(check)), [row[1] for row in same])
    wrong = check.db.execute(_WRONG_SIZE, [str(check.root)]).fetchall()
    check.say("Parquet files with other numbers of rows than committed", [row[0] for row in wrong])


def _identity(check: _Check) -> str:
    return "message_id" if check.settings["naming"] == "native" else "id"


_ROWS = """
    INSERT INTO found SELECT f.tbl, r.{}, epoch_us(r.received_at), f.number
    FROM read_parquet(?, filename = true, hive_partitioning = false) r JOIN file f ON f.path = r.filename
"""
_WRONG_SIZE = """
    SELECT path[length(?) + 2:] || ' (' || said || ', has ' || count(found.file) || ')'
    FROM file LEFT JOIN found ON found.file = file.number WHERE said IS NOT NULL
    GROUP BY path, said HAVING said <> count(found.file) ORDER BY path
"""


def _read_parquet(check: _Check, query: str, paths: list[str]) -> list[tuple[Any, ...]]:
    """What a query finds in the files; one that cannot be read is a problem and is left out."""
    try:
        rows: list[tuple[Any, ...]] = check.db.execute(query, [list(map(escape, paths))]).fetchall()
        return rows
    except duckdb.Error as error:
        if len(paths) == 1:
            check.problems.append(f"{paths[0]} cannot be read: {str(error).splitlines()[0]}")
            return []
    half = len(paths) // 2
    first, second = paths[:half], paths[half:]
    return _read_parquet(check, query, first) + _read_parquet(check, query, second)


def _insert(db: Any, table: str, rows: list[Any]) -> None:
    names = [row[0] for row in db.execute(f"DESCRIBE {table}").fetchall()]
    db.register("batch", pa.table(list(zip(*rows, strict=True)), names))
    db.execute(f"INSERT INTO {table} SELECT * FROM batch")  # noqa: S608 - our own tables
    db.unregister("batch")


# The archive

Row = tuple[int, str, str, int, int, int, bool]


def _read_archive(check: _Check, say: Callable[[str], None]) -> None:
    """Every event of the archive that may have landed, and a count of all the others."""
    events = _archive(check, say)
    while batch := list(islice(events, _BATCH)):
        _insert(check.db, "event", batch)


def _archive(check: _Check, say: Callable[[str], None]) -> Iterator[Row]:
    for commit in check.commits:
        check.ours[commit.seq] = Counter()
        for number, uri in enumerate(commit.uris):
            say(f"reading {uri}")
            try:
                yield from _events(uri, number, commit, check.ours[commit.seq])
                check.files_read += 1
            except OSError as error:
                check.gaps.add(commit.seq)
                check.problems.append(f"{uri} cannot be re-read: {error.strerror}")


def _events(uri: str, number: int, commit: _Commit, ours: Counter[str]) -> Iterator[Row]:
    settings, doubt = commit.settings, commit.counts["suppressed"] > 0
    naming, prefix = settings["naming"], settings.get("table_prefix", "")
    skip = set(settings.get("skip_events", ()))
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
        if skip and (table in skip or (name and name in skip)):
            ours["skipped"] += 1
            continue
        # Who is suppressed is not known here: it can only be someone, in a commit that says so.
        unsure = doubt and event.get("userId") is not None
        yield commit.seq, table, event["messageId"], moment, number, at, unsure


def _lines(path: Path) -> Iterator[bytes | None]:
    """A file's lines; None comes last when the rest is damaged."""
    rest = b""
    for piece in _inflate(path):
        if piece is None:
            break
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        rest = rest[: _LARGEST + 1]  # enough to know that it is too large
    else:
        piece = b""
    if rest:
        yield rest
    if piece is None:
        yield None


def _inflate(path: Path) -> Iterator[bytes | None]:
    with path.open("rb") as file:
        head = file.read(4)
    if head[:2] == b"\x1f\x8b":
        return _unpacked(path, lambda: gzip_frame(31))
    if head == b"\x28\xb5\x2f\xfd":
        return _unpacked(path, zstandard.ZstdDecompressor().decompressobj)
    return _pieces(path)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_PIECE), b"")


def _unpacked(path: Path, start: Callable[[], Any]) -> Iterator[bytes | None]:
    given = number = 0
    try:
        for number, out in _frames(path, start):
            given += len(out)
            yield out
    except EOFError:
        yield None
    except (GzipError, zstandard.ZstdError):
        yield from _salvaged(path, start, number, given)
        yield None


def _salvaged(path: Path, start: Callable[[], Any], number: int, given: int) -> Iterator[bytes]:
    """What comes after the first `given` bytes when the pieces from `number` on are fed slowly."""
    seen = 0
    with suppress(EOFError, GzipError, zstandard.ZstdError):
        for _, out in _frames(path, start, number):
            seen += len(out)
            yield out[len(out) - max(0, min(len(out), seen - given)) :]


def _frames(
    path: Path, start: Callable[[], Any], slowly: float = float("inf")
) -> Iterator[tuple[int, bytes]]:
    """Each output with the number of the piece it came from; a file may hold several frames."""
    frame = start()
    for number, piece in enumerate(_pieces(path)):
        for data in map(bytes, zip(piece)) if number >= slowly else (piece,):
            while data:
                if not frame.eof:
                    yield number, frame.decompress(data)
                    data = frame.unused_data
                elif data := data.lstrip(b"\0"):
                    frame = start()
    if not frame.eof:
        raise EOFError


# One line


class _NoEventError(Exception):
    """A line that is no event; the text is its reason."""


_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?"
    r"(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOKEN = re.compile(
    r'(?P<mark>[\[\]{},:])|(?P<s>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*+")'
    r"|(?P<v>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)|[ \t\r\n]+|(?P<x>.)",
    re.ASCII | re.DOTALL,
)
_FLAT = re.compile(r"\[(?:[sv](?:,[sv])*)?\]|\{(?:s:[sv](?:,s:[sv])*)?\}")


def _event(line: bytes | None) -> tuple[dict[str, Any], int]:
    """An event and the moment of its receipt; raises the first reason that applies."""
    if line is None:
        raise _NoEventError("damaged_file")
    event = _parsed(line)
    if not isinstance(event, dict):
        raise _NoEventError("not_object")
    kind = event.get("type")
    if not isinstance(kind, str) or kind not in _CALLS:
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
    return (at - _EPOCH) // timedelta(microseconds=1)


def _parsed(line: bytes) -> Any:
    if len(line) > _LARGEST:
        raise _NoEventError("too_large")
    try:
        if line.count(b"{") + line.count(b"[") > _DEEPEST:
            _check_depth(line.decode())
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _slowly_parsed(line)


_decode = msgspec.json.Decoder().decode


def _slowly_parsed(line: bytes) -> Any:
    """As the standard library reads it: numbers of any size are fine, and few other things."""
    try:
        value = json.loads(line.decode(), parse_int=float, parse_constant=_decode)
        json.dumps(value, ensure_ascii=False).encode()  # fails for an unpaired surrogate
        return value
    except ValueError as problem:
        raise _NoEventError("not_json") from problem


def _check_depth(text: str) -> None:
    """Raise what is wrong with a line of many brackets, however deep they go."""
    opened, deepest = [list[str]()], 0
    for token in _TOKEN.finditer(text):
        kind = token[0] if token.lastgroup == "mark" else token.lastgroup or ""
        if kind in ("[", "{"):
            opened.append([])
            deepest = max(deepest, len(opened) - 1)
        opened[-1].append(kind)
        if kind in ("]", "}"):
            if not _FLAT.fullmatch("".join(opened.pop())):
                raise _NoEventError("not_json")
            opened[-1].append("v")
    if len(opened) > 1 or opened[0] != ["v"]:
        raise _NoEventError("not_json")
    if deepest > _DEEPEST:
        raise _NoEventError("too_deep" if text.lstrip()[0] == "{" else "not_object")


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
    INSERT INTO event SELECT seq, tbl, id, received, 0, 0, false
    FROM (SELECT f.seq, r.* FROM found r JOIN file f ON f.number = r.file)
    ANTI JOIN event USING (seq, tbl, id, received) WHERE seq IN (SELECT unnest(?))
"""
_PREPARE = """
    UPDATE event SET doubt = false WHERE doubt AND EXISTS (
        FROM found r WHERE r.tbl = event.tbl AND r.id = event.id AND r.received = event.received);
    CREATE TABLE repeated AS SELECT id FROM event GROUP BY id HAVING count(*) > 1;
    INSERT INTO outcome SELECT seq, tbl, id, received, NOT doubt FROM event ANTI JOIN repeated USING (id)
"""
_REPEATED = """
    SELECT seq, tbl, id, received, doubt FROM event SEMI JOIN repeated USING (id)
    ORDER BY id, seq, doubt, received, file, line
"""


def _replay(check: _Check) -> None:
    """Apply the rule of duplicates, commit after commit; only ids seen twice need a look."""
    # What a lost archive file brought is taken from the tables: later events may repeat it.
    check.db.execute(_TRUST, [list(check.gaps)])
    check.db.execute(_PREPARE)
    rows = check.db.cursor().execute(_REPEATED)
    outcomes = _outcomes(check, iter(rows.fetchone, None))
    while batch := list(islice(outcomes, _BATCH)):
        _insert(check.db, "outcome", batch)


def _outcomes(check: _Check, rows: Iterable[Any]) -> Iterator[tuple[int, str, str, int, bool]]:
    windows = {commit.seq: commit.window for commit in check.commits}
    for identity, same in groupby(rows, key=lambda row: row[2]):
        kept: list[int] = []
        for seq, table, _, received, doubt in same:
            if _is_near(kept, received, windows[seq]):
                check.ours[seq]["unsure" if doubt else "duplicates"] += 1
                continue
            if not doubt:
                insort(kept, received)
            yield seq, table, identity, received, not doubt


def _is_near(kept: list[int], moment: int, window: int) -> bool:
    at = bisect(kept, moment)
    return any(abs(moment - other) <= window for other in kept[max(0, at - 1) : at + 1])


_FORGET = """
    DELETE FROM outcome WHERE rowid IN (
        SELECT rowid FROM outcome WHERE seq = ? AND NOT kept ORDER BY received, id LIMIT ?)
"""


def _settle_suppressed(check: _Check) -> None:
    """Of the events that are nowhere, as many as were suppressed are right to be so."""
    left = dict(check.db.execute("SELECT seq, count(*) FROM outcome WHERE NOT kept GROUP BY seq").fetchall())
    for commit in check.commits:
        ours, said = check.ours[commit.seq], commit.counts
        # The events of someone suppressed are suppressed also where their table is skipped.
        skipped = max(0, min(ours["skipped"] - said["skipped"], said["suppressed"]))
        nowhere = min(left.get(commit.seq, 0), said["suppressed"] - skipped)
        again = min(ours["unsure"], said["suppressed"] - skipped - nowhere)
        ours["skipped"] -= skipped
        ours["duplicates"] += ours["unsure"] - again
        ours["suppressed"] = skipped + nowhere + again
        check.db.execute(_FORGET, [commit.seq, nowhere])
    for seq, landed in check.db.execute("SELECT seq, count(*) FROM outcome GROUP BY seq").fetchall():
        check.ours[seq]["landed"] = landed
