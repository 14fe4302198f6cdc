"""The options that commands share."""

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from pydantic.fields import FieldInfo

from eventlake.lakes import describe_addresses
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel
from eventlake.sample.spec import SampleSpec

if TYPE_CHECKING:
    from eventlake.collect.settings import CollectorSettings, ServedSource
    from eventlake.stores import Store

DEFAULT_LAKE = "lake"
WRITE_KEY = "EVENTLAKE_WRITE_KEY"
"""The environment variable of write keys."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before changing.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress and tables.")]
LakeRoot = Annotated[
    str,
    typer.Option(help=f"The lake: a folder, {describe_addresses()}, or a file of lake settings."),
]
SparkMaster = Annotated[str, typer.Option(help="The Spark master of local runs.")]
Source = Annotated[str, typer.Option(help="The source's slug or id.")]


Suppress = Annotated[
    Path | None,
    typer.Option(
        help="A file of user ids, one a line, to add to the lake's suppression list.",
        exists=True,
        dir_okay=False,
    ),
]


class ModelOptions:
    """Options for the settings of a model; `values` has those that the user has set."""

    model: ClassVar[type[FrozenModel]]

    def __init__(self, **options: object) -> None:
        self.values = {name: value for name, value in options.items() if value not in (None, [])}


class SourceOptions(ModelOptions):
    """The settings of a source."""

    model = SourceSettings
    is_source_required: ClassVar[bool] = True

    @property
    def source(self) -> str:
        return str(self.values["source"])

    @property
    def changes(self) -> dict[str, object]:
        """The settings other than the source itself."""
        return {name: value for name, value in self.values.items() if name != "source"}


class OptionalSource(SourceOptions):
    """The settings of a source that may also be named by an argument."""

    is_source_required = False


class SampleOptions(ModelOptions):
    """The content of a sample; equal options give identical files."""

    model = SampleSpec


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: typer sees each of their fields as an option.

    The returned function builds the groups from the options and calls the command.
    """
    signature = inspect.signature(command).parameters.values()
    groups = {p.name: _group_parameters(p.annotation) for p in signature}

    @wraps(command)
    def wrapper(**options: Any) -> None:
        for p in signature:
            if group := groups[p.name]:
                own = {member.name: options.pop(member.name) for member in group}
                options[p.name] = p.annotation(**own)
        command(**options)

    expanded: list[inspect.Parameter] = []
    for p in signature:
        expanded += groups[p.name] or [p.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    wrapper.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {}
    return wrapper


def _group_parameters(group: Any) -> list[inspect.Parameter]:
    """The options of a group; empty if it is not one."""
    if is_dataclass(group):
        return [_make_parameter(field.name, field.type, field.default) for field in fields(group)]
    if isinstance(group, type) and issubclass(group, ModelOptions):
        return [
            _setting_parameter(
                name, field, field.is_required() and getattr(group, "is_source_required", True)
            )
            for name, field in group.model.model_fields.items()
            if field.description
        ]
    return []


def _setting_parameter(name: str, field: FieldInfo, is_required: bool) -> inspect.Parameter:
    """An option that is None unless the user sets it; a list is an option that may be repeated."""
    kind: Any = field.annotation
    flag, text, metavar = name, field.description, None
    if kind == tuple[str, ...]:
        kind, flag, text = list[str], name.removesuffix("s"), f"{text}; may be repeated"
        metavar = flag.rpartition("_")[2].upper()
    shown = f"  [default: {field.default}]" if field.default and not field.is_required() else ""
    option = typer.Option(f"--{flag.replace('_', '-')}", help=f"{text}.{shown}", metavar=metavar)
    if is_required:
        return _make_parameter(name, Annotated[kind, option], MISSING)
    return _make_parameter(name, Annotated[kind | None, option], None)


def _make_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


@dataclass(frozen=True)
class RunOptions:
    """How a load runs, and its output."""

    lake: LakeRoot = DEFAULT_LAKE
    suppress: Suppress = None
    master: SparkMaster = "local[*]"
    temporary_cluster: Annotated[
        bool,
        typer.Option("--temporary-cluster", help="Run on a cluster that is created for the run."),
    ] = False
    dry_run: DryRun = False
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
            help="A file of user ids, one a line, whose events are dropped as well as those of the "
            "lake's suppression list; may be repeated.",
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
