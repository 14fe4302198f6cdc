"""Recover from crashed runs: finish those that committed, find those that did not."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from eventlake.lake import Lake
from eventlake.ledger import Ledger, Refusal, State, is_dead, list_staged_runs, read_refusals
from eventlake.model.report import Problems
from eventlake.pipeline.finish import clean_up, finish_commit, finish_registration, publish
from eventlake.pipeline.table_format import check_format
from eventlake.ports import Progress


class UnfinishedRuns(NamedTuple):
    """The runs of a source that still have a stage, and the ledger's state read after them."""

    state: State
    to_finish: dict[int, bool]
    """The sequence of each committed run, and whether the run is dead."""
    uncommitted: tuple[str, ...]
    """Runs that died before their commit."""


def find_unfinished_runs(ledger: Ledger, now: datetime) -> UnfinishedRuns:
    """Find a source's runs with a stage: those that committed, and dead ones that did not.

    Live runs without a commit are left out. Writes nothing.

    Leases are checked before the ledger is read. In the other order, a run that commits in between
    and then dies would count as uncommitted, and its stage would be removed. The plan must start
    from the returned state: if a run that seemed dead commits later, this run's own commit sees
    that and no longer abandons it.
    """
    dead = {run_id: is_dead(ledger, run_id, now) for run_id in list_staged_runs(ledger)}
    state = ledger.read_state()
    sequences = {run_id: ledger.find_sequence(run_id, state) for run_id in dead}
    return UnfinishedRuns(
        state,
        {number: dead[run_id] for run_id, number in sequences.items() if number is not None},
        tuple(run_id for run_id in dead if dead[run_id] and sequences[run_id] is None),
    )


class RecoveredSource(NamedTuple):
    """What a run begins with."""

    dead: tuple[str, ...]
    """Runs that died before their commit."""
    state: State
    refusals: Mapping[str, Refusal]
    """The tables that the catalog still refuses."""


def recover(lake: Lake, ledger: Ledger, progress: Progress) -> RecoveredSource:
    """Finish committed runs; return those that died uncommitted, the ledger's state and refusals.

    First registers what the catalog refused earlier. A committed run that is alive is only helped
    to publish. Stages of uncommitted runs stay, for the commit that abandons them. Errors of tables
    are left to the next run. Raises `InvalidSettings` if the tables have another format.
    """
    unfinished = find_unfinished_runs(ledger, lake.clock.now())
    check_format(lake, unfinished.state)
    refusals = finish_registration(lake, ledger, progress)
    for sequence, run_is_dead in unfinished.to_finish.items():
        commit = ledger.read_commit(sequence)
        if run_is_dead:
            finished = finish_commit(lake, sequence, commit, progress)
            clean_up(lake, sequence, commit, finished, progress)
        else:
            # The run is alive; help it publish, because this run needs its index files.
            publish(lake, sequence, commit, Problems(), progress)
    if unfinished.to_finish:  # the catalog may have refused their tables
        refusals = read_refusals(ledger)
    return RecoveredSource(unfinished.uncommitted, unfinished.state, refusals)
