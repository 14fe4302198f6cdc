"""Plan a run: check its settings, recover from crashed runs, collect what the run needs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.ledger import Ledger, State, is_dead, list_staged_runs
from eventlake.model.claims import names_of
from eventlake.model.commit import Input, Plan
from eventlake.model.report import Problems
from eventlake.model.settings import FIXED, SourceSettings
from eventlake.pipeline.finish import clean_up, finish_commit, publish
from eventlake.pipeline.merge_ids import plan_merges
from eventlake.ports import Progress

RETIRED_SECONDS = 86_400
"""Seconds before a replaced index file is deleted: runs planned earlier may still read it."""


class UnfinishedRuns(NamedTuple):
    """The runs of a source that still have a stage, and the ledger's state read after them."""

    state: State
    to_finish: dict[int, bool]
    """The sequence of each committed run, and whether the run is dead."""
    uncommitted: tuple[str, ...]
    """Runs that died before their commit."""


def find_unfinished_runs(ledger: Ledger, now: datetime) -> UnfinishedRuns:
    """Find the runs that have a stage and whether they committed; writes nothing.

    Leases are checked before the ledger is read. In the other order, a run that commits in between
    and then dies would count as uncommitted, and its stage would be removed.
    The plan must start from the returned state: if a run that seemed dead commits later, this
    run's own commit sees that and no longer abandons it.
    """
    store = ledger.store
    runs = list_staged_runs(store, ledger.folder)
    dead = {run_id: is_dead(store, run_id, now) for run_id in runs}
    state = ledger.read_state()
    sequences = {run_id: ledger.find_sequence(run_id, state) for run_id in dead}
    return UnfinishedRuns(
        state,
        {number: dead[run_id] for run_id, number in sequences.items() if number is not None},
        tuple(run_id for run_id in dead if dead[run_id] and sequences[run_id] is None),
    )


def recover(lake: Lake, ledger: Ledger, progress: Progress) -> tuple[tuple[str, ...], State]:
    """Finish committed runs; return the runs that died uncommitted, and the ledger's state."""
    unfinished = find_unfinished_runs(ledger, lake.clock.now())
    for sequence, run_is_dead in unfinished.to_finish.items():
        commit = ledger.read_commit(sequence)
        if run_is_dead:
            finished = finish_commit(lake, sequence, commit, progress)
            clean_up(lake, sequence, commit, finished, progress)
        else:
            # The run is alive; help it publish, because this run needs its index files.
            publish(lake, sequence, commit, Problems(), progress)
    return unfinished.uncommitted, unfinished.state


def make_plan(
    state: State, settings: SourceSettings, inputs: Sequence[Input], time_ns: int
) -> Plan:
    """Plan a run over new inputs at `time_ns`, starting from the ledger's state."""
    retired_before = time_ns - RETIRED_SECONDS * 10**9
    return Plan(
        run_id=f"{time_ns:019d}",
        settings=settings,
        base=state.sequence,
        inputs=tuple(inputs),
        tables=state.tables,
        ids=state.ids,
        merges=plan_merges(state.ids),
        deletes=tuple(path for path, run in state.retired.items() if int(run) < retired_before),
        renamed=is_renamed(state, settings),
    )


def is_renamed(state: State, settings: SourceSettings) -> bool:
    """Whether the settings give existing tables other catalog names than the last commit."""
    before = state.settings
    return before is not None and bool(state.tables) and names_of(before) != names_of(settings)


def check_settings(state: State, settings: SourceSettings) -> None:
    """Raise `InvalidSettings` if a setting differs that is fixed while the source has tables."""
    if state.settings is None or not state.tables:
        return
    for name in FIXED:
        before, now = getattr(state.settings, name), getattr(settings, name)
        if before != now:
            raise InvalidSettings(
                f"{name} is {str(now)!r}, but the tables of {settings.source} were created with "
                f"{str(before)!r}: use that, or delete the tables and load again"
            )


def rename_warnings(state: State, settings: SourceSettings) -> tuple[str, ...]:
    """Explain to the user which catalog names changed, and what happens to the old tables."""
    if state.settings is None or not is_renamed(state, settings):
        return ()
    return tuple(
        f"{name} changed from {getattr(state.settings, name)!r} to {getattr(settings, name)!r}: "
        "all tables are registered under the new name with all their partitions; the old "
        "tables stay in the catalog without new partitions until you drop them"
        for name in ("database", "table_prefix")
        if getattr(state.settings, name) != getattr(settings, name)
    )
