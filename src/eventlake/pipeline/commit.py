"""Commit: the one atomic step; two runs of a source never both land the same event."""

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from eventlake.archive import object_address
from eventlake.claims import claim
from eventlake.errors import Conflict, InvalidSettings
from eventlake.kernels.dedupe import Ids, match_earlier, unpack_hashes
from eventlake.ledger import Ledger
from eventlake.model.claims import names_of
from eventlake.model.commit import Commit, CommitKind, DataFile, IdFile, IdMerge, TableCommit
from eventlake.model.layout import partition_path
from eventlake.model.schema import budget_used
from eventlake.model.settings import FIXED
from eventlake.pipeline.id_files import read_ids
from eventlake.pipeline.user_index import list_users
from eventlake.stores import Store
from eventlake.suppression import read_suppression_list


@contextmanager
def detect_changes(ledger: Ledger, base: int) -> Iterator[None]:
    """Raise `Conflict` for `InvalidSettings` in the block if others have committed after `base`.

    What the block reads, such as a file of a table, may have been replaced by them.
    """
    try:
        yield
    except InvalidSettings as problem:
        if not ledger.has_commits_after(base):
            raise
        raise Conflict(
            f"another run of {ledger.folder} committed meanwhile and changed what this run reads: "
            f"{problem}; this run landed nothing: run it again"
        ) from problem


def append_commit(ledger: Ledger, base: int, commit: Commit) -> tuple[int, Commit]:
    """Append a commit after `base`, rebased on commits that other runs have made since.

    First claims its folder and catalog names for good. Returns its sequence and the rebased commit.
    Raises `Conflict` if both cannot stand, and `InvalidSettings` if another source owns one of the
    names.
    """
    claim(ledger.store, ledger.layout, commit.settings)
    while not ledger.append(base + 1, commit):
        for sequence, other in ledger.commits_after(base):
            if other.run_id == commit.run_id:
                return sequence, other  # it is ours: the answer to an earlier try was lost
            commit = take_over_compaction(commit, other)
            check_conflict(ledger.store, commit, other)
            commit = rebase(commit, other)
            base = sequence
    return base + 1, commit


def check_conflict(store: Store, mine: Commit, other: Commit) -> None:
    """Raise `Conflict` if `mine` cannot follow `other`, which is in the ledger.

    Reads the id files of both. Conflicting schemas are left to `rebase`.
    """
    if mine.run_id in other.abandons:
        raise _conflict_error(other, "treated this run as dead and abandoned it")
    if mine.is_whole or other.is_whole:
        raise _conflict_error(other, "one of the two replaces or drops all tables")
    for name in FIXED:
        if getattr(mine.settings, name) != getattr(other.settings, name):
            raise _conflict_error(other, f"created the tables with another {name}")
    if _share_inputs(mine, other):
        raise _conflict_error(other, "loaded some of the same files")
    if mine.removed_paths & other.removed_paths:
        raise _conflict_error(other, "replaced some of the same files")
    if _rewrites_used(mine, other) or _rewrites_used(other, mine):
        raise _conflict_error(other, "one of the two rewrites an object that the other uses")
    _check_rows(store, mine, other)


def _check_rows(store: Store, mine: Commit, other: Commit) -> None:
    """Raise `Conflict` if the rows of one commit contradict those of the other."""
    if _lands_erased(store, mine, other) or _lands_erased(store, other, mine):
        raise _conflict_error(other, "one of the two lands events of a user that is forgotten")
    if _share_ids(store, mine, other):
        raise _conflict_error(other, "landed some of the same message ids")
    if _may_miss(store, mine, other) or _may_miss(store, other, mine):
        raise _conflict_error(other, "removed or repeated message ids that this run relied on")


def _share_inputs(mine: Commit, other: Commit) -> bool:
    """Whether both load the same input; False for replays, which read again what was loaded."""
    if mine.replaces or other.replaces:
        return False
    loaded = {identity for one in other.inputs for identity in one.identities}
    return any(identity in loaded for one in mine.inputs for identity in one.identities)


def _rewrites_used(writer: Commit, user: Commit) -> bool:
    """Whether a commit replaces or removes an object that the other rewrites, too, or has read."""
    paths = writer.rewritten_paths
    inputs = {object_address(path) for path in paths}
    return not paths.isdisjoint(user.rewritten_paths) or any(
        one.uri in inputs for one in user.inputs
    )


def take_over_compaction(mine: Commit, other: Commit) -> Commit:
    """Return `mine`, removing the merged files of a compaction instead of those that it merged.

    Only in partitions where the compaction merged nothing but files that `mine` removes: in others
    `mine` stays as it is, and so `check_conflict` raises. Returns `mine` if `other` is no
    compaction, or both are.
    """
    if other.kind is not CommitKind.COMPACT or mine.kind is CommitKind.COMPACT:
        return mine
    theirs = {one.table.name: one for one in other.tables}
    return mine.model_copy(
        update={
            "tables": tuple(
                _take_over(table, theirs[table.table.name])
                if table.table.name in theirs and table.removes
                else table
                for table in mine.tables
            )
        }
    )


def _take_over(mine: TableCommit, compacted: TableCommit) -> TableCommit:
    """Do `take_over_compaction` for one table, of which both commits remove files."""
    paths = {file.path for file in mine.removes}
    merged = {partition_path(file.partition) for file in compacted.removes}
    merged -= {partition_path(f.partition) for f in compacted.removes if f.path not in paths}
    gone = {f.path for f in compacted.removes if partition_path(f.partition) in merged}
    return mine.model_copy(
        update={
            "removes": (
                *(file for file in mine.removes if file.path not in gone),
                *(file for file in compacted.adds if partition_path(file.partition) in merged),
            )
        }
    )


