"""What a user may set for a source, checked when it is entered."""

import re
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from eventlake.errors import InvalidSettings
from eventlake.model.layout import DatePartition
from eventlake.model.naming import Naming, database_name
from eventlake.model.values import FrozenModel

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
"""Databases that a query could not reach, and who has another use for the name."""

NO_WORKSPACE = "default"
"""What reports call the workspace when nobody says."""


class SourceSettings(FrozenModel):
    """One source of events and how it lands."""

    source: Annotated[str, Field(description="The source's slug")]
    source_id: Annotated[str, Field(description="The source's id; the slug when not given")] = ""
    workspace: Annotated[str, Field(description="The workspace's id, as reports name it")] = (
        NO_WORKSPACE
    )
    date_partition: Annotated[
        DatePartition, Field(description="How tables are partitioned by the hour of receipt")
    ] = DatePartition.DAY_HOUR
    naming: Annotated[Naming, Field(description="How tables, properties and traits are named")] = (
        Naming.WAREHOUSE
    )
    database: Annotated[
        str, Field(description="The catalog database; from the slug when not given")
    ] = ""
    table_prefix: Annotated[str, Field(description="Put before every table's name")] = ""
    partition_by_slug: Annotated[
        bool, Field(description="Use the slug instead of the source's id in paths")
    ] = False
    dedup_days: Annotated[
        int,
        Field(ge=0, le=3650, description="Days either side in which an id counts once"),
    ] = 7
    skip_events: Annotated[
        tuple[str, ...], Field(description="Events, or tables, that are counted and not stored")
    ] = ()
    max_columns: Annotated[
        int,
        Field(ge=1, le=100_000, description="Columns a table may have; more is rescued"),
    ] = 2000

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        slug = str(given.get("source") or "")
        return {
            **given,
            "source_id": given.get("source_id") or slug,
            "database": given.get("database") or database_name(slug),
        }

    @field_validator("source", "source_id", "workspace")
    @classmethod
    def _named(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("letters, digits, '.', '_' and '-', beginning with a letter or digit")
        return value

    @field_validator("database", "table_prefix")
    @classmethod
    def _catalog_word(cls, value: str) -> str:
        if value and not _WORD.fullmatch(value):
            raise ValueError("lower-case letters, digits and '_', at most 64")
        return value

    @field_validator("database")
    @classmethod
    def _free(cls, value: str) -> str:
        if value in RESERVED:
            raise ValueError(f"{RESERVED[value]} this name; choose another (--database)")
        return value

    @property
    def folder(self) -> str:
        """What the lake's paths call this source."""
        return self.source if self.partition_by_slug else self.source_id

    def of_workspace(self, workspace: str) -> "SourceSettings":
        """With the lake's workspace, unless the source has been given one."""
        if self.workspace != NO_WORKSPACE or not workspace:
            return self
        return self.model_copy(update={"workspace": workspace})


FIXED = ("date_partition", "naming", "partition_by_slug")
"""Settings that cannot change while the source has tables."""


def source_settings(**given: object) -> SourceSettings:
    """Settings from what a user gave; a wrong one is named, with what is allowed."""
    try:
        return SourceSettings.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as problem:
        raise InvalidSettings("; ".join(map(explain, problem.errors()))) from problem


def explain(error: Any) -> str:
    """One mistake of a user: which setting, what it was, what is allowed."""
    setting = ".".join(str(part) for part in error["loc"])
    allowed = error["msg"].removeprefix("Value error, ")
    if not setting:  # a rule over several, which names them itself
        return str(allowed)
    if error["type"] == "missing":
        return f"{setting} is missing"
    if error["type"] == "extra_forbidden":
        return f"{setting} is no setting"
    allowed = allowed.replace("Input should be", "it should be", 1)
    allowed = allowed.replace("String should match pattern", "it should match", 1)
    return f"{setting} is {error['input']!r}: {allowed}"
