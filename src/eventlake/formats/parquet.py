"""Plain Parquet: a table is a folder, and a file is in it once it has been moved there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventlake.model.commit import TableChange
from eventlake.stores import Store


@dataclass(frozen=True)
class ParquetFormat:
    """Publishes by moving staged files into place, then deletes those that were replaced."""

    store: Store
    name = "parquet"
    needs_partitions = True
    versioned = False

    def check(self, tables: Mapping[str, str]) -> None:
        """Any folder can be written."""

    def publish(self, changes: Sequence[TableChange]) -> None:
        for change in changes:
            for file in change.adds:
                if file.staged and file.path not in change.superseded:
                    self.store.publish(file.staged, file.path)
            # The staged copy too: a slow run that publishes late must not bring the file back.
            gone = [path for file in change.removes for path in (file.path, file.staged) if path]
            self.store.delete(gone)

    def restore(self, table: TableChange) -> bool:  # noqa: ARG002 - a folder has no list of files
        return False
