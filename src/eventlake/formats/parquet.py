"""Plain Parquet: a table is a folder, and a file is in it once it has been moved there."""

from dataclasses import dataclass

from eventlake.model.commit import TableChange, Transaction
from eventlake.stores import Store


@dataclass(frozen=True)
class ParquetFormat:
    """Publishes by moving staged files into place, then deletes those that were replaced."""

    store: Store
    needs_partitions = True

    def publish(self, change: TableChange, transaction: Transaction) -> None:  # noqa: ARG002
        for file in change.adds:
            if file.staged:
                self.store.publish(file.staged, file.path)
        # The staged copy too: a slow run that publishes late must not bring the file back.
        gone = [path for file in change.removes for path in (file.path, file.staged) if path]
        self.store.delete(gone)
