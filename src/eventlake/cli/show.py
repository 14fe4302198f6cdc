"""Human-readable output: results on stdout, warnings on stderr."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from eventlake.cli import rows
from eventlake.cli.rows import OutputFormat
from eventlake.errors import InvalidSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlake.collect.server import Endpoint
    from eventlake.model.commit import Counts, TableCommit
    from eventlake.sample.spec import SampleSummary
    from eventlake.services.check import Check
    from eventlake.services.load import LoadResult
    from eventlake.services.read import TableInfo
    from eventlake.services.repair import RepairResult
    from eventlake.verify import TableCheck, Verification

MAX_TABLES = 40
MAX_ROWS = 1_000
MAX_QUARANTINED = 20
MAX_NAMED_FILES = 3
MAX_CELL_CHARS = 100
# Lines that go to a pipe are not wrapped.
PIPE_WIDTH = 100_000

Columns = Mapping[str, Callable[[Any], object]]
"""A printed table's headings, each with the function that gets its value from a record."""


def print_result(value: object, as_json: bool, print_text: Callable[[Any], None]) -> None:
    """Print a value as JSON, or with `print_text`, and flush stdout."""
    if as_json:
        print_line(rows.to_json(value))
    else:
        print_text(value)
    sys.stdout.flush()


def print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def print_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def confirm(question: str) -> None:
    """Ask on the terminal, and end the command unless the answer is yes.

    Raises InvalidSettings without a terminal.
    """
    if not sys.stdin.isatty():
        raise InvalidSettings("there is no terminal to confirm this on: give --yes")
    typer.confirm(question, abort=True, err=True)


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Raise `InvalidSettings` with the extra to install when an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as problem:
        raise InvalidSettings(
            f"{problem.name} is not installed: pip install 'eventlake[{extra}]'"
        ) from problem


# A collector


def endpoint(target: "Endpoint") -> None:
    """Print where to send events, and a command to try it."""
    event = '{"userId":"u1","event":"Hello"}'
    print_line(f"listening on {target.url}")
    for source, key in target.write_keys.items():
        print_line(f"write key of {source}: {key}")
    user = quote(f"{next(iter(target.write_keys.values()))}:")
    print_line(f"try: curl -u {user} -d '{event}' {target.url}/v1/track")


# A check


def checks(results: "Sequence[Check]") -> None:
    """Print one line for each check, and the number of failures."""
    width = max(len(check.name) for check in results)
    for check in results:
        status = "ok  " if check.ok else "FAIL"
        print_line(f"{status}  {check.name:<{width}}  {check.detail}")
    failed = sum(not check.ok for check in results)
    print_line(f"{failed} of {len(results)} failed" if failed else f"all {len(results)} OK")


# A load


def load_result(result: "LoadResult") -> None:
    """Print the counts of each table, then the summary."""
    print_landed(result)
    load_summary(result)


def print_landed(result: "LoadResult") -> None:
    """Print the counts of each table."""
    if result.tables:
        largest = sorted(result.tables, key=lambda t: (-t.counts.landed, t.table.name))
        print_table(_LOAD_COLUMNS, largest[:MAX_TABLES])
        print_remaining("table", len(largest) - MAX_TABLES, "`eventlake tables` shows all")


def load_summary(result: "LoadResult") -> None:
    """Print the summary of a load: counts, status and time."""
    if result.status == "nothing":
        known = result.already_loaded
        print_line(
            f"nothing to load: {format_loaded_before(known) if known else 'no raw logs found'}"
        )
    elif result.status != "failed":
        print_line(format_balance(result.counts))
        loaded = f"; {format_loaded_before(result.already_loaded)}" if result.already_loaded else ""
        print_line(f"{result.status} in {result.timings.get('total', 0.0):.1f} s{loaded}")
    if result.compacted_files:
        print_line(f"compacted {pluralize(result.compacted_files, 'file')}")
    for change in result.setting_changes:
        print_line(f"setting {change}")
    if result.passed_over:
        print_line(format_passed_over(result.passed_over))


def load_warnings(result: "LoadResult") -> None:
    """Print warnings, and why a load failed or is partial, to stderr."""
    for warning in result.warnings:
        print_stderr(f"warning: {warning}")
    if result.status == "failed":
        print_stderr(f"error: {result.message}")
    if result.status == "partial":
        print_stderr(f"partial: {result.message}")


