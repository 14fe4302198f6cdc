"""Settings of the whole workspace."""

from typing import Any

from fastapi import APIRouter

from eventlake.control.audit import Change
from eventlake.control.preferences import (
    Preferences,
    ShownPreferences,
    set_heartbeat,
    set_preferences,
    show_preferences,
)
from eventlake.control.reseal import Resealed, reseal_secrets
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import Text

router = APIRouter(prefix="/settings", tags=["settings"])


class SettingsChange(FrozenModel):
    """New settings; what is left out stays."""

    preferences: Preferences | None = None
    heartbeat_url: Text | None = None
    """A URL that is asked every minute while the server works; null for none. It is a secret."""


@router.get("")
def show_settings(_: Viewer, context: Context) -> ShownPreferences:
    """Show the settings of the workspace."""
    with context.database.read() as session:
        return show_preferences(session)


@router.patch("")
def change_settings(body: SettingsChange, caller: Admin, context: Context) -> ShownPreferences:
    """Change settings of the workspace."""
    named: set[Any] = body.model_fields_set
    with context.database.write() as session:
        before = show_preferences(session)
        if body.preferences is not None:
            set_preferences(session, body.preferences)
        if "heartbeat_url" in named:
            set_heartbeat(session, body.heartbeat_url, context.vault)
        after = show_preferences(session)
        caller.record(session, Change("settings.change", "workspace", before, after))
    return after


@router.post("/reseal")
def reseal_stored_secrets(caller: Admin, context: Context) -> Resealed:
    """Encrypt every stored secret with the newest key of the server.

    Older keys can be removed afterwards, unless the reply names secrets that no key opens.
    """
    with context.database.write() as session:
        done = reseal_secrets(session, context.vault)
        caller.record(session, Change("settings.reseal", "workspace", after=done))
    return done
