"""The compaction of one source: what is merged, and the commits that do it."""

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.stats import format_bound
from eventlake.lake import Lake
from eventlake.ledger import Ledger, State, list_staged_runs
from eventlake.ledger.files import LiveFile
from eventlake.model.commit import Commit, DataFile, Plan, TableCommit
from eventlake.model.layout import partition_path
from eventlake.model.tunables import Tunables
from eventlake.model.values import FrozenModel
from eventlake.pipeline.commit import detect_changes
from eventlake.pipeline.compact import has_columns_of, list_small_files, select_merges
from eventlake.pipeline.finish import FinishResult
from eventlake.pipeline.recover import recover
from eventlake.pipeline.sync import Run
from eventlake.ports import Progress, SparkProvider
from eventlake.stores.damage import reading_parquet

MAX_FILES = 10_000
"""Files that one commit merges, about: a commit lists each, and what a kill or a conflict undoes
should be little. The next commit merges the others."""
MAX_PARTITION_BYTES = 512 << 20
"""Bytes of a partition that one commit merges, about: of a bucket, a task reads whole files, and of
a partition with overlapping files all at once."""
MAX_REQUESTS = 16
"""Files that are opened in parallel."""
RUN_ID_DIGITS = 19
"""Digits at the beginning of a data file's name: the id of the run that wrote it."""


class TableCompaction(FrozenModel):
    """The files of a table that are merged."""

    table: str
    partitions: int
    rows: int
    files: int
    bytes: int
    files_after: int
    """Before the compaction, an estimate by the size of the files."""


class CompactResult(FrozenModel):
    """What a compaction has merged in a source, or would."""

    source: str
    lake: str
    status: str
    message: str = ""
    run_ids: tuple[str, ...] = ()
    """A run for each commit."""
    tables: tuple[TableCompaction, ...] = ()
    bytes_after: int | None = None
    timings: dict[str, float] = Field(default_factory=dict)
    other_types: int = 0
    """Small files that stay because they have another type of a column than their table."""

    @property
    def files(self) -> int:
        return sum(table.files for table in self.tables)

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)

    @property
    def files_after(self) -> int:
        return sum(table.files_after for table in self.tables)


@dataclass(frozen=True)
class SmallFiles:
    """The files of a source that can be merged, and the state that they are of."""

    state: State
    files: dict[str, list[LiveFile]]
    other_types: int = 0


def find_small_files(
    parts: Lake, ledger: Ledger, older_than: timedelta, file_bytes: int
) -> SmallFiles:
    """Find the small files of partitions whose newest event is older than `older_than`.

    Left out are files of runs that still have a stage, because their publishing may not have ended,
    and those that have other types than their table.
    """
    state, files = ledger.read_state_and_files()
    before = str(format_bound(parts.clock.now() - older_than))
    unfinished = set(list_staged_runs(ledger))  # after the files, so it has all of their runs
    small = {
        table: [file for file in of_table if _run_of(file) not in unfinished]
        for table, of_table in list_small_files(files, before, file_bytes).items()
    }
    count = sum(map(len, small.values()))
    with detect_changes(ledger, state.sequence):
        for table in small.keys() & state.retyped.keys():
            small[table] = _drop_other_types(parts, state, table, small[table])
    return SmallFiles(state, small, count - sum(map(len, small.values())))


def _run_of(file: LiveFile) -> str:
    return file.path.rpartition("/")[2][:RUN_ID_DIGITS]


def _drop_other_types(
    parts: Lake, state: State, table: str, files: list[LiveFile]
) -> list[LiveFile]:
    def read_schema(file: LiveFile) -> pa.Schema:
        with reading_parquet(parts.store, file.path), parts.store.open(file.path) as opened:
            return pq.read_schema(opened)

    with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # reads from a bucket mostly wait
        schemas = list(pool.map(read_schema, files))
    schema = state.tables[table]
    return [file for file, one in zip(files, schemas, strict=True) if has_columns_of(schema, one)]