def format_balance(counts: "Counts") -> str:
    """Return `received 101,000 = landed 100,000 + duplicates 1,000`."""
    terms = {name: getattr(counts, name) for name in _BALANCE_TERMS}
    out = [f"{name} {n:,}" for name, n in terms.items() if n or name == "landed"]
    sign = "=" if counts.balanced else "≠"
    return f"received {counts.received:,} {sign} {' + '.join(out)}"


def format_passed_over(files: Sequence[str]) -> str:
    rest = len(files) - MAX_NAMED_FILES
    named = ", ".join(files[:MAX_NAMED_FILES]) + (f" and {rest:,} more" if rest > 0 else "")
    verb = "is" if len(files) == 1 else "are"
    return f"passed over {pluralize(len(files), 'path')} that {verb} not raw logs: {named}"


def format_loaded_before(files: int) -> str:
    return f"{pluralize(files, 'file')} {'was' if files == 1 else 'were'} loaded before"


def _new_columns(commit: "TableCommit") -> str:
    return f"{len(commit.new_columns):,}{' (new table)' if commit.is_new else ''}"


_BALANCE_TERMS = ("landed", "duplicates", "suppressed", "quarantined", "skipped")

_LOAD_COLUMNS: Columns = {
    "table": lambda t: t.table.name,
    "landed": lambda t: t.counts.landed,
    "duplicates": lambda t: t.counts.duplicates,
    "rescued": lambda t: t.counts.rescued,
    "new columns": _new_columns,
    "partitions": lambda t: len(t.partitions),
}


# A lake


def tables(infos: "Sequence[TableInfo]") -> None:
    """Print the tables of a lake."""
    if not infos:
        print_line("the lake has no tables yet")
        return
    print_table(_TABLE_COLUMNS, infos)
    total = sum(table.rows for table in infos)
    size = sum(table.bytes for table in infos)
    counts = f"{pluralize(len(infos), 'table')}, {pluralize(total, 'row')}"
    print_line(f"{counts}, {decimal(size)}")


def schema(table: "TableInfo") -> None:
    """Print a table's columns and types, the partition columns last."""
    partitions = [(name, "string, partition") for name in table.partition_columns]
    columns = [
        (column.name, f"{column.type}, pinned" if column.name in table.pinned else column.type)
        for column in table.columns
    ]
    print_table({"column": itemgetter(0), "type": itemgetter(1)}, [*columns, *partitions])


