"""The command that translates Segment's settings."""

import json
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from eventlake.cli import show
from eventlake.cli.options import AsJson

if TYPE_CHECKING:
    from eventlake.services.import_settings import ImportedSettings

LAKE_FILE = "lake.toml"
"""The name of the lake's file in the commands that are shown."""


def import_settings(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A JSON file of Segment's settings.")],
    as_json: AsJson = False,
) -> None:
    """Translate the settings of a Segment Data Lakes destination.

    Prints a file of lake settings, with the commands for the source as comments: `eventlake
    import-settings segment.json > lake.toml`. Secrets are not printed. Names that EventLake has no
    setting for are listed on stderr.
    """
    imported = context.obj.import_settings(file)
    show.print_result(imported, as_json, _print_settings)
    if "source" not in imported.source:
        show.print_stderr("warning: the file does not have the source's slug: replace my-source")
    for name, variable in imported.secrets.items():
        show.print_stderr(f"warning: {name} is a secret: put it into {variable}")
    if imported.unknown:
        show.print_stderr(f"warning: not settings of EventLake: {', '.join(imported.unknown)}")


def _print_settings(imported: "ImportedSettings") -> None:
    for name, value in imported.lake.items():
        show.print_line(f"{name} = {json.dumps(value)}")
    source = _format_option("source", imported.source.get("source", "my-source"))
    others = (_format_option(*item) for item in imported.source.items() if item[0] != "source")
    lake = f"--lake {LAKE_FILE}"
    show.print_line(f"\n# Save this as {LAKE_FILE}, then:")
    show.print_line(f"#   eventlake check {lake}")
    show.print_line(f"#   {' '.join(filter(None, ('eventlake adopt', source, *others, lake)))}")
    show.print_line(f"#   eventlake sync {source} {lake}")


def _format_option(name: str, value: object) -> str:
    """`--date-partition day`; empty for a flag that is off."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return flag if value else ""
    return f"{flag} {quote(str(value))}"
