"""Values as a person reads them: tables and lines on stdout, remarks on stderr."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eventlake.cli import rows
from eventlake.cli.rows import Form
from eventlake.errors import InvalidSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlake.collect.server import Ready
    from eventlake.model.commit import Counts, TableCommit
    from eventlake.model.schema import Column
    from eventlake.sample import SampleSummary
    from eventlake.services.adopt import AdoptionResult
    from eventlake.services.check import Check
    from eventlake.services.load import LoadResult
    from eventlake.services.read import TableInfo
    from eventlake.services.repair import RepairResult
    from eventlake.verify import TableCheck, Verification

MOST_TABLES = 40
MOST_ROWS = 1_000
MOST_QUARANTINED = 20
NAMED_FILES = 3
WIDEST_CELL = 100
# Wide enough for every line: what reads a pipe does its own wrapping.
PIPE_WIDTH = 100_000

_UNITS = ("B", "kB", "MB", "GB", "TB")

Shown = Callable[[Any], None]
Head = Mapping[str, Callable[[Any], object]]
"""A table's columns: the heading, and what of a record stands below it."""


class Described(Protocol):
    """A table with its columns."""

    @property
    def columns(self) -> "Sequence[Column]": ...
    @property
    def partition_columns(self) -> Sequence[str]: ...


