"""The geometry of charts, which templates draw as SVG without a script."""

from collections.abc import Sequence
from typing import NamedTuple

from eventlake.server.pages.formats import number

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 190, 64, 22
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
    """The tops of the bars, for a line."""
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


def draw_bars(values: Sequence[tuple[str, float, str]], every: int = 5) -> BarChart | None:
    """A chart of labels, values and links; None if all values are 0."""
    highest = max((value for _, value, _ in values), default=0)
    if highest <= 0:
        return None
    top = _round_up(highest)
    room, base = HEIGHT - BOTTOM - 8, HEIGHT - BOTTOM
    step = (WIDTH - LEFT) / len(values)
    bars = []
    for at, (label, value, href) in enumerate(values):
        height = max(round(room * max(value, 0) / top, 1), 1.5 if value > 0 else 0)
        x = round(LEFT + at * step + step * 0.12, 1)
        bars.append(
            Bar(label, value, href, x, round(base - height, 1), round(step * 0.76, 1), height)
        )
    marks = [
        Mark(bar.label, round(bar.x + bar.width / 2, 1), 0)
        for at, bar in enumerate(bars)
        if (len(bars) - 1 - at) % every == 0
    ]
    lines = [Mark(number(top * part), 0, round(base - room * part, 1)) for part in (0, 0.5, 1)]
    points = " ".join(f"{bar.x + bar.width / 2:.1f},{bar.y}" for bar in bars)
    return BarChart(tuple(bars), tuple(marks), tuple(lines), points)


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


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, … that is not smaller; at least 2, so that half is whole."""
    scale = 1.0
    while scale * 10 < value:
        scale *= 10
    return max(2.0, next(scale * n for n in (1, 2, 4, 6, 8, 10) if scale * n >= value))
