"""The commands of the suppression list."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from eventlake.cli import show
from eventlake.cli.options import DEFAULT_LAKE, AsJson, DryRun, LakeRoot

if TYPE_CHECKING:
    from eventlake.services.suppress import SuppressedUsers, SuppressionChange

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Manage the users whose events are dropped.\n\nThe list is kept in the lake. Every later "
    "load and sync and every collector obeys it; what landed before stays.",
)

UserIds = Annotated[list[str], typer.Argument(metavar="ID", help="User ids, exactly as in events.")]


@app.command()
def add(
    context: typer.Context,
    users: UserIds,
    lake: LakeRoot = DEFAULT_LAKE,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Add users to the suppression list."""
    change = context.obj.suppress_users(users, lake=lake, dry_run=dry_run)
    show.print_result(change, as_json, partial(_print_change, dry_run))


@app.command()
def remove(
    context: typer.Context,
    users: UserIds,
    lake: LakeRoot = DEFAULT_LAKE,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove users from the suppression list.

    Events that were dropped meanwhile do not come back. Removes nobody if one of the users is not
    on the list; the exit code is 2 then.
    """
    change = context.obj.unsuppress_users(users, lake=lake, dry_run=dry_run)
    show.print_result(change, as_json, partial(_print_change, dry_run))


@app.command("list")
def list_users(
    context: typer.Context, lake: LakeRoot = DEFAULT_LAKE, as_json: AsJson = False
) -> None:
    """Show the suppression list, one id a line."""
    show.print_result(context.obj.list_suppressed_users(lake), as_json, _print_users)


def _print_change(dry_run: bool, change: "SuppressionChange") -> None:
    for verb, users in (("add", change.added), ("remove", change.removed)):
        if users:
            done = f"would {verb}" if dry_run else f"{verb.removesuffix('e')}ed"
            show.print_line(f"{done} {show.pluralize(len(users), 'user')}")
    if change.unchanged:
        known = show.pluralize(len(change.unchanged), "user")
        show.print_line(f"{known} already on the list")
    if not dry_run:
        show.print_line(f"{show.pluralize(change.listed, 'user')} suppressed in this lake")


def _print_users(listed: "SuppressedUsers") -> None:
    for user in listed.users:
        show.print_line(show.escape_unprintable(user))
    if listed.hashed:
        count = show.pluralize(listed.hashed, "forgotten user")
        show.print_stderr(f"and {count}, of whom the lake has only a hash")
