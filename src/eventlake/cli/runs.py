"""Commands of the control plane: runs, replays, erasures."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from eventlake.cli import show
from eventlake.cli.control import (
    ControlOptions,
    SetOptions,
    Slug,
    parse_settings,
    print_runs,
)
from eventlake.cli.failures import FAILED, FINISHED, PARTIAL
from eventlake.cli.options import DryRun, Yes, expand_option_groups
from eventlake.errors import InvalidSettings

if TYPE_CHECKING:
    from eventlake.client import Client

WAIT_SECONDS = 20
OTHER_COMMANDS = {"forget": "eventlake erasures add", "replay": "eventlake replays add"}
"""The commands of the kinds that `runs start` does not start."""
NOT_BEGUN = ("queued", "waiting")
EXIT_CODES = {"failed": FAILED, "cancelled": FAILED, "partial": PARTIAL}

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Start and cancel runs.")
replays_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Replay events in chunks."
)
erasures_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Forget users.")

RunId = Annotated[int, typer.Argument(metavar="RUN", help="The run's number.")]
ReplayId = Annotated[int, typer.Argument(metavar="REPLAY", help="The replay's number.")]
ErasureId = Annotated[int, typer.Argument(metavar="ERASURE", help="The erasure's number.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and exit with the result.")]


def start(options: ControlOptions, body: Mapping[str, Any], *, wait: bool) -> NoReturn:
    """Start a run, follow it if `wait`, print it, and exit with its result.

    Without a server that would execute it, the run stays queued: says so and does not wait.
    """
    with options.open() as client:
        run = client.ask("POST", "/runs", body)
        while wait and not run["ended_at"] and not _is_stuck(client, run):
            run = client.ask("GET", f"/runs/{run['id']}?wait={WAIT_SECONDS}")
        is_stuck = _is_stuck(client, run)
    options.print(run, _print_plan if run["plan"] else _print_run)
    if is_stuck:
        _warn_of_no_server(options)
    raise typer.Exit(FAILED if wait and is_stuck else EXIT_CODES.get(run["state"], FINISHED))


def request_work(
    options: ControlOptions, path: str, body: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """Ask for something that a server then does; return the answer. Warns if no server runs."""
    with options.open() as client:
        answer: Mapping[str, Any] = client.ask("POST", path, body)
        has_worker = _has_worker(client)
    if not has_worker:
        _warn_of_no_server(options)
    return answer


def _warn_of_no_server(options: ControlOptions) -> None:
    show.print_stderr(f"no server runs on {options.place}: start `eventlake up`")


def _is_stuck(client: "Client", run: Mapping[str, Any]) -> bool:
    """Whether a run has not begun and no server with a worker is alive."""
    return run["state"] in NOT_BEGUN and not _has_worker(client)


def _has_worker(client: "Client") -> bool:
    """Whether a server that executes runs is alive."""
    replicas = client.ask("GET", "/replicas")["items"]
    return any(one["is_alive"] and "worker" in one["parts"] for one in replicas)


@dataclass(frozen=True)
class StartOptions:
    """What a run does."""

    kind: Annotated[
        str, typer.Option(help="What to do: sync, retype, redrive, compact or verify.")
    ] = "sync"
    parameters: SetOptions = None
    from_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Corrected lines of a redrive, in the form of `eventlake quarantine --json`.",
            dir_okay=False,
            exists=True,
        ),
    ] = None
    dry_run: DryRun = False

    @property
    def body(self) -> dict[str, Any]:
        """The body of a request; raises InvalidSettings for a kind that has its own command."""
        if self.kind in OTHER_COMMANDS:
            raise InvalidSettings(f"--kind is {self.kind}: use `{OTHER_COMMANDS[self.kind]}`")
        values = parse_settings(self.parameters)
        if self.from_file:
            values["corrected"] = _read_text(self.from_file)
        return {"kind": self.kind, "parameters": values, "dry_run": self.dry_run}


@app.command("start")
@expand_option_groups
def start_run(
    options: ControlOptions, source: Slug, what: StartOptions, wait: Wait = False
) -> None:
    """Start a run of a source now: by default a sync.

    Parameters of other kinds are given by --set: table, types (as JSON) and replay of a retype;
    reasons, since and fields of a redrive, or --from-file; older_than of a compaction.
    """
    start(options, {"source": source, **what.body}, wait=wait)


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InvalidSettings(f"--from-file {path}: it is not UTF-8") from None


@app.command("show")
@expand_option_groups
def show_run(
    options: ControlOptions,
    run: RunId,
    wait: Annotated[
        int, typer.Option(min=0, max=60, help="Seconds to wait for the run's end.")
    ] = 0,
) -> None:
    """Show a run."""
    with options.open() as client:
        options.print(client.ask("GET", f"/runs/{run}?wait={wait}"), _print_fields)


@app.command("report")
@expand_option_groups
def show_report(options: ControlOptions, run: RunId) -> None:
    """Show what a run landed, in all and by table."""
    with options.open() as client:
        items = client.ask("GET", f"/runs/{run}/report")["items"]
    names = ("rows", "received", "duplicates", "suppressed", "quarantined", "skipped")
    counts = {name: itemgetter(name) for name in names}
    columns: show.Columns = {"table": lambda one: one["table"] or "(all)", **counts}
    options.print(items, lambda found: show.print_table(columns, found))


@app.command("cancel")
@expand_option_groups
def cancel(options: ControlOptions, run: RunId) -> None:
    """Cancel a run; one that has committed by then finishes all the same."""
    with options.open() as client:
        options.print(client.ask("POST", f"/runs/{run}/cancel"), _print_fields)


@app.command("retry")
@expand_option_groups
def retry(options: ControlOptions, run: RunId) -> None:
    """Run again what failed, was cancelled or is partial, now."""
    options.print(request_work(options, f"/runs/{run}/retry"), _print_run)


@dataclass(frozen=True)
class ReplayOptions:
    """Which events a replay is of, and how it is cut."""

    since: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Replay events received from here.")
    ] = ""
    until: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Replay events received before this.")
    ] = ""
    all_time: Annotated[bool, typer.Option("--all", help="Replay all events, in one run.")] = False
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this event or table; may be repeated."),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the connection that changes, with --all; may be repeated.",
        ),
    ] = None
    chunk: Annotated[str, typer.Option(help="The runs it is cut into: hour, day or none.")] = "day"
    dry_run: DryRun = False

    @property
    def body(self) -> dict[str, Any]:
        """The body of a request; raises InvalidSettings."""
        self._check_window()
        values = asdict(self)
        events, settings = values.pop("event") or [], parse_settings(values.pop("set_"))
        return {**values, "events": events, "settings": settings}

    def _check_window(self) -> None:
        """Raise as the API does, whose names of these options are others."""
        if self.set_ and (not self.all_time or self.event):
            raise InvalidSettings("--set changes all rows: use --all, without --event")
        if self.all_time and (self.since or self.until):
            raise InvalidSettings("--all is all events: leave --from and --to out")
        if not self.all_time and not (self.since and self.until):
            raise InvalidSettings("the time to replay is not set: give --from and --to, or --all")


@replays_app.command("add")
@expand_option_groups
def add_replay(options: ControlOptions, source: Slug, replay: ReplayOptions) -> None:
    """Replay events of a source, in chunks, beside its syncs.

    With --all and --set, all tables are built again with other settings, also those that cannot
    change otherwise. The connection has them when the replay has finished; until then, no sync
    runs.

    With --dry-run only the plan is made: `replays show` shows it, `replays start` starts it.
    """
    made = request_work(options, "/replays", {"source": source, **replay.body})
    options.print(made, _print_fields)


@replays_app.command("list")
@expand_option_groups
def list_replays(options: ControlOptions) -> None:
    """Show the replays, newest first."""
    with options.open() as client:
        found = client.list_all("/replays")
    columns: show.Columns = {
        "replay": lambda one: one["id"],
        "source": lambda one: one["source"],
        "state": lambda one: one["state"],
        "chunks": lambda one: f"{one['chunks_done']} of {one['chunks']}",
        "from": lambda one: one["parameters"]["since"],
        "to": lambda one: one["parameters"]["until"],
        "error": lambda one: one["error"],
    }
    options.print(found, lambda items: show.print_table(columns, items))


@replays_app.command("show")
@expand_option_groups
def show_replay(options: ControlOptions, replay: ReplayId) -> None:
    """Show a replay, with its plan and its progress."""
    with options.open() as client:
        options.print(client.ask("GET", f"/replays/{replay}"), _print_fields)


@replays_app.command("start")
@expand_option_groups
def start_replay(options: ControlOptions, replay: ReplayId) -> None:
    """Start a replay that was planned."""
    options.print(request_work(options, f"/replays/{replay}/start"), _print_fields)


@replays_app.command("cancel")
@expand_option_groups
def cancel_replay(options: ControlOptions, replay: ReplayId) -> None:
    """Cancel a replay. Chunks that have committed stay."""
    with options.open() as client:
        options.print(client.ask("POST", f"/replays/{replay}/cancel"), _print_fields)


@replays_app.command("resume")
@expand_option_groups
def resume_replay(options: ControlOptions, replay: ReplayId) -> None:
    """Continue a cancelled or failed replay with the chunks that are missing."""
    options.print(request_work(options, f"/replays/{replay}/resume"), _print_fields)


@dataclass(frozen=True)
class ErasureOptions:
    """Where an erasure looks for events, and for whose."""

    lake: Annotated[str, typer.Option(help="The lake.", show_default="the only one")] = ""
    source: Annotated[str, typer.Option(help="A source.", show_default="all of the lake")] = ""
    also: Annotated[
        str, typer.Option(help="anonymous: also the ids that are tied to the users.")
    ] = ""
    dry_run: DryRun = False

    @property
    def body(self) -> dict[str, Any]:
        """The body of a request; raises InvalidSettings."""
        if self.also not in ("", "anonymous"):
            raise InvalidSettings(f"--also is {self.also!r}: the only choice is anonymous")
        values = asdict(self)
        also = values.pop("also")
        return {**values, "also_anonymous": bool(also)}


@erasures_app.command("add")
@expand_option_groups
def add_erasure(
    options: ControlOptions,
    users: Annotated[
        list[str], typer.Argument(metavar="ID", help="User ids, exactly as in events.")
    ],
    erasure: ErasureOptions,
    yes: Yes = False,
) -> None:
    """Remove all events of users, for good."""
    body = {"users": users, **erasure.body}
    if not (yes or erasure.dry_run):
        show.confirm(f"Remove all events of {show.pluralize(len(users), 'user')}, for good?")
    options.print(request_work(options, "/erasures", body), _print_fields)


@erasures_app.command("list")
@expand_option_groups
def list_erasures(options: ControlOptions) -> None:
    """Show the erasures, newest first."""
    with options.open() as client:
        found = client.list_all("/erasures")
    names = ("id", "lake", "state", "removed", "created_at", "error")
    columns: show.Columns = {name: itemgetter(name) for name in names}
    options.print(found, lambda items: show.print_table(columns, items))


@erasures_app.command("show")
@expand_option_groups
def show_erasure(options: ControlOptions, erasure: ErasureId) -> None:
    """Show an erasure."""
    with options.open() as client:
        options.print(client.ask("GET", f"/erasures/{erasure}"), _print_fields)


@erasures_app.command("receipt")
@expand_option_groups
def download_receipt(
    options: ControlOptions,
    erasure: ErasureId,
    out: Annotated[Path | None, typer.Option(help="A file to write it into.")] = None,
) -> None:
    """Show the receipts of an erasure as JSON, or write them into a file."""
    with options.open() as client:
        found = client.ask("GET", f"/erasures/{erasure}/receipt")
    text = json.dumps(found, indent=1, ensure_ascii=False)
    if out is None:
        show.print_line(text)
    else:
        out.write_text(f"{text}\n", "utf-8")


def _print_run(run: Mapping[str, Any]) -> None:
    """Print a run, its whole error below the table: the end of an error says what to do."""
    print_runs([{**run, "error": ""}])
    if run["error"]:
        show.print_line(f"error: {show.escape_unprintable(run['error'])}")


def _print_plan(run: Mapping[str, Any]) -> None:
    _print_fields(run["plan"])


def _print_fields(value: Mapping[str, Any]) -> None:
    for name, one in value.items():
        if one not in (None, "", [], {}):
            shown = json.dumps(one, ensure_ascii=False) if isinstance(one, list | dict) else one
            show.print_line(f"{name}: {show.escape_unprintable(str(shown))}")
