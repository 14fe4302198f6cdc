"""The lakes of the workspace: their settings, and their secrets that nobody can read back."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent, update_version
from eventlake.control.tables import connections, lakes, runs
from eventlake.control.vault import Vault, is_reference
from eventlake.control.workspace import new_id
from eventlake.errors import InvalidSettings, NotFound
from eventlake.lakes import absolute_paths
from eventlake.lakes.kinds import settings_model
from eventlake.model.lake import LakeSettings
from eventlake.model.settings import source_settings, translate_names
from eventlake.model.values import FrozenModel

SET = "set"
LOCAL = "local"
"""The runner of lakes without a cluster: this machine. That of others is the lake's id."""


class RegisteredLake(FrozenModel):
    """A lake of the workspace, without its secrets."""

    id: str
    slug: str
    kind: str
    settings: dict[str, Any]
    """The settings that are not the defaults."""
    secrets: dict[str, str]
    """For each secret, its reference, or `set`."""
    version: int
    """It counts the changes."""

    @property
    def model(self) -> LakeSettings:
        """The settings as those of the lake's kind."""
        return settings_model(self.kind).from_values(self.settings)


def add_lake(
    session: Session, slug: str, kind: str, values: Mapping[str, Any], vault: Vault, now: datetime
) -> RegisteredLake:
    """Add a lake; secrets are among the values. Relative paths are below the current folder.

    Raises InvalidSettings with each wrong setting and what is allowed, and for the place of another
    lake.
    """
    source_settings(source=slug)  # the same rule for names
    settings, secrets = validate_lake(kind, values)
    _check_place(session, slug, settings_model(kind).from_values(settings))
    identity = new_id()
    row = {
        "id": identity,
        "slug": slug,
        "kind": kind,
        "settings": settings,
        "runner": _runner(identity, kind, settings),
        "secrets": {name: vault.store(secret) for name, secret in secrets.items()},
        "version": 1,
        "created_at": now,
    }
    if not insert_if_absent(session, lakes, [row]):
        raise InvalidSettings(f"lake is {slug!r}: there is one already; choose another name")
    return get_lake(session, slug)


def change_lake(
    session: Session, slug: str, changes: Mapping[str, Any], version: int, vault: Vault
) -> RegisteredLake:
    """Change settings and secrets; None sets a default again, or removes a secret.

    Raises Changed if `version` is no longer the lake's, and InvalidSettings for a wrong setting,
    for another place while sources are connected, or for the place of another lake.
    """
    lake = get_lake(session, slug)
    model = settings_model(lake.kind)
    new = translate_names(changes, model.segment_names)
    merged = {**lake.settings, **new}
    settings, secrets = validate_lake(lake.kind, {k: v for k, v in merged.items() if v is not None})
    changed, before = model.from_values(settings), lake.model
    is_chosen_anew = settings[model.chosen_by] != lake.settings[model.chosen_by]
    is_elsewhere = is_chosen_anew or changed.place.address != before.place.address
    if is_elsewhere and _is_connected(session, lake):
        raise InvalidSettings(
            f"the lake is at {before.place.address}, and sources are connected to it, whose tables "
            "are there: add another lake, and connect new sources to that"
        )
    if changed.place != before.place:
        _check_place(session, lake.slug, changed)
    stored = _read_row(session, slug).secrets
    kept = {name: value for name, value in stored.items() if name not in new}
    sealed = {name: vault.store(secret) for name, secret in secrets.items()}
    update_version(
        session,
        lakes,
        lakes.c.id == lake.id,
        version,
        settings=settings,
        secrets=kept | sealed,
        runner=_runner(lake.id, lake.kind, settings),
    )
    return get_lake(session, slug)


def get_lake(session: Session, lake: str) -> RegisteredLake:
    """The lake with a name or id; raises NotFound."""
    return _to_value(_read_row(session, lake))


def list_lakes(session: Session) -> list[RegisteredLake]:
    """All lakes, by name."""
    return [_to_value(row) for row in session.execute(sa.select(lakes).order_by(lakes.c.slug))]


def has_landed(session: Session, lake: str) -> bool:
    """Whether a run has committed something in the lake with this id."""
    landed = sa.exists().where(
        connections.c.lake_id == lake,
        runs.c.source_id == connections.c.source_id,
        runs.c.state.in_(("finished", "partial")),
        runs.c.lake_run != "",
    )
    return bool(session.execute(sa.select(landed)).scalar())


def read_secrets(session: Session, lake: str, vault: Vault) -> dict[str, str]:
    """The lake's secrets, by the environment variable in which a run finds each.

    Raises InvalidSettings if one cannot be opened or is not where its reference says.
    """
    row = _read_row(session, lake)
    variables = settings_model(row.kind).secrets
    return {variables[name]: vault.resolve(name, stored) for name, stored in row.secrets.items()}


def validate_lake(kind: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings as JSON without the defaults, and the secrets."""
    model = settings_model(kind)
    named = translate_names(values, model.segment_names)
    secrets = {name: named.pop(name) for name in model.secrets if name in named}
    if wrong := [name for name, secret in secrets.items() if not isinstance(secret, str)]:
        raise InvalidSettings(f"{wrong[0]} must be a text")
    settings = model.from_values(named)
    absolute = settings.model_copy(update=absolute_paths(Path.cwd(), settings))
    return absolute.model_dump(mode="json", exclude_defaults=True), secrets


def _check_place(session: Session, slug: str, settings: LakeSettings) -> None:
    """Raise InvalidSettings if another lake has its data at the same place.

    The names of sources are checked within a lake, so that both could write the same tables.
    """
    for other in list_lakes(session):
        if other.slug != slug and other.model.place == settings.place:
            raise InvalidSettings(
                f"{settings.place.address} is the place of the lake {other.slug}: use that lake, "
                "or choose another place"
            )


def _runner(identity: str, kind: str, settings: Mapping[str, Any]) -> str:
    return identity if settings_model(kind).from_values(settings).has_cluster else LOCAL


def _is_connected(session: Session, lake: RegisteredLake) -> bool:
    query = sa.select(connections.c.source_id).where(connections.c.lake_id == lake.id).limit(1)
    return session.execute(query).first() is not None


def _read_row(session: Session, lake: str) -> sa.Row[Any]:
    rows = session.execute(
        sa.select(lakes).where(sa.or_(lakes.c.slug == lake, lakes.c.id == lake))
    ).all()
    for row in sorted(rows, key=lambda row: row.slug != lake):
        return row
    raise NotFound(f"lake is {lake!r}: the workspace has no such lake")


def _to_value(row: sa.Row[Any]) -> RegisteredLake:
    shown = {name: one if is_reference(one) else SET for name, one in row.secrets.items()}
    return RegisteredLake(
        id=row.id,
        slug=row.slug,
        kind=row.kind,
        settings=row.settings,
        secrets=shown,
        version=row.version,
    )
