"""Settings of the whole workspace: retention, limits of notices, the heartbeat."""

from collections.abc import Callable
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import Field

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.monitor_tables import settings
from eventlake.control.notify.targets import parse_target
from eventlake.control.vault import Vault, is_reference
from eventlake.errors import InvalidSettings
from eventlake.model.values import FrozenModel

_PREFERENCES, _HEARTBEAT, _URL = "preferences", "heartbeat_url", "server_url"
SET = "set"


class Preferences(FrozenModel):
    """Settings that a workspace has one of."""

    keep_runs_days: Annotated[int, Field(ge=7, le=36500)] | None = None
    """Days after which the history of syncs and notices is deleted; None to keep all."""
    late_after_seconds: Annotated[int, Field(ge=60, le=31 * 86400)] | None = None
    """How long after its slot a sync may succeed; None for the time between slots, from 15 minutes
    to 2 hours."""
    silent_after_seconds: Annotated[int, Field(ge=0, le=366 * 86400)] = 86400
    """Age of the newest event at which a source is silent; 0 for never."""
    quarantine_percent: Annotated[float, Field(ge=0, le=100)] = 1.0
    """The share of invalid lines of a sync above which there is a notice."""


class ShownPreferences(FrozenModel):
    """The settings of the workspace, without the secret one."""

    preferences: Preferences
    heartbeat_url: str | None
    """Its reference, or `set`; None if there is none."""


def show_preferences(session: Session) -> ShownPreferences:
    """The settings, as everybody may see them."""
    stored = _read(session, _HEARTBEAT)
    shown = stored if stored is None or is_reference(stored) else SET
    return ShownPreferences(preferences=read_preferences(session), heartbeat_url=shown)


def read_preferences(session: Session) -> Preferences:
    """The settings; defaults where nothing was set."""
    return Preferences.model_validate(_read(session, _PREFERENCES) or {})


def set_preferences(session: Session, preferences: Preferences) -> None:
    """Store the settings."""
    _write(session, _PREFERENCES, preferences.model_dump(mode="json", exclude_defaults=True))


def set_heartbeat(session: Session, url: str | None, vault: Vault) -> None:
    """Have a URL asked every minute while the server works; None for no more.

    Raises InvalidSettings for one that is not allowed.
    """
    if url and not is_reference(url):
        parse_target("heartbeat_url", url)
    if url is not None and not url:
        raise InvalidSettings("heartbeat_url is empty: give a URL, or null for none")
    _write(session, _HEARTBEAT, vault.store(url) if url else None)


def read_heartbeat(session: Session, vault: Vault) -> str | None:
    """The URL of the heartbeat; raises InvalidSettings if it cannot be opened."""
    stored = _read(session, _HEARTBEAT)
    return vault.resolve(_HEARTBEAT, stored) if stored else None


def reseal_heartbeat(session: Session, reseal: Callable[[str], str]) -> None:
    """Store the URL of the heartbeat as `reseal` makes it of its stored form."""
    if stored := _read(session, _HEARTBEAT):
        _write(session, _HEARTBEAT, reseal(stored))


def set_server_url(session: Session, url: str) -> None:
    """Store the URL at which people reach the server, for the links in notices."""
    if read_server_url(session) != url:
        _write(session, _URL, url)


def read_server_url(session: Session) -> str:
    """The URL at which people reach the server; empty before the first start."""
    return _read(session, _URL) or ""


def _read(session: Session, key: str) -> Any:
    return session.execute(sa.select(settings.c.value).where(settings.c.key == key)).scalar()


def _write(session: Session, key: str, value: Any) -> None:
    row = {"key": key, "value": value}
    if not insert_if_absent(session, settings, [row]):
        session.execute(settings.update().where(settings.c.key == key).values(value=value))
