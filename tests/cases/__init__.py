"""Reads the case files: what goes in, and what is promised. The README says how one is written."""

import gzip
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import zstandard

Row = dict[str, Any]
Columns = dict[str, str]

COUNTS = ("received", "landed", "duplicates", "suppressed", "quarantined", "skipped", "rescued")
OWN_COLUMNS = {
    "track": ("event",),
    "identify": (),
    "page": ("name", "category"),
    "screen": ("name", "category"),
    "group": ("group_id",),
    "alias": ("previous_id",),
}
CELLS = {
    "boolean": (bool, bool),
    "bigint": (int, int),
    "decimal(38,6)": (str, Decimal),
    "string": (str, str),
    "timestamp": (str, datetime.fromisoformat),
}
"""How a cell of each type is written in expected.toml, and what makes its value of it."""


@dataclass(frozen=True)
class Log:
    """A raw log: as it is stored, and its text as far as that can be read."""

    name: str
    stored: bytes
    text: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.text.split(b"\n")


@dataclass(frozen=True)
class Table:
    """A table: its columns' types in order, and the cells that are not null, by partition."""

    columns: Columns
    partitions: dict[str, list[Row]]


@dataclass(frozen=True)
class Load:
    """What one load of a case is given, and what is expected of it."""

    number: int
    logs: list[Log]
    suppressed: frozenset[str]
    expected: dict[str, Any]

    @property
    def status(self) -> str:
        return self.expected.get("status", "finished")

    @property
    def counts(self) -> dict[str, int]:
        """The books; what is not written is none."""
        return {what: self.expected.get(what, 0) for what in COUNTS}

    @property
    def report(self) -> list[Row]:
        return self.expected.get("report", [])

    @property
    def quarantine(self) -> list[tuple[str, int, str]]:
        """File, line and reason; the damage of a file has no line."""
        default = f"{self.number}-events.jsonl"
        rows = self.expected.get("quarantine", ())
        return sorted((r.get("file", default), r.get("line", 0), r["reason"]) for r in rows)


@dataclass(frozen=True)
class Case:
    """A folder with events in, and tables and reports out."""

    folder: Path

    def __str__(self) -> str:
        return self.folder.name

    @cached_property
    def about(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "case.toml").read_text())

    @cached_property
    def expected(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "expected.toml").read_text())

    @property
    def settings(self) -> dict[str, Any]:
        return {"source": "web", **self.about.get("settings", {})}

    @property
    def loads(self) -> Iterator[Load]:
        suppressed = self.about.get("suppressed", {})
        for number, expected in enumerate(self.expected["loads"], 1):
            listed = frozenset(suppressed.get(str(number), ()))
            yield Load(number, self._logs(number), listed, expected)

    @property
    def tables(self) -> dict[str, Table]:
        return {name: self._table(spec) for name, spec in self.expected["tables"].items()}

    def _logs(self, load: int) -> list[Log]:
        """What is new in the archive at a load: the files that begin with its number."""
        paths = sorted(self.folder.glob(f"{load}-*"))
        written = [Log(path.name, path.read_bytes(), path.read_bytes()) for path in paths]
        return written + [
            make(entry)
            for entry in self.about.get("make", ())
            if entry["file"].startswith(f"{load}-")
        ]

    def _table(self, spec: dict[str, Any]) -> Table:
        named = dict(column.split(" ") for column in spec["columns"])
        columns = standard_columns(spec["standard"], self.settings) | named
        shared = spec.get("every_row", {})
        partitions = {
            partition: in_order([expected_row(shared | row, columns) for row in rows])
            for partition, rows in spec["partitions"].items()
        }
        return Table(columns, partitions)


def all_cases() -> list[Case]:
    return [Case(path.parent) for path in sorted(Path(__file__).parent.glob("*/case.toml"))]


def standard_columns(call: str, settings: dict[str, Any]) -> Columns:
    """The columns that every table of a call begins with; none where a case writes them out."""
    if call == "written out":
        return {}
    identity = "message_id" if settings.get("naming") == "native" else "id"
    texts = (identity, "anonymous_id", "user_id", *OWN_COLUMNS[call])
    texts += ("type", "channel", "version", "project_id")
    times = ("received_at", "sent_at", "original_timestamp", "timestamp")
    return dict.fromkeys(texts, "string") | dict.fromkeys(times, "timestamp")


def expected_row(written: Row, columns: Columns) -> Row:
    row = {}
    for column, cell in written.items():
        form, value = CELLS[columns[column]]
        assert type(cell) is form, f"{column} = {cell!r} is not how {columns[column]} is written"
        row[column] = value(cell)
    return row


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["received_at"], repr(sorted(row.items()))))


def make(entry: dict[str, Any]) -> Log:
    """A log that a text file cannot hold, or that would be long to read."""
    newline = entry.get("newline", "\n").encode()
    lines = [b"".join(map(piece, line)) + newline for line in entry["lines"]]
    text = stored = b"".join(lines)
    match entry.get("as", "plain"):
        case "unfinished":
            text = stored = text.removesuffix(newline)
        case "unreadable":
            text = b""
        case "gzip":
            stored = gzip.compress(text)
        case "gzip_members":
            stored = b"".join(map(gzip.compress, lines))
        case "gzip_truncated":
            whole = entry["whole_lines"]
            text = b"".join(lines[:whole]) + lines[whole][: entry["then_bytes"]]
            stored = without_end(text)
        case "zstd":
            stored = zstandard.compress(text)
        case other:
            assert other == "plain", f"{entry['file']} cannot be made as {other!r}"
    return Log(entry["file"], stored, text)


def piece(of: str | list[Any] | dict[str, str]) -> bytes:
    """Text, a text and how often it is repeated, or bytes in hexadecimal."""
    if isinstance(of, str):
        return of.encode()
    return bytes.fromhex(of["hex"]) if isinstance(of, dict) else of[0].encode() * of[1]


def without_end(text: bytes) -> bytes:
    """A gzip file that holds the text and was cut right after it."""
    writer = zlib.compressobj(wbits=31)
    return writer.compress(text) + writer.flush(zlib.Z_SYNC_FLUSH)
