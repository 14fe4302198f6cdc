"""The kernels against a plain second implementation of the contract."""

import json
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


@pytest.mark.parametrize("spare", [0, 100, 2000])
def test_on_blocks_with_more_numbers_than_columns(spare: int) -> None:
    """Numbers that do not get a column keep their text, however many paths a block has."""
    head = {"type": "track", "event": "Wide", "receivedAt": "2026-11-01T07:00:00Z"}
    lines = []
    for number in range(60):  # in halves of three files: ten lines of a file have all keys
        keys = range(number // 3 % 10, 2500, 10)
        values = {"messageId": f"m{number}", "properties": {f"k{at}": at + 0.5 for at in keys}}
        lines.append(json.dumps(head | values).encode())
    agree(lines, {"max_columns": 13 + spare}, 0)
