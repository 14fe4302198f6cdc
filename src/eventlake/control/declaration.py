"""The workspace as values that a file can have: by names, without secrets.

What people enter is here: lakes, sources, write keys, connections, schedules, limits, channels and
rules of notices, settings of the workspace. A new section is a field of `Declaration`, a function
in `read_declaration` below, and one in `apply.py`.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from eventlake.control.connections import Connection, list_connections
from eventlake.control.database import Session
from eventlake.control.freshness import Limits, read_facts
from eventlake.control.lakes import SET, RegisteredLake, list_lakes
from eventlake.control.notify.channels import Channel, Kind, list_channels
from eventlake.control.notify.rules import Rule, list_rules
from eventlake.control.preferences import Preferences, ShownPreferences, show_preferences
from eventlake.control.schedule import Schedule
from eventlake.control.schedules import list_schedules
from eventlake.control.sources import Source, list_sources
from eventlake.control.vault import is_reference
from eventlake.errors import InvalidSettings
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
    accepts_events: bool | None = None
    """A new source accepts them unless the file says otherwise."""
    write_keys: tuple[Name, ...] | None = None
    """All keys: others are revoked."""
    lake: Name = ""
    """May be left out of a source that is connected."""
    settings: Json = Field(default_factory=dict)
    """All settings of the connection that are not defaults."""
    schedule: Schedule | None = None
    syncs: bool | None = None
    """Whether the schedule is enabled."""
    limits: Limits | None = None
    """Its own limits of freshness, all of them."""


class DeclaredRule(FrozenModel):
    """Events that a channel gets, of some sources or of all."""

    events: tuple[Name, ...]
    sources: tuple[Name, ...] = ()
    """Their slugs; empty for all."""

    def normalize(self) -> "DeclaredRule":
        """The rule with its words in order, each once, as it is stored."""
        events, sources = sorted(set(self.events)), sorted(set(self.sources))
        return DeclaredRule(events=tuple(events), sources=tuple(sources))


class DeclaredChannel(FrozenModel):
    """A channel of notices: its kind, all settings that are not defaults, and its rules."""

    kind: Kind
    settings: Json = Field(default_factory=dict)
    secrets: dict[str, Name] = Field(default_factory=dict)
    """References such as `env:NAME`, or `set elsewhere` for a secret that stays as it is."""
    rules: tuple[DeclaredRule, ...] | None = None
    """All rules: others are removed. Without any, it gets all problems and recoveries."""


class DeclaredSettings(Preferences):
    """The settings of the workspace; one that is left out has its default."""

    heartbeat_url: Name = ""
    """A reference, or `set elsewhere`; empty if it stays as it is."""

    def to_preferences(self) -> Preferences:
        """The settings without the secret one."""
        return Preferences(**self.model_dump(exclude={"heartbeat_url"}))


class Declaration(FrozenModel):
    """A workspace, or a part of it: what is not in it stays as it is."""

    lakes: dict[Name, DeclaredLake] = Field(default_factory=dict)
    sources: dict[Name, DeclaredSource] = Field(default_factory=dict)
    channels: dict[Name, DeclaredChannel] = Field(default_factory=dict)
    settings: DeclaredSettings | None = None

    def to_values(self) -> Json:
        """As JSON without what is empty, in the order of a file that people read."""
        dumped = self.model_dump(mode="json", exclude_none=True, exclude={"settings"})
        values = {
            section: {name: _drop_empty(one) for name, one in objects.items()}
            for section, objects in dumped.items()
        }
        settings = (
            self.settings.model_dump(mode="json", exclude_defaults=True) if self.settings else {}
        )
        return {**values, **({"settings": settings} if settings else {})}


def read_declaration(session: Session) -> Declaration:
    """The whole workspace."""
    connections = {one.source: one for one in list_connections(session)}
    schedules = {
        one.source: (one.schedule, one.enabled_at is not None) for one in list_schedules(session)
    }
    limits = {one.slug: one.limits for one in read_facts(session)}
    sources = {
        one.slug: _declare_source(one, connections.get(one.slug), schedules.get(one.slug))
        for one in list_sources(session)
    }
    rules = list_rules(session)
    return Declaration(
        lakes={one.slug: _declare_lake(one) for one in list_lakes(session)},
        sources={
            slug: one.model_copy(update={"limits": limits[slug]}) for slug, one in sources.items()
        },
        channels={one.name: _declare_channel(one, rules) for one in list_channels(session)},
        settings=_declare_settings(show_preferences(session)),
    )


def check_reference(name: str, secret: str, command: str) -> None:
    """Raise InvalidSettings, without showing it, for a secret that is not a reference."""
    if secret != SET_ELSEWHERE and not is_reference(secret):
        raise InvalidSettings(
            f"{name} is a secret and does not belong in a file: give env:NAME or file:/path, "
            f"or {SET_ELSEWHERE!r} and use `{command}`"
        )


def _declare_lake(lake: RegisteredLake) -> DeclaredLake:
    return DeclaredLake(kind=lake.kind, settings=lake.settings, secrets=_hide(lake.secrets))


def _declare_channel(channel: Channel, rules: Iterable[Rule]) -> DeclaredChannel:
    settings = {name: value for name, value in channel.settings.items() if name != "target"}
    own = (
        DeclaredRule(events=rule.events, sources=rule.sources)
        for rule in rules
        if rule.channel == channel.name
    )
    return DeclaredChannel(
        kind=channel.kind, settings=settings, secrets=_hide(channel.secrets), rules=tuple(own)
    )


def _declare_settings(shown: ShownPreferences) -> DeclaredSettings:
    url = SET_ELSEWHERE if shown.heartbeat_url == SET else shown.heartbeat_url or ""
    return DeclaredSettings(**shown.preferences.model_dump(), heartbeat_url=url)


def _hide(secrets: dict[str, str]) -> dict[str, str]:
    return {name: SET_ELSEWHERE if shown == SET else shown for name, shown in secrets.items()}


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
