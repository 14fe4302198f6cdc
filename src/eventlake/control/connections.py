"""Connections: which lake a source's events land in, and with which settings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent, update_version
from eventlake.control.lakes import get_lake
from eventlake.control.schedule import DEFAULT_SCHEDULE
from eventlake.control.sources import Source, get_source
from eventlake.control.tables import connections, lakes, runs, schedules, sources
from eventlake.control.workspace import get_workspace
from eventlake.errors import InvalidSettings, NotFound
from eventlake.model.claims import Claims
from eventlake.model.settings import (
    FIXED,
    SEGMENT_NAMES,
    SourceSettings,
    list_changes,
    rebuild_command,
    source_settings,
    translate_names,
)
from eventlake.model.values import FrozenModel

_OWN_NAMES = ("database", "table_prefix")
"""Settings that two connections cannot share, so that they are not copied."""


class Connection(FrozenModel):
    """A source's connection to a lake."""

    source: str
    lake: str
    """The names of both."""
    settings: dict[str, Any]
    """The settings that were entered."""
    resolved: SourceSettings
    """All settings of the source's runs."""
    version: int
    notes: tuple[str, ...] = ()
    """What the user should know about the last change."""


def connect(
    session: Session,
    source: str,
    lake: str,
    values: Mapping[str, Any],
    now: datetime,
    *,
    copy_from: str = "",
) -> Connection:
    """Connect a source to a lake, with a schedule of every 2 hours that is not enabled yet.

    Settings are copied from the connection of another source if one is given, except names in the
    catalog; `values` come on top. Raises InvalidSettings for a wrong setting, for a database that
    another source of the lake has, and for a source that has a connection.
    """
    found, target = get_source(session, source), get_lake(session, lake)
    copied = get_connection(session, copy_from).settings if copy_from else {}
    kept = {name: value for name, value in copied.items() if name not in _OWN_NAMES}
    settings, resolved = validate_connection(session, found, {**kept, **_rename(values)})
    # Others that connect to this lake wait, so that both do not get the same names.
    session.execute(sa.select(lakes.c.id).where(lakes.c.id == target.id).with_for_update())
    _check_names(session, target.id, resolved)
    row = {
        "source_id": found.id,
        "lake_id": target.id,
        "settings": settings,
        "version": 1,
        "created_at": now,
        **{name: getattr(resolved, name) for name in _OWN_NAMES},
    }
    if not insert_if_absent(session, connections, [row]):
        other = get_connection(session, found.id).lake
        raise InvalidSettings(f"source {found.slug} is connected to the lake {other} already")
    schedule = {
        "source_id": found.id,
        "rule": DEFAULT_SCHEDULE.model_dump(mode="json"),
        "version": 1,
        "created_at": now,
    }
    insert_if_absent(session, schedules, [schedule])
    return get_connection(session, found.id)


def change_connection(
    session: Session, source: str, changes: Mapping[str, Any], version: int
) -> Connection:
    """Change settings; None sets a default again.

    Raises Changed if `version` is no longer the connection's. Raises InvalidSettings for a wrong
    setting, and for one that cannot change because the source has tables.
    """
    found = get_source(session, source)
    before = get_connection(session, found.id)
    settings, resolved = merge_settings(session, before, changes)
    notes = _check_change(session, found, before.resolved, resolved)
    lake = get_lake(session, before.lake)
    session.execute(sa.select(lakes.c.id).where(lakes.c.id == lake.id).with_for_update())
    _check_names(session, lake.id, resolved)
    _store(session, found.id, version, settings, resolved)
    return get_connection(session, found.id).model_copy(update={"notes": notes})


def merge_settings(
    session: Session, connection: Connection, changes: Mapping[str, Any]
) -> tuple[dict[str, Any], SourceSettings]:
    """The settings of a connection after changes, as `validate_connection`; nothing is stored."""
    merged = {**connection.settings, **_rename(changes)}
    given = {name: value for name, value in merged.items() if value is not None}
    return validate_connection(session, get_source(session, connection.source), given)


def check_rebuild(session: Session, source: str, changes: Mapping[str, Any]) -> None:
    """Raise InvalidSettings if a source's tables cannot be built again with these settings."""
    connection = get_connection(session, source)
    resolved = merge_settings(session, connection, changes)[1]
    _check_names(session, get_lake(session, connection.lake).id, resolved)


