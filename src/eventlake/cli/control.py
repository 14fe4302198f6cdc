"""Commands of the control plane: sources, lakes, connections, health.

They ask the server at EVENTLAKE_URL with the token in EVENTLAKE_TOKEN, else the control database.
"""

import json
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventlake.cli import show
from eventlake.cli.options import AsJson, expand_option_groups
from eventlake.cli.up import DEFAULT_DATABASE, DatabaseUrl
from eventlake.client import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE
from eventlake.errors import InvalidSettings

if TYPE_CHECKING:
    from eventlake.client import Client

DATABASE_VARIABLE = "EVENTLAKE_DATABASE"

Slug = Annotated[str, typer.Argument(metavar="SOURCE", help="The source's slug or id.")]
SetOptions = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; lists as JSON; may be repeated."),
]

source_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Manage sources.")
lake_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Manage lakes.")


@dataclass(frozen=True)
class ControlOptions:
    """Which control plane, and the output."""

    database: DatabaseUrl = DEFAULT_DATABASE
    as_json: AsJson = False

    @contextmanager
    def open(self, *, create: bool = False) -> "Iterator[Client]":
        """A client of the server at EVENTLAKE_URL, else of the database.

        Only commands that prepare the first start of a server `create` a database that is missing:
        for others, its path is wrong.
        """
        with show.require_extra("control"):
            from eventlake.server.client import open_client
        url, token = (os.environ.get(name, "") for name in (URL_VARIABLE, TOKEN_VARIABLE))
        with open_client(self.database, url, token, create=create) as client:
            yield client

    @property
    def place(self) -> str:
        """The server or the database that is asked, without a password."""
        url = os.environ.get(URL_VARIABLE) or self.database
        return re.sub(r"(?<=://)[^/]*@", "", url)

    def print(self, value: Any, print_text: Callable[[Any], None]) -> None:
        show.print_result(value, self.as_json, print_text)


def make_options(as_json: bool) -> ControlOptions:
    """Options for a command that has no option for the database."""
    return ControlOptions(os.environ.get(DATABASE_VARIABLE, DEFAULT_DATABASE), as_json)


@source_app.command("add")
@expand_option_groups
def add_source(
    options: ControlOptions,
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="The source's slug.")],
    lake: Annotated[
        str | None,
        typer.Option(help="Connect it to this lake.", show_default="the lake, if there is one"),
    ] = None,
    write_key: Annotated[str, typer.Option(help="A write key.", show_default="a random one")] = "",
) -> None:
    """Add a source, and connect it to a lake.

    Its events are accepted within a second. `eventlake enable` begins its syncs.
    """
    with options.open() as client:
        lakes = [one["slug"] for one in client.list_all("/lakes")]
        if lake is None:
            lake = lakes[0] if len(lakes) == 1 else ""
        body = {"slug": slug, "write_key": write_key, "lake": lake}
        source = client.ask("POST", "/sources", body)
        url = os.environ.get(URL_VARIABLE) or _find_server(client)
    options.print({**source, "lake": lake or None}, lambda one: _print_source(one, url))


def _find_server(client: "Client") -> str:
    """The URL of the server that runs on the database, else the one of `up` by default."""
    is_alive = any(one["is_alive"] for one in client.ask("GET", "/replicas")["items"])
    return (is_alive and client.ask("GET", "/workspace")["url"]) or DEFAULT_URL


@source_app.command("list")
@expand_option_groups
def list_sources(options: ControlOptions) -> None:
    """Show the sources and their write keys."""
    with options.open() as client:
        sources = client.list_all("/sources")
        accepting = {one["source"] for one in client.list_all("/health") if one["accepts_events"]}
    columns: show.Columns = {
        "source": itemgetter("slug"),
        "id": itemgetter("id"),
        "accepts events": lambda one: "yes" if one["slug"] in accepting else "no",
        "write keys": lambda one: " ".join(one["write_keys"]),
    }
    options.print(sources, lambda found: show.print_table(columns, found))


@lake_app.command("add")
@expand_option_groups
def add_lake(
    options: ControlOptions,
    slug: Annotated[str, typer.Argument(metavar="NAME", help="The lake's name.")],
    kind: Annotated[
        str, typer.Option(help="The kind of lake, such as local; docs/settings.md has all.")
    ],
    settings: SetOptions = None,
) -> None:
    """Add a lake.

    A secret is a setting too: it is sealed in the database, or a reference such as env:NAME.
    """
    with options.open(create=True) as client:
        body = {"slug": slug, "kind": kind, "settings": parse_settings(settings)}
        lake = client.ask("POST", "/lakes", body)
    options.print(lake, lambda one: show.print_line(f"added the lake {one['slug']}"))


