"""Print replays, drops and retypes."""

from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.filesize import decimal

from eventlake.cli import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlake.services.drop import DropResult
    from eventlake.services.replay import ReplayPlan, ReplayResult, TablePlan
    from eventlake.services.retype import RetypePlan

MAX_NAMES = 40
"""Files and partitions that are listed; --json lists all."""

_TABLE_COLUMNS: show.Columns = {
    "table": attrgetter("table"),
    "rows": attrgetter("rows"),
    "files": attrgetter("files"),
    "partitions": attrgetter("partitions"),
}


def replay_plan(plan: "ReplayPlan") -> None:
    """Print what a replay would read and replace."""
    for file in plan.files[:MAX_NAMES]:
        show.print_line(f"would read {file}")
    show.print_remaining("file", len(plan.files) - MAX_NAMES, "--json shows all")
    _print_tables(plan.tables)
    window = "all events"
    if plan.since is not None and plan.until is not None:
        window = f"events received from {_format(plan.since)} to {_format(plan.until)} (UTC)"
    show.print_line(f"would replay {window} of {plan.source} into {plan.lake}")
    took = ""
    if plan.estimated_seconds is not None:
        took = f", in about {timedelta(seconds=round(plan.estimated_seconds))} by past runs"
    files = show.pluralize(len(plan.files), "raw log")
    show.print_line(f"{files} of {decimal(plan.bytes)} to read{took}")
    _print_left_out(plan.left_out)
    for warning in plan.warnings:
        show.print_stderr(f"warning: {warning}")


def _format(micros: int) -> str:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")


def _print_tables(tables: "Sequence[TablePlan]") -> None:
    if tables:
        show.print_table(_TABLE_COLUMNS, tables)


def _print_left_out(files: "Sequence[str]") -> None:
    for file in files[:MAX_NAMES]:
        show.print_line(f"without {file}, which is gone or has changed")
    show.print_remaining("file", len(files) - MAX_NAMES, "--json shows all")


def replay_result(result: "ReplayResult") -> None:
    """Print the rows of each table, and the summary."""
    show.print_landed(result)
    replay_summary(result)


def replay_summary(result: "ReplayResult") -> None:
    """Print the counts, and how many rows there were before."""
    if result.status == "nothing":
        show.print_line(result.message)
        return
    show.load_summary(result)
    old = f"{show.pluralize(result.replaced_rows, 'row')} in {result.replaced_files:,} files"
    show.print_line(f"replaced {old} with {show.pluralize(result.counts.landed, 'row')}")
    _print_left_out(result.left_out)


def drop_plan(plan: "DropResult") -> None:
    """Print what a drop would remove."""
    _print_tables(plan.tables)
    show.print_line(f"would drop {_describe_drop(plan)}")
    _print_adopted(plan)


def print_warning(plan: "DropResult") -> None:
    """Print to stderr what is about to be dropped."""
    show.print_stderr(f"This drops {_describe_drop(plan)}.")
    _print_adopted(plan)


def drop_result(result: "DropResult") -> None:
    """Print what was dropped, and how to get it back."""
    if result.status == "nothing":
        show.print_line(f"nothing to drop: {result.source} has no tables")
        return
    show.print_line(f"dropped {_describe_drop(result)}")
    if result.is_whole:
        show.print_line("the raw logs are still there: `eventlake load` and `sync` land them again")
    else:
        names = " ".join(f"--event {one.table}" for one in result.tables)
        again = f"replay --source {result.source} --all {names}"
        show.print_line(f"the raw logs are still there: `eventlake {again}` builds them again")
    if result.message:
        show.print_stderr(f"partial: {result.message}")


def _describe_drop(plan: "DropResult") -> str:
    tables = show.pluralize(len(plan.tables), "table")
    rows = show.pluralize(sum(one.rows for one in plan.tables), "row")
    files = show.pluralize(sum(one.files for one in plan.tables), "file")
    what = "and the quarantine " if plan.is_whole else ""
    return f"{tables} {what}of {plan.source}: {rows} in {files}, {decimal(plan.bytes)}"


def _print_adopted(plan: "DropResult") -> None:
    if plan.adopted_files:
        files = show.pluralize(plan.adopted_files, "file")
        show.print_stderr(f"warning: another program wrote {files}; no raw log has these events")


def retyping(plan: "RetypePlan") -> None:
    """Print the new types, and what a replay would rewrite."""
    is_done = getattr(plan, "status", "")
    for one in plan.columns:
        if one.before is one.after:
            show.print_line(f"{plan.table}.{one.name} is {one.after} and stays so")
            continue
        verb = "is now" if is_done else "would become"
        show.print_line(f"{plan.table}.{one.name} {verb} {one.after}; it was {one.before}")
        values = show.pluralize(one.values, "value")
        show.print_line(f"of {values}, {one.misfits:,} do not fit and would be rescued")
    if not plan.partitions:
        return
    rows, count = show.pluralize(plan.rows, "row"), len(plan.partitions)
    show.print_line(f"a replay would rewrite {rows} in {show.pluralize(count, 'partition')}")
    if is_done:
        for partition in plan.partitions[:MAX_NAMES]:
            values = "/".join(f"{name}={value}" for name, value in partition.items())
            show.print_line(f"  {values} has the old type")
        show.print_remaining("partition", count - MAX_NAMES, "--json shows all")
        table = plan.table.partition(".")[2]
        show.print_line(
            "engines may refuse the column until these partitions are replayed: "
            f"`eventlake replay --source {plan.source} --all --event {table}`"
        )