def answer(value: object, as_json: bool, shown: Shown) -> None:
    """One value on stdout at once: as JSON, or the way that `shown` prints it."""
    if as_json:
        write(rows.to_json(value))
    else:
        shown(value)
    sys.stdout.flush()


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def remark(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Say which extra to install when an import inside fails."""
    try:
        yield
    except ModuleNotFoundError as problem:
        raise InvalidSettings(
            f"{problem.name} is not installed: pip install 'eventlake[{extra}]'"
        ) from problem


# A collector


def listening(ready: "Ready") -> None:
    """Where to send events, and a line to try it with."""
    event = '{"userId":"u1","event":"Hello"}'
    write(f"listening on {ready.url}")
    write(f"write key: {ready.write_key}")
    user = quote(f"{ready.write_key}:")
    write(f"try: curl -u {user} -d '{event}' {ready.url}/v1/track")


# An adoption


def adopted(found: "AdoptionResult") -> None:
    """What was taken over, and what the next sync will do."""
    write(f"adopted {len(found.tables)} tables of {found.database} with {found.files:,} files")
    write(f"{found.ids:,} message ids since {found.since} are known")
    write(f"{found.logs:,} raw logs of the days before count as loaded")
    write(f"next: eventlake sync --source {found.source}")
    if found.message:
        remark(f"warning: {found.message}; the next sync tries again")


# A check


def checks(found: "Sequence[Check]") -> None:
    """What was tried, one line each."""
    width = max(len(one.name) for one in found)
    for one in found:
        write(f"{'ok  ' if one.ok else 'FAIL'}  {one.name:<{width}}  {one.detail}")
    failed = sum(not one.ok for one in found)
    write(f"{failed} of {len(found)} failed" if failed else f"all {len(found)} well")


# A load


def load_result(result: "LoadResult") -> None:
    """What landed in each table, then the balance."""
    if result.tables:
        largest = sorted(result.tables, key=lambda t: (-t.counts.landed, t.table.name))
        grid(_LOADED, largest[:MOST_TABLES])
        more("table", len(largest) - MOST_TABLES, "`eventlake tables` shows all")
    load_summary(result)


def load_summary(result: "LoadResult") -> None:
    """A load in a few lines."""
    if result.status == "nothing":
        write(_nothing(result))
    elif result.status != "failed":
        write(balance(result.counts))
        write(f"{result.status} in {result.timings.get('total', 0.0):.1f} s{_known(result)}")
    if result.passed_over:
        write(passed_over(result.passed_over))


def load_remark(result: "LoadResult") -> None:
    """What went wrong, or should be known."""
    for warning in result.warnings:
        remark(f"warning: {warning}")
    if result.status == "failed":
        remark(f"error: {result.message}")
    if result.status == "partial":
        remark(f"partial: {result.message}")


def balance(counts: "Counts") -> str:
    """`received 101,000 = landed 100,000 + duplicates 1,000`"""
    terms = {name: getattr(counts, name) for name in _BOOKS}
    out = [f"{name} {n:,}" for name, n in terms.items() if n or name == "landed"]
    sign = "=" if counts.balanced else "≠"
    return f"received {counts.received:,} {sign} {' + '.join(out)}"


def passed_over(files: Sequence[str]) -> str:
    rest = len(files) - NAMED_FILES
    named = ", ".join(files[:NAMED_FILES]) + (f" and {rest:,} more" if rest > 0 else "")
    return f"passed over {plural(len(files), 'path')} that {_are(files)} not raw logs: {named}"


def _nothing(result: "LoadResult") -> str:
    if not result.already_loaded:
        return "nothing to load: no raw logs found"
    return f"nothing to load: {_loaded_before(result.already_loaded)}"


def _known(result: "LoadResult") -> str:
    return f"; {_loaded_before(result.already_loaded)}" if result.already_loaded else ""


def _loaded_before(files: int) -> str:
    return f"{plural(files, 'file')} {'was' if files == 1 else 'were'} loaded before"


def _are(files: Sequence[str]) -> str:
    return "is" if len(files) == 1 else "are"


def _new_columns(commit: "TableCommit") -> str:
    return f"{len(commit.new_columns):,}{' (new table)' if commit.is_new else ''}"


_BOOKS = ("landed", "duplicates", "suppressed", "quarantined", "skipped")

_LOADED: Head = {
    "table": lambda t: t.table.name,
    "landed": lambda t: t.counts.landed,
    "duplicates": lambda t: t.counts.duplicates,
    "rescued": lambda t: t.counts.rescued,
    "new columns": _new_columns,
    "partitions": lambda t: len(t.partitions),
}


# A lake


def tables(found: "Sequence[TableInfo]") -> None:
    """The tables of a lake."""
    if not found:
        write("the lake has no tables yet")
        return
    grid(_TABLES, found)
    total = sum(table.rows for table in found)
    size = sum(table.bytes for table in found)
    write(f"{plural(len(found), 'table')}, {plural(total, 'row')}, {bytes_text(size)}")


def schema(found: Described) -> None:
    """A table's columns with their types, the partition's last."""
    partitions = [(name, "string, partition") for name in found.partition_columns]
    named = [(column.name, column.type) for column in found.columns]
    grid({"column": itemgetter(0), "type": itemgetter(1)}, [*named, *partitions])


def reports(lines: Sequence[Mapping[str, Any]]) -> None:
    """The newest runs of a source, one a line, the newest last."""
    runs = sorted((r for r in lines if r["type"] == "source"), key=itemgetter("run_id"))
    grid(_RUNS, runs[-MOST_TABLES:])
    more("earlier run", len(runs) - MOST_TABLES, "--json shows all")


def quarantine(found: Sequence[Mapping[str, Any]]) -> None:
    """The lines that were no events: how many for each reason, and some of them."""
    if not found:
        write("the quarantine is empty")
        return
    reasons = Counter(row["reason"] for row in found).most_common()
    grid({"reason": itemgetter(0), "lines": itemgetter(1)}, reasons)
    grid(_QUARANTINED, found[:MOST_QUARANTINED])
    more("line", len(found) - MOST_QUARANTINED, "--json shows all")


def verification(found: "Verification") -> None:
    """What a check of the lake found; tables that are as they should be are only counted."""
    wrong = [table for table in found.tables if _differs(table)]
    if wrong:
        grid(_CHECKED, wrong)
    for problem in found.problems:
        write(f"problem: {printable(problem)}")
    write(
        f"{plural(found.files_read, 'file')} with {plural(found.lines, 'line')} read again:"
        f" {found.expected:,} rows expected, {found.landed:,} found in"
        f" {plural(len(found.tables), 'table')}: {'all is well' if found.ok else 'not the same'}"
    )


def repaired(done: "Sequence[RepairResult]") -> None:
    """What a repair did for each source."""
    for one in done:
        for verb, names in (("registered", one.registered), ("dropped", one.dropped)):
            for name in names:
                write(f"{one.source}: {verb} {name}")
        for problem in one.problems:
            write(f"{one.source}: problem: {printable(problem)}")
        if not (one.registered or one.dropped or one.problems):
            write(f"{one.source}: the catalog agrees with the ledger")
    if not done:
        write("the lake has no sources yet")


def _differs(table: "TableCheck") -> bool:
    return bool(table.missing or table.extra or table.doubled or table.misplaced)


_TABLES: Head = {
    "table": lambda t: f"{t.database}.{t.name}",
    "source": lambda t: t.source,
    "rows": lambda t: t.rows,
    "columns": lambda t: len(t.columns),
    "partitions": lambda t: t.partitions,
    "files": lambda t: t.files,
    "size": lambda t: bytes_text(t.bytes),
}

_RUNS: Head = {
    "run": lambda r: r["run_id"],
    "started": lambda r: r.get("start_time", "")[:19],
    "status": lambda r: r.get("status", ""),
    "received": lambda r: r.get("received_count", 0),
    "landed": lambda r: r.get("row_count", 0),
    "duplicates": lambda r: r.get("duplicate_count", 0),
    "quarantined": lambda r: r.get("quarantined_count", 0),
    "rescued": lambda r: r.get("rescued_count", 0),
    "error": lambda r: r.get("error_code", ""),
}

_QUARANTINED: Head = {
    "reason": lambda q: q["reason"],
    "detail": lambda q: q["detail"],
    "where": lambda q: f"{str(q['file']).rpartition('/')[2]}:{q['line']}",
    "line": lambda q: q["raw"],
}

_CHECKED: Head = {
    "table": lambda t: t.table,
    "expected": lambda t: t.expected,
    "found": lambda t: t.found,
    "missing": lambda t: t.missing,
    "extra": lambda t: t.extra,
    "doubled": lambda t: t.doubled,
    "misplaced": lambda t: t.misplaced,
}


# A sample and a query


def sample(made: "SampleSummary") -> None:
    """What a sample holds."""
    write(
        f"{plural(made.files, 'file')} of {bytes_text(made.bytes)}: {made.events:,} events,"
        f" {made.duplicates:,} sent again, {made.bad:,} lines that are no events"
    )


def query_answer(table: "pa.Table", form: Form) -> None:
    """The rows of an answer: all of them, unless it is a table for the eye."""
    if form is Form.TABLE:
        _query_table(table)
        return
    for line in rows.csv_lines(table) if form is Form.CSV else rows.json_lines(table):
        write(line)


def _query_table(table: "pa.Table") -> None:
    head = {name: itemgetter(at) for at, name in enumerate(rows.unique(table.column_names))}
    found = list(islice(rows.rows_of(table), MOST_ROWS))
    across = build(head, found, rows.to_text)
    screen = console()
    if (
        screen.measure(across, options=screen.options.update(width=PIPE_WIDTH)).maximum
        > screen.width
    ):
        _query_records(list(head), found)
    else:
        screen.print(across)
    more("row", table.num_rows - len(found), "--format csv shows all")


def _query_records(names: list[str], found: Sequence[tuple[Any, ...]]) -> None:
    """Rows that are wider than the screen, one below the other."""
    for number, row in enumerate(found, 1):
        write(f"row {number}")
        cells = list(zip(names, map(rows.to_text, row), strict=True))
        console().print(
            build({"column": itemgetter(0), "value": itemgetter(1)}, cells, rows.to_text)
        )


# The means


def grid(head: Head, records: Iterable[Any]) -> None:
    """Print a table with one line for each record."""
    console().print(build(head, records, _counted))


def build(head: Head, records: Iterable[Any], spell: Callable[[object], str]) -> Table:
    """A table with one line for each record; columns of numbers stand to the right."""
    lines = [[value(record) for value in head.values()] for record in records]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for at, name in enumerate(head):
        numeric = any(isinstance(line[at], int | float | Decimal) for line in lines)
        table.add_column(printable(name), justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*(_cut(printable(spell(value))) for value in line))
    return table


def console() -> Console:
    """Stdout that takes data as it is: no mark-up, no emoji, no colours for numbers."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)


def more(noun: str, rest: int, hint: str) -> None:
    if rest > 0:
        write(f"and {rest:,} more {noun}{'s' if rest > 1 else ''}: {hint}")


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def bytes_text(size: float) -> str:
    power = min(max(len(f"{size:.0f}") - 1, 0) // 3, len(_UNITS) - 1)
    return f"{size / 1000**power:.{min(power, 1)}f} {_UNITS[power]}"


def _counted(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else rows.to_text(value)


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST_CELL else text[: WIDEST_CELL - 1] + "…"


def printable(text: str) -> str:
    """Text that cannot steer a terminal, whatever an event held."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
