"""The progress of a run on stderr: bars on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from eventlake import ports
from eventlake.clock import SYSTEM_CLOCK, Clock

LINE_INTERVAL_SECONDS = 5.0
"""Time between two plain lines of one stage."""


class ProgressLines:
    """Prints a line when a stage begins and ends, and every few seconds in between."""

    def __init__(self, out: TextIO, clock: Clock = SYSTEM_CLOCK) -> None:
        self._out, self._clock = out, clock
        self._stage, self._done = "", False
        self._stage_start = self._last_line_at = 0.0

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        now = self._clock.monotonic()
        is_new, finished = stage != self._stage, 1 < total <= done
        if is_new:
            self._stage, self._stage_start = stage, now
        is_due = now - self._last_line_at >= LINE_INTERVAL_SECONDS
        if is_new or is_due or (finished and not self._done):
            self._last_line_at = now
            elapsed = now - self._stage_start
            rate = _format_rate(rows, elapsed) + _format_time_left(done, total, elapsed)
            line = f"{stage:<9}{_format_share(done, total)}{rate}"
            self._out.write(line.rstrip() + "\n")
            self._out.flush()
        self._done = finished


class ProgressBars:
    """Shows a bar for each stage."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage not in self._tasks:
            self.finish()
            self._tasks[stage] = self._bars.add_task(stage, total=None, rows=0)
        self._bars.update(self._tasks[stage], completed=done, total=total or None, rows=rows)

    def finish(self) -> None:
        """Fill all bars, also those of stages without a total."""
        for task in self._bars.tasks:
            if not task.finished:
                self._bars.update(task.id, total=task.completed or 1, completed=task.completed or 1)


class RowsColumn(TextColumn):
    """A column with the number of rows, rows per second and the time left."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        elapsed = task.finished_time if task.finished else task.elapsed
        left = _format_time_left(int(task.completed), int(task.total or 0), elapsed or 0.0)
        return Text(_format_rate(task.fields["rows"], elapsed or 0.0) + left)


@contextmanager
def show_progress(quiet: bool) -> Iterator[ports.Progress]:
    """Show the progress of the run in the block on stderr, unless `quiet`."""
    if quiet:
        yield ports.NoProgress()
    elif not sys.stderr.isatty():
        yield ProgressLines(sys.stderr)
    else:
        with _make_bars() as bars:
            listener = ProgressBars(bars)
            yield listener
            listener.finish()


def _make_bars() -> Progress:
    name = TextColumn("{task.description:<9}")
    console = Console(stderr=True, highlight=False)
    return Progress(name, BarColumn(), RowsColumn(), TimeElapsedColumn(), console=console)


def _format_share(done: int, total: int) -> str:
    return f"{done:,}/{total:,}  " if total > 1 else ""


def _format_time_left(done: int, total: int, seconds: float) -> str:
    if seconds < 1 or not 0 < done < total:
        return ""
    return f"  {timedelta(seconds=round(seconds / done * (total - done)))} left"


def _format_rate(rows: int, seconds: float) -> str:
    if not rows:
        return ""
    pace = f"  {rows / seconds:,.0f} rows/s" if seconds > 0 else ""
    return f"{rows:,} rows{pace}"
