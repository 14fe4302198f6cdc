"""The commands that change what has landed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from eventlake.cli import show, show_change
from eventlake.cli.failures import FINISHED, PARTIAL
from eventlake.cli.options import (
    DEFAULT_LAKE,
    AsJson,
    LakeRoot,
    RunOptions,
    Source,
    expand_option_groups,
)
from eventlake.cli.progress import show_progress
from eventlake.errors import InvalidSettings

if TYPE_CHECKING:
    from eventlake.services.replay import ReplayRequest


@dataclass(frozen=True)
class ReplayOptions:
    """Which events a replay is of, and what changes with it."""

    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Replay events received from here.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Replay events received before this.")
    ] = None
    all_time: Annotated[
        bool, typer.Option("--all", help="Replay all events, instead of --from and --to.")
    ] = False
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this event or table; may be repeated."),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting to change; may be repeated."),
    ] = None
    infer: Annotated[
        bool,
        typer.Option(
            "--infer", help="Infer columns and types of tables that are replaced as a whole."
        ),
    ] = False
    partial: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Raw logs that may be missing, whose rows are dropped; may be repeated.",
        ),
    ] = None

    def request(self, source: str) -> "ReplayRequest":
        from eventlake.services.replay import ReplayRequest

        return ReplayRequest(
            source,
            self.since,
            self.until,
            all_time=self.all_time,
            events=tuple(self.event or ()),
            changes=_parse_changes(self.settings or ()),
            infer=self.infer,
            partial=tuple(self.partial or ()),
        )


@dataclass(frozen=True)
class DropOptions:
    """What to drop, and the user's consent."""

    tables: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Only this table; may be repeated."),
    ] = None
    yes: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="The source's name, instead of typing it."),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")
    ] = False


@expand_option_groups
def replay(context: typer.Context, source: Source, options: ReplayOptions, run: RunOptions) -> None:
    """Build tables again from the raw logs that were loaded.

    The rows of whole partitions are replaced in one commit, with the settings, types and
    suppressed users of today. Loads and syncs may run meanwhile. Times are UTC: 2026-10-01 or
    2026-10-01T07:00:00Z.
    """
    _replay(context, options.request(source), run)


def _replay(context: typer.Context, request: "ReplayRequest", run: RunOptions) -> None:
    if run.dry_run:
        plan = context.obj.plan_replay(request, lake=run.lake)
        show.print_result(plan, run.as_json, show_change.replay_plan)
        return
    with show_progress(run.quiet) as steps:
        result = context.obj.replay(
            request,
            lake=run.lake,
            where=run.master,
            suppressed=run.suppressed(),
            temporary_cluster=run.temporary_cluster,
            progress=steps,
        )
    text = show_change.replay_summary if run.quiet else show_change.replay_result
    show.print_result(result, run.as_json, text)
    show.load_warnings(result)
    raise typer.Exit(PARTIAL if result.status == "partial" else FINISHED)


def _parse_changes(words: Iterable[str]) -> dict[str, object]:
    """The settings of `--set`; `skip_events` is a list with commas."""
    changes: dict[str, object] = {}
    for name, value in map(_split_assignment, words):
        if name in ("source", "source_id"):
            raise InvalidSettings(f"--set {name}: a replay cannot change which source it is")
        if name == "ledger_folder":
            raise InvalidSettings(f"{name} is not a setting: partition_by_slug moves the tables")
        changes[name] = tuple(filter(None, value.split(","))) if name == "skip_events" else value
    return changes


def _parse_types(words: Iterable[str]) -> dict[str, str]:
    """The types of columns; raises `InvalidSettings` for a column that is named twice."""
    types: dict[str, str] = {}
    for column, kind in map(_split_assignment, words):
        if types.setdefault(column, kind) != kind:
            raise InvalidSettings(f"{column} is given twice: as {types[column]} and as {kind}")
    return types


def _split_assignment(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign or not name:
        raise InvalidSettings(f"{word!r}: write name=value")
    return name.replace("-", "_"), value


@expand_option_groups
def drop(
    context: typer.Context,
    source: Source,
    options: DropOptions,
    lake: LakeRoot = DEFAULT_LAKE,
    as_json: AsJson = False,
) -> None:
    """Drop the tables of a source, with their files and catalog entries.

    Asks for the source's name. The raw logs stay: without --tables they count as not loaded, and
    the next load or sync lands them again, with any settings.
    """
    tables, yes = options.tables or (), options.yes
    plan = context.obj.plan_drop(source, lake=lake, tables=tables)
    if options.dry_run:
        show.print_result(plan, as_json, show_change.drop_plan)
        return
    if yes is None:
        show_change.print_warning(plan)
        yes = typer.prompt(f"Type {plan.source} to drop this", err=True)
    if yes != plan.source:
        raise InvalidSettings(f"{yes!r} is not {plan.source!r}: nothing was dropped")
    result = context.obj.drop(source, lake=lake, tables=tables)
    show.print_result(result, as_json, show_change.drop_result)
    raise typer.Exit(PARTIAL if result.status == "partial" else FINISHED)


@expand_option_groups
def retype(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table, as database.table.")],
    types: Annotated[
        list[str],
        typer.Argument(
            metavar="COLUMN=TYPE",
            help="Columns and their types: boolean, bigint, decimal, string or timestamp.",
        ),
    ],
    run: RunOptions,
    replay: Annotated[
        bool, typer.Option("--replay", help="Rewrite all rows of the table with the new types.")
    ] = False,
) -> None:
    """Give columns of a table other types, and keep them.

    Rows that land from now on have the new types. With --replay all older rows get them as well,
    in the same commit; without it engines may refuse to read the column.
    """
    parsed = _parse_types(types)
    if not run.dry_run and replay:
        _replay(context, context.obj.retype_request(table, parsed, lake=run.lake), run)
    change = context.obj.plan_retype if run.dry_run else context.obj.retype
    result = change(table, parsed, lake=run.lake)
    show.print_result(result, run.as_json, show_change.retyping)
    raise typer.Exit(PARTIAL if getattr(result, "status", "") == "partial" else FINISHED)
