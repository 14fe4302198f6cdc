"""Erasures: users whose events are removed from a lake, by a run for each source.

Of the users, the database has only their sealed ids and salted hashes.
"""

import json
import secrets
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from eventlake.control.connections import list_connections
from eventlake.control.database import Session, insert_if_absent
from eventlake.control.lakes import RegisteredLake, get_lake
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunRequest, RunState, cancel_run, queue_run, to_run
from eventlake.control.sources import get_source, list_sources
from eventlake.control.tables import erasures, lakes, runs
from eventlake.control.vault import Vault
from eventlake.errors import Conflict, InvalidSettings, NotFound
from eventlake.model.values import FrozenModel

MAX_USERS = 5_000
HASH_BYTES = 16


class ErasureState(StrEnum):
    """What an erasure is doing, or how it ended: by its runs."""

    RUNNING = "running"
    PLANNED = "planned"
    FINISHED = "finished"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ErasureRequest(FrozenModel):
    """Users to forget: in all sources of a lake, or in one."""

    users: tuple[str, ...]
    """Ids, exactly as in events."""
    lake: str = ""
    """Empty for the only lake of the workspace."""
    source: str = ""
    """Empty for all sources of the lake."""
    also_anonymous: bool = False
    """Also forget the ids that `identify` and `alias` calls tie to the users."""
    dry_run: bool = False


class Erasure(FrozenModel):
    """An erasure. A user's id is known by its hash: `hash_user` with the salt gives it."""

    id: int
    lake: str
    salt: str
    hashes: tuple[str, ...]
    also_anonymous: bool
    dry_run: bool
    state: ErasureState
    runs: tuple[int, ...]
    """The newest run of each source."""
    removed: int
    """Rows and lines that were removed, or would be."""
    receipts: tuple[str, ...]
    """Paths of the receipts in the lake."""
    error: str
    actor: str
    created_at: datetime
    ended_at: datetime | None


class ErasedUsers(FrozenModel):
    """The ids of an erasure, which only a worker reads."""

    ids: tuple[str, ...]
    also_anonymous: bool
    """Whether ids that are tied to them are still to be found."""
    is_first: bool
    """Whether the run takes the folders of the lake that belong to no source of the workspace."""


def hash_user(user: str, salt: str) -> str:
    """The salted hash of a user's id."""
    digest = blake2b(user.encode(errors="surrogatepass"), key=salt.encode(), digest_size=HASH_BYTES)
    return digest.hexdigest()


def add_erasure(
    session: Session, request: ErasureRequest, vault: Vault, actor: str, now: datetime
) -> Erasure:
    """Queue the runs that forget users, or those that only look for their events.

    A source's run waits for the one before it. Raises InvalidSettings for bad ids, and Conflict if
    an erasure of a source waits already.
    """
    users = tuple(dict.fromkeys(request.users))
    if not 1 <= len(users) <= MAX_USERS or "" in users:
        raise InvalidSettings(f"users: give 1 to {MAX_USERS:,} ids that are not empty")
    lake, slugs = _choose_sources(session, request)
    salt = secrets.token_hex(16)
    row = {
        "lake_id": lake.id,
        "ids": vault.store(json.dumps(users)),
        "salt": salt,
        "hashes": [hash_user(user, salt) for user in users],
        "also_anonymous": request.also_anonymous,
        "is_resolved": not request.also_anonymous,
        "dry_run": request.dry_run,
        "actor": actor,
        "created_at": now,
    }
    (erasure_id,) = insert_if_absent(session, erasures, [row])
    for slug in slugs:
        one = RunRequest(
            source=slug, kind=Kind.FORGET, dry_run=request.dry_run, erasure_id=erasure_id
        )
        queue_run(session, one, actor, now, wait=True)
    return get_erasure(session, erasure_id)


def cancel_erasure(session: Session, erasure_id: int, now: datetime, reason: str = "") -> Erasure:
    """Cancel the runs of an erasure that have not committed; raises Conflict if all have ended."""
    get_erasure(session, erasure_id)
    active = [run for run in _list_newest_runs(session, erasure_id) if run.ended_at is None]
    if not active:
        raise Conflict(f"erasure {erasure_id} has ended already: nothing is left to cancel")
    for run in active:
        cancel_run(session, run.id, now, reason)
    return get_erasure(session, erasure_id)


