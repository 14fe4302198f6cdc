"""The options that commands share."""

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventlake.lakes import describe_addresses
from eventlake.model.layout import DatePartition
from eventlake.model.naming import Naming

if TYPE_CHECKING:
    from eventlake.collect.settings import CollectorSettings, ServedSource
    from eventlake.model.settings import SourceSettings
    from eventlake.sample import SampleSpec
    from eventlake.stores import Store

DEFAULT_LAKE = "lake"
WRITE_KEY = "EVENTLAKE_WRITE_KEY"
"""The environment variable of write keys."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress and tables.")]
LakeRoot = Annotated[
    str,
    typer.Option(help=f"The lake: a folder, {describe_addresses()}, or a file of lake settings."),
]
Source = Annotated[str, typer.Option(help="The source's slug or id.")]


Suppress = Annotated[
    Path | None,
    typer.Option(
        help="A file of user ids, one a line, whose events are dropped.",
        exists=True,
        dir_okay=False,
    ),
]


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses: typer sees each of their fields as an option.

    The returned function builds the dataclasses from the options and calls the command.
    """
    parameters = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {
        p.name: p.annotation for p in parameters if is_dataclass(p.annotation)
    }

    @wraps(command)
    def wrapper(**options: Any) -> None:
        values = {
            name: group(**{field.name: options.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**options, **values)

    expanded: list[inspect.Parameter] = []
    for p in parameters:
        if p.name in groups:
            expanded += map(_make_parameter, fields(p.annotation))
        else:
            expanded.append(p.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    wrapper.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {}
    return wrapper


def _make_parameter(field: "Field[Any]") -> inspect.Parameter:
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.default is MISSING else field.default,
        annotation=field.type,
    )


@dataclass(frozen=True)
class SourceOptions:
    """The settings of a source, with the same defaults as `SourceSettings`."""

    source: Annotated[str, typer.Option(help="The source's slug.")]
    source_id: Annotated[
        str | None, typer.Option(help="The source's id.", show_default="the slug")
    ] = None
    workspace: Annotated[str, typer.Option(help="The workspace's id.")] = "default"
    date_partition: Annotated[DatePartition, typer.Option(help="How tables are partitioned.")] = (
        DatePartition.DAY_HOUR
    )
    naming: Annotated[Naming, typer.Option(help="How tables and columns are named.")] = (
        Naming.SEGMENT
    )
    database: Annotated[
        str | None, typer.Option(help="The catalog database.", show_default="from the slug")
    ] = None
    table_prefix: Annotated[
        str | None, typer.Option(help="A prefix of every table's name; a `_` is added.")
    ] = None
    partition_by_slug: Annotated[
        bool, typer.Option("--partition-by-slug", help="Use the slug, not the id, in paths.")
    ] = False
    dedup_days: Annotated[
        int,
        typer.Option(help="Days before and after an event in which its message id counts once."),
    ] = 7
    skip_event: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EVENT", help="An event to skip: it is counted, not stored; may be repeated."
        ),
    ] = None
    max_columns: Annotated[
        int, typer.Option(help="Columns a table may have before values are rescued.")
    ] = 2000

    def settings(self) -> "SourceSettings":
        """Return the settings; raises `InvalidSettings` that names a wrong one."""
        from eventlake.model.settings import source_settings

        return source_settings(**self.values())

    def values(self) -> dict[str, object]:
        """Return the options by the names of the settings."""
        options = asdict(self)
        skipped = options.pop("skip_event")
        return {**options, "skip_events": tuple(skipped or ())}

    def changes(self, context: typer.Context) -> dict[str, object]:
        """Return only the options that the user has set, by the names of the settings."""
        names = {name for name in context.params if _is_set(context, name)} - {"source"}
        names = {"skip_events" if name == "skip_event" else name for name in names}
        return {name: value for name, value in self.values().items() if name in names}


def _is_set(context: typer.Context, name: str) -> bool:
    origin = context.get_parameter_source(name)
    return origin is not None and origin.name != "DEFAULT"


@dataclass(frozen=True)
class RunOptions:
    """How a load runs, and its output."""

    lake: LakeRoot = DEFAULT_LAKE
    suppress: Suppress = None
    master: Annotated[str, typer.Option(help="The Spark master of local runs.")] = "local[*]"
    temporary_cluster: Annotated[
        bool,
        typer.Option("--temporary-cluster", help="Run on a cluster that is created for the run."),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")
    ] = False
    as_json: AsJson = False
    quiet: Quiet = False

    def suppressed(self) -> list[str]:
        """Return the user ids of the suppression file, sorted."""
        if self.suppress is None:
            return []
        from eventlake.suppression import read_suppressed_users

        return sorted(read_suppressed_users(self.suppress))


