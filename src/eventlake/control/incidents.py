"""Incidents: what is wrong with a source, from the first failure to the end, and the notices."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunState
from eventlake.control.sources import get_source
from eventlake.control.tables import incidents, sources
from eventlake.model.values import FrozenModel

NOTIFY_AT = (1, 5, 20)
"""The failures in a row at which there is a notice; after the last, there is one a day."""
SYNC, PARTIAL, STALE, SILENT = "sync", "partial", "stale", "silent"


class Incident(FrozenModel):
    """Something that is or was wrong with a source."""

    id: int
    source: str
    kind: str
    """`sync`: syncs fail; `partial`: the catalog refuses a table; `stale`: no sync succeeded since
    one was due; `silent`: no event was received."""
    failures: int
    last_run: int | None
    error_code: str
    error: str
    created_at: datetime
    closed_at: datetime | None


def list_incidents(
    session: Session,
    source: str = "",
    *,
    is_open: bool = False,
    before: int | None = None,
    limit: int = 100,
) -> list[Incident]:
    """The newest incidents; `before` is the last id of the page before."""
    query = (
        sa.select(incidents, sources.c.slug)
        .join(sources, sources.c.id == incidents.c.source_id)
        .order_by(incidents.c.id.desc())
        .limit(limit)
    )
    if source:
        query = query.where(incidents.c.source_id == get_source(session, source).id)
    if is_open:
        query = query.where(incidents.c.closed_at.is_(None))
    if before is not None:
        query = query.where(incidents.c.id < before)
    return [_to_value(row) for row in session.execute(query)]


_OPEN = sa.select(incidents).where(
    incidents.c.source_id.in_(sa.bindparam("sources", expanding=True)),
    incidents.c.closed_at.is_(None),
)
_COUNT = (
    incidents.update()
    .where(incidents.c.id == sa.bindparam("of"))
    .values(
        failures=incidents.c.failures + 1,
        last_run=sa.bindparam("run"),
        error_code=sa.bindparam("new_code"),
        error=sa.bindparam("new_error"),
    )
)
_CLOSED_BY = {RunState.FINISHED: (SYNC, PARTIAL), RunState.PARTIAL: (SYNC,)}
_OPENED_BY = {RunState.FAILED: SYNC, RunState.PARTIAL: PARTIAL}


def count_failures(session: Session, results: Sequence[tuple[Run, Outcome]], now: datetime) -> None:
    """Open, count up and close the incidents of syncs that ended, and write the notices."""
    if not results:
        return
    ended = [run for run, _ in results]
    rows_of = {run.id: one.tables[0].rows for run, one in results if one.tables}
    found = read_open(session, [run.source_id for run in ended])
    closed = [
        (found[run.source_id, kind], run)
        for run in ended
        for kind in _CLOSED_BY.get(run.state, ())
        if (run.source_id, kind) in found
    ]
    written = [
        _note_recovery(row, {"recovered_by": run.id, "rows": rows_of.get(run.id, 0)}, now)
        for row, run in closed
        if row.kind == SYNC
    ]
    _close(session, [row.id for row, _ in closed], now)
    wrong = [run for run in ended if run.state in _OPENED_BY]
    if wrong:
        for row in _count_up(session, wrong, now):
            key = _notice_key(row.kind, row.failures, now)
            written += [_note_failure(row, key, now)] if key else []
    write_notices(session, written)


def open_incident(
    session: Session, source_id: str, kind: str, data: Mapping[str, Any], now: datetime
) -> None:
    """Open an incident that is not of a run, and write its notice; none if one is open."""
    row = {"source_id": source_id, "kind": kind, "failures": 1, "created_at": now}
    for made in insert_if_absent(session, incidents, [{**row, "error_code": "", "error": ""}]):
        facts = {"incident": made, "since": now.isoformat(), **data}
        write_notices(session, [make_notice(kind, f"incident/{made}/1", source_id, facts, now)])


def close_incident(
    session: Session, source_id: str, kind: str, now: datetime, *, notify: bool
) -> None:
    """Close an incident that is not of a run; with `notify`, write that the source is fresh."""
    row = read_open(session, [source_id]).get((source_id, kind))
    if row is None:
        return
    _close(session, [row.id], now)
    if not notify:
        return
    data = {"incident": row.id, "since": row.created_at.isoformat(), "until": now.isoformat()}
    notice = make_notice("fresh", f"incident/{row.id}/recovered", source_id, data, now)
    write_notices(session, [notice])


def read_open(session: Session, source_ids: Sequence[str]) -> dict[tuple[str, str], sa.Row[Any]]:
    """The open incidents of sources, by source and kind."""
    rows = session.execute(_OPEN, {"sources": list(source_ids)})
    return {(row.source_id, row.kind): row for row in rows}


def _close(session: Session, ids: Sequence[int], now: datetime) -> None:
    if ids:
        is_closed = incidents.c.id.in_(ids)
        session.execute(incidents.update().where(is_closed).values(closed_at=now))


def _count_up(session: Session, wrong: Sequence[Run], now: datetime) -> list[sa.Row[Any]]:
    """Add a failure to the incident of each run's source; return the incidents."""
    kinds = [_OPENED_BY[run.state] for run in wrong]
    rows = [
        {"source_id": run.source_id, "kind": kind, "failures": 0, "created_at": now}
        | {"error_code": "", "error": ""}
        for run, kind in zip(wrong, kinds, strict=True)
    ]
    insert_if_absent(session, incidents, rows)
    ids = [run.source_id for run in wrong]
    found = read_open(session, ids)
    counted = [
        {"of": found[run.source_id, kind].id, "run": run.id}
        | {"new_code": run.error_code, "new_error": run.error}
        for run, kind in zip(wrong, kinds, strict=True)
    ]
    session.execute(_COUNT, counted)
    found = read_open(session, ids)
    return [found[run.source_id, kind] for run, kind in zip(wrong, kinds, strict=True)]


def _notice_key(kind: str, failures: int, now: datetime) -> str:
    """Which notice of an incident is due after a failure; empty for none. Each is written once."""
    if kind == PARTIAL:
        return "1"
    if failures > NOTIFY_AT[-1]:
        return f"{now:%Y-%m-%d}"
    return str(failures) if failures in NOTIFY_AT else ""


def _note_failure(row: sa.Row[Any], key: str, now: datetime) -> dict[str, Any]:
    event = "sync_partial" if row.kind == PARTIAL else "sync_failed"
    error = {"error_code": row.error_code, "error": row.error}
    data = {**_describe(row), "run": row.last_run, **error}
    return make_notice(event, f"incident/{row.id}/{key}", row.source_id, data, now)


def _note_recovery(row: sa.Row[Any], facts: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    data = {**_describe(row), **facts, "until": now.isoformat()}
    return make_notice("recovered", f"incident/{row.id}/recovered", row.source_id, data, now)


def _describe(row: sa.Row[Any]) -> dict[str, Any]:
    return {
        "incident": row.id,
        "failures": row.failures,
        "since": row.created_at.isoformat(),
    }


def _to_value(row: sa.Row[Any]) -> Incident:
    return Incident(
        id=row.id,
        source=row.slug,
        kind=row.kind,
        failures=row.failures,
        last_run=row.last_run,
        error_code=row.error_code,
        error=row.error,
        created_at=row.created_at,
        closed_at=row.closed_at,
    )
