"""Sources and their write keys."""

import secrets
from datetime import datetime

import sqlalchemy as sa

from eventlake.collect.keys import validate_write_key
from eventlake.control.database import Session, insert_if_absent
from eventlake.control.tables import schedules, sources, write_keys
from eventlake.control.workspace import new_id
from eventlake.errors import InvalidSettings, NotFound
from eventlake.model.settings import source_settings
from eventlake.model.values import FrozenModel


class Source(FrozenModel):
    """A source of the workspace. Its keys can be shown: every page that sends events has them."""

    id: str
    slug: str
    enabled: bool
    """Whether the collector accepts its events."""
    write_keys: tuple[str, ...]
    created_at: datetime


def add_source(
    session: Session, slug: str, now: datetime, *, source_id: str = "", write_key: str = ""
) -> Source:
    """Create a source with one write key; both id and key are random unless they are given.

    Raises InvalidSettings for a slug or id that is invalid, or that a source has or once had.
    """
    identity = source_settings(source=slug, source_id=source_id or new_id()).source_id
    row = {"id": identity, "slug": slug, "enabled": True, "created_at": now}
    if not insert_if_absent(session, sources, [row]):
        raise InvalidSettings(_explain_used_name(session, slug, identity))
    add_write_key(session, slug, now, write_key)
    return get_source(session, slug)


def _explain_used_name(session: Session, slug: str, source_id: str) -> str:
    """Say which source has, or had before it was removed, the slug or else the id of a new one."""
    same_slug = session.execute(sa.select(sources).where(sources.c.slug == slug)).first()
    if same_slug:
        verb = "had" if same_slug.removed_at else "has"
        return (
            f"source is {slug!r}: a source {verb} this slug, and slugs are never used again; "
            "choose another"
        )
    other = session.execute(sa.select(sources).where(sources.c.id == source_id)).one()
    owner = f"the source {other.slug}{', which was removed' if other.removed_at else ''}"
    return (
        f"id is {source_id!r}, which is that of {owner}: a source cannot be renamed; keep the slug "
        f"{other.slug}, or leave the id out to add {slug} as a new source"
    )


def get_source(session: Session, source: str) -> Source:
    """The source with a slug or id; raises NotFound."""
    found = _read(session, sa.or_(sources.c.slug == source, sources.c.id == source))
    # The slug of one may be the id of another.
    for one in sorted(found, key=lambda one: one.slug != source):
        return one
    raise NotFound(f"source is {source!r}: the workspace has no such source")


def list_sources(session: Session) -> list[Source]:
    """All sources, by slug."""
    return _read(session, sa.true())


def set_source_enabled(session: Session, source: str, enabled: bool) -> Source:
    """Have the collector accept or refuse a source's events."""
    found = get_source(session, source)
    session.execute(sources.update().where(sources.c.id == found.id).values(enabled=enabled))
    return found.model_copy(update={"enabled": enabled})


def remove_source(session: Session, source: str, now: datetime) -> None:
    """Remove a source: its keys are revoked and its syncs end, its lake and history stay."""
    found = get_source(session, source)
    session.execute(sources.update().where(sources.c.id == found.id).values(removed_at=now))
    session.execute(
        write_keys.update().where(write_keys.c.source_id == found.id).values(revoked_at=now)
    )
    session.execute(
        schedules.update()
        .where(schedules.c.source_id == found.id)
        .values(enabled_at=None, next_slot=None)
    )


def add_write_key(session: Session, source: str, now: datetime, write_key: str = "") -> Source:
    """Give a source one more write key, by default a random one.

    Raises InvalidSettings for a key that cannot be sent, or that was ever used.
    """
    found = get_source(session, source)
    key = write_key or secrets.token_urlsafe(24)
    validate_write_key(key, found.slug)
    row = {"key": key, "source_id": found.id, "created_at": now}
    if not insert_if_absent(session, write_keys, [row]):
        raise InvalidSettings(_explain_used_key(session, found, key))
    return found.model_copy(update={"write_keys": (*found.write_keys, key)})


def _explain_used_key(session: Session, source: Source, key: str) -> str:
    """Say why a key cannot be added to a source, without showing the key."""
    row = session.execute(sa.select(write_keys).where(write_keys.c.key == key)).one()
    advice = "choose another, or leave it out for a random one"
    if row.source_id != source.id:
        return f"the write key of {source.slug} is or was another's: {advice}"
    if row.revoked_at is None:
        return f"source {source.slug} has this write key already: {advice}"
    return (
        f"this write key of {source.slug} was revoked on {row.revoked_at:%Y-%m-%d} and cannot come "
        f"back: {advice}"
    )


def revoke_write_key(session: Session, source: str, write_key: str, now: datetime) -> Source:
    """Have the collector refuse a source's key from now on; raises NotFound for another key."""
    found = get_source(session, source)
    if write_key not in found.write_keys:
        raise NotFound(f"source {found.slug} has no such write key")
    session.execute(write_keys.update().where(write_keys.c.key == write_key).values(revoked_at=now))
    kept = tuple(key for key in found.write_keys if key != write_key)
    return found.model_copy(update={"write_keys": kept})


def _read(session: Session, condition: sa.ColumnElement[bool]) -> list[Source]:
    keys = sa.and_(write_keys.c.source_id == sources.c.id, write_keys.c.revoked_at.is_(None))
    rows = session.execute(
        sa.select(sources, write_keys.c.key)
        .outerjoin(write_keys, keys)
        .where(condition, sources.c.removed_at.is_(None))
        .order_by(sources.c.slug, write_keys.c.created_at, write_keys.c.key)
    )
    found: dict[str, Source] = {}
    for row in rows:
        known = found.get(row.id)
        found[row.id] = Source(
            id=row.id,
            slug=row.slug,
            enabled=row.enabled,
            write_keys=(*(known.write_keys if known else ()), *filter(None, [row.key])),
            created_at=row.created_at,
        )
    return list(found.values())
