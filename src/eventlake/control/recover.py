"""Rebuild a workspace from its lake, when the database is lost.

Sources, connections and the history of runs are in the lake. Write keys, schedules, people and
secrets are not: a file of `eventlake export` or a backup of the database has the first two.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from eventlake.control.connections import connect, get_connection
from eventlake.control.database import Database, Session
from eventlake.control.lakes import RegisteredLake, add_lake, list_lakes, validate_lake
from eventlake.control.results import Outcome, read_outcome, store_results
from eventlake.control.rollups import store_rollups
from eventlake.control.run_kinds import LANES
from eventlake.control.runs import Run, RunState, make_row, to_run
from eventlake.control.sources import add_source, list_sources
from eventlake.control.tables import runs, sources, workspace
from eventlake.control.vault import Vault
from eventlake.control.workspace import get_workspace
from eventlake.errors import InvalidSettings, NotFound
from eventlake.lakes.kinds import settings_model
from eventlake.model.lake import LakeSettings
from eventlake.model.report import Line
from eventlake.model.settings import NO_WORKSPACE, SourceSettings
from eventlake.model.values import FrozenModel

TRIGGER = "recovered"
_KINDS = {"load": "sync", "adopt": "sync"}
"""The kinds of runs whose commits have another kind; the others have the same."""
_TIME = "%Y-%m-%d %H:%M:%S.%f"


class PastRun(Protocol):
    """A run of the lake: the kind of its commit, and the lines of its report."""

    @property
    def kind(self) -> str: ...
    @property
    def report(self) -> Sequence[Line]: ...


class History(Protocol):
    """The runs of one source, as the lake has them."""

    @property
    def settings(self) -> SourceSettings: ...
    def iterate_runs(self, known: Set[str]) -> Iterable[Sequence[PastRun]]:
        """The runs that are not in `known`, oldest first, in batches."""


class RecoveredSource(FrozenModel):
    """A source of the lake, and how many of its runs were added."""

    source: str
    is_new: bool
    runs: int
    known_runs: int
    """Runs that the database had."""


class Recovered(FrozenModel):
    """What was rebuilt."""

    lake: str
    workspace: str
    sources: tuple[RecoveredSource, ...]
    notes: tuple[str, ...]


class Target(NamedTuple):
    """The database to rebuild, and the time."""

    database: Database
    vault: Vault
    now: datetime


def recover_workspace(
    target: Target, name: str, lake: LakeSettings, histories: Sequence[History]
) -> Recovered:
    """Add what the database lacks of a lake's sources and runs; return what was added.

    The lake is added under `name`, unless the workspace has it. A workspace without runs of its own
    gets the id that the lake's runs had, which is in the trust policies of roles. Raises
    InvalidSettings if another lake has the name, or another source a slug.
    """
    with target.database.write() as session:
        kept_id = _restore_workspace_id(session, [one.settings for one in histories])
        registered = _ensure_lake(session, target, name, lake)
        found = [_ensure_source(session, target, registered, one.settings) for one in histories]
    recovered = [
        _recover_runs(target.database, history, is_new)
        for history, is_new in zip(histories, found, strict=True)
    ]
    with target.database.read() as session:
        identity = get_workspace(session).id
    notes = (*kept_id, *_list_notes(registered, recovered))
    return Recovered(
        lake=registered.slug, workspace=identity, sources=tuple(recovered), notes=notes
    )


def _restore_workspace_id(session: Session, settings: Sequence[SourceSettings]) -> list[str]:
    """Give the workspace the id that the lake's runs had; return a note if it keeps another.

    Runs of its own have its id in their reports already, so then it stays.
    """
    ids = {one.workspace for one in settings} - {NO_WORKSPACE}
    current = get_workspace(session).id
    if not ids or current in ids:
        return []
    own_run = sa.select(runs.c.id).where(runs.c.trigger != TRIGGER).limit(1)
    if len(ids) > 1:
        reason = "its sources had different ones"
    elif session.execute(own_run).first():
        reason = "the workspace has runs already"
    else:
        session.execute(workspace.update().values(id=ids.pop()))
        return []
    note = (
        f"the workspace keeps its id {current}, and the lake's runs had {', '.join(sorted(ids))}: "
        f"{reason}; change the external id in the trust policies of its roles"
    )
    return [note]


def _ensure_lake(
    session: Session, target: Target, name: str, settings: LakeSettings
) -> RegisteredLake:
    dumped = settings.model_dump(mode="json", exclude_defaults=True)
    values, _ = validate_lake(settings.kind, dumped)  # with absolute paths
    address = settings_model(settings.kind).from_values(values).place.address
    for lake in list_lakes(session):
        if lake.model.place.address == address:
            return lake
        if lake.slug == name:
            raise InvalidSettings(f"name is {name!r}, which is another lake: choose another --name")
    return add_lake(session, name, settings.kind, values, target.vault, target.now)


def _ensure_source(
    session: Session, target: Target, lake: RegisteredLake, settings: SourceSettings
) -> bool:
    """Add the source and its connection where they are missing; return whether it is new."""
    known = {one.id: one.slug for one in list_sources(session)}
    is_new = settings.source_id not in known
    if is_new:
        add_source(session, settings.source, target.now, source_id=settings.source_id)
    try:
        get_connection(session, settings.source_id)
    except NotFound:
        values = settings.model_dump(mode="json", exclude_defaults=True)
        own = {k: v for k, v in values.items() if k not in ("source", "source_id", "workspace")}
        connect(session, settings.source_id, lake.slug, own, target.now)
    return is_new


def _recover_runs(database: Database, history: History, is_new: bool) -> RecoveredSource:
    source_id, added = history.settings.source_id, 0
    with database.read() as session:
        known = _read_known(session, source_id)
    for batch in history.iterate_runs(known):
        with database.write() as session:
            added += _add_runs(session, source_id, batch)
    return RecoveredSource(
        source=history.settings.source, is_new=is_new, runs=added, known_runs=len(known)
    )


def _read_known(session: Session, source_id: str) -> set[str]:
    query = sa.select(runs.c.lake_run).where(runs.c.source_id == source_id, runs.c.lake_run != "")
    return set(session.execute(query).scalars())


def _add_runs(session: Session, source_id: str, batch: Sequence[PastRun]) -> int:
    """Add runs that have ended, with their results; those that are there by now are left out."""
    # Another process that recovers the same source waits for this transaction.
    session.execute(sa.select(sources.c.id).where(sources.c.id == source_id).with_for_update())
    known = _read_known(session, source_id)
    outcomes = {one.report[0]["run_id"]: read_outcome(one.report) for one in batch}
    rows = [
        _make_run(source_id, one, outcomes[one.report[0]["run_id"]])
        for one in batch
        if one.report[0]["run_id"] not in known
    ]
    if not rows:
        return 0
    added = session.execute(runs.insert().returning(runs, sort_by_parameter_order=True), rows)
    ended: list[tuple[Run, Outcome]] = [(run, outcomes[run.lake_run]) for run in map(to_run, added)]
    store_results(session, ended, ended[0][0].created_at)
    store_rollups(session, ended)
    return len(ended)


def _make_run(source_id: str, past: PastRun, outcome: Outcome) -> dict[str, Any]:
    total = past.report[0]
    kind = _KINDS.get(past.kind, past.kind)
    started, finished = (_parse_time(total[name]) for name in ("start_time", "finish_time"))
    return make_row(
        source_id,
        kind if kind in LANES else "sync",
        started,
        trigger=TRIGGER,
        actor="recover",
        state=RunState(outcome.state),
        lake_run=outcome.lake_run,
        error_code=outcome.error_code,
        error=outcome.error,
        started_at=started,
        ended_at=finished,
    )


def _parse_time(text: str) -> datetime:
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def _list_notes(lake: RegisteredLake, recovered: Sequence[RecoveredSource]) -> Iterator[str]:
    for one in recovered:
        if one.is_new:
            yield (
                f"source {one.source} has a new write key, and its syncs are not enabled: keys and "
                "schedules are not in the lake"
            )
    for name in lake.model.secrets:
        if name not in lake.secrets:
            yield f"lake {lake.slug}: if it needs its {name}, use `eventlake lake set`"
