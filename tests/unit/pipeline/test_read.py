"""Reading in several tasks: rare tables are gathered, and each event is in one chunk."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels import parse
from eventlake.kernels.kinds import PathKinds
from eventlake.model.naming import Call
from eventlake.model.tunables import ReadTunables
from eventlake.pipeline.chunks import ReadJob
from eventlake.pipeline.id_files import ID_ROW
from eventlake.pipeline.read import GatherJob, gather_task, plan_gather, read_task
from eventlake.pipeline.results import ReadResult, Spill
from eventlake.stores import Range
from tests.unit.pipeline.jobs import read_job

FILES, EVENTS, RARE = 4, 60, 9
HOUR = 3_600_000_000


def line(number: int) -> str:
    """Every ninth event is of a rare table; one of them is nested too deeply."""
    rare = number % RARE == 0
    properties = "[" * 101 + "]" * 101 if number == RARE else str(number)
    head = {
        "type": "track",
        "event": f"Rare {number % 2}" if rare else "Common",
        "messageId": f"m{number}",
        "receivedAt": f"2026-11-01T{number % 3:02}:00:00Z",
    }
    return json.dumps(head)[:-1] + f',"properties":{{"n":{properties},"text":"x"}}}}'


@pytest.fixture
def job(tmp_path: Path) -> ReadJob:
    """Four files of sixty events, a task for each."""
    logs = [[line(file * EVENTS + n) for n in range(EVENTS)] for file in range(FILES)]
    return read_job(tmp_path, logs, tuple(range(n, n + 1) for n in range(FILES)))


def run(job: ReadJob) -> tuple[list[ReadResult], list[ReadResult]]:
    """The results of reading and gathering."""
    found = [decode(read_task(job, number)) for number in range(len(job.groups))]
    rest = GatherJob(job, plan_gather(found, 1))
    return found, [decode(gather_task(rest, number)) for number in range(len(rest.tasks))]


def decode(answer: bytes) -> ReadResult:
    return msgspec.json.decode(answer, type=ReadResult)


def rows(results: list[ReadResult]) -> Counter[str]:
    found: Counter[str] = Counter()
    for result in results:
        for chunk in result.chunks:
            found[chunk.table] += chunk.rows
    return found


def wanted() -> dict[str, int]:
    numbers = [n for n in range(FILES * EVENTS) if n != RARE]
    tables = Counter(f"rare_{n % 2}" if n % RARE == 0 else "common" for n in numbers)
    return dict(tables)


def test_what_tasks_have_few_of_becomes_one_chunk_of_each_table(job: ReadJob) -> None:
    read_first, gathered = run(job)
    assert not rows(read_first)
    assert rows(gathered) == wanted()
    assert [chunk.table for result in gathered for chunk in result.chunks].count("common") == 1


def test_what_they_have_enough_of_they_read_themselves(job: ReadJob) -> None:
    read_first, gathered = run(replace(job, tunables=ReadTunables(spill_bytes=2000)))
    assert rows(read_first).keys() == {"common"}
    assert rows(gathered).keys() == {"rare_0", "rare_1"}
    assert rows([*read_first, *gathered]) == wanted()


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_chunk_tells_what_it_takes_in_memory(job: ReadJob, compression: str | None) -> None:
    alone = replace(job, groups=(range(FILES),), compression=compression)
    (common,) = (one for one in run(alone)[0][0].chunks if one.table == "common")
    (content,) = job.store.read_ranges([common.range])
    batch = pa.ipc.open_stream(content).read_next_batch()
    assert batch.nbytes <= common.memory <= 2 * batch.nbytes


def test_a_large_chunk_is_cut_by_partition(job: ReadJob) -> None:
    alone = replace(job, groups=(range(FILES),))
    whole = sum(chunk.memory for chunk in run(alone)[0][0].chunks if chunk.table == "common")
    for split, wanted_chunks in ((whole, 1), (whole - 1, 3)):
        read_first, _ = run(replace(alone, tunables=ReadTunables(split_bytes=split)))
        found = [one for one in read_first[0].chunks if one.table == "common"]
        assert len(found) == wanted_chunks
        assert rows(read_first) == wanted()
    hours = [(one.first // HOUR, one.last // HOUR) for one in found]
    assert all(first == last for first, last in hours)


def test_a_task_that_is_alone_leaves_nothing(job: ReadJob) -> None:
    read_first, gathered = run(replace(job, groups=(range(FILES),)))
    assert rows(read_first) == wanted()
    assert gathered == []


def test_a_task_that_is_tried_again_tells_the_same(job: ReadJob) -> None:
    """In the same worker, whose first result was lost."""
    alone = replace(job, groups=(range(FILES),))
    first, second = (decode(read_task(alone, 0)).observations for _ in range(2))
    assert "text" in {one.column for one in first["common"]}
    assert first == second


def test_the_ids_of_all_events_are_told_with_their_places(job: ReadJob) -> None:
    _, gathered = run(job)
    places = []
    for result in gathered:
        for part in result.ids:
            place = Range(part.object, part.offset, part.rows * ID_ROW.itemsize)
            (data,) = job.store.read_ranges([place])
            places += np.frombuffer(data, ID_ROW)["place"].tolist()
    assert len(set(places)) == len(places) == FILES * EVENTS - 1


def test_a_line_that_nests_too_deep_is_rejected_when_it_is_gathered(job: ReadJob) -> None:
    read_first, gathered = run(job)
    assert sum(result.quarantined for result in read_first) == 0
    assert sum(result.quarantined for result in gathered) == 1


def test_many_spills_of_a_table_are_gathered_in_parts(job: ReadJob) -> None:
    tunables = ReadTunables(parse_bytes=15_000, spill_bytes=100_000)
    _, gathered = run(replace(job, tunables=tunables))
    assert rows(gathered) == wanted()
    assert [chunk.table for result in gathered for chunk in result.chunks].count("common") > 1


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(1, 1 << 20)))),
    st.integers(1, 8),
)
def test_every_spill_is_in_one_task_and_those_of_a_table_together(
    found: list[list[tuple[str, int]]], parallelism: int
) -> None:
    results = [
        ReadResult(spills=[Spill(table, Call.TRACK, f"{n}", 0, size) for table, size in one])
        for n, one in enumerate(found)
    ]
    tasks = plan_gather(results, parallelism)
    spills = [id(spill) for result in results for spill in result.spills]
    assert sorted(id(spill) for task in tasks for spill in task) == sorted(spills)
    tables = [{spill.table for spill in task} for task in tasks]
    assert sum(map(len, tables)) == len(set().union(*tables))
    for task in tasks:
        together = [table for table, _ in groupby(task, key=lambda spill: spill.table)]
        assert len(together) == len(set(together))


def test_tasks_of_a_run_in_one_process_learn_a_table_once(
    job: ReadJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[str] = []
    learn = parse._learn_sample

    def count(sample: Sequence[bytes], kinds: PathKinds) -> None:
        learned.append(json.loads(sample[0])["event"])
        learn(sample, kinds)

    monkeypatch.setattr(parse, "_learn_sample", count)
    chunks_only = replace(job, tunables=replace(job.tunables, spill_bytes=0))
    for number in range(FILES):
        read_task(chunks_only, number)
    assert learned.count("Common") == 1
    read_task(replace(chunks_only, run_id="another"), 0)
    assert learned.count("Common") == 2
