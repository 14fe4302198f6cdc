"""How far a run is, on stderr: a live bar on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

EVERY = 5.0
"""Seconds between two plain lines of one stage."""


class Steps(Protocol):
    """What a run tells of its way; `eventlake.ports.Progress` in the CLI's own words."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None: ...


class Nothing:
    """No progress, for --quiet."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        """Say nothing."""


class Lines:
    """A line when a stage begins or ends, and one now and then between."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._out, self._clock = out, clock
        self._stage, self._done = "", False
        self._began = self._said = 0.0

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        now = self._clock()
        fresh, finished = stage != self._stage, 1 < total <= done
        if fresh:
            self._stage, self._began = stage, now
        if fresh or (finished and not self._done) or now - self._said >= EVERY:
            self._said = now
            line = f"{stage:<9}{_share(done, total)}{_pace(rows, now - self._began)}"
            self._out.write(line.rstrip() + "\n")
            self._out.flush()
        self._done = finished


class Live:
    """A bar for each stage, the last one moving."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage not in self._tasks:
            self.finish()
            self._tasks[stage] = self._bars.add_task(stage, total=None, rows=0)
        self._bars.update(self._tasks[stage], completed=done, total=total or None, rows=rows)

    def finish(self) -> None:
        """Fill the bars of stages that did not say how much there was to do."""
        for task in self._bars.tasks:
            if not task.finished:
                self._bars.update(task.id, total=task.completed or 1, completed=task.completed or 1)


class RowsColumn(TextColumn):
    """Rows so far and rows per second."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        elapsed = task.finished_time if task.finished else task.elapsed
        return Text(_pace(task.fields["rows"], elapsed or 0.0))


@contextmanager
def progress(quiet: bool) -> Iterator[Steps]:
    """Where a run may tell its steps: stderr, so that stdout holds the answer alone."""
    if quiet:
        yield Nothing()
    elif not sys.stderr.isatty():
        yield Lines(sys.stderr)
    else:
        with _bars() as bars:
            live = Live(bars)
            yield live
            live.finish()


def _bars() -> Progress:
    name = TextColumn("{task.description:<9}")
    console = Console(stderr=True, highlight=False)
    return Progress(name, BarColumn(), RowsColumn(), TimeElapsedColumn(), console=console)


def _share(done: int, total: int) -> str:
    return f"{done:,}/{total:,}  " if total > 1 else ""


def _pace(rows: int, seconds: float) -> str:
    if not rows:
        return ""
    pace = f"  {rows / seconds:,.0f} rows/s" if seconds > 0 else ""
    return f"{rows:,} rows{pace}"
