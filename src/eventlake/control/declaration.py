"""The workspace as values that a file can have: by names, without secrets.

What people enter is here: lakes, sources, write keys, connections, schedules. A new section, such
as channels of notices, is a field of `Declaration`, a function in `read_declaration` below, and one
in `apply.py`.
"""

from typing import Annotated, Any

from pydantic import Field

from eventlake.control.connections import Connection, list_connections
from eventlake.control.database import Session
from eventlake.control.lakes import SET, RegisteredLake, list_lakes
from eventlake.control.schedule import Schedule
from eventlake.control.schedules import list_schedules
from eventlake.control.sources import Source, list_sources
from eventlake.model.values import FrozenModel

SET_ELSEWHERE = "set elsewhere"
"""Stands for a secret that is sealed in the database: nobody can read it."""

Name = Annotated[str, Field(max_length=254)]
Json = dict[str, Any]


class DeclaredLake(FrozenModel):
    """A lake: its kind and all settings that are not defaults."""

    kind: Name
    settings: Json = Field(default_factory=dict)
    secrets: dict[str, Name] = Field(default_factory=dict)
    """References such as `env:NAME`, or `set elsewhere` for a secret that stays as it is."""


class DeclaredSource(FrozenModel):
    """A source with its connection and schedule; what is left out stays as it is."""

    id: Name = ""
    accepts_events: bool = True
    write_keys: tuple[Name, ...] | None = None
    """All keys: others are revoked."""
    lake: Name = ""
    settings: Json = Field(default_factory=dict)
    """All settings of the connection that are not defaults."""
    schedule: Schedule | None = None
    syncs: bool | None = None
    """Whether the schedule is enabled."""


class Declaration(FrozenModel):
    """A workspace, or a part of it: what is not in it stays as it is."""

    lakes: dict[Name, DeclaredLake] = Field(default_factory=dict)
    sources: dict[Name, DeclaredSource] = Field(default_factory=dict)

    def to_values(self) -> Json:
        """As JSON without what is empty, in the order of a file that people read."""
        dumped = self.model_dump(mode="json", exclude_none=True)
        return {
            section: {name: _drop_empty(one) for name, one in objects.items()}
            for section, objects in dumped.items()
        }


def read_declaration(session: Session) -> Declaration:
    """The whole workspace."""
    connections = {one.source: one for one in list_connections(session)}
    schedules = {
        one.source: (one.schedule, one.enabled_at is not None) for one in list_schedules(session)
    }
    return Declaration(
        lakes={one.slug: _declare_lake(one) for one in list_lakes(session)},
        sources={
            one.slug: _declare_source(one, connections.get(one.slug), schedules.get(one.slug))
            for one in list_sources(session)
        },
    )


def _declare_lake(lake: RegisteredLake) -> DeclaredLake:
    secrets = {
        name: SET_ELSEWHERE if shown == SET else shown for name, shown in lake.secrets.items()
    }
    return DeclaredLake(kind=lake.kind, settings=lake.settings, secrets=secrets)


def _declare_source(
    source: Source, connection: Connection | None, schedule: tuple[Schedule, bool] | None
) -> DeclaredSource:
    return DeclaredSource(
        id=source.id,
        accepts_events=source.enabled,
        write_keys=source.write_keys,
        lake=connection.lake if connection else "",
        settings=connection.settings if connection else {},
        schedule=schedule[0] if schedule else None,
        syncs=schedule[1] if schedule else None,
    )


def _drop_empty(values: Json) -> Json:
    """The values without empty texts and tables, and a schedule without its defaults."""
    kept = {name: value for name, value in values.items() if value not in ("", {})}
    if schedule := kept.get("schedule"):
        shown = {name: value for name, value in schedule.items() if value not in ("", 0)}
        if not (schedule["cron"] or schedule["quiet"]):
            shown.pop("zone", None)
        kept["schedule"] = shown if schedule["cron"] else {"every_seconds": 0} | shown
    return kept
