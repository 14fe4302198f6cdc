"""The benchmark from its options to its result."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from bench import show
from bench.folders import clear
from bench.rows import STEPS, Making, Row
from bench.targets import Rows


def main(given: Sequence[str] | None = None) -> int:
    """Run what is asked for, show it and write it; 1 when a tool failed."""
    asked = _options(given)
    console = Console()
    try:
        with console.status("the events …"):
            makings = [Making(name, asked.events) for name in _row_names(asked.only)]
        for making in makings * asked.repeat:
            with console.status(f"{making.row.label} …"):
                row = making.run()
            console.print(f"{row.label}: {_outcome(row)}", highlight=False)
    finally:
        clear()
    rows: Rows = {making.row.name: making.row for making in makings}
    show.show(console, rows)
    show.write(rows, asked.events, asked.repeat)
    return int(any(row.error for row in rows.values()))


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="events to load")
    parser.add_argument(
        "--only", type=_steps, default=list(STEPS), help=f"some of {','.join(STEPS)}"
    )
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, for medians")
    return parser.parse_args(given)


def _steps(text: str) -> list[str]:
    asked = text.split(",")
    unknown = sorted(set(asked) - STEPS.keys())
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of: {', '.join(STEPS)}")
    return asked


def _row_names(steps: Sequence[str]) -> list[str]:
    """The rows of the steps, each once, in the order they are defined."""
    return list(dict.fromkeys(row for step in STEPS if step in steps for row in STEPS[step]))


def _outcome(row: Row) -> str:
    """What the run that was the last gave."""
    return "failed" if row.error else f"{row.runs[-1].seconds * row.events.scale:.1f} s"
