"""One timed run of each tool, with what it landed."""

import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.folders import scratch
from bench.measure import BenchError, Ran, run
from bench.workload import Workload

SOURCE = "bench"
CLI = "eventlake.cli.main"
LAKE_DATA = "segment-data/data"
DAY = "2026-11-01"
"""The day of all events of a workload."""


@dataclass(frozen=True)
class Landed:
    """The Parquet files of a folder."""

    files: int
    rows: int
    bytes: int

    def __sub__(self, before: "Landed") -> "Landed":
        ours, theirs = asdict(self), asdict(before)
        return Landed(**{key: ours[key] - theirs[key] for key in ours})


@dataclass(frozen=True)
class Timed:
    """One run: `seconds` from the moment the tool is up, `wall` the whole process."""

    seconds: float
    wall: float
    peak: int
    landed: Landed
    start_up: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


def load(events: Workload, lake: Path, settings: Path | None = None) -> Timed:
    """`eventlake load` as a user runs it; `settings` is the lake's file of them, if any."""
    before = landed(lake / LAKE_DATA)
    named = str(settings or lake)
    command = ["load", str(events.folder), "--source", SOURCE, "--lake", named, "--json"]
    ran = run([sys.executable, "-m", CLI, *command])
    timings = _timings(ran)
    after = landed(lake / LAKE_DATA)
    return _checked(
        Timed(
            seconds=timings["total"],
            start_up=timings["spark_start"],
            wall=ran.wall,
            peak=ran.peak,
            landed=after - before,
            details=timings,
        ),
        events.distinct,
    )


def load_by_file(events: Workload, lake: Path) -> None:
    """Load the files one after the other into partitions of a day, as hourly syncs would."""
    given = ["--source", SOURCE, "--lake", str(lake), "--date-partition", "day", "--json"]
    for file in events.files:
        run([sys.executable, "-m", CLI, "load", str(file), *given])


def replay(events: Workload, lake: Path) -> Timed:
    """`eventlake replay` of the day of all events, which the lake has landed."""
    window = ["--from", DAY, "--to", "2026-11-02"]
    command = ["replay", "--source", SOURCE, "--lake", str(lake), *window, "--json"]
    return _timed_change(events, lake, run([sys.executable, "-m", CLI, *command]))


def compact(events: Workload, lake: Path) -> Timed:
    """`eventlake compact`; the details have the size of the merged files."""
    command = ["compact", "--source", SOURCE, "--lake", str(lake), "--json"]
    ran = run([sys.executable, "-m", CLI, *command])
    (answer,) = ran.answer["results"]
    timed = _timed_change(events, lake, replace(ran, answer=answer))
    merged = sum(table["bytes"] for table in answer["tables"])
    return replace(timed, details={**timed.details, "merged_bytes": merged})


def _timed_change(events: Workload, lake: Path, ran: Ran) -> Timed:
    timings, after = _timings(ran), landed(lake / LAKE_DATA)
    start_up = timings["spark_start"]
    timed = Timed(timings["total"], ran.wall, ran.peak, after, start_up, timings)
    return _checked(timed, events.distinct)


def convert(tool: str, events: Workload) -> Timed:
    """A peer on the same files."""
    out = scratch()
    ran = run([sys.executable, "-m", "bench.peers", tool, str(events.folder), str(out)])
    known = {"seconds", "start_up"}
    return _checked(
        Timed(
            seconds=ran.answer["seconds"],
            start_up=ran.answer.get("start_up"),
            wall=ran.wall,
            peak=ran.peak,
            landed=landed(out / "tables"),
            details={key: value for key, value in ran.answer.items() if key not in known},
        ),
        events.lines,
    )


def landed(folder: Path) -> Landed:
    """What lies in a folder, counted from the files' own footers."""
    files = sorted(path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)
    return Landed(
        files=len(files),
        rows=sum(pq.read_metadata(path).num_rows for path in files if _is_event_table(path)),
        bytes=sum(path.stat().st_size for path in files),
    )


def _is_event_table(path: Path) -> bool:
    """dlt also writes tables of its own and one for each list, named `parent__list`."""
    return not path.parent.name.startswith("_dlt_") and "__" not in path.parent.name


def _timings(ran: Ran) -> dict[str, Any]:
    timings = ran.answer.get("timings") or {}
    missing = {"total", "spark_start"} - timings.keys()
    if missing:
        raise BenchError(f"eventlake load --json gave no timings.{', timings.'.join(missing)}")
    return dict(timings)


def _checked(timed: Timed, expected: int) -> Timed:
    """A tool that lost or doubled events has not done the work that was timed."""
    if timed.landed.rows != expected:
        raise BenchError(f"landed {timed.landed.rows:,} rows where {expected:,} were due")
    return timed
