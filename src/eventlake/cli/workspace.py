"""Commands for the whole workspace: `export`, `apply`, `recover`, `reseal`."""

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventlake.cli import show
from eventlake.cli.control import ControlOptions
from eventlake.cli.failures import FAILED, FINISHED
from eventlake.cli.options import DEFAULT_LAKE, DryRun, LakeRoot, Yes, expand_option_groups
from eventlake.client import URL_VARIABLE
from eventlake.errors import InvalidSettings

if TYPE_CHECKING:
    from eventlake.control.recover import Recovered

_HEAD = """\
# The workspace of `eventlake export`, for `eventlake apply`. It has no secrets: those that are
# sealed in the database are "set elsewhere", and references such as "env:NAME" are shown.
"""
_SIGNS = {"add": "+", "change": "~"}


@expand_option_groups
def export(
    options: ControlOptions,
    out: Annotated[Path | None, typer.Option(help="Write to this file.", dir_okay=False)] = None,
) -> None:
    """Show lakes, sources, keys, schedules and channels as a file for `eventlake apply`.

    Secrets are not in it, nor are people, tokens and the history of runs.
    """
    with options.open() as client:
        declared = client.ask("GET", "/export")
    text = _HEAD + _to_toml(declared)
    if out:
        out.write_text(text, "utf-8")
    else:
        options.print(declared, lambda _: show.print_line(text.rstrip()))


@expand_option_groups
def apply(
    options: ControlOptions,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file in the format of `eventlake export`.")
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Change the workspace to what a file says, after showing what would change.

    What is not in the file stays as it is. If anything is refused, nothing is changed.
    """
    declared = _read_toml(file)
    with options.open(create=True) as client:
        try:
            plan = client.ask("POST", "/apply?dry_run=true", declared)
        except InvalidSettings as problem:
            raise InvalidSettings(f"{file}: {problem}") from problem
        is_done = dry_run or plan["refused"] or not plan["changes"]
        if not is_done:
            if not yes:
                print_plan(plan, to_stderr=True)
                show.confirm("Change the workspace?")
            plan = client.ask("POST", "/apply", declared)
    options.print(plan, print_plan)
    raise typer.Exit(FAILED if plan["refused"] else FINISHED)


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InvalidSettings(f"{file} is not TOML: {problem}") from None


def _to_toml(declared: Mapping[str, Any]) -> str:
    with show.require_extra("control"):
        import tomlkit

        from eventlake.control.declaration import Declaration
    return tomlkit.dumps(Declaration.model_validate(declared).to_values())


def print_plan(plan: Mapping[str, Any], *, to_stderr: bool = False) -> None:
    """Print what changes as a diff, then what is refused and why."""
    lines = list[str]()
    for change in plan["changes"]:
        lines.append(f"{_SIGNS[change['action']]} {change['object']}")
        for one in change["fields"]:
            values = (("-", one["before"]), ("+", one["after"]))
            lines += [f"    {s} {one['field']} = {v!r}" for s, v in values if v is not None]
    lines += [f"! {one['object']}: {one['reason']}" for one in plan["refused"]]
    lines += [f"note: {note}" for note in plan["notes"]]
    lines.append(_summarize(plan))
    for line in lines:
        text = show.escape_unprintable(line)
        sys.stderr.write(f"{text}\n") if to_stderr else show.print_line(text)


def _summarize(plan: Mapping[str, Any]) -> str:
    if plan["refused"]:
        return f"{len(plan['refused'])} refused: nothing is changed"
    if not plan["changes"]:
        return "no changes"
    count = f"{len(plan['changes'])} change{'s' if len(plan['changes']) > 1 else ''}"
    return f"{count} made" if plan["is_applied"] else f"{count} to make"


@expand_option_groups
def recover(
    options: ControlOptions,
    lake: LakeRoot = DEFAULT_LAKE,
    name: Annotated[str, typer.Option(help="The lake's name in the workspace.")] = "main",
) -> None:
    """Rebuild sources, connections and the history of runs from a lake.

    For a lost database; stop `eventlake up` first. Write keys, schedules, people and secrets are
    not in the lake: apply a file of `eventlake export` before, if there is one.
    """
    if os.environ.get(URL_VARIABLE):
        raise InvalidSettings(f"recover works on the database itself: unset {URL_VARIABLE}")
    with show.require_extra("control"):
        from eventlake.control.recover import Target, recover_workspace
        from eventlake.lakes import resolve_settings
        from eventlake.server.installation import open_installation
        from eventlake.services.history import read_history
    settings = resolve_settings(lake)
    histories = read_history(settings)
    with open_installation(options.database) as installation:
        target = Target(installation.database, installation.vault, installation.clock.now())
        recovered = recover_workspace(target, name, settings, histories)
    options.print(recovered, _print_recovered)


def _print_recovered(recovered: "Recovered") -> None:
    columns: show.Columns = {
        "source": lambda one: one.source,
        "was there": lambda one: "no" if one.is_new else "yes",
        "runs added": lambda one: one.runs,
        "runs known": lambda one: one.known_runs,
    }
    show.print_line(f"workspace {recovered.workspace}, lake {recovered.lake}")
    show.print_table(columns, recovered.sources)
    for note in recovered.notes:
        show.print_line(f"note: {note}")


@expand_option_groups
def reseal(options: ControlOptions) -> None:
    """Encrypt every stored secret with the newest key, so that older keys can be removed.

    The newest key is the first of EVENTLAKE_SECRET_KEY, or of the key file. The exit code is 1 if
    there are secrets that none of the keys opens.
    """
    with options.open() as client:
        done = client.ask("POST", "/settings/reseal")
    options.print(done, _print_resealed)
    raise typer.Exit(FAILED if done["unreadable"] else FINISHED)


def _print_resealed(done: Mapping[str, Any]) -> None:
    for name in done["unreadable"]:
        show.print_line(f"! {name}: none of the keys opens it; set it again")
    count = done["resealed"]
    show.print_line(f"{count} secret{'' if count == 1 else 's'} encrypted with the newest key")
