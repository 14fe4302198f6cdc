"""The command that forgets a user."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from eventlake.cli import show
from eventlake.cli.failures import FAILED, FINISHED, PARTIAL
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
    from eventlake.services.forget import ForgetResult

MAX_FILES = 40
"""Files that are listed; --json lists all."""


@dataclass(frozen=True)
class ForgetOptions:
    """Whose events to remove, from where."""

    also: Annotated[
        Literal["anonymous"] | None,
        typer.Option(help="Forget the ids that identify and alias calls tie to the user, too."),
    ] = None
    source: Annotated[
        str | None, typer.Option(help="A source's slug or id.", show_default="all sources")
    ] = None
    dry_run: DryRun = False
    quiet: Quiet = False


@expand_option_groups
def forget(
    context: typer.Context,
    user: Annotated[str, typer.Argument(metavar="ID", help="The user id, exactly as in events.")],
    chosen: ForgetOptions,
    lake: LakeRoot = DEFAULT_LAKE,
    as_json: AsJson = False,
) -> None:
    """Remove all events of a user, for good.

    Rewrites the files that have them: of tables, the quarantine, raw logs and rejected logs. Puts
    the user on the suppression list as a hash, and writes a receipt. Loads and syncs may run
    meanwhile. The exit code is 1 if raw logs cannot be changed: repeat the command afterwards.
    """
    also_anonymous = chosen.also == "anonymous"
    options = {"lake": lake, "source": chosen.source, "also_anonymous": also_anonymous}
    if chosen.dry_run:
        result = context.obj.plan_forget(user, **options)
    else:
        with show_progress(chosen.quiet) as steps:
            result = context.obj.forget(user, **options, progress=steps)
    show.print_result(result, as_json, partial(_print_result, chosen.dry_run))
    for path in result.remaining:
        show.print_stderr(
            f"error: {path} may still have events of the user: grant access to it, or let its run "
            "end, and repeat the command"
        )
    code = PARTIAL if result.status == "partial" else FINISHED
    raise typer.Exit(FAILED if result.remaining else code)


def _print_result(dry_run: bool, result: "ForgetResult") -> None:
    verb = "would remove" if dry_run else "removed"
    for one in result.files[:MAX_FILES]:
        path = show.escape_unprintable(one.path)
        show.print_line(f"{verb} {one.removed:,} of {one.rows:,} from {one.kind} {path}")
    show.print_remaining("file", len(result.files) - MAX_FILES, "--json shows all")
    for tied in map(show.escape_unprintable, result.ids[1:]):
        show.print_line(f"with the id {tied}, by identify and alias calls")
    searched = f"{show.pluralize(result.opened, 'file')} searched"
    if not result.files:
        show.print_line(f"nothing to remove: no events of the user; {searched}")
    else:
        rows, files = show.pluralize(result.rows, "row"), show.pluralize(len(result.files), "file")
        lines = sum(one.removed for one in result.files) - result.rows
        show.print_line(f"{verb} {rows} and {lines:,} raw lines from {files}; {searched}")
    for path in result.receipts:
        show.print_line(f"receipt: {path}")
    if result.message:
        show.print_stderr(f"partial: {result.message}")
