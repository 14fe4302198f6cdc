"""Deduplication in buckets, of the ids of reading tasks against those of earlier runs."""

import msgspec
import numpy as np
import pytest

from eventlake.kernels.dedupe import DAY_MICROS, Ids, find_duplicates, hash_ids
from eventlake.model.commit import IdFile
from eventlake.model.naming import Call
from eventlake.pipeline.dedupe import DedupeJob, dedupe_task
from eventlake.pipeline.id_files import ID_ROW, assign_buckets, read_ids, write_ids
from eventlake.pipeline.results import ChunkMeta, DedupeResult, IdPart, ReadResult, group_chunks
from eventlake.stores import Disk, Store


def ids(names: list[str], received: list[int]) -> Ids:
    return Ids(*hash_ids(names), np.array(received, np.int64))


@pytest.fixture
def store(tmp_path) -> Store:
    return Disk(str(tmp_path))


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_buckets_are_ranges_of_hashes(buckets: int) -> None:
    edges = np.array([-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1])
    found = assign_buckets(edges, buckets)
    assert found[0] == 0
    assert found[-1] == buckets - 1
    assert (np.diff(found) >= 0).all()
    spread = assign_buckets(hash_ids(map(str, range(7000)))[0], buckets)
    assert np.bincount(spread, minlength=buckets).min() > 0.8 * 7000 / buckets


def test_the_index_is_in_order_of_hashes_and_read_by_bucket(store: Store) -> None:
    names = [f"m{n}" for n in range(200)]
    written = ids(names, list(range(200)))
    write_ids(store, "x.parquet", written, row_group_rows=16)
    whole = read_ids(store, "x.parquet")
    assert (np.diff(whole.high) >= 0).all()
    assert {*zip(*map(np.ndarray.tolist, whole), strict=True)} == {
        *zip(*map(np.ndarray.tolist, written), strict=True)
    }
    parts = [read_ids(store, "x.parquet", bucket, 5) for bucket in range(5)]
    mine = [part.at(assign_buckets(part.high, 5) == bucket) for bucket, part in enumerate(parts)]
    assert np.concatenate([part.high for part in mine]).tolist() == whole.high.tolist()
    assert all(len(part.high) < len(whole.high) for part in parts)


def spread(store: Store, run: Ids, chunks: np.ndarray, buckets: int) -> list[tuple[int, IdPart]]:
    """The ids of a run as two reading tasks write them, with two chunks each."""
    left = []
    for task in (0, 1):
        mine = np.flatnonzero(chunks // 2 == task)
        rows = np.empty(len(mine), ID_ROW)
        rows["high"], rows["low"], rows["received"] = run.at(mine)
        rows["place"], rows["chunk"] = mine, chunks[mine] % 2
        rows["row"] = [np.count_nonzero(chunks[:at] == chunks[at]) for at in mine]
        for bucket in range(buckets):
            chosen = rows[assign_buckets(rows["high"], buckets) == bucket]
            path = f"ids/{task}-{bucket}-{buckets}"
            store.write(path, chosen.tobytes())
            left.append((task, IdPart(bucket, path, 0, len(chosen), 0)))
    return left


@pytest.mark.parametrize("buckets", [1, 5])
def test_the_duplicates_of_a_run_whatever_the_buckets(store: Store, buckets: int) -> None:
    rng = np.random.default_rng(7)
    run = ids(
        [f"m{n}" for n in rng.integers(0, 60, 150)], rng.integers(0, 30 * DAY_MICROS, 150).tolist()
    )
    earlier = ids([f"m{n}" for n in range(0, 60, 3)], [10 * DAY_MICROS] * 20)
    write_ids(store, "known.parquet", earlier)
    chunks = rng.integers(0, 4, 150)
    job = DedupeJob(
        store=store,
        stage="stage",
        days=7,
        buckets=buckets,
        parts=tuple(spread(store, run, chunks, buckets)),
        index=(IdFile(path="known.parquet", rows=20, first=10 * DAY_MICROS, last=10 * DAY_MICROS),),
    )
    answers = [dedupe_task(job, bucket) for bucket in range(buckets)]
    results = [msgspec.json.decode(answer, type=DedupeResult) for answer in answers]

    known = read_ids(store, "known.parquet")
    expected = find_duplicates(run, np.arange(150), [known], 7 * DAY_MICROS)
    tasks = [ReadResult(chunks=[meta(0), meta(1)]), ReadResult(chunks=[meta(2), meta(3)])]
    for number, one in enumerate(group_chunks(tasks, results)["t"]):
        rows = np.flatnonzero(expected[chunks == number])
        assert sorted(np.frombuffer(one.duplicate_rows, "<i4").tolist()) == rows.tolist()
    kept = [read_ids(store, result.path) for result in results if result.rows]
    moments = np.concatenate([one.received for one in kept])
    assert sorted(moments.tolist()) == sorted(run.received[~expected].tolist())
    assert sum(result.rows for result in results) == len(moments)
    assert min(result.first for result in results if result.rows) == moments.min()
    assert max(result.last for result in results if result.rows) == moments.max()


def meta(number: int) -> ChunkMeta:
    return ChunkMeta("t", Call.TRACK, f"o{number}", 0, 1, 150, 0, 1)


def test_an_index_file_out_of_the_window_is_not_opened(store: Store) -> None:
    run = ids(["a"], [100 * DAY_MICROS])
    job = DedupeJob(
        store=store,
        stage="stage",
        days=7,
        buckets=1,
        parts=tuple(spread(store, run, np.array([0]), 1)),
        index=(IdFile(path="gone.parquet", rows=1, first=0, last=93 * DAY_MICROS - 1),),
    )
    assert msgspec.json.decode(dedupe_task(job, 0), type=DedupeResult).rows == 1


def test_a_bucket_without_ids(store: Store) -> None:
    job = DedupeJob(store=store, stage="s", days=7, buckets=1, parts=(), index=())
    assert msgspec.json.decode(dedupe_task(job, 0), type=DedupeResult) == DedupeResult()
