"""Plan: which files are new, what is known, and what a crash has left behind."""

import time
from collections.abc import Sequence

from eventlake.errors import InvalidSettings
from eventlake.ledger import Ledger, State, is_dead, staged_runs
from eventlake.model.commit import Input, Plan
from eventlake.model.report import Problems
from eventlake.model.settings import FIXED, SourceSettings
from eventlake.pipeline.finish import Lake, clean, finish, publish
from eventlake.ports import Progress


def recover(lake: Lake, ledger: Ledger, progress: Progress) -> tuple[str, ...]:
    """Roll committed runs forward; the runs that died before their commit are returned."""
    runs = ledger.state().runs
    dead = []
    for run_id in staged_runs(lake.store, ledger.folder):
        gone = is_dead(lake.store, run_id)
        if run_id in runs:
            commit = ledger.commit(runs[run_id])
            if gone:
                if not finish(lake, commit, progress).problems:
                    clean(lake, ledger, commit, progress)
            else:
                publish(lake, commit, Problems(), progress)  # it is at it: lend a hand
        elif gone:
            dead.append(run_id)
    return tuple(dead)


def make_plan(
    lake: Lake, ledger: Ledger, settings: SourceSettings, inputs: Sequence[Input]
) -> Plan:
    """A run over the files that no commit names yet."""
    state = ledger.state()
    check_settings(state, settings)
    fresh = tuple(one for one in inputs if not state.has_loaded(one))
    return Plan(
        run_id=f"{time.time_ns():019d}",
        lake=lake.store.root,
        settings=settings,
        base=state.sequence,
        inputs=fresh,
        tables=state.tables,
        ids=state.ids,
    )


def check_settings(state: State, settings: SourceSettings) -> None:
    """Refuse what cannot change while the source has tables."""
    if state.settings is None or not state.tables:
        return
    for name in FIXED:
        was, given = getattr(state.settings, name), getattr(settings, name)
        if was != given:
            raise InvalidSettings(
                f"{name} is {str(given)!r}, and the tables of {settings.source} were made with "
                f"{str(was)!r}: keep that, or delete the tables and load again"
            )
