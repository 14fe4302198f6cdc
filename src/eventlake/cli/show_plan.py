"""Print what a load would do."""

from typing import TYPE_CHECKING

from rich.filesize import decimal

from eventlake.cli import show

if TYPE_CHECKING:
    from eventlake.services.load import LoadPlan

MAX_FILES = 40
"""Files that are listed; --json lists all."""


def print_plan(plan: "LoadPlan") -> None:
    """Print what a load would do."""
    for file in plan.files[:MAX_FILES]:
        show.print_line(f"would load {file}")
    show.print_remaining("file", len(plan.files) - MAX_FILES, "--json shows all")
    for pipe in plan.pipes:
        show.print_line(f"would read {pipe} into the archive, and load it from there")
    if plan.runs_to_finish:
        show.print_line(f"would finish {show.pluralize(plan.runs_to_finish, 'run')} that crashed")
    if plan.stages_to_remove:
        dead = show.pluralize(plan.stages_to_remove, "dead run")
        show.print_line(f"would remove the stage of {dead}")
    for change in plan.setting_changes:
        show.print_line(f"setting {change}")
    files = f"{show.pluralize(len(plan.files), 'file')} of {decimal(plan.bytes)}"
    tables = show.pluralize(len(plan.tables), "table")
    loaded = f"; {show.format_loaded_before(plan.already_loaded)}" if plan.already_loaded else ""
    show.print_line(f"{files} into {plan.lake}, source {plan.source} with {tables} so far{loaded}")
    if plan.passed_over:
        show.print_line(show.format_passed_over(plan.passed_over))
    for warning in plan.warnings:
        show.print_stderr(f"warning: {warning}")
