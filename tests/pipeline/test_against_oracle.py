"""The kernels against a plain second implementation of the contract."""

from random import Random
from typing import Any

import pytest
from tests import adversary, regular
from tests.agreement import CASES, agree


@pytest.mark.parametrize(("seed", "case"), [*enumerate(CASES)], ids=lambda one: str(one)[:30])
def test_on_lines_that_try_to_hurt(seed: int, case: dict[str, Any]) -> None:
    agree([line for line in adversary.lines(seed, 45) if len(line) < 20_000], case, seed)


@pytest.mark.parametrize(("seed", "case"), [*enumerate(CASES)], ids=lambda one: str(one)[:30])
def test_on_lines_of_one_shape(seed: int, case: dict[str, Any]) -> None:
    agree(regular.events(seed, 30), case, seed)


def test_on_lines_at_the_limit_of_size() -> None:
    lines = [adversary.huge_line(Random(seed), pool=1) for seed in range(3)]
    agree(lines, {}, 0)
