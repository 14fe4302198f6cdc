"""Plan: which files are new, what is known, and what a crash has left behind."""

import time
from collections.abc import Sequence
from typing import NamedTuple

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


class Leftovers(NamedTuple):
    """The runs of a source that have a stage, and the state of the ledger read after them."""

    state: State
    to_finish: dict[int, bool]
    """The sequence of each committed run, and whether its process is dead."""
    uncommitted: tuple[str, ...]
    """Runs that died before their commit."""


def find_leftovers(ledger: Ledger) -> Leftovers:
    """Sort the runs in the stage by what became of them; writes nothing.

    Who is dead is found out before the ledger is read. The other way round, a run that commits in
    between and then dies would count as one that never committed, and its stage would be removed.
    The plan must start from the state that is returned: a run that only seemed dead and commits
    after it is then seen at the commit, which no longer abandons it.
    """
    store = ledger.store
    dead = {run_id: is_dead(store, run_id) for run_id in staged_runs(store, ledger.folder)}
    state = ledger.state()
    sequences = {run_id: ledger.sequence_of(run_id, state) for run_id in dead}
    return Leftovers(
        state,
        {number: dead[run_id] for run_id, number in sequences.items() if number is not None},
        tuple(run_id for run_id in dead if dead[run_id] and sequences[run_id] is None),
    )


def recover(lake: Lake, ledger: Ledger, progress: Progress) -> tuple[tuple[str, ...], State]:
    """Roll committed runs forward; return the runs that died uncommitted, and the state."""
    leftovers = find_leftovers(ledger)
    for sequence, is_gone in leftovers.to_finish.items():
        commit = ledger.commit(sequence)
        if is_gone:
            finished = finish(lake, sequence, commit, progress)
            clean(lake, sequence, commit, finished, progress)
        else:
            # Its index files are needed now, so help it publish.
            publish(lake, sequence, commit, Problems(), progress)
    return leftovers.uncommitted, leftovers.state


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
