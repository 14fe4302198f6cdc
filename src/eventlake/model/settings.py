"""The settings of sources, validated when they are created."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from eventlake.errors import InvalidSettings
from eventlake.model.durations import parse_duration
from eventlake.model.layout import DatePartition
from eventlake.model.naming import Naming, database_name, snake_case
from eventlake.model.validation import explain_errors
from eventlake.model.values import FrozenModel

M = TypeVar("M", bound=FrozenModel)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9_]{0,63}", re.ASCII)

RESERVED = {
    "system": "DuckDB reserves",
    "temp": "DuckDB reserves",
    "pg_catalog": "DuckDB reserves",
    "information_schema": "DuckDB and Athena reserve",
    "global_temp": "Spark reserves",
    "spark_catalog": "Spark reserves",
}
"""Database names that engines reserve."""

NO_WORKSPACE = "default"
"""The workspace in reports if none is set."""

SEGMENT_NAMES = {"glue_database": "database", "partition_by_slug_name": "partition_by_slug"}
"""Segment's names of a source's settings, in snake case, where ours are others."""


class Compression(StrEnum):
    """The compression of Parquet files."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"


class NewTables(StrEnum):
    """What happens to events of tables that a source does not have yet."""

    LAND = "land"
    SKIP = "skip"


class SourceSettings(FrozenModel):
    """The settings of one source."""

    source: Annotated[str, Field(description="The source's slug")]
    source_id: Annotated[str, Field(description="The source's id; by default the slug")] = ""
    workspace: Annotated[str, Field(description="The workspace's id in reports")] = NO_WORKSPACE
    date_partition: Annotated[
        DatePartition, Field(description="How tables are partitioned by the hour of receipt")
    ] = DatePartition.DAY_HOUR
    naming: Annotated[Naming, Field(description="How tables, properties and traits are named")] = (
        Naming.SEGMENT
    )
    column_naming: Annotated[
        Naming | None,
        Field(description="How properties and traits are named, if not by the naming"),
    ] = None
    database: Annotated[
        str, Field(description="The catalog database; by default named after the slug")
    ] = ""
    table_prefix: Annotated[str, Field(description="A prefix for table names in the catalog")] = ""
    partition_by_slug: Annotated[
        bool, Field(description="Use the slug instead of the source's id in paths")
    ] = False
    data_folder: Annotated[
        str,
        Field(description="The folder with a folder of tables per source; by default the lake's"),
    ] = ""
    dedup_days: Annotated[
        int,
        Field(
            ge=0,
            le=3650,
            description="Events with the same id are duplicates within this many days",
        ),
    ] = 7
    skip_events: Annotated[
        tuple[str, ...], Field(description="Events or tables that are counted but not stored")
    ] = ()
    new_tables: Annotated[
        NewTables,
        Field(description="Whether events of tables that the source does not have yet land"),
    ] = NewTables.LAND
    land_events: Annotated[
        tuple[str, ...],
        Field(
            description="Events or tables that land although they are new and new_tables is skip"
        ),
    ] = ()
    max_columns: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="The maximum number of columns of a table; other values are rescued",
        ),
    ] = 2000
    compression: Annotated[
        Compression, Field(description="The compression of the tables' Parquet files")
    ] = Compression.ZSTD
    compact_after: Annotated[
        str,
        Field(
            description="Merge small files after each load, in partitions whose newest event is "
            "older than this, such as 2h; off by default"
        ),
    ] = ""
    ledger_folder: str = ""
    """Where ledger, reports and quarantine stay when a replay moves the tables to another folder;
    empty if all are in the folder of the same name. Users do not set it."""
    _notes: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _fill_defaults(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Accept Segment's names, and fill in what follows from the slug."""
        if not isinstance(values, dict):
            return handler(values)
        values = translate_names(values, SEGMENT_NAMES)
        slug = str(values.get("source") or "")
        derived = {"source_id": slug, "database": database_name(slug)}
        missing = {name: value for name, value in derived.items() if not values.get(name)}
        settings = handler({**values, **missing})
        settings.model_fields_set.difference_update(missing.keys() - values.keys())
        return settings

    @model_validator(mode="wrap")
    @classmethod
    def _note_prefix(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        settings = handler(values)
        prefix = values.get("table_prefix") if isinstance(values, dict) else None
        if prefix and prefix != settings.table_prefix:
            note = f"table_prefix {prefix!r} became {settings.table_prefix!r}, as in table names"
            settings._notes = (note,)
        return settings

    @field_validator("table_prefix")
    @classmethod
    def _snake_case_prefix(cls, value: str) -> str:
        prefix = snake_case(value.lower())  # `iOS` is one word here
        if value and not prefix:
            raise ValueError("it needs a letter or digit (a-z, 0-9)")
        return prefix

    @field_validator("source", "source_id", "workspace")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("letters, digits, '.', '_' and '-', beginning with a letter or digit")
        return value

    @field_validator("database", "table_prefix")
    @classmethod
    def _check_catalog_name(cls, value: str) -> str:
        if value and not _WORD.fullmatch(value):
            raise ValueError("lower-case letters, digits and '_', at most 64")
        return value

    @field_validator("database")
    @classmethod
    def _check_reserved(cls, value: str) -> str:
        if value in RESERVED:
            raise ValueError(f"{RESERVED[value]} this name; choose another (--database)")
        return value

    @field_validator("skip_events", "land_events")
    @classmethod
    def _drop_empty_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(filter(None, value))  # so that `--skip-event ''` empties the list

    @field_validator("compact_after")
    @classmethod
    def _check_duration(cls, value: str) -> str:
        if value in ("", "off"):
            return ""
        parse_duration(value)
        return value

    @field_validator("data_folder")
    @classmethod
    def _check_path(cls, value: str) -> str:
        if value and not all(map(_NAME.fullmatch, value.split("/"))):
            raise ValueError("a path in the lake such as 'segment-data-lake/data'")
        return value

    @property
    def columns(self) -> Naming:
        """The naming of columns."""
        return self.column_naming or self.naming

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about values that were changed when they were entered."""
        return self._notes

    def with_notes(self, notes: tuple[str, ...]) -> "SourceSettings":
        """These settings with further notes."""
        settings = self.model_copy()
        settings._notes = (*self._notes, *notes)
        return settings

    @property
    def table_folder(self) -> str:
        """The name of the folder that has the source's tables."""
        return self.source if self.partition_by_slug else self.source_id

    @property
    def folder(self) -> str:
        """The source's folder name in all other paths of the lake."""
        return self.ledger_folder or self.table_folder

    def with_folder(self, folder: str) -> "SourceSettings":
        """These settings for a source whose ledger is in `folder`, wherever its tables are."""
        kept = "" if folder == self.table_folder else folder
        return self.model_copy(update={"ledger_folder": kept})

    @property
    def given(self) -> dict[str, Any]:
        """The settings that were set explicitly, even to a default, without the source."""
        names = self.model_fields_set - {"source"}
        return {name: getattr(self, name) for name in names}

    def of_workspace(self, workspace: str) -> "SourceSettings":
        """These settings with the lake's workspace, unless the source has its own."""
        if self.workspace != NO_WORKSPACE or not workspace:
            return self
        return self.model_copy(update={"workspace": workspace})


FIXED = ("date_partition", "naming", "column_naming", "data_folder", "partition_by_slug")
"""Settings that cannot change while the source has tables."""


class SettingChange(FrozenModel):
    """A setting that differs from the source's last load; both values as in JSON."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name} changed from {self.before!r} to {self.after!r}"


def list_changes(before: SourceSettings | None, now: SourceSettings) -> tuple[SettingChange, ...]:
    """List the settings that changed since the last load; none at the first one."""
    if before is None:
        return ()
    old, new = (settings.model_dump(mode="json") for settings in (before, now))
    return tuple(
        SettingChange(name=name, before=old[name], after=new[name])
        for name in old
        if old[name] != new[name]
    )


def rebuild_command(source: str, name: str, value: object, *, is_connected: bool = False) -> str:
    """The command that rebuilds a source with another value of a fixed setting.

    A source of a workspace is connected: its connection gets the setting too.
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    command = f"replays add {source}" if is_connected else f"replay --source {source}"
    return f"`eventlake {command} --all --set {name}={text}`"


def source_settings(**values: object) -> SourceSettings:
    """Validate a source's settings; None means the default.

    Raises InvalidSettings with each wrong setting and what is allowed.
    """
    return validate_settings(SourceSettings, {k: v for k, v in values.items() if v is not None})


def translate_names(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return settings under our names: `dedupDays` is `dedup_days`, others are renamed by `names`.

    Raises `InvalidSettings` for a setting that is given under two names.
    """
    translated: dict[str, Any] = {}
    for name, value in values.items():
        snake = snake_case(name) or name
        ours = names.get(snake, snake)
        if ours in translated:
            raise InvalidSettings(
                f"{ours} is given twice, also as {name}: leave one of the two out"
            )
        translated[ours] = value
    return translated


def validate_settings(model: type[M], values: Mapping[str, object]) -> M:
    """The settings; raises InvalidSettings with each wrong one and what is allowed."""
    try:
        return model.model_validate(values)
    except ValidationError as problem:
        raise InvalidSettings(explain_errors(problem.errors(), model)) from problem