@dataclass(frozen=True)
class Compactor:
    """Compacts a source, a commit at a time; `execute` runs a planned run."""

    parts: Lake
    ledger: Ledger
    older_than: timedelta
    spark: SparkProvider
    execute: Callable[[Run], tuple[Commit, FinishResult]]
    progress: Progress
    tunables: Tunables

    def compact_once(self) -> CompactResult:
        """Merge files with one commit; the status is "nothing" if there are none to merge.

        First finishes crashed runs. Raises `Conflict` if another run has replaced one of the files.
        """
        self.progress.step("plan", 0, 1, 0)
        dead = recover(self.parts, self.ledger, self.progress).dead
        file_bytes = self.tunables.write.file_bytes
        found = find_small_files(self.parts, self.ledger, self.older_than, file_bytes)
        selected = select_merges(found.files, MAX_FILES, MAX_PARTITION_BYTES)
        if not selected:
            return make_result(self.parts, found, (), status="nothing")
        # A run that seemed dead may have committed before the state was read.
        dead = tuple(run for run in dead if self.ledger.find_sequence(run, found.state) is None)
        plan = self._make_plan(found.state, selected)
        run = Run(self.parts, self.ledger, self.spark, plan, self.progress, dead, {}, self.tunables)
        commit, finished = self.execute(run)
        problem = finished.problems.first
        result = make_result(self.parts, found, map(_summarize, commit.tables), status="finished")
        adds = (file.bytes for table in commit.tables for file in table.adds)
        changes = {
            "run_ids": (commit.run_id,),
            "bytes_after": sum(adds),
            "timings": {step: round(seconds, 3) for step, seconds in run.timings.items()},
        }
        if problem:
            changes |= {"status": "partial", "message": problem[0]}
        return result.model_copy(update=changes)

    def _make_plan(self, state: State, files: dict[str, list[LiveFile]]) -> Plan:
        assert state.settings  # it has files
        return Plan(
            run_id=f"{self.parts.clock.time_ns():019d}",
            settings=state.settings,
            base=state.sequence,
            inputs=(),
            tables={name: state.tables[name] for name in files},
            removes={name: tuple(map(_data_file, of_table)) for name, of_table in files.items()},
            compacts=True,
        )


def _data_file(file: LiveFile) -> DataFile:
    """A file as a plan has it, with the times of receipt as its statistics."""
    assert file.received
    return DataFile(
        path=file.path,
        rows=file.rows,
        bytes=file.bytes,
        partition=file.partition,
        stats={RECEIVED_AT: (0, *file.received)},
    )


def compact_all(compact_once: Callable[[], CompactResult]) -> CompactResult:
    """Repeat `compact_once` until nothing is left, or a commit is partial; return the sum."""
    total = compact_once()
    while total.status == "finished" and (one := compact_once()).status != "nothing":
        total = one.model_copy(
            update={
                "run_ids": (*total.run_ids, *one.run_ids),
                "tables": _add_tables((*total.tables, *one.tables)),
                "bytes_after": (total.bytes_after or 0) + (one.bytes_after or 0),
                "timings": dict(Counter(total.timings) + Counter(one.timings)),
            }
        )
    return total


def _add_tables(tables: Iterable[TableCompaction]) -> tuple[TableCompaction, ...]:
    """Add up the numbers of each table."""
    totals: dict[str, dict[str, int]] = {}
    for table in tables:
        total = totals.setdefault(table.table, {})
        for name, value in table.model_dump(exclude={"table"}).items():
            total[name] = total.get(name, 0) + value
    return tuple(TableCompaction(table=name, **total) for name, total in sorted(totals.items()))


def _summarize(done: TableCommit) -> TableCompaction:
    return TableCompaction(
        table=done.table.name,
        partitions=len(done.partitions),
        rows=sum(file.rows or 0 for file in done.removes),
        files=len(done.removes),
        bytes=sum(file.bytes for file in done.removes),
        files_after=len(done.adds),
    )


def estimate(table: str, files: Iterable[LiveFile], file_bytes: int) -> TableCompaction:
    """What a compaction would merge of a table, as if merged files were as large as their parts."""
    partitions: dict[str, list[LiveFile]] = {}
    for file in files:
        partitions.setdefault(partition_path(file.partition), []).append(file)
    sizes = [sum(file.bytes for file in of_partition) for of_partition in partitions.values()]
    return TableCompaction(
        table=table,
        partitions=len(partitions),
        rows=sum(file.rows or 0 for of in partitions.values() for file in of),
        files=sum(map(len, partitions.values())),
        bytes=sum(sizes),
        files_after=sum(-(-size // file_bytes) for size in sizes),
    )


def make_result(
    parts: Lake, found: SmallFiles, tables: Iterable[TableCompaction], status: str
) -> CompactResult:
    """The result for a source; the tables without files are left out."""
    settings = found.state.settings
    return CompactResult(
        source=settings.source if settings else "",
        lake=parts.store.root,
        status=status,
        message="nothing to compact" if status == "nothing" else "",
        tables=tuple(table for table in tables if table.files),
        other_types=found.other_types,
    )
