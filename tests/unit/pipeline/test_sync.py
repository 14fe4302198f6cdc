"""How a run is divided into tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.dedupe import DAY_MICROS
from eventlake.model.commit import IdFile, Input, Plan
from eventlake.model.settings import source_settings
from eventlake.pipeline.sync import GROUP_BYTES, count_id_buckets, group_files

MB = 1 << 20


@given(
    st.lists(st.sampled_from([0, 1, 1000, MB, 70 * MB, 500 * MB]), max_size=30), st.integers(1, 8)
)
def test_every_file_is_in_one_group_in_order(sizes: list[int], parallelism: int) -> None:
    groups = group_files(sizes, parallelism)
    assert [number for group in groups for number in group] == list(range(len(sizes)))
    assert all(len(group) for group in groups) or not sizes
    most = max(sum(sizes) // parallelism, GROUP_BYTES)
    for group in groups:
        assert len(group) <= 1 or sum(sizes[n] for n in group) <= most + max(sizes)


def test_equal_files_make_equal_groups_one_for_each_core() -> None:
    assert [len(group) for group in group_files([MB] * 12, 2)] == [6, 6]


def test_a_large_file_is_alone() -> None:
    groups = group_files([MB, 300 * MB, 100 * MB, 100 * MB], 1)
    assert range(1, 2) in groups


def test_many_bytes_make_more_groups_the_same_for_each_core() -> None:
    assert [len(group) for group in group_files([16 * MB] * 60, 2)] == [8, 7] * 4
    assert len(group_files([16 * MB] * 34, 2)) == 6


def plan(size: int, known: tuple[IdFile, ...] = ()) -> Plan:
    return Plan(
        run_id="1",
        settings=source_settings(source="web"),
        base=0,
        inputs=(Input(uri="file:///x", fingerprint="1", size=size),),
        ids=known,
    )


def index(rows: int, last: int) -> IdFile:
    return IdFile(path="x", rows=rows, first=0, last=last)


@pytest.mark.parametrize(
    ("size", "known", "cores", "buckets"),
    [
        (0, (), 8, 1),
        (MB, (), 8, 1),
        (130 * 400_000, (), 8, 2),
        (130 * 10_000_000, (), 2, 2),
        (130 * 40_000_000, (), 2, 10),
        (MB, (index(1_600_000, 0),), 4, 4),
        # Index files older than the window of the newest do not count.
        (MB, (index(1_600_000, 0), index(1, 15 * DAY_MICROS)), 4, 1),
    ],
)
def test_how_many_tasks_share_the_ids(
    size: int, known: tuple[IdFile, ...], cores: int, buckets: int
) -> None:
    assert count_id_buckets(plan(size, known), cores) == buckets
