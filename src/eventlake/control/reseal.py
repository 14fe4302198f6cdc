"""Encrypt every stored secret with the newest key, so that older keys can be removed."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from eventlake.control.database import Session, update_version
from eventlake.control.notify.tables import channels
from eventlake.control.preferences import reseal_heartbeat
from eventlake.control.tables import erasures, lakes
from eventlake.control.vault import Vault, is_reference
from eventlake.errors import InvalidSettings
from eventlake.model.values import FrozenModel


class Resealed(FrozenModel):
    """What was encrypted again."""

    resealed: int
    """How many are encrypted with the newest key now; references are not stored and not counted."""
    unreadable: tuple[str, ...]
    """Those that none of the keys opens, such as `lake:main account_key`; they stay as they are."""


class _Resealer(NamedTuple):
    """Encrypts secrets, and remembers which it could not open."""

    vault: Vault
    done: list[str]
    unreadable: list[str]

    def reseal(self, name: str, stored: str) -> str:
        try:
            sealed = self.vault.reseal(name.rpartition(" ")[2], stored)
        except InvalidSettings:
            self.unreadable.append(name)
            return stored
        if not is_reference(stored):
            self.done.append(name)
        return sealed


def reseal_secrets(session: Session, vault: Vault) -> Resealed:
    """Encrypt the secrets of lakes and channels, the heartbeat's URL and the ids of erasures.

    Lakes and channels get a new version: a change that was read before must not bring back a
    secret under an older key.
    """
    resealer = _Resealer(vault, [], [])
    for table, label, row in _list_owners(session):
        sealed = {
            name: resealer.reseal(f"{label} {name}", stored) for name, stored in row.secrets.items()
        }
        if sealed != row.secrets:
            update_version(session, table, table.c.id == row.id, row.version, secrets=sealed)
    query = sa.select(erasures.c.id, erasures.c.ids).order_by(erasures.c.id).with_for_update()
    for erasure_id, stored in session.execute(query).all():
        ids = resealer.reseal(f"erasure:{erasure_id} ids", stored)
        session.execute(erasures.update().where(erasures.c.id == erasure_id).values(ids=ids))
    reseal_heartbeat(session, lambda stored: resealer.reseal("heartbeat_url", stored))
    return Resealed(resealed=len(resealer.done), unreadable=tuple(resealer.unreadable))


def _list_owners(session: Session) -> Iterator[tuple[sa.Table, str, sa.Row[Any]]]:
    """Lakes and channels with secrets, locked, and what people call each."""
    names: Mapping[sa.Table, sa.Column[str]] = {lakes: lakes.c.slug, channels: channels.c.name}
    for table, name in names.items():
        query = sa.select(table, name.label("label")).order_by(name).with_for_update()
        for row in session.execute(query).all():
            yield table, f"{table.name.removesuffix('s')}:{row.label}", row
