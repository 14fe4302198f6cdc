"""Batches of ranges."""

from hypothesis import given
from hypothesis import strategies as st

from eventlake.stores.ranges import Range, batch_by_size

RANGES = st.lists(
    st.builds(Range, st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 20)), max_size=30
)


@given(RANGES, st.integers(1, 50))
def test_batches_keep_the_order_and_the_bound(ranges: list[Range], most: int) -> None:
    found = list(batch_by_size(ranges, most))
    assert [one for window in found for one in window] == ranges
    assert all(len(window) == 1 or sum(one.size for one in window) <= most for window in found)
