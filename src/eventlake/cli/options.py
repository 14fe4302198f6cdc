"""The options that commands share, and how several become one value."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventlake.model.layout import DatePartition
from eventlake.model.naming import Naming

if TYPE_CHECKING:
    from eventlake.collect.server import Collector
    from eventlake.model.settings import SourceSettings
    from eventlake.sample import SampleSpec

LAKE = "lake"
"""Where the lake is when nobody says."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress and no table.")]
LakeRoot = Annotated[
    str, typer.Option(help="The lake: a folder, s3://bucket, or a file of lake settings.")
]
Source = Annotated[str, typer.Option(help="The source's slug or id.")]


Suppress = Annotated[
    Path | None,
    typer.Option(
        help="A file of user ids, one a line, whose events are not stored.",
        exists=True,
        dir_okay=False,
    ),
]


def gathered(command: Callable[..., None]) -> Callable[..., None]:
    """Show typer the fields of a command's dataclass arguments as options of the command."""
    parameters = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {
        p.name: p.annotation for p in parameters if is_dataclass(p.annotation)
    }

    @wraps(command)
    def called(**given: Any) -> None:
        values = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **values)

    shown = [option for p in parameters for option in _options(p)]
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {}
    return called


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    if is_dataclass(parameter.annotation):
        return [_option(field) for field in fields(parameter.annotation)]
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]


def _option(field: "Field[Any]") -> inspect.Parameter:
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.default is MISSING else field.default,
        annotation=field.type,
    )


@dataclass(frozen=True)
class SourceOptions:
    """The settings of a source; what is not given keeps the settings' own default."""

    source: Annotated[str, typer.Option(help="The source's slug.")]
    source_id: Annotated[
        str | None, typer.Option(help="The source's id.", show_default="the slug")
    ] = None
    workspace: Annotated[str, typer.Option(help="The workspace's id.")] = "default"
    date_partition: Annotated[DatePartition, typer.Option(help="How tables are partitioned.")] = (
        DatePartition.DAY_HOUR
    )
    naming: Annotated[Naming, typer.Option(help="How tables and columns are named.")] = (
        Naming.WAREHOUSE
    )
    database: Annotated[
        str | None, typer.Option(help="The catalog database.", show_default="from the slug")
    ] = None
    table_prefix: Annotated[
        str | None, typer.Option(help="Put before every table's name, with a `_`.")
    ] = None
    partition_by_slug: Annotated[
        bool, typer.Option("--partition-by-slug", help="Use the slug, not the id, in paths.")
    ] = False
    dedup_days: Annotated[
        int, typer.Option(help="Days either side in which one message id counts once.")
    ] = 7
    skip_event: Annotated[
        list[str] | None,
        typer.Option(metavar="EVENT", help="An event to count and not store; may be repeated."),
    ] = None
    max_columns: Annotated[
        int, typer.Option(help="Columns a table may have before values are rescued.")
    ] = 2000

    def settings(self) -> "SourceSettings":
        """The settings, checked; a wrong one is named."""
        from eventlake.model.settings import source_settings

        return source_settings(**self.values())

    def values(self) -> dict[str, object]:
        """The options by the names that the settings have."""
        given = asdict(self)
        skipped = given.pop("skip_event")
        return {**given, "skip_events": tuple(skipped or ())}

    def changes(self, context: typer.Context) -> dict[str, object]:
        """Only what the user said himself; the rest stays as it was."""
        said = {name for name in context.params if _was_said(context, name)}
        said = {"skip_events" if name == "skip_event" else name for name in said - {"source"}}
        return {name: value for name, value in self.values().items() if name in said}


def _was_said(context: typer.Context, name: str) -> bool:
    origin = context.get_parameter_source(name)
    return origin is not None and origin.name != "DEFAULT"


@dataclass(frozen=True)
class RunOptions:
    """How a load runs and what it says."""

    lake: LakeRoot = LAKE
    suppress: Suppress = None
    master: Annotated[str, typer.Option(help="The Spark master of runs that are here.")] = (
        "local[*]"
    )
    temporary_cluster: Annotated[
        bool,
        typer.Option("--temporary-cluster", help="Run on an EMR cluster that is made for it."),
    ] = False
    as_json: AsJson = False
    quiet: Quiet = False

    def suppressed(self) -> list[str]:
        """The user ids of the suppression file."""
        if self.suppress is None:
            return []
        from eventlake.collect.source import people

        return sorted(people(self.suppress))


@dataclass(frozen=True)
class CollectOptions:
    """Where a collector listens and when it seals."""

    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8400
    write_key: Annotated[
        str | None,
        typer.Option(
            envvar="EVENTLAKE_WRITE_KEY",
            help="The key that senders use.",
            show_default="made at the first start and kept beside the spool",
        ),
    ] = None
    source_id: Annotated[
        str | None, typer.Option(help="The source's id.", show_default="the slug")
    ] = None
    suppress: Suppress = None
    spool: Annotated[
        Path | None, typer.Option(help="A local folder for the spool.", show_default="in the lake")
    ] = None
    seal_mb: Annotated[
        float,
        typer.Option(
            min=0.001, max=1024, help="Megabytes after which the spool goes to the archive."
        ),
    ] = 64.0
    seal_seconds: Annotated[
        float,
        typer.Option(min=0.1, max=86400, help="Seconds after which the spool goes to the archive."),
    ] = 60.0

    def collector(self, source: str, lake: str) -> "Collector":
        """All that the server is told, checked."""
        from eventlake.collect.keys import check_key
        from eventlake.collect.limits import Limits
        from eventlake.collect.server import Collector
        from eventlake.collect.source import settings_for
        from eventlake.errors import InvalidSettings
        from eventlake.lakes import open_store
        from eventlake.stores import Disk

        if self.write_key is not None:
            check_key(self.write_key, "--write-key")
        store = open_store(lake, make=True)
        if self.spool is None and not isinstance(store, Disk):
            raise InvalidSettings(
                f"spool is not set: {store.root} is no folder, and an event is acknowledged when "
                "it is on disk; name a local folder with --spool"
            )
        return Collector(
            store=store,
            settings=settings_for(store, source, source_id=self.source_id),
            host=self.host,
            port=self.port,
            write_key=self.write_key,
            suppress=self.suppress,
            spool=self.spool,
            limits=Limits(int(self.seal_mb * (1 << 20)), self.seal_seconds),
        )


@dataclass(frozen=True)
class SampleOptions:
    """What a sample holds; equal options give identical files."""

    events: Annotated[int, typer.Option(help="Distinct events.")] = 100_000
    types: Annotated[int, typer.Option(help="Event tables to expect.")] = 50
    hours: Annotated[int, typer.Option(help="Hours that the events span.")] = 3
    duplicates: Annotated[float, typer.Option(help="Re-sent events, as a fraction.")] = 0.01
    bad: Annotated[float, typer.Option(help="Lines that are no events, as a fraction.")] = 0.0
    seed: Annotated[int, typer.Option(help="Another seed gives other events.")] = 7
    files: Annotated[
        int | None, typer.Option(help="How many files.", show_default="by the events and hours")
    ] = None

    def spec(self) -> "SampleSpec":
        """What to generate, checked."""
        from eventlake.errors import InvalidSettings
        from eventlake.sample import SampleSpec

        try:
            return SampleSpec(**asdict(self))
        except ValueError as problem:
            raise InvalidSettings(str(problem)) from problem
