"""Read: archive files to chunks. Every event's JSON is parsed once, here.

A task reads a group of files. A table of which it met few events would make a small chunk, and a
chunk costs as much as hundreds of events: so these are spilled, and gathered from all the tasks.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter

import msgspec
import pyarrow as pa

from eventlake.archive import open_log
from eventlake.kernels.lines import Damage, is_utf8, read_blocks
from eventlake.kernels.route import LINE_BITS, Event, EventBuffer, RejectedLine, Router, Rules
from eventlake.model.naming import Call
from eventlake.pipeline.chunks import MAX_REJECTED, Chunks, ReadJob, ReadResult, Spill
from eventlake.stores import Range
from eventlake.stores.ranges import batch_by_size

PILE = 30 << 20
"""Bytes that events of one table take which are parsed at once."""
PILES = 256 << 20
"""Bytes that events take in a task before it parses the largest tables'."""
OFTEN = 4 << 20
"""Bytes of lines after which a task looks what it holds."""
FEW = 640 << 10
"""Bytes of one table's events that are left for the gathering."""


def read_task(job: ReadJob, number: int) -> bytes:
    """Read the files of one task; the result is a `ReadResult` as JSON."""
    return msgspec.json.encode(_Reading(job, number).run())


class _Reading:
    def __init__(self, job: ReadJob, number: int) -> None:
        skip = frozenset(job.settings.skip_events)
        rules = Rules(job.settings.naming, job.settings.table_prefix, skip, job.suppressed)
        self.job, self.number, self.since = job, number, 0
        self.chunks = Chunks(job, number)
        self.router = Router(rules, rejected=self.chunks.rejected)

    def run(self) -> ReadResult:
        for file in self.job.groups[self.number]:
            self._read_file(file)
        alone = len(self.job.groups) == 1
        self._flush(0 if alone else FEW)
        self._spill()
        result = self.chunks.done()
        result.aside = [
            (table, aside.call, aside.suppressed, aside.skipped)
            for table, aside in self.router.excluded.items()
        ]
        return result

    def _read_file(self, file: int) -> None:
        place = (file << LINE_BITS) + 1
        for block in read_blocks(lambda: open_log(self.job.files[file], self.job.holders)):
            if isinstance(block, Damage):
                damage = RejectedLine("damaged_file", block.detail, b"", place)
                self.chunks.rejected.append(damage)
                return
            lines = block.split(b"\n")
            self.router.route_lines(lines, place, is_utf8(block))
            place += len(lines)
            self.since += len(block)
            if len(self.chunks.rejected) > MAX_REJECTED:
                self.chunks.reject(PILE)
            if self.since > OFTEN:
                self._flush(self._full())
                self.since = 0

    def _full(self) -> int:
        """The size of a pile that has to go now: rare tables may wait, and become fewer chunks."""
        above, sizes = PILE, [pile.bytes for pile in self.router.buffers.values()]
        while sum(size for size in sizes if size <= above) > PILES:
            above //= 2
        return above

    def _flush(self, above: int) -> None:
        """Make chunks of the piles over a size."""
        ready = self._piles(above)
        self.chunks.add((table, pile.call, pile.drain()) for table, pile in ready)
        self.chunks.reject(PILE)

    def _piles(self, above: int) -> list[tuple[str, EventBuffer]]:
        found = ((table, pile) for table, pile in self.router.buffers.items() if pile.bytes > above)
        return sorted(found, key=itemgetter(0))

    def _spill(self) -> None:
        """Leave what is left in the stage, for the gathering."""
        piles = self._piles(0)
        if not piles:
            return
        name = f"{self.job.stage}/spill/{self.number:06d}-{uuid.uuid4().hex}"
        with self.job.store.open_staged(name) as file:
            for table, pile in piles:
                data = msgspec.msgpack.encode(pile.drain())
                spill = Spill(table, pile.call, name, file.tell(), len(data))
                file.write(data)
                self.chunks.result.spills.append(spill)


@dataclass(frozen=True)
class GatherJob:
    """What every gathering task needs."""

    read: ReadJob
    tasks: tuple[tuple[Spill, ...], ...]
    """The spills of each task; those of one table are next to each other."""


def plan_gather(found: Iterable[ReadResult], parallelism: int) -> tuple[tuple[Spill, ...], ...]:
    """What was spilled in tasks of about equal size, all of a table in one."""
    tables: defaultdict[str, list[Spill]] = defaultdict(list)
    for result in found:
        for spill in result.spills:
            tables[spill.table].append(spill)
    large_first = sorted(tables.values(), key=lambda spills: -sum(spill.size for spill in spills))
    count = 2 * parallelism
    dealt = (large_first[number::count] for number in range(count))
    return tuple(tuple(chain.from_iterable(hand)) for hand in dealt if hand)


def gather_task(job: GatherJob, number: int) -> bytes:
    """Make chunks of what the reading tasks spilled; the result is a `ReadResult` as JSON."""
    chunks = Chunks(job.read, len(job.read.groups) + number)
    spills = job.tasks[number]
    ranges = [Range(spill.object, spill.offset, spill.size) for spill in spills]
    data = job.read.store.read_ranges(ranges)
    for batch in batch_by_size(spills, PILE):
        chunks.add(list(_piles(batch, data)))
    return msgspec.json.encode(chunks.done())


def _piles(
    batch: list[Spill], data: Iterator[pa.Buffer]
) -> Iterator[tuple[str, Call, list[Event]]]:
    """A batch's events by table; `data` gives what its spills hold, one after the other."""
    for (table, call), spills in groupby(batch, key=lambda spill: (spill.table, spill.call)):
        yield table, call, [event for _ in spills for event in _decode(next(data))]


_decode = msgspec.msgpack.Decoder(list[Event]).decode