def _may_miss(store: Store, loader: Commit, remover: Commit) -> bool:
    """Whether `loader` may have dropped an event as a duplicate of one that `remover` removed.

    True if `remover` removed an id that it did not land again with the same time of receipt, and
    `loader` left out an event with this id, or so many duplicates that their ids are not known.
    """
    if not loader.counts.duplicates or remover.erasure:  # the same event of a forgotten user
        return False
    duplicates = unpack_hashes(b64decode(loader.duplicate_ids))
    landed = [_read_published_or_staged(store, file) for file in remover.ids]
    for file in remover.removed_ids:
        removed = _read_published_or_staged(store, file)
        again = [match_earlier(removed, ids, window=0) for ids in landed]
        lost = removed.at(~np.logical_or.reduce([np.zeros(len(removed.high), bool), *again]))
        is_known = bool(loader.duplicate_ids)
        if len(lost.high) and (not is_known or match_earlier(duplicates, lost, UNBOUNDED).any()):
            return True
    return False


def _lands_erased(store: Store, adder: Commit, eraser: Commit) -> bool:
    """Whether a commit adds rows of a user whose rows the other removes.

    Its run may have begun before the user was suppressed.
    """
    if eraser.erasure is None:
        return False
    users = read_suppression_list(store).match_hashed(eraser.erasure.ids)
    adds = (file for table in adder.tables for file in table.adds)
    return any(
        one in users
        for file in adds
        if file.path not in eraser.removed_paths
        for one in _list_users(store, file)
    )


def _list_users(store: Store, file: DataFile) -> set[str]:
    """The users' ids in a data file that its run may be publishing at this moment."""
    for path in filter(None, (file.path, file.staged)):
        with suppress(InvalidSettings):
            return list_users(store, path)
    return set()  # a later commit has removed it


def _conflict_error(other: Commit, reason: str) -> Conflict:
    """Return, not raise, the error for a run that `other` came before; `reason` is what it did."""
    return Conflict(
        f"another run of {other.settings.source} ({other.run_id}) committed first and {reason}; "
        "this run landed nothing: run it again"
    )


def _share_ids(store: Store, mine: Commit, other: Commit) -> bool:
    """Whether both landed an event with the same message id, however far apart in time."""
    committed = [_read_published_or_staged(store, file) for file in other.ids]
    for file in mine.ids:
        own = _read_published_or_staged(store, file)
        if any(match_earlier(own, theirs, window=UNBOUNDED).any() for theirs in committed):
            return True
    return False


UNBOUNDED = 1 << 60
"""A window without limits: runs that share an id conflict, however far apart its events are."""


def _read_published_or_staged(store: Store, file: IdFile) -> Ids:
    """Read an index file that its run may be publishing at this moment.

    Raises the store's `InvalidSettings` if it has neither path.
    """
    for path in (file.path, file.staged):
        with suppress(InvalidSettings):  # not yet published, or no longer staged
            return read_ids(store, path)
    return read_ids(store, file.path)


def rebase(mine: Commit, other: Commit) -> Commit:
    """Return `mine` as it follows `other`: with its schemas, without what it made obsolete.

    Obsolete are merges of ids, deletes and abandoned runs. Raises `Conflict` if `other` changed the
    type of a column or removed it, if one of both drops a table that the other changes, or if a
    table has no room left for the new columns.
    """
    theirs = {
        one.table.name: one
        for one in other.tables
        if one.adds or one.new_columns or one.retyped or one.dropped
    }
    tables = tuple(
        _rebase_table(one, theirs[one.table.name], other) if one.table.name in theirs else one
        for one in mine.tables
    )
    for table in tables:
        if table.new_columns and budget_used(table.table.types) > mine.settings.max_columns:
            raise _conflict_error(other, f"used up the columns that {table.table.name} may have")
    # A run that was treated as dead and has committed needs its stage.
    dead = tuple(run_id for run_id in mine.abandons if run_id != other.run_id)
    # A compaction keeps the settings of the source, also those that changed meanwhile.
    settings = other.settings if mine.kind is CommitKind.COMPACT else mine.settings
    renamed = mine.renamed or names_of(settings) != names_of(other.settings)
    return mine.model_copy(
        update={
            "settings": settings,
            "tables": tables,
            "abandons": dead,
            "renamed": renamed,
            "merges": _drop_superseded(mine.merges, other),
            "deletes": tuple(path for path in mine.deletes if path not in other.deletes),
        }
    )


def _drop_superseded(merges: tuple[IdMerge, ...], other: Commit) -> tuple[IdMerge, ...]:
    """Return the merges of files that `other` has not merged; none if it removed any ids."""
    if other.removed_ids:
        return ()
    merged = {path for merge in other.merges for path in merge.replaces}
    return tuple(merge for merge in merges if merged.isdisjoint(merge.replaces))


def _rebase_table(mine: TableCommit, theirs: TableCommit, other: Commit) -> TableCommit:
    """Return a table's commit on top of the other run's schema, less the columns that it has added.

    Raises `Conflict` if one of both drops the table, or if a column is gone or has another type.
    """
    if theirs.dropped or mine.dropped:
        raise _conflict_error(other, f"one of the two drops {mine.table.name}")
    types, added_names = theirs.table.types, {column.name for column in mine.new_columns}
    for column in mine.table.columns:
        if column.name not in types and column.name not in added_names:
            raise _conflict_error(other, f"removed {mine.table.name}.{column.name}")
        if types.get(column.name, column.type) is not column.type:
            raise _conflict_error(other, f"gave {mine.table.name}.{column.name} another type")
    added = tuple(column for column in mine.new_columns if column.name not in types)
    return mine.model_copy(
        update={
            "table": theirs.table.with_columns(added),
            "new_columns": added,
            "is_new": False,
        }
    )
