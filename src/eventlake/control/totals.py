"""Sums over all sources for metrics, from the roll-ups; none of these reads all runs."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.freshness import Freshness
from eventlake.control.incidents import SYNC
from eventlake.control.monitor_tables import freshness, run_days
from eventlake.control.notify.tables import IS_OPEN, deliveries
from eventlake.control.runs import RunState
from eventlake.control.tables import IS_ACTIVE, daily, incidents, runs, sources
from eventlake.model.values import FrozenModel

OUTCOMES = {
    "landed": "rows",
    "duplicate": "duplicates",
    "suppressed": "suppressed",
    "quarantined": "quarantined",
    "skipped": "skipped",
}
"""What became of lines, and the count of each."""


class RunTotal(FrozenModel):
    """Runs of a source that ended, by kind and state."""

    source: str
    kind: str
    state: str
    runs: int
    seconds: float


class SourceTotal(FrozenModel):
    """A source's lines by outcome, and how fresh it is."""

    source: str
    outcomes: dict[str, int]
    last_success: datetime | None
    newest: datetime | None
    state: Freshness | None
    failures: int


class Totals(FrozenModel):
    """All sums."""

    runs: tuple[RunTotal, ...]
    sources: tuple[SourceTotal, ...]
    queued: dict[str, int]
    """Runs in the queue by lane."""
    waiting: int
    """Deliveries that have not arrived yet."""


def read_totals(session: Session) -> Totals:
    """The sums as they are now."""
    is_queued = runs.c.state == RunState.QUEUED
    lanes = session.execute(
        sa.select(runs.c.lane, sa.func.count().label("n"))
        .where(IS_ACTIVE, is_queued)
        .group_by(runs.c.lane)
    )
    waiting = sa.select(sa.func.count()).select_from(deliveries).where(IS_OPEN)
    return Totals(
        runs=tuple(_read_runs(session)),
        sources=tuple(_read_sources(session)),
        queued={row.lane: row.n for row in lanes},
        waiting=session.execute(waiting).scalar_one(),
    )


def _read_runs(session: Session) -> list[RunTotal]:
    key = (sources.c.slug, run_days.c.kind, run_days.c.state)
    rows = session.execute(
        sa.select(*key, sa.func.sum(run_days.c.runs), sa.func.sum(run_days.c.seconds))
        .join(sources, sources.c.id == run_days.c.source_id)
        .where(sources.c.removed_at.is_(None))
        .group_by(*key)
        .order_by(*key)
    )
    names = ("source", "kind", "state", "runs", "seconds")
    return [RunTotal(**dict(zip(names, row, strict=True))) for row in rows]


def _read_sources(session: Session) -> list[SourceTotal]:
    sums = [sa.func.sum(daily.c[name]).label(name) for name in OUTCOMES.values()]
    landed = (
        sa.select(daily.c.source_id, *sums)
        .where(sa.text("daily.\"table\" = ''"))
        .group_by(daily.c.source_id)
        .subquery()
    )
    rows = session.execute(
        sa.select(
            sources.c.slug,
            *(landed.c[name] for name in OUTCOMES.values()),
            freshness.c.succeeded_at,
            freshness.c.newest,
            freshness.c.state,
            incidents.c.failures,
        )
        .outerjoin(landed, landed.c.source_id == sources.c.id)
        .outerjoin(
            freshness, sa.and_(freshness.c.source_id == sources.c.id, freshness.c.table == "")
        )
        .outerjoin(
            incidents,
            sa.and_(
                incidents.c.source_id == sources.c.id,
                incidents.c.kind == SYNC,
                incidents.c.closed_at.is_(None),
            ),
        )
        .where(sources.c.removed_at.is_(None))
        .order_by(sources.c.slug)
    )
    return [_to_total(row) for row in rows]


def _to_total(row: Any) -> SourceTotal:
    return SourceTotal(
        source=row.slug,
        outcomes={name: int(getattr(row, count) or 0) for name, count in OUTCOMES.items()},
        last_success=row.succeeded_at,
        newest=row.newest,
        state=Freshness(row.state) if row.state else None,
        failures=row.failures or 0,
    )