def adopt_settings(
    session: Session, source: str, changes: Mapping[str, Any]
) -> tuple[Connection, Connection]:
    """Store settings that the source's tables have already; return the connection before and after.

    Unlike `change_connection`, it changes also those that only a rebuild can change.
    """
    before = get_connection(session, source)
    source_id = before.resolved.source_id
    _store(session, source_id, before.version, *merge_settings(session, before, changes))
    return before, get_connection(session, source_id)


def _store(
    session: Session,
    source_id: str,
    version: int,
    settings: Mapping[str, Any],
    resolved: SourceSettings,
) -> None:
    update_version(
        session,
        connections,
        connections.c.source_id == source_id,
        version,
        settings=settings,
        **{name: getattr(resolved, name) for name in _OWN_NAMES},
    )


def get_connection(session: Session, source: str) -> Connection:
    """The connection of a source; raises NotFound."""
    found = get_source(session, source)
    for one in _read(session, connections.c.source_id == found.id):
        return one
    raise not_connected(found.slug)


def not_connected(slug: str) -> NotFound:
    """The error for a source without a connection."""
    return NotFound(f"source {slug} is not connected to a lake: connect it first")


def list_connections(session: Session) -> list[Connection]:
    """The connections of all sources, by slug."""
    return _read(session, sa.true())


def _rename(values: Mapping[str, Any]) -> dict[str, Any]:
    named = translate_names(values, SEGMENT_NAMES)
    if wrong := named.keys() & {"source", "source_id", "workspace"}:
        raise InvalidSettings(f"{sorted(wrong)[0]} is not a setting of a connection")
    return named


def validate_connection(
    session: Session, source: Source, values: Mapping[str, Any]
) -> tuple[dict[str, Any], SourceSettings]:
    """The settings that were entered, as JSON, and all settings of the source."""
    named = _rename(values)
    resolved = _resolve(source.slug, source.id, get_workspace(session).id, named)
    dumped = resolved.model_dump(mode="json")
    return {name: dumped[name] for name in named}, resolved


def _resolve(
    slug: str, source_id: str, workspace: str, values: Mapping[str, Any]
) -> SourceSettings:
    return source_settings(source=slug, source_id=source_id, workspace=workspace, **values)


def _check_names(session: Session, lake_id: str, settings: SourceSettings) -> None:
    """Raise InvalidSettings if another source of the lake owns the folder or names."""
    # Only these can have the same folder or names.
    is_near = sa.or_(
        connections.c.database == settings.database,
        sources.c.slug == settings.source_id,
        sources.c.id == settings.source,
    )
    is_other = connections.c.source_id != settings.source_id
    others = _read(session, sa.and_(connections.c.lake_id == lake_id, is_other, is_near))
    claims = Claims()
    for other in others:
        claims = claims.with_source(other.resolved)
    claims.with_source(settings)


def _check_change(
    session: Session, source: Source, before: SourceSettings, now: SourceSettings
) -> tuple[str, ...]:
    """Refuse changes that the source's tables do not allow; return notes about the others."""
    landed = sa.select(runs.c.id).where(
        runs.c.source_id == source.id,
        runs.c.lake_run != "",  # it had something to land
        runs.c.state.in_(("finished", "partial")),
    )
    if session.execute(landed.limit(1)).first() is None:
        return now.notes
    changes = list_changes(before, now)
    for change in changes:
        if change.name in FIXED:
            raise InvalidSettings(
                f"{change}, and the source has tables: keep it, or rebuild the source with "
                + rebuild_command(source.slug, change.name, change.after, is_connected=True)
            )
    renamed = tuple(
        f"{change}: the next run registers all tables under the new name; the old ones stay in the "
        "catalog without new partitions until you drop them"
        for change in changes
        if change.name in _OWN_NAMES
    )
    return (*now.notes, *renamed)


def _read(session: Session, condition: sa.ColumnElement[bool]) -> list[Connection]:
    rows = session.execute(
        sa.select(connections, sources.c.slug, lakes.c.slug.label("lake"))
        .join(sources, sources.c.id == connections.c.source_id)
        .join(lakes, lakes.c.id == connections.c.lake_id)
        .where(condition)
        .order_by(sources.c.slug)
    ).all()
    workspace = get_workspace(session).id if rows else ""
    return [
        Connection(
            source=row.slug,
            lake=row.lake,
            settings=row.settings,
            resolved=_resolve(row.slug, row.source_id, workspace, row.settings),
            version=row.version,
        )
        for row in rows
    ]
