"""The plan of the writing tasks, which has every row once, and the files that they write."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.model.layout import HOUR, DatePartition
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import SchemaChange, new_table
from eventlake.model.tunables import ReadTunables, WriteTunables
from eventlake.pipeline import write as module
from eventlake.pipeline.chunks import ReadJob
from eventlake.pipeline.evolve import evolve
from eventlake.pipeline.read import read_task
from eventlake.pipeline.results import ChunkMeta, ReadResult, WriteResult
from eventlake.pipeline.tasks import (
    MAX_TASK_BYTES,
    MIN_TASK_SHARE,
    UNIT_OVERHEAD_BYTES,
    Packed,
    plan_tasks,
)
from eventlake.pipeline.write import (
    WriteJob,
    WriteUnit,
    plan_units,
    write_task,
)
from eventlake.stores import Store
from tests.stores import WatchedDisk
from tests.unit.pipeline.jobs import read_job

CHANGE = SchemaChange(new_table("t", Call.TRACK, Naming.WAREHOUSE))
BY_HOUR = DatePartition.DAY_HOUR
USUAL = WriteTunables()
UNIT_BYTES = USUAL.unit_bytes


def chunk(number: int, first: int, last: int, size: int) -> ChunkMeta:
    return ChunkMeta("t", Call.TRACK, f"o{number}", 0, size, 10, first, last)


@st.composite
def chunks(draw: st.DrawFn) -> list[ChunkMeta]:
    made = []
    for number in range(draw(st.integers(1, 6))):
        first = draw(st.integers(-5 * HOUR, 5 * HOUR))
        last = first + draw(st.sampled_from([0, 1, HOUR // 2, HOUR, 7 * HOUR]))
        size = draw(st.sampled_from([1, 1 << 20, UNIT_BYTES // 3, UNIT_BYTES, 5 * UNIT_BYTES]))
        made.append(chunk(number, first, last, size))
    return made


def units_of_chunk(number: int, size: int) -> Iterator[WriteUnit]:
    return plan_units(CHANGE, [chunk(number, 0, HOUR - 1, size)], BY_HOUR, UNIT_BYTES)


def covering(units: list[WriteUnit], one: ChunkMeta, moment: int) -> int:
    return sum(one in unit.chunks and unit.since <= moment < unit.until for unit in units)


@given(chunks(), st.sampled_from(DatePartition))
def test_every_row_of_every_chunk_is_written_once(
    found: list[ChunkMeta], by: DatePartition
) -> None:
    units = list(plan_units(CHANGE, found, by, UNIT_BYTES))
    for one in found:
        edges = range(one.first // by.span * by.span, one.last + 1, by.span)
        moments = {one.first, one.last, (one.first + one.last) // 2, *edges}
        moments |= {edge - 1 for edge in edges}
        for moment in moments:
            if one.first <= moment <= one.last:
                assert covering(units, one, moment) == 1
    assert all(unit.since % by.span == 0 for unit in units)
    assert all(unit.chunks for unit in units)


@given(chunks(), st.integers(1, 8))
def test_tasks_have_every_unit_once_and_the_largest_comes_first(
    found: list[ChunkMeta], parallelism: int
) -> None:
    units = list(plan_units(CHANGE, found, BY_HOUR, UNIT_BYTES))
    tasks = plan_tasks(units, parallelism)
    assert Counter(map(id, (unit for task in tasks for unit in task))) == Counter(map(id, units))
    sizes = [sum(unit.bytes + UNIT_OVERHEAD_BYTES for unit in task) for task in tasks]
    assert sizes == sorted(sizes, reverse=True)
    assert all(tasks)
    largest = min(MAX_TASK_BYTES, sum(sizes) // (2 * parallelism))
    assert all(len(task) == 1 or size <= largest for task, size in zip(tasks, sizes, strict=True))


def test_tasks_become_smaller_so_that_no_core_waits_long_for_the_last() -> None:
    units = [unit for number in range(400) for unit in units_of_chunk(number, 100_000)]
    counts = [len(task) for task in plan_tasks(units, 2)]
    assert counts[:3] == [400 // 4, 300 // 4, 225 // 4]
    assert counts[0] > 4 * counts[-1]
    assert counts == sorted(counts, reverse=True)
    assert counts[-2] == 400 // (MIN_TASK_SHARE * 2)


def test_no_task_writes_more_than_is_to_be_done_again_when_it_is_lost() -> None:
    units = [unit for number in range(40) for unit in units_of_chunk(number, UNIT_BYTES // 2)]
    tasks = plan_tasks(units, 2)
    assert (
        max(sum(unit.bytes + UNIT_OVERHEAD_BYTES for unit in task) for task in tasks)
        <= MAX_TASK_BYTES
    )
    assert len(tasks[0]) == 3


def test_no_units_no_tasks() -> None:
    assert plan_tasks([], 4) == ()


def test_a_small_table_is_one_unit_over_all_its_partitions() -> None:
    found = [chunk(n, n * 24 * HOUR, n * 24 * HOUR + 5, 1000) for n in range(30)]
    (unit,) = plan_units(CHANGE, found, BY_HOUR, UNIT_BYTES)
    assert [one.object for one in unit.chunks] == [f"o{n}" for n in range(30)]


def test_a_large_table_is_cut_at_partitions() -> None:
    found = [chunk(n, n * HOUR, (n + 1) * HOUR - 1, UNIT_BYTES // 2) for n in range(6)]
    units = list(plan_units(CHANGE, found, BY_HOUR, UNIT_BYTES))
    assert [(unit.since, unit.until) for unit in units][:2] == [(0, 2 * HOUR), (2 * HOUR, 4 * HOUR)]
    assert [len(unit.chunks) for unit in units] == [2, 2, 2]


def test_a_large_partition_is_cut_by_size() -> None:
    found = [chunk(n, 0, HOUR - 1, UNIT_BYTES // 2) for n in range(8)]
    units = list(plan_units(CHANGE, found, BY_HOUR, UNIT_BYTES))
    assert [len(unit.chunks) for unit in units] == [2, 2, 2, 2]
    assert {(unit.since, unit.until) for unit in units} == {(0, HOUR)}


# The files


def write_all(
    store: Store, results: ReadResult, tunables: WriteTunables = USUAL, one_task: bool = False
) -> WriteResult:
    units = tuple(
        unit
        for table in sorted(results.observations)
        for unit in units_of(table, results, tunables.unit_bytes)
    )
    tasks = (units,) if one_task else plan_tasks(units, 2)
    packed = tuple(Packed.pack(task) for task in tasks)
    job = WriteJob(store, "stage", BY_HOUR, packed, tuple(results.quarantine), tunables)
    written = WriteResult()
    for number in range(len(job.tasks) + 1):
        result = msgspec.json.decode(write_task(job, number), type=WriteResult)
        written.files += result.files
        written.quarantine = result.quarantine or written.quarantine
        for table, rescued in result.rescued.items():
            written.rescued[table] = written.rescued.get(table, 0) + rescued
    return written


def units_of(table: str, results: ReadResult, unit_bytes: int) -> Iterator[WriteUnit]:
    schema = new_table(table, Call.TRACK, Naming.WAREHOUSE)
    change = evolve(schema, results.observations[table], 2000)
    chunks = [one for one in results.chunks if one.table == table]
    return plan_units(change, chunks, BY_HOUR, unit_bytes)


@pytest.fixture
def read(tmp_path: Path) -> tuple[Store, ReadResult]:
    """Four hours of events in two files, shuffled, with an invalid line."""
    lines = []
    for n in range(200):
        moment = f"2026-11-01T{n % 4:02}:{n * 7 % 60:02}:{n * 11 % 60:02}Z"
        properties = {"n": n, "user_id": n} if n % 50 == 0 else {"n": n, "text": "x" * n}
        head = {"type": "track", "event": "T", "messageId": f"m{n}", "receivedAt": moment}
        lines.append(json.dumps(head | {"properties": properties}))
    job = read_job(tmp_path, [lines[:120], [*lines[120:], "no event"]], (range(2),))
    return job.store, msgspec.json.decode(read_task(job, 0), type=ReadResult)


def rows_of(store: Store, written: WriteResult) -> dict[int, list[pa.Table]]:
    found: dict[int, list[pa.Table]] = {}
    for file in written.files:
        table = pq.read_table(store.open(file.path))
        assert len(table) == file.rows
        assert Path(store.root, file.path).stat().st_size == file.bytes
        received = table["received_at"].cast(pa.int64()).to_pylist()
        assert received == sorted(received)
        assert {moment // HOUR * HOUR for moment in received} == {file.start}
        found.setdefault(file.start, []).append(table)
    return found


def test_one_file_for_each_partition(read: tuple[Store, ReadResult]) -> None:
    store, results = read
    written = write_all(store, results)
    rows = rows_of(store, written)
    assert len(rows) == 4
    assert all(len(tables) == 1 for tables in rows.values())
    assert sorted(n for (t,) in rows.values() for n in t["n"].to_pylist()) == list(range(200))
    assert written.rescued == {"t": 4}


def test_a_unit_in_slices_gives_the_same_rows(read: tuple[Store, ReadResult]) -> None:
    store, results = read
    whole = rows_of(store, write_all(store, results))
    written = write_all(store, results, WriteTunables(slice_bytes=1 << 12))
    assert row_groups(store, written) > 2 * len(whole)
    sliced = rows_of(store, written)
    for start, (table,) in whole.items():
        rows = [row for part in sliced[start] for row in filled(part)]
        assert rows == filled(table)


def row_groups(store: Store, written: WriteResult) -> int:
    return sum(pq.ParquetFile(store.open(file.path)).num_row_groups for file in written.files)


def filled(table: pa.Table) -> list[dict[str, Any]]:
    """Rows without their nulls: a slice that rescues nothing has no column for it."""
    return [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


def read_five(folder: Path) -> tuple[ReadJob, ReadResult]:
    """Two hours of five tables, each with a column of its own."""
    lines = [
        json.dumps(
            {
                "type": "track",
                "event": f"E{n % 5}",
                "messageId": f"m{n}",
                "receivedAt": f"2026-11-01T{n % 2:02}:00:00Z",
                "properties": {f"of_{n % 5}": n},
            }
        )
        for n in range(60)
    ]
    job = read_job(folder, [lines], (range(1),))
    return job, msgspec.json.decode(read_task(job, 0), type=ReadResult)


@pytest.mark.parametrize("land_bytes", [1, 32 << 20])
def test_small_tables_that_are_landed_together_have_files_of_their_own(
    tmp_path: Path, land_bytes: int
) -> None:
    job, found = read_five(tmp_path)
    written = write_all(job.store, found, WriteTunables(land_bytes=land_bytes), one_task=True)
    assert Counter((file.table, file.start % (2 * HOUR)) for file in written.files) == Counter(
        (f"e{n}", start) for n in range(5) for start in (0, HOUR)
    )
    for file in written.files:
        rows = pq.read_table(job.store.open(file.path))
        assert {f"E{n % 5}" for n in rows[f"of_{file.table[1:]}"].to_pylist()} == {
            file.table.upper()
        }
        assert file.rows == 6


def test_no_more_are_landed_at_a_time_than_their_cells_leave_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, found = read_five(tmp_path)
    steps: list[str] = []
    land_chunks = module.land_chunks
    store = WatchedDisk(
        job.store.root, lambda name, _: steps.append("file") if name == "write_staged" else None
    )
    monkeypatch.setattr(module, "land_chunks", lambda *a: steps.append("land") or land_chunks(*a))
    write_all(store, found, one_task=True)
    at_once = [step for step, _ in groupby(steps)]
    steps.clear()
    few = WriteTunables(land_bytes=sum(chunk.memory for chunk in found.chunks))
    write_all(store, found, few, one_task=True)
    assert len([step for step, _ in groupby(steps)]) > len(at_once)


def test_a_partition_of_several_units_is_as_many_files(tmp_path: Path) -> None:
    head = {"type": "track", "event": "T", "receivedAt": "2026-11-01T00:00:00Z"}
    lines = [json.dumps(head | {"messageId": f"m{n}"}) for n in range(40)]
    job = read_job(tmp_path, [lines[:20], lines[20:]], (range(1), range(1, 2)))
    job = replace(job, tunables=ReadTunables(spill_bytes=0))
    found = [msgspec.json.decode(read_task(job, n), type=ReadResult) for n in range(2)]
    both = ReadResult(chunks=found[0].chunks + found[1].chunks, observations={"t": []})
    written = write_all(
        job.store, both, WriteTunables(unit_bytes=both.chunks[0].size), one_task=True
    )
    assert [file.rows for file in written.files] == [20, 20]


def test_few_rows_have_statistics_of_what_they_are_sorted_by_alone(
    read: tuple[Store, ReadResult],
) -> None:
    store, results = read
    assert statistics(store, write_all(store, results)) == {"received_at"}
    written = write_all(store, results, WriteTunables(small_file_rows=10))
    assert {"received_at", "id", "n", "text"} <= statistics(store, written)


def statistics(store: Store, written: WriteResult) -> set[str]:
    """The columns for which a file has minimum and maximum."""
    group = pq.ParquetFile(store.open(written.files[0].path)).metadata.row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    return {one.path_in_schema for one in columns if one.statistics and one.statistics.has_min_max}


def test_duplicates_are_left_out(read: tuple[Store, ReadResult]) -> None:
    store, results = read
    before = sum(meta.rows for meta in results.chunks)
    first, *others = results.chunks
    marked = msgspec.structs.replace(first, duplicate_rows=b"\0\0\0\0\x02\0\0\0")
    results.chunks = [marked, *others]
    rows = rows_of(store, write_all(store, results))
    assert sum(len(table) for tables in rows.values() for table in tables) == before - 2


def test_the_parts_of_the_quarantine_are_joined(read: tuple[Store, ReadResult]) -> None:
    store, results = read
    quarantine = pq.read_table(store.open(write_all(store, results).quarantine)).to_pylist()
    assert [(row["reason"], row["raw"], row["line"]) for row in quarantine] == [
        ("not_json", b"no event", 81)
    ]
    assert quarantine[0]["file"].endswith("/1.gz")


def test_files_are_zstd_with_times_in_utc_microseconds(read: tuple[Store, ReadResult]) -> None:
    store, results = read
    file = pq.ParquetFile(store.open(write_all(store, results).files[0].path))
    column = file.metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    received = file.schema.column(file.schema_arrow.get_field_index("received_at"))
    assert received.physical_type == "INT64"
    stamp = json.loads(received.logical_type.to_json())
    assert (stamp["isAdjustedToUTC"], stamp["timeUnit"]) == (True, "microseconds")


def test_every_file_is_settled_on_disk_once_it_is_whole(read: tuple[Store, ReadResult]) -> None:
    store, results = read
    settled = {}

    def record(operation: str, path: str) -> None:
        if operation == "fsync":
            settled[path] = len(store.read(path))

    written = write_all(WatchedDisk(store.root, record), results)
    assert settled.pop(written.quarantine)
    assert settled == {file.path: file.bytes for file in written.files}
