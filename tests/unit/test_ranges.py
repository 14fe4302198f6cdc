"""Parts of objects: what is read together, and that each part is what it was."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from eventlake.stores.ranges import Range, batch_by_size, merge_ranges

RANGES = st.lists(
    st.builds(Range, st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 20)), max_size=30
)


@given(RANGES, st.integers(0, 10))
def test_every_range_lies_within_the_one_that_it_is_read_with(
    ranges: list[Range], gap: int
) -> None:
    found = merge_ranges(ranges, gap)
    assert found.keys() == set(ranges)
    for one, whole in found.items():
        assert one.path == whole.path
        assert whole.start <= one.start
        assert one.end <= whole.end


@given(RANGES, st.integers(0, 10))
def test_nothing_is_read_that_is_further_than_the_gap_from_a_range(
    ranges: list[Range], gap: int
) -> None:
    for whole in set(merge_ranges(ranges, gap).values()):
        own = [one for one in ranges if one.path == whole.path]
        near = {n for one in own for n in range(one.start - gap, one.end + gap)}
        assert set(range(whole.start, whole.end)) <= near


@given(RANGES, st.integers(0, 10))
def test_what_is_read_apart_is_apart(ranges: list[Range], gap: int) -> None:
    wholes = sorted(set(merge_ranges(ranges, gap).values()))
    for one, other in pairwise(wholes):
        assert one.path != other.path or other.start > one.end + gap


@given(RANGES, st.integers(1, 50))
def test_batches_keep_the_order_and_the_bound(ranges: list[Range], most: int) -> None:
    found = list(batch_by_size(ranges, most))
    assert [one for window in found for one in window] == ranges
    assert all(len(window) == 1 or sum(one.size for one in window) <= most for window in found)
