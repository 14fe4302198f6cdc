"""Plain Parquet: a table is a folder, and a file is in it once it has been moved there."""

from collections.abc import Sequence
from dataclasses import dataclass

from eventlake.model.commit import Move
from eventlake.stores import Store


@dataclass(frozen=True)
class ParquetFormat:
    """Publishes by moving staged files into place."""

    store: Store
    needs_partitions = True

    def publish(self, moves: Sequence[Move]) -> None:
        for move in moves:
            self.store.publish(move.staged, move.final)