def reports(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print the latest runs of a source, the newest last."""
    runs = sorted((r for r in lines if r["type"] == "source"), key=itemgetter("run_id"))
    print_table(_RUN_COLUMNS, runs[-MAX_TABLES:])
    print_remaining("earlier run", len(runs) - MAX_TABLES, "--json shows all")


def quarantine(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print the number of invalid lines by reason, and the first lines."""
    if not lines:
        print_line("the quarantine is empty")
        return
    reasons = Counter(row["reason"] for row in lines).most_common()
    print_table({"reason": itemgetter(0), "lines": itemgetter(1)}, reasons)
    print_table(_QUARANTINE_COLUMNS, lines[:MAX_QUARANTINED])
    print_remaining("line", len(lines) - MAX_QUARANTINED, "--json shows all")


def verification(result: "Verification") -> None:
    """Print the tables with differences, the problems and the totals."""
    differing = [table for table in result.tables if _has_differences(table)]
    if differing:
        print_table(_VERIFY_COLUMNS, differing)
    for problem in result.problems:
        print_line(f"problem: {escape_unprintable(problem)}")
    print_line(
        f"{pluralize(result.files_read, 'file')} with {pluralize(result.lines, 'line')}"
        f" read again: {result.expected:,} rows expected, {result.landed:,} found in"
        f" {pluralize(len(result.tables), 'table')}: {'OK' if result.ok else 'differences found'}"
    )


def repairs(results: "Sequence[RepairResult]") -> None:
    """Print what was repaired for each source."""
    for source in results:
        for verb, names in (("registered", source.registered), ("dropped", source.dropped)):
            for name in names:
                print_line(f"{source.source}: {verb} {name}")
        for problem in source.problems:
            print_line(f"{source.source}: problem: {escape_unprintable(problem)}")
        if not (source.registered or source.dropped or source.problems):
            print_line(f"{source.source}: the catalog agrees with the ledger")
    if not results:
        print_line("the lake has no sources yet")


def _has_differences(table: "TableCheck") -> bool:
    return bool(table.missing or table.extra or table.doubled or table.misplaced)


_TABLE_COLUMNS: Columns = {
    "table": lambda t: f"{t.database}.{t.name}",
    "source": lambda t: t.source,
    "rows": lambda t: t.rows,
    "columns": lambda t: len(t.columns),
    "partitions": lambda t: t.partitions,
    "files": lambda t: t.files,
    "size": lambda t: decimal(t.bytes),
}

_RUN_COLUMNS: Columns = {
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

_QUARANTINE_COLUMNS: Columns = {
    "reason": lambda q: q["reason"],
    "detail": lambda q: q["detail"],
    "where": lambda q: f"{str(q['file']).rpartition('/')[2]}:{q['line']}",
    "line": lambda q: q["raw"],
}

_VERIFY_COLUMNS: Columns = {
    "table": lambda t: t.table,
    "expected": lambda t: t.expected,
    "found": lambda t: t.found,
    "missing": lambda t: t.missing,
    "extra": lambda t: t.extra,
    "doubled": lambda t: t.doubled,
    "misplaced": lambda t: t.misplaced,
}


# A sample and a query


def sample(summary: "SampleSummary") -> None:
    """Print the size of a sample."""
    print_line(
        f"{pluralize(summary.files, 'file')} of {decimal(summary.bytes)}:"
        f" {summary.events:,} events, {summary.duplicates:,} duplicates,"
        f" {pluralize(summary.bad, 'invalid line')}"
    )


def query_result(table: "pa.Table", form: OutputFormat) -> None:
    """Print all rows as CSV or JSON lines, or up to `MAX_ROWS` as a table."""
    if form is OutputFormat.TABLE:
        _print_query_table(table)
        return
    for line in rows.csv_lines(table) if form is OutputFormat.CSV else rows.json_lines(table):
        print_line(line)


def _print_query_table(table: "pa.Table") -> None:
    names = rows.number_duplicates(table.column_names)
    columns = {name: itemgetter(index) for index, name in enumerate(names)}
    records = list(islice(rows.iterate_rows(table), MAX_ROWS))
    printed = build_table(columns, records, rows.to_text)
    screen = make_console()
    unlimited = screen.options.update(width=PIPE_WIDTH)
    if screen.measure(printed, options=unlimited).maximum > screen.width:
        _print_query_records(names, records)
    else:
        screen.print(printed)
    print_remaining("row", table.num_rows - len(records), "--format csv shows all")


def _print_query_records(names: list[str], records: Sequence[tuple[Any, ...]]) -> None:
    """Print rows that are wider than the screen as a list of columns and values each."""
    for number, row in enumerate(records, 1):
        print_line(f"row {number}")
        cells = list(zip(names, map(rows.to_text, row), strict=True))
        make_console().print(
            build_table({"column": itemgetter(0), "value": itemgetter(1)}, cells, rows.to_text)
        )


# Formatting


def print_table(columns: Columns, records: Iterable[Any]) -> None:
    """Print a table with one row for each record."""
    make_console().print(build_table(columns, records, _format_cell))


def build_table(
    columns: Columns, records: Iterable[Any], format_value: Callable[[object], str]
) -> Table:
    """Return a table with one row for each record; columns with numbers are right-aligned."""
    cells = [[get_value(record) for get_value in columns.values()] for record in records]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], int | float | Decimal) for row in cells)
        heading = escape_unprintable(name)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(_shorten(escape_unprintable(format_value(value))) for value in row))
    return table


def make_console() -> Console:
    """Return a console for stdout that prints data unchanged: no markup, emoji or highlighting."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)


def print_remaining(noun: str, rest: int, hint: str) -> None:
    """Print how many items are not shown, if any, and how to see them."""
    if rest > 0:
        print_line(f"and {rest:,} more {noun}{'s' if rest > 1 else ''}: {hint}")


def pluralize(n: int, noun: str) -> str:
    """Return `1 file` or `1,000 files`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _format_cell(value: object) -> str:
    """Return a value as text, integers with thousands separators."""
    return f"{value:,}" if isinstance(value, int) else rows.to_text(value)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def escape_unprintable(text: str) -> str:
    """Escape characters that could control the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
