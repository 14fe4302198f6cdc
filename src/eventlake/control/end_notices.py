"""Notices about the end of runs, besides failures: invalid lines, replays, erasures."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eventlake.control.database import Session
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.preferences import read_preferences
from eventlake.control.results import Outcome
from eventlake.control.runs import Run, RunState
from eventlake.control.tables import run_tables

MIN_LINES = 100
"""Of fewer lines, a share says little."""
_EVENTS = {"replay": "replay", "erasure": "erasure"}
"""By lane, the beginning of the event's name."""
_ENDS = {RunState.FINISHED: "finished", RunState.PARTIAL: "finished", RunState.FAILED: "failed"}
QUARANTINE_FIX = "Look at the reasons with `eventlake quarantine`; after a correction, redrive."


def note_ends(session: Session, ended: Sequence[tuple[Run, Outcome]], now: datetime) -> None:
    """Write the notices of runs that ended, in the transaction that ends them."""
    write_notices(session, list(_note_quarantine(session, ended, now)))
    write_notices(session, [note_run(run, outcome, now) for run, outcome in ended if _is_own(run)])


def note_run(run: Run, outcome: Outcome, now: datetime) -> dict[str, Any]:
    """The notice that a replay or erasure has ended."""
    data = {
        "run": run.id,
        "kind": run.kind,
        "state": run.state.value,
        "rows": outcome.tables[0].rows if outcome.tables else 0,
        "error_code": run.error_code,
        "error": run.error,
    }
    event = f"{_EVENTS[run.lane]}_{_ENDS[run.state]}"
    return make_notice(event, f"run/{run.id}/ended", run.source_id, data, now)


def note_replay(
    session: Session,
    chunks: Sequence[Run],
    state: str,
    error: Mapping[str, str],
    now: datetime,
) -> None:
    """Write the notice that a replay of several chunks has ended, unless it was cancelled."""
    if state not in ("finished", "failed") or not chunks:
        return
    last = max(chunks, key=lambda run: run.id)
    rows = sa.select(sa.func.sum(run_tables.c.rows)).where(
        run_tables.c.run_id.in_([run.id for run in chunks]), run_tables.c.table == ""
    )
    landed = int(session.execute(rows).scalar() or 0)
    data = {"run": last.id, "kind": last.kind, "state": state, "rows": landed, **error}
    key = f"replay/{last.replay_id}/{last.id}"
    write_notices(session, [make_notice(f"replay_{state}", key, last.source_id, data, now)])


def _is_own(run: Run) -> bool:
    """Whether somebody asked for this run; of the chunks of a replay, the replay tells."""
    return run.lane in _EVENTS and run.state in _ENDS and run.trigger == "manual"


def _note_quarantine(
    session: Session, ended: Sequence[tuple[Run, Outcome]], now: datetime
) -> Iterator[dict[str, Any]]:
    """A notice a day and source for a sync with more invalid lines than the workspace allows."""
    wrong = [
        (run, outcome.tables[0])
        for run, outcome in ended
        if run.lane == "sync" and outcome.tables and outcome.tables[0].quarantined
    ]
    if not wrong:
        return
    percent = read_preferences(session).quarantine_percent
    for run, total in wrong:
        if total.received < MIN_LINES or total.quarantined * 100 <= percent * total.received:
            continue
        counts = {"quarantined": total.quarantined, "received": total.received}
        data = {"run": run.id, **counts, "fix": QUARANTINE_FIX}
        key = f"quarantine/{run.source_id}/{now:%Y-%m-%d}"
        yield make_notice("quarantine_share", key, run.source_id, data, now)
