"""Plan: which files are new, what is known, and what a crash has left behind."""

import time
from collections.abc import Sequence

from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.ledger import Ledger, State, is_dead, staged_runs
from eventlake.model.claims import names_of
from eventlake.model.commit import Input, Plan
from eventlake.model.report import Problems
from eventlake.model.settings import FIXED, SourceSettings
from eventlake.pipeline.finish import clean, finish, publish
from eventlake.pipeline.merge_ids import plan_merges
from eventlake.ports import Progress

RETIRED_FOR = 86_400.0
"""Seconds that a replaced index file stays: a run that was planned before may still read it."""


def recover(lake: Lake, ledger: Ledger, progress: Progress) -> tuple[tuple[str, ...], State]:
    """Roll committed runs forward; return the runs that died uncommitted, and the ledger's state.

    Who is dead is found out before the ledger is read. The other way round, a run that commits in
    between and then dies would count as one that never committed, and its stage would be removed.
    The plan must start from the state that is returned: a run that only seemed dead and commits
    after it is then seen at the commit, which no longer abandons it.
    """
    dead = {
        run_id: is_dead(lake.store, run_id) for run_id in staged_runs(lake.store, ledger.folder)
    }
    state = ledger.state()
    uncommitted = []
    for run_id, is_gone in dead.items():
        sequence = ledger.sequence_of(run_id, state)
        if sequence is None:
            if is_gone:
                uncommitted.append(run_id)
            continue
        commit = ledger.commit(sequence)
        if is_gone:
            finished = finish(lake, sequence, commit, progress)
            clean(lake, sequence, commit, finished, progress)
        else:
            # Its index files are needed now, so help it publish.
            publish(lake, sequence, commit, Problems(), progress)
    return tuple(uncommitted), state


def make_plan(state: State, settings: SourceSettings, inputs: Sequence[Input]) -> Plan:
    """A run over files that no commit names yet, with all that is known."""
    return Plan(
        run_id=f"{time.time_ns():019d}",
        settings=settings,
        base=state.sequence,
        inputs=tuple(inputs),
        tables=state.tables,
        ids=state.ids,
        merges=plan_merges(state.ids),
        deletes=tuple(path for path, run in state.retired.items() if _age(run) > RETIRED_FOR),
        renamed=is_renamed(state, settings),
    )


def _age(run_id: str) -> float:
    """Seconds since a run was planned."""
    return time.time() - int(run_id) / 1e9


def is_renamed(state: State, settings: SourceSettings) -> bool:
    """Whether the tables have other names in the catalog than the last commit gave them."""
    before = state.settings
    return before is not None and bool(state.tables) and names_of(before) != names_of(settings)


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


def warnings(state: State, settings: SourceSettings) -> tuple[str, ...]:
    """What a user should know about settings that changed."""
    if state.settings is None or not is_renamed(state, settings):
        return ()
    return tuple(
        f"{name} was {getattr(state.settings, name)!r} and is {getattr(settings, name)!r} now: all "
        "tables are registered under the new name with their whole history; what is registered "
        "under the old one stays until you drop it, and gets no new partitions"
        for name in ("database", "table_prefix")
        if getattr(state.settings, name) != getattr(settings, name)
    )
