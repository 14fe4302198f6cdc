"""Print which tables an adoption found, and what became of them."""

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from eventlake.cli import show

if TYPE_CHECKING:
    from eventlake.services.adopt import AdoptionPlan, AdoptionResult

_COLUMNS: show.Columns = {
    "event type": attrgetter("event_type"),
    "table": attrgetter("table"),
    "folder": attrgetter("folder"),
    "id column": attrgetter("id_column"),
    "partitions": attrgetter("partitions"),
    "files": attrgetter("files"),
    "rows": lambda table: "unknown" if table.rows is None else table.rows,
}
_SETTINGS = ("database", "table_prefix", "naming", "column_naming", "date_partition", "data_folder")


def print_adoption_plan(plan: "AdoptionPlan") -> None:
    """Print all tables with their events, and the settings that follow from them."""
    show.print_table(_COLUMNS, plan.tables)
    for name in _SETTINGS:
        if value := getattr(plan.settings, name):
            show.print_line(f"{name} = {value}")
    files = show.pluralize(plan.files, "file")
    show.print_line(f"would adopt {show.pluralize(len(plan.tables), 'table')} with {files}")
    show.print_line(f"would mark {plan.logs:,} raw logs before {plan.since} as loaded")
    _print_warnings(plan)


def print_adoption(adopted: "AdoptionResult") -> None:
    """Print what was adopted, and the next command."""
    tables = show.pluralize(len(adopted.tables), "table")
    files = show.pluralize(adopted.files, "file")
    show.print_line(f"adopted {tables} of {adopted.settings.database} with {files}")
    show.print_line(f"{adopted.ids:,} message ids since {adopted.since} indexed")
    show.print_line(f"{adopted.logs:,} older raw logs marked as loaded")
    show.print_line(f"next: eventlake sync --source {adopted.source}")
    _print_warnings(adopted)
    if adopted.message:
        show.print_stderr(f"warning: {adopted.message}; the next sync tries again")


def _print_warnings(plan: "AdoptionPlan") -> None:
    for warning in plan.warnings:
        show.print_stderr(f"warning: {warning}")


def print_differences(rows: Sequence[Sequence[str]]) -> None:
    """Print how tables differ, on stderr; the first row has the headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        show.print_stderr("  ".join(cells).rstrip())
