"""The kernels against the oracle and against themselves, on many lines; no Spark needed."""

import pytest
from tests import adversary, regular
from tests.agreement import CASES, agree
from tests.unit.kernels.test_parse import IRREGULAR, LINES, check, with_line_at


@pytest.mark.parametrize("seed", range(10))
def test_lines_that_try_to_hurt(seed: int) -> None:
    agree(adversary.lines(100 + seed, 500), CASES[seed % len(CASES)], seed)


@pytest.mark.parametrize("seed", range(0, 48, 8))
def test_lines_of_one_shape(seed: int) -> None:
    for one in range(seed, seed + 8):
        agree(regular.events(1000 + one, 200), CASES[one % len(CASES)], one)


@pytest.mark.parametrize("seed", range(0, 240, 60))
def test_the_fast_path_gives_what_the_slow_one_gives(seed: int) -> None:
    for one in range(seed, seed + 60):
        check(*regular.blocks(1000 + one))


def test_one_odd_line_wherever_it_stands() -> None:
    for line in IRREGULAR:
        alone = [line.encode()]
        check(with_line_at(line, 0), LINES)
        check(with_line_at(line, len(LINES)), alone, LINES)
        check(alone, LINES)
