"""Every interleaving of runs, crashes and lost answers: no committed file is ever removed."""

import pytest

from tests.faults.model import GiveUp, Order, Rules, explore


def test_reading_the_ledger_before_the_stages_loses_a_committed_run() -> None:
    world, _ = explore(2, Rules(order=Order.LEDGER_FIRST))
    assert world is not None
    (lost,) = world.lost
    other = world.runs[1 - lost]
    assert lost in other.dead - other.committed, "it committed between the two looks"


def test_removing_a_stage_while_its_commit_may_still_arrive_loses_it() -> None:
    world, _ = explore(2, Rules(fail_run=GiveUp.REMOVES, loses_answers=True))
    assert world is not None


@pytest.mark.parametrize(
    ("processes", "rules"),
    [
        (2, Rules(suspects_living=True, loses_answers=True)),
        (3, Rules()),
        (3, Rules(suspects_living=True)),
    ],
    ids=str,
)
def test_nothing_committed_is_lost(processes: int, rules: Rules) -> None:
    world, visited = explore(processes, rules)
    assert world is None, world
    assert visited > 1_000  # the search was not trivial