def get_erasure(session: Session, erasure_id: int) -> Erasure:
    """The erasure with an id; raises NotFound."""
    for row in session.execute(_ERASURES.where(erasures.c.id == erasure_id)):
        return _to_value(session, row)
    raise NotFound(f"erasure is {erasure_id}: the workspace has no such erasure")


def list_erasures(
    session: Session, *, before: int | None = None, limit: int = 100
) -> list[Erasure]:
    """The newest erasures; `before` is the last id of the page before."""
    query = _ERASURES.order_by(erasures.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(erasures.c.id < before)
    return [_to_value(session, row) for row in session.execute(query).all()]


def read_users(session: Session, run: Run, vault: Vault) -> ErasedUsers:
    """The users of a run's erasure."""
    row = session.execute(sa.select(erasures).where(erasures.c.id == run.erasure_id)).one()
    first = session.execute(
        sa.select(runs.c.source_id)
        .where(runs.c.erasure_id == run.erasure_id)
        .order_by(runs.c.id)
        .limit(1)
    ).scalar_one()
    return ErasedUsers(
        ids=tuple(json.loads(vault.resolve("ids", row.ids))),
        also_anonymous=row.also_anonymous and not row.is_resolved,
        is_first=first == run.source_id,
    )


def store_tied_ids(session: Session, run: Run, ids: Sequence[str], vault: Vault) -> None:
    """Store all ids of an erasure, unless a run of another source was first.

    They must be known before the first events are removed, which tie them to the user.
    """
    session.execute(
        erasures.update()
        .where(erasures.c.id == run.erasure_id, erasures.c.is_resolved.is_(False))
        .values(ids=vault.store(json.dumps(list(ids))), is_resolved=True)
    )


_ERASURES = sa.select(erasures, lakes.c.slug.label("lake")).join(
    lakes, lakes.c.id == erasures.c.lake_id
)


def _choose_sources(session: Session, request: ErasureRequest) -> tuple[RegisteredLake, list[str]]:
    """The lake, and the slugs of the sources in it whose events are searched."""
    known = {one.slug for one in list_sources(session)}
    connections = [one for one in list_connections(session) if one.source in known]
    if request.source:
        slug = get_source(session, request.source).slug
        connections = [one for one in connections if one.source == slug]
    names = {one.lake for one in connections}
    if request.lake:
        names &= {get_lake(session, request.lake).slug}
    if len(names) != 1:
        found = ", ".join(sorted(names)) or "none that the source is connected to"
        raise InvalidSettings(f"lake: choose one; there is {found}")
    (name,) = names
    return get_lake(session, name), [one.source for one in connections if one.lake == name]


def _list_newest_runs(session: Session, erasure_id: int) -> list[Run]:
    query = sa.select(runs).where(runs.c.erasure_id == erasure_id).order_by(runs.c.id)
    found = (to_run(row) for row in session.execute(query))
    return list({run.source_id: run for run in found}.values())


def _to_value(session: Session, row: sa.Row[Any]) -> Erasure:
    found = _list_newest_runs(session, row.id)
    results = [run.result or run.plan or {} for run in found]
    ends = [run.ended_at for run in found]
    return Erasure(
        id=row.id,
        lake=row.lake,
        salt=row.salt,
        hashes=tuple(row.hashes),
        also_anonymous=row.also_anonymous,
        dry_run=row.dry_run,
        state=_choose_state({run.state for run in found}, row.dry_run),
        runs=tuple(run.id for run in found),
        removed=sum(one.get("removed", 0) for one in results),
        receipts=tuple(path for one in results for path in one.get("receipts", ())),
        error=next((run.error for run in found if run.error), ""),
        actor=row.actor,
        created_at=row.created_at,
        ended_at=max(end for end in ends if end) if all(ends) else None,
    )


def _choose_state(states: set[RunState], is_dry: bool) -> ErasureState:
    ended = (RunState.FAILED, RunState.CANCELLED, RunState.PARTIAL, RunState.FINISHED)
    if states.difference(ended):
        return ErasureState.RUNNING
    worst = next(state for state in ended if state in states)
    if worst is RunState.FINISHED and is_dry:
        return ErasureState.PLANNED
    return ErasureState(worst.value)