@lake_app.command("set")
@expand_option_groups
def change_lake(
    options: ControlOptions,
    slug: Annotated[str, typer.Argument(metavar="NAME", help="The lake's name.")],
    settings: SetOptions = None,
) -> None:
    """Change settings or secrets of a lake. An empty value sets the default again."""
    values = {name: value or None for name, value in parse_settings(settings).items()}
    with options.open() as client:
        lake = client.change("PATCH", f"/lakes/{quote_url(slug)}", {"settings": values})
    options.print(lake, lambda one: show.print_line(f"changed the lake {one['slug']}"))


@lake_app.command("list")
@expand_option_groups
def list_lakes(options: ControlOptions) -> None:
    """Show the lakes, without their secrets."""
    with options.open() as client:
        lakes = client.list_all("/lakes")
    columns: show.Columns = {
        "lake": itemgetter("slug"),
        "kind": itemgetter("kind"),
        "settings": lambda one: " ".join(f"{k}={v}" for k, v in one["settings"].items()),
    }
    options.print(lakes, lambda found: show.print_table(columns, found))


@expand_option_groups
def connect(
    options: ControlOptions,
    source: Slug,
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="The lake's name.")],
    copy_from: Annotated[str, typer.Option(help="A source whose settings are copied.")] = "",
    settings: SetOptions = None,
) -> None:
    """Connect a source to a lake."""
    with options.open() as client:
        body = {"source": source, "lake": lake, "settings": parse_settings(settings)}
        path = "/connections" + (f"?copy_from={quote_url(copy_from)}" if copy_from else "")
        made = client.ask("POST", path, body)
    options.print(made, lambda one: show.print_line(f"connected {one['source']} to {one['lake']}"))


@expand_option_groups
def history(
    options: ControlOptions,
    source: Slug,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many runs.")] = 20,
) -> None:
    """Show the last runs of a source, newest first."""
    with options.open() as client:
        runs = client.ask("GET", f"/runs?source={quote_url(source)}&limit={limit}")["items"]
    options.print(runs, print_runs)


@expand_option_groups
def health(options: ControlOptions) -> None:
    """Show for each source whether it is synced, and how its last run went."""
    with options.open() as client:
        sources = client.list_all("/health")
    columns: show.Columns = {
        "source": itemgetter("source"),
        "lake": lambda one: one["lake"] or "not connected",
        "accepts events": lambda one: "yes" if one["accepts_events"] else "no",
        "next sync": lambda one: one["next_sync"] or ("on request" if one["syncs"] else "disabled"),
        "last run": lambda one: one["last_state"] or "none",
        "error": lambda one: shorten_error(one["last_error"] or "", one["last_run"]),
    }
    options.print(sources, lambda found: show.print_table(columns, found))


def quote_url(name: str) -> str:
    """A name as one segment of a URL."""
    return urllib.parse.quote(name, safe="")


def parse_settings(words: Sequence[str] | None) -> dict[str, Any]:
    """The settings of words such as `date_partition=day`; raises InvalidSettings for others."""
    found: dict[str, Any] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise InvalidSettings(f"--set is {word!r}: give NAME=VALUE")
        try:
            found[name] = json.loads(value) if value.startswith(("[", "{")) else value
        except ValueError:
            raise InvalidSettings(f"--set {name} is not valid JSON: {value}") from None
    return found


def print_runs(runs: Sequence[Mapping[str, Any]]) -> None:
    """Print runs as a table."""
    columns: show.Columns = {
        "run": itemgetter("id"),
        "kind": lambda one: one["kind"] + (" (plan)" if one["dry_run"] else ""),
        "state": itemgetter("state"),
        "trigger": itemgetter("trigger"),
        "created": itemgetter("created_at"),
        "ended": lambda one: one["ended_at"] or "",
        "error": lambda one: shorten_error(one["error"], one["id"]),
    }
    show.print_table(columns, runs)


def shorten_error(error: str, run: int | None) -> str:
    """An error that fits into a table, with the command that shows the whole."""
    if len(error) <= show.MAX_CELL_CHARS:
        return error
    hint = f"… see eventlake runs show {run}"
    return error[: show.MAX_CELL_CHARS - len(hint)] + hint


def _print_source(source: Mapping[str, Any], url: str) -> None:
    key = source["write_keys"][0]
    show.print_line(f"added the source {source['slug']} with the id {source['id']}")
    show.print_line(f"write key: {key}")
    if not source["lake"]:
        show.print_line(f"connect it: eventlake connect {quote(source['slug'])} LAKE")
        return
    event = '{"userId":"u1","event":"Hello"}'
    show.print_line(f"connected to the lake {source['lake']}")
    show.print_line(f"try: curl -u {quote(f'{key}:')} -d '{event}' {url.rstrip('/')}/v1/track")
