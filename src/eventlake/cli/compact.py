"""The command `compact`, and what it prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from eventlake.cli import show
from eventlake.cli.failures import FINISHED, PARTIAL
from eventlake.cli.options import (
    DEFAULT_LAKE,
    AsJson,
    DryRun,
    LakeRoot,
    Quiet,
    expand_option_groups,
)
from eventlake.cli.progress import show_progress

if TYPE_CHECKING:
    from eventlake.services.compaction import CompactResult

_COLUMNS: show.Columns = {
    "table": attrgetter("table"),
    "partitions": attrgetter("partitions"),
    "rows": attrgetter("rows"),
    "files": attrgetter("files"),
    "size": lambda table: decimal(table.bytes),
    "files after": attrgetter("files_after"),
}


@dataclass(frozen=True)
class CompactOptions:
    """What is compacted, and where the run is."""

    source: Annotated[
        str | None,
        typer.Option(help="The source's slug or id.", show_default="all sources of the lake"),
    ] = None
    older_than: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Only partitions whose newest event is older than this, such as 90m, 2h or 1d.",
        ),
    ] = "2h"
    lake: LakeRoot = DEFAULT_LAKE
    master: Annotated[str, typer.Option(help="The Spark master of local runs.")] = "local[*]"
    temporary_cluster: Annotated[
        bool,
        typer.Option("--temporary-cluster", help="Run on a cluster that is created for the run."),
    ] = False
    dry_run: DryRun = False
    as_json: AsJson = False
    quiet: Quiet = False


@expand_option_groups
def compact(context: typer.Context, options: CompactOptions) -> None:
    """Merge the small files of partitions that get no more events.

    The rows stay as they are, in order of receipt, in files of about 128 MB: at most one smaller
    file remains in a partition. Loads and syncs may run meanwhile. Files that another program has
    written are left alone.
    """
    given = {"lake": options.lake, "older_than": options.older_than}
    if options.dry_run:
        results = context.obj.plan_compaction(options.source, **given)
    else:
        with show_progress(options.quiet) as steps:
            results = context.obj.compact(
                options.source,
                **given,
                where=options.master,
                temporary_cluster=options.temporary_cluster,
                progress=steps,
            )
    show.print_result(results, options.as_json, _print_short if options.quiet else _print_results)
    is_partial = any(result.status == "partial" for result in results)
    raise typer.Exit(PARTIAL if is_partial else FINISHED)


def _print_results(results: "Sequence[CompactResult]") -> None:
    for result in results:
        if result.tables:
            show.print_table(_COLUMNS, result.tables)
    _print_short(results)


def _print_short(results: "Sequence[CompactResult]") -> None:
    if not results:
        show.print_line("nothing to compact: the lake has no tables")
    for result in results:
        print_compaction(result)


def print_compaction(result: "CompactResult") -> None:
    """Print a line for a source, and to stderr which files stay and why."""
    if result.status == "nothing":
        show.print_line(f"{result.source}: nothing to compact")
    else:
        verb = "would merge" if result.status == "planned" else "merged"
        after = f"{result.files_after:,}"
        if result.bytes_after is not None:
            after = f"{show.pluralize(result.files_after, 'file')} of {decimal(result.bytes_after)}"
        files = f"{show.pluralize(result.files, 'file')} of {decimal(result.bytes)}"
        about = "about " if result.status == "planned" else ""
        show.print_line(f"{result.source}: {verb} {files} into {about}{after}")
    if result.other_types:
        files = show.pluralize(result.other_types, "small file")
        show.print_stderr(
            f"warning: {files} of {result.source} stay, because a column has another type there "
            "than in the table: a replay brings them along"
        )
    if result.status == "partial":
        show.print_stderr(f"partial: {result.message}")
