"""Delta tables: a file is in a table once a commit of the table's log has added it.

A table's log has the sequence of the last commit of the ledger that was published, as the version
of an application transaction. Commits are published in order, so everything up to that sequence is
in the table, and nothing after it (docs/decisions/0014-delta-in-the-order-of-the-ledger.md).
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from deltalake import CommitProperties, DeltaTable
from deltalake import Transaction as AppTransaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from eventlake.errors import InvalidSettings, Unavailable
from eventlake.formats.delta_features import check_features
from eventlake.formats.delta_schema import (
    delta_schema,
    find_other_types,
    has_schema,
    missing_fields,
)
from eventlake.formats.delta_stats import delta_stats
from eventlake.formats.delta_table import LOG, Action, DeltaTables
from eventlake.model.commit import CommitKind, DataFile, TableChange
from eventlake.stores import Store

MAX_TRIES = 20
"""How often a change is committed, if others commit to the table at the same time."""
MAX_REQUESTS = 16
"""Tables that are opened at the same time."""
MAX_NAMES = 5
"""Files that an error lists."""

_OWN_FILE = re.compile(r"(?:[^/]+/)*\d{19}-\d+\.parquet", re.ASCII)


@dataclass(frozen=True)
class DeltaFormat:
    """Publishes by moving staged files into place, then committing them to the table's log."""

    store: Store
    name = "delta"
    needs_partitions = False
    versioned = True

    @cached_property
    def _tables(self) -> DeltaTables:
        return DeltaTables(self.store)

    def check(self, tables: Mapping[str, str]) -> None:
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            list(pool.map(self._check_table, tables.items()))

    def _check_table(self, named: tuple[str, str]) -> None:
        name, location = named
        table = self._tables.open(location)
        if table is None:
            raise InvalidSettings(_no_log(name, location))
        check_features(name, table)
        self._tables.keep(location, table)

    # Publish

    def publish(self, changes: Sequence[TableChange]) -> None:
        for change in changes:
            if change.is_dropped:
                self._delete_log(change.location)
            else:
                self._retry(change)
            if not change.keeps_removed:
                gone = [p for file in change.removes for p in (file.path, file.staged) if p]
                self.store.delete(gone)

    def _retry(self, change: TableChange) -> None:
        """Commit a change to the table's log, unless that was done."""
        for _ in range(MAX_TRIES):
            # The same handle checks and commits: a commit of another process of ours in between
            # has the same transaction id, so that this one fails.
            table = self._tables.open(change.location)
            if table is not None and _last_sequence(table, change) >= change.transaction.sequence:
                return
            with suppress(CommitFailedError):
                if table is None:
                    self._create(change)
                else:
                    self._commit(table, change)
                return
        raise Unavailable(
            f"could not commit to {change.location}/{LOG}: others commit too often; run again"
        )

    def _create(self, change: TableChange) -> None:
        if not change.is_new:
            if not change.superseded.issuperset(file.path for file in change.adds):
                raise InvalidSettings(_no_log(change.table.name, change.location))
            return  # dropped since, or it has no rows yet
        if adds := self._place_files(change):
            self._tables.create(
                change.location,
                delta_schema(change.table, change.partition_columns),
                adds,
                change.partition_columns,
                _properties(change),
            )

    def _commit(self, table: DeltaTable, change: TableChange) -> None:
        check_features(change.table.name, table)
        live = _live_paths(table) if change.removes or change.is_new else frozenset()
        removes = _removed_paths(change)
        rest = live - removes
        if change.is_new and rest:
            raise InvalidSettings(
                f"{change.location} has a Delta table that the ledger does not know, with "
                f"{len(rest)} files: move it away, and run again"
            )
        _check_foreign(change, removes - live, rest)
        adds = self._place_files(change)
        is_replaced = bool(change.is_new or change.removes) and not rest
        if is_replaced and not has_schema(table, change.table, change.partition_columns):
            self._replace_all(table, change, adds)
            return
        self._add_columns(table, change)
        actions: list[Action] = [*_remove_actions(change, live), *adds]
        if actions:
            self._tables.commit(table, change.location, actions, _properties(change))

    def _replace_all(
        self, table: DeltaTable, change: TableChange, adds: Sequence[AddAction]
    ) -> None:
        """Replace all files, and the schema: no file remains that has another type."""
        schema = delta_schema(change.table, change.partition_columns)
        if table.metadata().partition_columns != list(change.partition_columns):
            raise InvalidSettings(
                f"the Delta table {change.location} is partitioned by "
                f"{', '.join(table.metadata().partition_columns)}, which cannot change: drop the "
                "table and replay"
            )
        self._tables.commit(table, change.location, adds, _properties(change), schema)

    def _add_columns(self, table: DeltaTable, change: TableChange) -> None:
        """Add missing columns with a commit of its own: an append ignores columns that are new."""
        other = find_other_types(table.schema(), change.table)
        if other:
            raise InvalidSettings(
                f"the Delta table {change.location} has {', '.join(other)}: rename or drop these "
                "columns there, or give them the ledger's types with `eventlake retype --replay`"
            )
        missing = missing_fields(table.schema(), change.table)
        if missing:
            properties = CommitProperties(custom_metadata=_metadata(change))
            self._tables.add_columns(table, change.location, missing, properties)

    def _place_files(self, change: TableChange) -> list[AddAction]:
        """Move the staged files into place; return the actions that add them.

        Leaves out files that are gone because a later commit has removed them.
        """
        actions = []
        for file in change.adds:
            try:
                if file.staged:
                    self.store.publish(file.staged, file.path)
            except InvalidSettings:
                if file.path not in change.superseded:
                    raise
                continue
            actions.append(_add_action(change, file))
        return actions

    def _delete_log(self, location: str) -> None:
        """Delete a table's log, the first version first: readers fail instead of seeing half."""
        self.store.delete(sorted(one.path for one in self.store.objects(f"{location}/{LOG}")))

    # Restore

    def restore(self, table: TableChange) -> bool:
        delta = self._tables.open(table.location)
        if delta is None:
            self._create(table.model_copy(update={"is_new": True}))
            return bool(table.adds)
        check_features(table.table.name, delta)
        live, wanted = _live_paths(delta), {_relative(table, one): one for one in table.adds}
        if live == wanted.keys() and not missing_fields(delta.schema(), table.table):
            return False
        if _last_sequence(delta, table) > table.transaction.sequence:
            return False  # a run has published since the files were listed
        self._add_columns(delta, table)
        missing = tuple(one for path, one in wanted.items() if path not in live)
        for one in missing:
            if not one.staged and not self.store.exists(one.path):
                raise InvalidSettings(
                    f"{one.path} is gone: `eventlake replay` lands its rows again"
                )
        adds = self._place_files(table.model_copy(update={"adds": missing}))
        time, extra = _milliseconds(table), sorted(live - wanted.keys())
        actions: list[Action] = [*(RemoveAction(path, True, time) for path in extra), *adds]
        if actions:
            self._tables.commit(delta, table.location, actions, _properties(table))
        return True


