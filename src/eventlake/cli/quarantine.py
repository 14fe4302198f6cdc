"""The commands of the quarantine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eventlake.cli import show
from eventlake.cli.failures import FAILED, FINISHED, PARTIAL
from eventlake.cli.options import (
    DEFAULT_LAKE,
    AsJson,
    DryRun,
    LakeRoot,
    Quiet,
    SparkMaster,
    expand_option_groups,
)
from eventlake.cli.progress import show_progress
from eventlake.cli.rows import decode_rows
from eventlake.errors import InvalidSettings

if TYPE_CHECKING:
    from eventlake.services.redrive import RedrivePlan, RedriveRequest, RedriveResult

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def quarantine(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="The source's slug or id; required.")] = None,
    lake: LakeRoot = DEFAULT_LAKE,
    as_json: AsJson = False,
) -> None:
    """Show the invalid lines of a source, or load them again with `redrive`."""
    command = context.invoked_subcommand
    if command:
        if source or as_json or lake != DEFAULT_LAKE:
            raise InvalidSettings(f"write options after {command}: quarantine {command} --source …")
        return
    if source is None:
        raise InvalidSettings("source is not set: give --source")
    rows = decode_rows(context.obj.open_lake(lake).quarantine(source))
    show.print_result(rows, as_json, show.quarantine)


@dataclass(frozen=True)
class RedriveOptions:
    """Which lines to redrive, how to correct them, and where."""

    source: Annotated[
        str,
        typer.Option(help="The source's slug or id.", show_default="the only one of the lake"),
    ] = ""
    reason: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="Only lines with this reason; may be repeated."),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only lines that a run of this time or later found."),
    ] = None
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A field to set in every line, such as properties.total=5; may be repeated.",
        ),
    ] = None
    from_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Corrected lines, in the form of `eventlake quarantine --json`."
        ),
    ] = None
    lake: LakeRoot = DEFAULT_LAKE
    master: SparkMaster = "local[*]"

    def request(self) -> "RedriveRequest":
        from eventlake.services.redrive import RedriveRequest

        reasons, fields = self.reason or (), self.fields or ()
        return RedriveRequest(self.source, reasons, self.since, fields, self.from_file)


@app.command()
@expand_option_groups
def redrive(
    context: typer.Context,
    options: RedriveOptions,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Load invalid lines again, corrected.

    With --set, every selected line gets a field, whatever it had before; a value is JSON, or else
    a string. With --from-file, lines are replaced by those of a file: save what `eventlake
    quarantine --json` prints, and correct `raw`. What is loaded leaves the quarantine in the same
    commit. Lines that are still invalid are quarantined with their new reason. The exit code is 3
    if some of the selected lines are still in the quarantine, and 1 if none could be corrected.
    """
    request, lake = options.request(), options.lake
    if dry_run:
        plan = context.obj.plan_redrive(request, lake=lake)
        show.print_result(plan, as_json, _print_plan)
        return
    with show_progress(quiet) as steps:
        result = context.obj.redrive(request, lake=lake, where=options.master, progress=steps)
    show.print_result(result, as_json, _print_summary if quiet else _print_result)
    show.load_warnings(result)
    raise typer.Exit(_exit_code(result))


def _exit_code(result: "RedriveResult") -> int:
    if result.status == "failed":
        return FAILED
    is_partial = result.status == "partial" or result.left or result.failed
    return PARTIAL if is_partial else FINISHED


def _print_plan(plan: "RedrivePlan") -> None:
    """Print what a redrive would do."""
    if plan.tables:
        columns: show.Columns = {"table": lambda item: item[0], "lines": lambda item: item[1]}
        show.print_table(columns, list(plan.tables.items()))
    lines = show.pluralize(plan.matched, "quarantined line")
    show.print_line(f"{lines} of {plan.source} in {plan.lake} match")
    landed = sum(plan.tables.values())
    show.print_line(f"{landed:,} would land, unless their message id has landed before")
    for count, verb in ((plan.suppressed, "suppressed"), (plan.skipped, "skipped")):
        if count:
            show.print_line(f"{count:,} would be {verb}")
    if plan.failed:
        show.print_line(f"{_format_reasons(plan.failed)} would be quarantined again")
    _print_left(plan.left)


def _print_result(result: "RedriveResult") -> None:
    """Print the rows of each table, and the summary."""
    show.print_landed(result)
    _print_summary(result)


def _print_summary(result: "RedriveResult") -> None:
    """Print the counts, and which lines are still in the quarantine."""
    if result.status == "nothing":
        show.print_line(result.message)
    if result.status in ("nothing", "failed"):
        return
    show.load_summary(result)
    if result.failed:
        show.print_line(f"{_format_reasons(result.failed)} quarantined again")
    _print_left(result.left)


def _print_left(left: Mapping[str, int]) -> None:
    if left:
        show.print_line(f"{_format_reasons(left)} not corrected: they stay as they are")


def _format_reasons(counts: Mapping[str, int]) -> str:
    """Return `3 lines (no_event_name 2, not_json 1)`."""
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in counts.items())
    return f"{show.pluralize(sum(counts.values()), 'line')} ({reasons})"
