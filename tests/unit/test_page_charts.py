"""The geometry of charts."""

import math
from itertools import pairwise

import pytest

from eventlake.server.pages.charts import HEIGHT, LEFT, WIDTH, BarChart, can_draw, draw_bars


def draw(*values: float, label: str = "a") -> BarChart:
    chart = draw_bars([(label, value, "") for value in values])
    assert chart
    return chart


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((7,), ["0", "4", "8"]),
        ((1,), ["0", "1"]),
        ((0.001, 0.002), ["0", "0.001", "0.002"]),
        ((0.3, -0.1), ["-0.2", "0", "0.2", "0.4"]),
        ((-5, -1), ["-6", "-3", "0"]),
        ((99_000_000,), ["0", "50,000,000", "1e+08"]),
        ((5e-324,), ["0", "5e-301"]),
        ((1e300, -1e300), ["-1e+300", "-5e+299", "0", "5e+299", "1e+300"]),
    ],
)
def test_the_axis_fits_the_values(values: tuple[float, ...], ticks: list[str]) -> None:
    chart = draw(*values)
    assert [one.label for one in chart.lines] == ticks
    for bar in chart.bars:
        assert bar.height >= 1.5
        assert 0 <= bar.y <= bar.y + bar.height <= HEIGHT


def test_bars_below_zero_hang_from_the_line_of_zero() -> None:
    chart = draw(10, -5)
    up, down = chart.bars
    [zero] = [one.y for one in chart.lines if one.label == "0"]
    assert up.y + up.height == pytest.approx(zero, abs=0.1)
    assert down.y == pytest.approx(zero, abs=0.1)
    assert (up.tip, down.tip) == (up.y, pytest.approx(down.y + down.height, abs=0.1))
    assert chart.points == f"{up.middle},{up.tip} {down.middle},{down.tip}"


def test_no_value_but_zero_is_no_chart() -> None:
    assert draw_bars([("a", 0, "")]) is None
    assert draw_bars([]) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_cannot_be_drawn(value: float) -> None:
    assert not can_draw(value)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 30, 60])
def test_labels_are_short_and_apart(count: int) -> None:
    chart = draw(*[1.0] * count, label="9b2f6c1e-0f53-4d8e-a7b0-3f1f6b1f4c55")
    assert 1 <= len(chart.marks) <= 7
    width = 7 * len(chart.marks[0].label)
    middles = [one.x for one in chart.marks]
    assert all(right - left > width for left, right in pairwise(middles))
    assert middles[0] - width / 2 >= LEFT / 4
    assert middles[-1] + width / 2 <= WIDTH