def _no_log(name: str, location: str) -> str:
    return f"{name} has no Delta log at {location}/{LOG}: `eventlake repair` writes it again"


def _app_id(change: TableChange) -> str:
    return f"eventlake/{change.transaction.source}/{change.transaction.ledger}"


def _last_sequence(table: DeltaTable, change: TableChange) -> int:
    """The last commit of the ledger that is in the table; 0 if none is."""
    return table.transaction_version(_app_id(change)) or 0


def _metadata(change: TableChange) -> dict[str, str]:
    """What the history of the table shows of a commit."""
    transaction = change.transaction
    return {
        "userMetadata": f"eventlake {transaction.kind} {transaction.run_id}",
        "eventlake.sequence": str(transaction.sequence),
    }


def _properties(change: TableChange) -> CommitProperties:
    mark = AppTransaction(_app_id(change), change.transaction.sequence)
    return CommitProperties(app_transactions=[mark], custom_metadata=_metadata(change))


def _milliseconds(change: TableChange) -> int:
    """The time of the run, in milliseconds."""
    return int(change.transaction.run_id) // 10**6


def _relative(change: TableChange, file: DataFile) -> str:
    """A file's path in the log: relative to the table."""
    return file.path.removeprefix(f"{change.location}/")


def _changes_rows(change: TableChange) -> bool:
    """Whether rows change; streams of a table ignore commits in which they do not."""
    return change.transaction.kind is not CommitKind.COMPACT


def _add_action(change: TableChange, file: DataFile) -> AddAction:
    return AddAction(
        _relative(change, file),
        file.bytes,
        file.partition,
        _milliseconds(change),
        _changes_rows(change),
        delta_stats(file, change.table),
    )


def _removed_paths(change: TableChange) -> set[str]:
    return {_relative(change, file) for file in change.removes}


def _remove_actions(change: TableChange, live: frozenset[str]) -> list[RemoveAction]:
    time, changes_rows = _milliseconds(change), _changes_rows(change)
    return [
        RemoveAction(_relative(change, one), changes_rows, time, one.bytes, {**one.partition})
        for one in change.removes
        if _relative(change, one) in live
    ]


def _live_paths(table: DeltaTable) -> frozenset[str]:
    """The paths of the files in the table, as in the log."""
    return frozenset(table.get_add_actions(flatten=True).column("path").to_pylist())


def _check_foreign(change: TableChange, missing: set[str], rest: frozenset[str]) -> None:
    """Raise `InvalidSettings` if another program has rewritten files that the change removes.

    Their rows would stay in the files that it has written instead.
    """
    foreign = sorted(path for path in rest if not _OWN_FILE.fullmatch(path))
    if missing and foreign:
        raise InvalidSettings(
            f"another program has rewritten files of the Delta table {change.location} (it has "
            f"{', '.join(foreign[:MAX_NAMES])} instead): `eventlake repair` brings back the "
            "files of the ledger"
        )
