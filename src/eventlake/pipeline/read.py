"""Read: parse inputs into chunks. Every event's JSON is parsed once, here.

A task reads a group of files. A chunk costs as much as hundreds of events, so a task does not make
one of a table with few events. It spills these as raw lines, and gathering tasks make chunks of
the spilled lines of all reading tasks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter

import msgspec
import pyarrow as pa

from eventlake.archive import open_input
from eventlake.kernels.lines import Damage, is_utf8, read_blocks
from eventlake.kernels.route import LINE_BITS, Event, EventBuffer, RejectedLine, Router, Rules
from eventlake.model.naming import Call
from eventlake.pipeline.chunks import MAX_REJECTED, ChunkWriter, ReadJob
from eventlake.pipeline.results import ReadResult, Spill
from eventlake.pipeline.stage_paths import new_path
from eventlake.stores import Range
from eventlake.stores.ranges import batch_by_size

CHECK_EVERY_BYTES = 4 << 20
"""Bytes of lines after which a task checks how much it holds."""


def read_task(job: ReadJob, number: int) -> bytes:
    """Do one reading task, as `_ReadTask.run`; the result is a `ReadResult` as JSON."""
    return msgspec.json.encode(_ReadTask(job, number).run())


class _ReadTask:
    """One reading task: routes lines to tables, and flushes tables to chunks as they grow."""

    def __init__(self, job: ReadJob, number: int) -> None:
        settings = job.settings
        rules = Rules(
            settings.naming,
            settings.table_prefix,
            job.skip,
            job.suppressed,
            job.renamed,
            known=job.known,
        )
        if window := job.replaces:
            rules = replace(rules, since=window.since, until=window.until, tables=window.tables)
        self.job, self.number, self.unchecked_bytes = job, number, 0
        self.tunables = job.tunables
        self.chunks = ChunkWriter(job, number)
        self.router = Router(rules, rejected=self.chunks.rejected)

    def run(self) -> ReadResult:
        """Make chunks of the task's files; spill tables with few events for the gathering tasks.

        The only task of a run spills nothing. The result has the spills too, the numbers of
        suppressed and skipped events, and the first and last time of receipt of each file with
        events.
        """
        for file in self.job.groups[self.number]:
            self.router.span = None
            self._read_file(file)
            if self.router.span:
                self.chunks.result.spans.append((file, *self.router.span))
        is_only_task = len(self.job.groups) == 1
        self._flush_tables(0 if is_only_task else self.tunables.spill_bytes)
        self._spill_rest()
        result = self.chunks.finish()
        result.excluded = [
            (table, counts.call, counts.suppressed, counts.skipped)
            for table, counts in self.router.excluded.items()
        ]
        return result

    def _read_file(self, file: int) -> None:
        """Route the lines of the input with this index; flush large tables now and then.

        Where the file is damaged, adds a rejected line with the reason and ignores the rest of the
        file.
        """
        place = (file << LINE_BITS) + 1
        address = self.job.files[file]
        address = self.job.staged_files.get(address, address)
        for block in read_blocks(lambda: open_input(address, self.job.stores)):
            if isinstance(block, Damage):
                damage = RejectedLine("damaged_file", block.detail, b"", place)
                self.chunks.rejected.append(damage)
                return
            lines = block.split(b"\n")
            self.router.route_lines(lines, place, is_utf8(block))
            self.chunks.add_users(self.router.excluded_lines)
            self.router.excluded_lines.clear()
            place += len(lines)
            self.unchecked_bytes += len(block)
            if len(self.chunks.rejected) > MAX_REJECTED:
                self.chunks.write_quarantine(self.tunables.parse_bytes)
            if self.unchecked_bytes > CHECK_EVERY_BYTES:
                self._flush_tables(self._flush_threshold())
                self.unchecked_bytes = 0

    def _flush_threshold(self) -> int:
        """The bytes of a table above which to parse it now, so that at most `held_bytes` remain.

        Small tables wait, so that they become fewer chunks. It is never more than `parse_bytes`.
        """
        sizes = [buffer.bytes for buffer in self.router.buffers.values()]
        threshold = self.tunables.parse_bytes
        while sum(size for size in sizes if size <= threshold) > self.tunables.held_bytes:
            threshold //= 2
        return threshold

    def _flush_tables(self, above: int) -> None:
        """Make chunks of the tables with over `above` bytes of events, and empty their buffers.

        Writes the rejected lines too if they are many.
        """
        tables = self._tables_above(above)
        self.chunks.add((table, buffer.call, buffer.drain()) for table, buffer in tables)
        self.chunks.write_quarantine(self.tunables.parse_bytes)

    def _tables_above(self, size: int) -> list[tuple[str, EventBuffer]]:
        """The tables with over `size` bytes of buffered events, and their buffers, by name."""
        tables = (
            (table, buffer) for table, buffer in self.router.buffers.items() if buffer.bytes > size
        )
        return sorted(tables, key=itemgetter(0))

    def _spill_rest(self) -> None:
        """Write all buffered events into one object of the stage, for the gathering tasks."""
        tables = self._tables_above(0)
        if not tables:
            return
        path = new_path(f"{self.job.stage}/spill", f"{self.number:06d}")
        with self.job.store.open_staged(path) as file:
            for table, buffer in tables:
                data = msgspec.msgpack.encode(buffer.drain())
                spill = Spill(table, buffer.call, path, file.tell(), len(data))
                file.write(data)
                self.chunks.result.spills.append(spill)


@dataclass(frozen=True)
class GatherJob:
    """The input of the gathering tasks."""

    read: ReadJob
    tasks: tuple[tuple[Spill, ...], ...]
    """The spills of each task; those of one table are next to each other."""


def plan_gather(results: Iterable[ReadResult], parallelism: int) -> tuple[tuple[Spill, ...], ...]:
    """Distribute the spills over at most `2 * parallelism` tasks of about equal size.

    All spills of a table are in one task. Returns the spills of each task; () without any.
    """
    tables: defaultdict[str, list[Spill]] = defaultdict(list)
    for result in results:
        for spill in result.spills:
            tables[spill.table].append(spill)
    large_first = sorted(tables.values(), key=lambda spills: -sum(spill.size for spill in spills))
    count = 2 * parallelism
    tasks = (large_first[number::count] for number in range(count))
    return tuple(tuple(chain.from_iterable(task)) for task in tasks if task)


def gather_task(job: GatherJob, number: int) -> bytes:
    """Make chunks of the spills of one task; the result is a `ReadResult` as JSON."""
    chunks = ChunkWriter(job.read, len(job.read.groups) + number)
    spills = job.tasks[number]
    ranges = [Range(spill.object, spill.offset, spill.size) for spill in spills]
    data = job.read.store.read_ranges(ranges)
    for batch in batch_by_size(spills, job.read.tunables.parse_bytes):
        chunks.add(list(_events_by_table(batch, data)))
    return msgspec.json.encode(chunks.finish())


def _events_by_table(
    batch: list[Spill], data: Iterator[pa.Buffer]
) -> Iterator[tuple[str, Call, list[Event]]]:
    """Yield each table of a batch with its events; consumes one buffer of `data` per spill."""
    for (table, call), spills in groupby(batch, key=lambda spill: (spill.table, spill.call)):
        yield table, call, [event for _ in spills for event in _decode(next(data))]


_decode = msgspec.msgpack.Decoder(list[Event]).decode