@dataclass(frozen=True)
class CollectOptions:
    """Where a collector listens and when it seals."""

    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for a free one.")
    ] = 8400
    write_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[SOURCE:]KEY",
            help=f"A key that clients send; may be repeated. Also one a line in {WRITE_KEY}.",
            show_default="generated at the first start and stored with the spool",
        ),
    ] = None
    source_id: Annotated[
        list[str] | None,
        typer.Option(metavar="[SOURCE:]ID", help="A source's id.", show_default="the slug"),
    ] = None
    suppress: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[SOURCE:]FILE",
            help="A file of user ids, one a line, whose events are dropped; may be repeated.",
        ),
    ] = None
    spool: Annotated[
        Path | None, typer.Option(help="A local folder for the spool.", show_default="in the lake")
    ] = None
    seal_mb: Annotated[
        float,
        typer.Option(min=0.001, max=1024, help="Megabytes after which the spool is archived."),
    ] = 64.0
    seal_seconds: Annotated[
        float,
        typer.Option(min=0.1, max=86400, help="Seconds after which the spool is archived."),
    ] = 60.0

    def collector_settings(self, lake: str) -> "CollectorSettings":
        """Return the settings of all sources; creates a lake on disk that does not exist.

        Raises `InvalidSettings` for a wrong option.
        """
        from eventlake.collect.limits import Limits
        from eventlake.collect.settings import CollectorSettings
        from eventlake.errors import InvalidSettings
        from eventlake.lakes import open_store
        from eventlake.stores import Disk

        store = open_store(lake, make=True)
        if self.spool is None and not isinstance(store, Disk):
            raise InvalidSettings(
                f"spool is not set: {store.root} is not a local folder, and events are "
                "acknowledged when they are on disk; name a local folder with --spool"
            )
        limits = Limits(int(self.seal_mb * (1 << 20)), self.seal_seconds)
        return CollectorSettings(store, self.host, self.port, self.spool, limits)

    def served_sources(self, store: "Store", names: list[str]) -> "list[ServedSource]":
        """Return the sources to serve, each with its own keys and suppression files.

        Raises `InvalidSettings` for a wrong option, and for a source that is named twice.
        """
        from eventlake.collect.settings import ServedSource
        from eventlake.errors import InvalidSettings
        from eventlake.ledger import resolve_source
        from eventlake.model.layout import DEFAULT_LAYOUT

        served = list[ServedSource]()
        for name in names:
            ids = _values_of_source(self.source_id or [], name, names)
            # The settings of the last load, if it was into a lake of the default layout.
            source_id = ids[-1] if ids else None
            settings = resolve_source(store, DEFAULT_LAYOUT, name, source_id=source_id)
            for other in (one.settings for one in served):
                if settings.folder == other.folder or settings.source == other.source:
                    raise InvalidSettings(
                        f"--source {name} is the source {other.source} with the id "
                        f"{other.source_id}, which is served already: name each source once"
                    )
            keys = tuple(self._keys_of(name, names))
            suppress = tuple(self._suppress_files_of(name, names))
            served.append(ServedSource(settings, keys, suppress))
        return served

    def _keys_of(self, name: str, names: list[str]) -> Iterator[str]:
        from eventlake.collect.keys import validate_write_key

        given = self.write_key
        if given is None:  # one a line: a key may have spaces
            given = [line for line in os.environ.get(WRITE_KEY, "").split("\n") if line]
        for key in _values_of_source(given, name, names):
            validate_write_key(key, "--write-key ([SOURCE:]KEY, with a --source)")
            yield key

    def _suppress_files_of(self, name: str, names: list[str]) -> Iterator[Path]:
        from eventlake.errors import InvalidSettings

        for path in map(Path, _values_of_source(self.suppress or [], name, names)):
            if not path.is_file():
                raise InvalidSettings(f"--suppress is {str(path)!r}: no such file")
            yield path


def _values_of_source(values: list[str], name: str, names: list[str]) -> list[str]:
    """Return the values for one source: those as `name:value`, and those that name no source."""
    others = tuple(f"{other}:" for other in names if other != name)
    return [value.removeprefix(f"{name}:") for value in values if not value.startswith(others)]


@dataclass(frozen=True)
class SampleOptions:
    """The content of a sample; equal options give identical files."""

    events: Annotated[int, typer.Option(help="Number of distinct events.")] = 100_000
    types: Annotated[int, typer.Option(help="Number of event tables.")] = 50
    hours: Annotated[int, typer.Option(help="Number of hours that the events span.")] = 3
    duplicates: Annotated[float, typer.Option(help="Duplicates, as a fraction of the events.")] = (
        0.01
    )
    bad: Annotated[float, typer.Option(help="Invalid lines, as a fraction of the events.")] = 0.0
    seed: Annotated[int, typer.Option(help="The random seed.")] = 7
    files: Annotated[
        int | None, typer.Option(help="Number of files.", show_default="by the events and hours")
    ] = None

    def spec(self) -> "SampleSpec":
        """Return what to generate; raises `InvalidSettings` for a wrong option."""
        from eventlake.errors import InvalidSettings
        from eventlake.sample import SampleSpec

        try:
            return SampleSpec(**asdict(self))
        except ValueError as problem:
            raise InvalidSettings(str(problem)) from problem
