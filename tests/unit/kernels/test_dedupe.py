"""Duplicates, compared with the rule applied to one event after the other."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.dedupe import DAY_MICROS, Ids, find_duplicates, hash_ids

WINDOW = 7 * DAY_MICROS

Event = tuple[str, int]
"""An id and the moment of its receipt."""

MOMENTS = st.sampled_from(
    [0, 1, DAY_MICROS, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 2 * WINDOW + 1]
)
EVENTS = st.lists(st.tuples(st.sampled_from("abc"), MOMENTS), max_size=12)


def ids(events: list[Event]) -> Ids:
    high, low = hash_ids(identity for identity, _ in events)
    return Ids(high, low, np.array([received for _, received in events], np.int64))


def sorted_by_hash(events: list[Event]) -> Ids:
    unsorted = ids(events)
    return unsorted.at(np.lexsort((unsorted.low, unsorted.high)))


def duplicates(
    run: list[Event], earlier: list[list[Event]], places: list[int] | None = None
) -> list[bool]:
    known = [sorted_by_hash(one) for one in earlier]
    at = np.array(range(len(run)) if places is None else places, np.int64)
    return find_duplicates(ids(run), at, known, WINDOW).tolist()


def naive(run: list[Event], earlier: list[list[Event]], places: list[int]) -> list[bool]:
    kept = [event for one in earlier for event in one]
    duplicate = [False] * len(run)
    for at in sorted(range(len(run)), key=lambda at: (run[at][1], places[at])):
        identity, received = run[at]
        duplicate[at] = any(i == identity and abs(r - received) <= WINDOW for i, r in kept)
        if not duplicate[at]:
            kept.append(run[at])
    return duplicate


@given(EVENTS, st.lists(EVENTS, max_size=2), st.randoms(use_true_random=False))
def test_the_rule_applied_to_one_event_after_the_other(
    run: list[Event], earlier: list[list[Event]], rng: Random
) -> None:
    places = list(range(len(run)))
    rng.shuffle(places)
    assert duplicates(run, earlier, places) == naive(run, earlier, places)


@pytest.mark.parametrize(
    ("apart", "duplicate"), [(0, True), (1, True), (WINDOW, True), (WINDOW + 1, False)]
)
def test_the_window_includes_its_end(apart: int, duplicate: bool) -> None:
    assert duplicates([("a", 0), ("a", apart)], []) == [False, duplicate]
    assert duplicates([("a", 0)], [[("a", apart)]]) == [duplicate]
    assert duplicates([("a", apart)], [[("a", 0)]]) == [duplicate]
    assert duplicates([("a", 0), ("b", apart)], []) == [False, False]


def test_the_first_received_is_kept_whatever_its_place() -> None:
    assert duplicates([("a", 5), ("a", 3), ("a", 4)], [], places=[0, 1, 2]) == [True, False, True]


def test_of_events_received_together_the_first_in_place_is_kept() -> None:
    assert duplicates([("a", 5), ("a", 5), ("a", 5)], [], places=[2, 0, 1]) == [True, False, True]


def test_an_id_that_comes_again_after_its_window_begins_a_new_one() -> None:
    days = [0, 6, 8, 14, 15, 16, 40]
    run = [("a", day * DAY_MICROS) for day in days]
    assert duplicates(run, []) == [False, True, False, True, True, False, False]


def test_a_dropped_event_does_not_extend_the_window() -> None:
    # Day 6 is a duplicate of day 0, and day 13 is within its window but not within day 0's.
    assert duplicates([("a", 0), ("a", 6 * DAY_MICROS), ("a", 13 * DAY_MICROS)], []) == [
        False,
        True,
        False,
    ]


def test_a_late_arrival_does_not_displace_what_has_landed() -> None:
    assert duplicates([("a", 0)], [[("a", DAY_MICROS)]]) == [True]


def test_earlier_runs_on_either_side() -> None:
    earlier = [[("a", 0)], [("a", 20 * DAY_MICROS)]]
    days = [-8, -7, 3, 8, 12, 13, 27, 28]
    run = [("a", day * DAY_MICROS) for day in days]
    expected = [False, True, True, False, True, True, True, False]
    assert duplicates(run, earlier) == expected


def test_an_earlier_run_may_hold_an_id_twice() -> None:
    assert duplicates([("a", 10 * DAY_MICROS)], [[("a", 0), ("a", 11 * DAY_MICROS), ("b", 0)]]) == [
        True
    ]


def test_no_window_still_drops_what_was_received_together() -> None:
    run = ids([("a", 5), ("a", 5), ("a", 6)])
    assert find_duplicates(run, np.arange(3), [], 0).tolist() == [False, True, False]


def test_moments_far_apart_do_not_overflow() -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    assert duplicates([("a", first), ("a", last)], [[("a", 0)]]) == [False, False]


def test_empty_runs() -> None:
    assert duplicates([], [[("a", 0)]]) == []
    assert duplicates([("a", 0)], [[]]) == [False]


def test_hashes_are_those_of_the_ids_bytes() -> None:
    high, low = hash_ids(["a", "é", "", "a"])
    assert (high[0], low[0]) == (high[3], low[3])
    assert len({*zip(high.tolist(), low.tolist(), strict=True)}) == 3
    # The id index stores them, so they must never change.
    assert (int(high[0]), int(low[0])) == A


A = (9189440641721877287, 9099881824081077545)
