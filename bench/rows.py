"""The rows of the result: which tool, on which events, how often, and what came out."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from bench import delta, forget
from bench.folders import scratch
from bench.measure import BenchError
from bench.tools import SOURCE, Timed, compact, convert, load, load_by_file, replay
from bench.workload import Workload, tenth_of, workload

INDEX_IDS = 20
"""Ids in the index of the second load, for each event that it loads."""
MEMORY_TIMES = 5


@dataclass(frozen=True)
class Row:
    """A tool on a workload; times are medians, memory is the worst of all runs."""

    name: str
    label: str
    events: Workload
    runs: tuple[Timed, ...] = ()
    error: str = ""

    @property
    def seconds(self) -> float | None:
        """For the whole workload, also where only a part of it was run."""
        return self._median("seconds", self.events.scale)

    @property
    def start_up(self) -> float | None:
        return self._median("start_up")

    @property
    def wall(self) -> float | None:
        return self._median("wall")

    @property
    def rate(self) -> float | None:
        """Events a second, duplicates included."""
        return self.events.lines * self.events.scale / self.seconds if self.seconds else None

    @property
    def peak(self) -> int | None:
        return max((run.peak for run in self.runs), default=None)

    def _median(self, what: str, scale: int = 1) -> float | None:
        values = [getattr(run, what) for run in self.runs if getattr(run, what) is not None]
        return median(values) * scale if values else None


class Making:
    """A row in the making, a run at a time: runs of all rows alternate, so that a slow quarter of
    an hour of the machine is one for all of them."""

    def __init__(self, name: str, events: int) -> None:
        label, given, again = _RECIPES[name]
        self.row = Row(name, label, given(events))
        self._again = again(self.row.events)

    def run(self) -> Row:
        """Run it once more; a tool that fails gives a row that says so, and is not run again."""
        if self.row.error:
            return self.row
        self.row.events.warm()
        try:
            self.row = replace(self.row, runs=(*self.row.runs, next(self._again)))
        except BenchError as problem:
            self.row = replace(self.row, runs=(), error=str(problem))
        return self.row


Again = Iterator[Timed]
"""Runs a tool each time it is asked."""


def _loads(events: Workload) -> Again:
    while True:
        yield load(events, scratch() / "lake")


def _conversions(tool: str, events: Workload) -> Again:
    while True:
        yield convert(tool, events)


def _second_loads(events: Workload) -> Again:
    """Each into its own copy of a lake that has landed much before."""
    from bench import index

    lake = scratch() / "lake"
    first = workload(events.distinct)
    load(first, lake)
    index.grow(lake, SOURCE, ids=INDEX_IDS * events.distinct - first.distinct)
    while True:
        yield load(events, Path(shutil.copytree(lake, scratch() / "lake")))


def _replays(events: Workload) -> Again:
    """Each of the same window of one lake."""
    lake = scratch() / "lake"
    load(events, lake)
    while True:
        yield replay(events, lake)


def _compactions(events: Workload) -> Again:
    """Each in its own copy of a lake that was loaded a file at a time."""
    lake = scratch() / "lake"
    load_by_file(events, lake)
    while True:
        yield compact(events, Path(shutil.copytree(lake, scratch() / "lake")))


def _bucket_loads(cloud: str, events: Workload) -> Again:
    from bench import bucket

    emulated = {"s3": bucket.emulated_s3, "adls": bucket.emulated_adls}[cloud]
    while True:
        yield bucket.load(events, emulated)


def _many_files(events: int) -> Workload:
    return workload(events, types=forget.TYPES)


def _messy(events: int) -> Workload:
    return workload(events, messy=True)


def _tenth(events: int) -> Workload:
    return tenth_of(workload(events))


Recipe = tuple[str, Callable[[int], Workload], Callable[[Workload], Again]]

_RECIPES: dict[str, Recipe] = {
    "eventlake": ("eventlake load", workload, _loads),
    "duckdb": ("DuckDB, as it comes", workload, partial(_conversions, "duckdb")),
    "duckdb_typed": (
        "DuckDB, all typed",
        workload,
        partial(_conversions, "duckdb_typed"),
    ),
    "messy": ("load, messy events", _messy, _loads),
    "messy_duckdb": ("DuckDB, messy", _messy, partial(_conversions, "duckdb")),
    "messy_duckdb_typed": (
        "DuckDB, messy, all typed",
        _messy,
        partial(_conversions, "duckdb_typed"),
    ),
    "spark": ("plain Spark", workload, partial(_conversions, "spark")),
    "dlt": ("dlt (tenth, scaled)", _tenth, partial(_conversions, "dlt")),
    "types": ("load, 1,000 types", partial(workload, types=1000), _loads),
    "index": ("load, large index", partial(workload, seed=8), _second_loads),
    "replay": ("replay of all", workload, _replays),
    "compact": ("compact", workload, _compactions),
    "s3": ("load into S3", workload, partial(_bucket_loads, "s3")),
    "adls": ("load into ADLS", workload, partial(_bucket_loads, "adls")),
    "rebuild": ("replay --all, 1,000 files", _many_files, forget.rebuilds),
    "forget": ("forget, 1,000 files", _many_files, forget.forgets),
    "delta": ("load into Delta tables", workload, delta.loads),
    "delta_syncs": ("300 syncs into 50 Delta tables", workload, partial(delta.measure, "syncs")),
    "delta_open": ("open after 10,000 commits", workload, partial(delta.measure, "open")),
    "memory": (
        "load, 5 x events",
        lambda events: workload(MEMORY_TIMES * events),
        _loads,
    ),
}

STEPS: dict[str, tuple[str, ...]] = {
    "eventlake": ("eventlake",),
    "types": ("eventlake", "types"),
    "duckdb": ("duckdb", "duckdb_typed"),
    "messy": ("eventlake", "messy", "messy_duckdb", "messy_duckdb_typed"),
    "spark": ("spark",),
    "dlt": ("dlt",),
    "index": ("eventlake", "index"),
    "replay": ("eventlake", "replay"),
    "compact": ("compact",),
    "s3": ("eventlake", "s3"),
    "adls": ("eventlake", "adls"),
    "forget": ("rebuild", "forget"),
    "delta": ("eventlake", "delta", "delta_open"),
    "delta_syncs": ("delta_syncs",),
    "memory": ("eventlake", "memory"),
}
"""What may be asked for, and the rows that it needs, in the order that they run: between two that
are compared closely no slow minute should fall."""
