"""Opens Delta tables and commits to their logs, with deltalake's errors as EventLake's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import (
    AddAction,
    PostCommitHookProperties,
    RemoveAction,
    create_table_with_add_actions,
)

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.stores import Store

Action = AddAction | RemoveAction

LOG = "_delta_log"
CHECKPOINT_INTERVAL = 10
CONFIGURATION = {
    # Opening a table reads the newest checkpoint and the commits since, each of which costs more.
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    "delta.enableExpiredLogCleanup": "true",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


@dataclass(frozen=True)
class DeltaTables:
    """The Delta tables of a lake, by their location below its root."""

    store: Store
    _checked: dict[str, DeltaTable] = field(default_factory=dict, compare=False, repr=False)
    """Tables that were opened at the start of a run; each is used once."""

    def open(self, location: str) -> DeltaTable | None:
        """The table in its newest version; None if there is none."""
        if opened := self._checked.pop(location, None):
            with suppress(Exception):  # its credentials may have expired
                opened.update_incremental()
                if self.store.exists(f"{location}/{LOG}/{opened.version():020d}.json"):
                    return opened  # else the table was dropped, which an update does not notice
        with self._translate_errors("read", location):
            try:
                return DeltaTable(self._uri(location), storage_options=self._options)
            except TableNotFoundError:
                return None

    def keep(self, location: str, table: DeltaTable) -> None:
        """Let the next `open` of a table update this one, which takes a tenth of the time."""
        self._checked[location] = table

    def create(
        self,
        location: str,
        schema: Schema,
        adds: Sequence[AddAction],
        partition_columns: Sequence[str],
        properties: CommitProperties,
    ) -> None:
        """Create a table with its first files; raises CommitFailedError if there is one."""
        with self._translate_errors("write", location):
            try:
                create_table_with_add_actions(
                    self._uri(location),
                    schema,
                    list(adds),
                    mode="error",
                    partition_by=list(partition_columns),
                    configuration=CONFIGURATION,
                    storage_options=self._options,
                    commit_properties=properties,
                )
            except DeltaError as problem:
                if "already exists" in str(problem):
                    raise CommitFailedError(str(problem)) from problem
                raise
        self._fsync(location, -1)

    def commit(
        self,
        table: DeltaTable,
        location: str,
        actions: Sequence[Action],
        properties: CommitProperties,
        schema: Schema | None = None,
    ) -> None:
        """Commit actions on a handle; raises CommitFailedError if it is outdated.

        With a schema, the table gets it, and all files that it had are removed.
        """
        with self._translate_errors("write", location):
            table.create_write_transaction(
                list(actions),
                "overwrite" if schema else "append",
                schema or table.schema(),
                table.metadata().partition_columns,
                commit_properties=properties,
                post_commithook_properties=_after_commit(table.version() + 1),
            )
        self._fsync(location, table.version())

    def add_columns(
        self, table: DeltaTable, location: str, fields: list[Field], properties: CommitProperties
    ) -> None:
        """Add columns to the schema; the handle has the new version."""
        version = table.version()
        with self._translate_errors("write", location):
            table.alter.add_columns(fields, commit_properties=properties)
        self._fsync(location, version)

    def _uri(self, location: str) -> str:
        return f"{self.store.root}/{location}"

    @property
    def _options(self) -> dict[str, str]:
        return self.store.storage_options()

    def _fsync(self, location: str, version: int) -> None:
        """Flush the versions after `version` to stable storage; deltalake does not."""
        if self.store.is_local:
            folder, after = f"{location}/{LOG}", f"{max(0, version):020d}"
            for name in self.store.names_after(folder, after):
                if name[:20] > after or version < 0:
                    self.store.fsync(f"{folder}/{name}")

    @contextmanager
    def _translate_errors(self, verb: str, location: str) -> Iterator[None]:
        """Raise deltalake's errors as EventLake's, but for CommitFailedError."""
        try:
            yield
        except (CommitFailedError, EventLakeError):
            raise
        except DeltaError as problem:
            reason = str(problem).partition("\n")[0]
            raise InvalidSettings(
                f"cannot {verb} the Delta table {self.store.root}/{location}: {reason}"
            ) from problem
        except Exception as problem:
            raise self.store.explain(problem, verb, f"{location}/{LOG}") from problem


def _after_commit(version: int) -> PostCommitHookProperties:
    """Look for expired versions only when there is a checkpoint, because that lists the log."""
    is_checkpoint = (version + 1) % CHECKPOINT_INTERVAL == 0
    return PostCommitHookProperties(cleanup_expired_logs=None if is_checkpoint else False)
