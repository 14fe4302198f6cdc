"""Commit: the one atomic step. Two runs of a source never both land the same event."""

from contextlib import suppress

from eventlake.claims import claim
from eventlake.errors import Conflict, InvalidSettings
from eventlake.kernels.dedupe import Ids, match_earlier
from eventlake.ledger import Ledger
from eventlake.model.claims import names_of
from eventlake.model.commit import Commit, IdFile, IdMerge, TableCommit
from eventlake.model.schema import budget_used
from eventlake.model.settings import FIXED
from eventlake.pipeline.dedupe import read_ids
from eventlake.stores import Store


def append(ledger: Ledger, base: int, commit: Commit) -> tuple[int, Commit]:
    """Make a commit true, after those that others made since the plan.

    Returns its sequence and the commit as it stands.
    """
    claim(ledger.store, commit.settings)
    while not ledger.append(base + 1, commit):
        for sequence, other in ledger.since(base):
            if other.run_id == commit.run_id:
                return sequence, other  # it is ours: only the answer to an earlier try was lost
            check_conflict(ledger.store, commit, other)
            commit = rebase(commit, other)
            base = sequence
    return base + 1, commit


def check_conflict(store: Store, mine: Commit, other: Commit) -> None:
    """Raise `Conflict` if both cannot stand."""
    if mine.run_id in other.abandons:
        raise _conflict(other, "held this run for dead and went on without it")
    for name in FIXED:
        if getattr(mine.settings, name) != getattr(other.settings, name):
            raise _conflict(other, f"made the tables with another {name}")
    loaded = {identity for one in other.inputs for identity in one.identities}
    if any(identity in loaded for one in mine.inputs for identity in one.identities):
        raise _conflict(other, "loaded some of the same files")
    if _share_ids(store, mine, other):
        raise _conflict(other, "landed some of the same message ids")


def _conflict(other: Commit, what: str) -> Conflict:
    return Conflict(
        f"another run of {other.settings.source} ({other.run_id}) committed first and {what}; "
        "nothing of this run was landed: run it again"
    )


def _share_ids(store: Store, mine: Commit, other: Commit) -> bool:
    known = [_read_moving(store, file) for file in other.ids]
    for file in mine.ids:
        own = _read_moving(store, file)
        if any(match_earlier(own, theirs, window=EVER).any() for theirs in known):
            return True
    return False


# Sharing an id is enough, however far apart: what either run kept depended on the other.
EVER = 1 << 60


def _read_moving(store: Store, file: IdFile) -> Ids:
    """An index file that its run may be publishing just now."""
    for path in (file.path, file.staged):
        with suppress(InvalidSettings):  # not there yet, or not there any more
            return read_ids(store, path)
    return read_ids(store, file.path)


def rebase(mine: Commit, other: Commit) -> Commit:
    """This commit on top of another that touched some of the same tables."""
    changed = (done for done in other.tables if done.adds or done.new_columns)
    theirs = {done.table.name: done for done in changed}
    tables = tuple(
        _on_top(done, theirs[done.table.name], other) if done.table.name in theirs else done
        for done in mine.tables
    )
    for done in tables:
        if done.new_columns and budget_used(done.table.types) > mine.settings.max_columns:
            raise _conflict(other, f"took the last columns that {done.table.name} may have")
    # Who was held for dead and has committed after all needs its stage.
    dead = tuple(run_id for run_id in mine.abandons if run_id != other.run_id)
    renamed = mine.renamed or names_of(mine.settings) != names_of(other.settings)
    return mine.model_copy(
        update={
            "tables": tables,
            "abandons": dead,
            "renamed": renamed,
            "merges": _still_possible(mine.merges, other),
            "deletes": tuple(path for path in mine.deletes if path not in other.deletes),
        }
    )


def _still_possible(merges: tuple[IdMerge, ...], other: Commit) -> tuple[IdMerge, ...]:
    """Those of the merges whose files the other run has not merged as well."""
    gone = {path for merge in other.merges for path in merge.replaces}
    return tuple(merge for merge in merges if gone.isdisjoint(merge.replaces))


def _on_top(mine: TableCommit, theirs: TableCommit, other: Commit) -> TableCommit:
    known = theirs.table.types
    for column in mine.new_columns:
        if known.get(column.name, column.type) is not column.type:
            raise _conflict(other, f"made {mine.table.name}.{column.name} another type")
    added = tuple(column for column in mine.new_columns if column.name not in known)
    return mine.model_copy(
        update={
            "table": theirs.table.with_columns(added),
            "new_columns": added,
            "is_new": False,
        }
    )
