"""The geometry of charts, which templates draw as SVG without a script."""

import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 900, 190, 64, 8, 22
MAX_MARKS = 7
MAX_MARK_CHARS = 12
"""Labels below the bars, and characters of each, that fit beside each other."""
MAX_LINE_CHARS = 10
"""Characters that fit to the left of the bars."""
MIN_VALUE, MAX_VALUE = 1e-300, 1e300
"""Smaller values are drawn as 0, and larger ones not at all: floats have no round steps there."""
STAGES = ("plan", "start", "read", "dedupe", "evolve", "write", "commit", "publish", "register")
"""The stages of a load, in their order."""
_SHORT_STAGES = {
    "archive": "plan",
    "submit": "start",
    "wait": "start",
    "run": "start",
    "index": "dedupe",
    "compact": "write",
    "report": "register",
    "clean": "register",
}
"""Stages that are too short to show, or that only some runs have, by the one beside them."""


class Bar(NamedTuple):
    """A bar with its place in the drawing."""

    label: str
    value: float
    href: str
    x: float
    y: float
    width: float
    height: float
    middle: float
    tip: float
    """The point of the value, for a line."""


class Mark(NamedTuple):
    """A label below the bars, or a line across them."""

    label: str
    x: float
    y: float


class BarChart(NamedTuple):
    """Bars with the labels of both axes."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    lines: tuple[Mark, ...]
    points: str
    """The tips of the bars, for a line."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT


class Stage(NamedTuple):
    """A stage of a run in its bar."""

    name: str
    tone: str
    x: float
    width: float


class Stages(NamedTuple):
    """The stages of a run, and the one that it is at."""

    parts: tuple[Stage, ...]
    current_name: str


def can_draw(value: float) -> bool:
    """Whether a value has a place in a chart: NaN and infinity have none."""
    return abs(value) <= MAX_VALUE


def draw_bars(values: Sequence[tuple[str, float, str]]) -> BarChart | None:
    """A chart of labels, values that can be drawn, and links; None if all values are 0."""
    numbers = [value for _, value, _ in values]
    if not any(numbers):
        return None
    ticks = _choose_ticks(min(0, *numbers), max(0, *numbers), all(n == int(n) for n in numbers))
    base, scale = HEIGHT - BOTTOM, (HEIGHT - BOTTOM - TOP) / (ticks[-1] - ticks[0])
    zero = base + ticks[0] * scale
    step = (WIDTH - LEFT) / len(values)
    bars = []
    for at, (label, value, href) in enumerate(values):
        height = max(abs(value) * scale, 1.5 if value else 0)
        tip = zero - math.copysign(height, value)
        x = LEFT + at * step
        place = (x + step * 0.12, min(zero, tip), step * 0.76, height, x + step / 2, tip)
        bars.append(Bar(label, value, href, *(round(one, 1) for one in place)))
    return BarChart(
        tuple(bars),
        _place_marks(bars),
        tuple(Mark(_label_tick(one), 0, round(zero - one * scale, 1)) for one in ticks),
        " ".join(f"{bar.middle},{bar.tip}" for bar in bars),
    )


def draw_stages(current: str, width: int = 700) -> Stages:
    """The bar of stages of a run that is at one of them."""
    shown = _SHORT_STAGES.get(current, current)
    at = STAGES.index(shown) if shown in STAGES else -1
    step = width / len(STAGES)
    tones = ["good" if n < at else "busy" if n == at else "idle" for n in range(len(STAGES))]
    parts = tuple(
        Stage(name, tone, round(n * step + 2, 1), round(step - 4, 1))
        for n, (name, tone) in enumerate(zip(STAGES, tones, strict=True))
    )
    return Stages(parts, current or "not started")


def _place_marks(bars: Sequence[Bar]) -> tuple[Mark, ...]:
    """The labels of some bars, counted from the last one, short enough for their place."""
    every = math.ceil(len(bars) / MAX_MARKS)
    marks = []
    for bar in bars[(len(bars) - 1) % every :: every]:
        is_long = len(bar.label) > MAX_MARK_CHARS
        text = f"{bar.label[: MAX_MARK_CHARS - 1]}…" if is_long else bar.label
        marks.append(Mark(text, min(bar.middle, WIDTH - 3.5 * len(text)), 0))
    return tuple(marks)


def _choose_ticks(low: float, high: float, are_whole: bool) -> list[float]:
    """Round values that enclose `low`, 0 and `high`, with at most two steps on each side of 0.

    The steps are whole if the values are.
    """
    half = max(high, -low, MIN_VALUE) / 2
    exponent = math.floor(math.log10(half))
    scale = 10.0 ** (max(exponent, 0) if are_whole else exponent)
    step = next(n * scale for n in (1, 2, 3, 4, 5, 10) if n * scale >= half)
    return [n * step for n in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _label_tick(value: float) -> str:
    """A value with all its digits if they fit, or with three."""
    text = f"{value:,.12g}"
    return text if len(text) <= MAX_LINE_CHARS else f"{value:.3g}"
