"""The new columns that a task observes: the first ones in its result, the rest in the stage."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from eventlake.kernels.chunk import ColumnObservation, merge_observations
from eventlake.pipeline.results import ObservationPart, ReadResult
from eventlake.pipeline.stage_paths import new_path
from eventlake.stores import Store

MAX_OBSERVATIONS = 50_000
"""Column observations that a task holds: with data as keys, there can be any number."""


class ObservationBuffer:
    """A task's observations by table, in bounded memory."""

    def __init__(self, store: Store, stage: str, label: str) -> None:
        self.parts: list[ObservationPart] = []
        """What was written into the stage."""
        self._store, self._stage, self._label = store, stage, label
        self._tables: defaultdict[str, dict[str, ColumnObservation]] = defaultdict(dict)
        self._room: dict[str, int] = {}
        self._count = 0

    def add(self, table: str, observations: Iterable[ColumnObservation], room: int) -> None:
        """Merge observations of a table; `room` is how many new columns it may get.

        Over `MAX_OBSERVATIONS` in all, writes those that the tables have no room for into the
        stage.
        """
        columns = self._tables[table]
        self._room[table] = room
        self._count -= len(columns)
        merge_observations(observations, columns)
        self._count += len(columns)
        if self._count > MAX_OBSERVATIONS:
            self._trim()

    def finish(self) -> dict[str, list[ColumnObservation]]:
        """Return by table the observations for the task's result: the best, as many as have room.

        Writes the others into the stage and adds them to `parts`. Those of a table without any
        room are dropped.
        """
        self._trim()
        return {table: list(columns.values()) for table, columns in self._tables.items()}

    def _trim(self) -> None:
        """Hold only as many new columns as a table has room for, best rank first; write the others.

        They go into the stage and into `parts`. A table without any room adds no columns, so its
        observations are dropped.
        """
        for table, columns in self._tables.items():
            room = self._room[table]
            if len(columns) > room:
                ordered = sorted(columns.values(), key=lambda one: (one.rank, one.column))
                self._tables[table] = {one.column: one for one in ordered[: max(0, room)]}
                if room > 0:
                    path = new_path(f"{self._stage}/seen", self._label)
                    self._store.write(path, msgspec.msgpack.encode(ordered[room:]))
                    self.parts.append(ObservationPart(table, path))
        self._count = sum(map(len, self._tables.values()))


def read_more_observations(
    store: Store, results: Sequence[ReadResult], table: str
) -> Iterator[ColumnObservation]:
    """Yield the observations of a table that the tasks wrote into the stage."""
    for result in results:
        for part in result.more_observations:
            if part.table == table:
                yield from _decode(store.read(part.object))


_decode = msgspec.msgpack.Decoder(list[ColumnObservation]).decode
