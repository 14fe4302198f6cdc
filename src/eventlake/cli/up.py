"""The command `up`: the server."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eventlake.cli import show
from eventlake.cli.options import AsJson, expand_option_groups

if TYPE_CHECKING:
    from eventlake.server.up import Started

DatabaseUrl = Annotated[
    str,
    typer.Option(
        envvar="EVENTLAKE_DATABASE",
        help="The control database: a file for SQLite, or a URL of PostgreSQL.",
    ),
]
DEFAULT_DATABASE = "eventlake.db"


@dataclass(frozen=True)
class UpOptions:
    """Where the server listens and stores."""

    database: DatabaseUrl = DEFAULT_DATABASE
    lake: Annotated[
        Path, typer.Option(help="The folder of the lake that is added if there is none.")
    ] = Path("lake")
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for a free one.")
    ] = 8400
    public_url: Annotated[
        str, typer.Option(help="The URL at which others reach the server, such as of a proxy.")
    ] = ""
    spool: Annotated[Path, typer.Option(help="A local folder for the spool.")] = Path("spool")
    only: Annotated[
        str,
        typer.Option(
            metavar="PARTS",
            help="Be only a part of a server: collector, api, worker, or two with a comma.",
        ),
    ] = ""


@expand_option_groups
def up(options: UpOptions, as_json: AsJson = False) -> None:
    """Collect events, sync sources by their schedules, and serve the API, on one port.

    Without a login, only programs on this machine can use it. Before others can reach it, a user
    has to be added. SIGTERM archives everything and stops.
    """
    with show.require_extra("collect,control"):
        from eventlake.server.context import Address
        from eventlake.server.parts import parse_parts
        from eventlake.server.up import UpSettings, run_server
    address = Address(options.host, options.public_url)
    settings = UpSettings(
        options.database,
        options.lake,
        address,
        options.port,
        options.spool,
        parts=parse_parts(options.only),
    )
    run_server(settings, lambda started: show.print_result(started, as_json, _print_started))


def _print_started(started: "Started") -> None:
    show.print_line(f"listening on {started.url}")
    if started.setup_link:
        show.print_line(f"make the first admin within 15 minutes: {started.setup_link}")
