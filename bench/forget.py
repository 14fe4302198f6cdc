"""A user is forgotten in a lake of 1,000 files, and the same lake is built again as a whole."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from bench.folders import scratch
from bench.measure import BenchError, run
from bench.tools import CLI, LAKE_DATA, SOURCE, Timed, landed
from bench.workload import Workload

TYPES = 340
"""Event types, a file each in each of three hours."""


def forgets(events: Workload) -> Iterator[Timed]:
    """`eventlake forget` of one user, each time in a new copy of the lake."""
    lake = _make_lake(events)
    user = _find_user(lake)
    while True:
        timed = _run(lake, "forget", user)
        if timed.landed.rows >= events.distinct:
            raise BenchError("forget removed nothing")
        yield timed


def rebuilds(events: Workload) -> Iterator[Timed]:
    """`eventlake replay --all`, which writes every file again."""
    lake = _make_lake(events)
    while True:
        yield _run(lake, "replay", "--source", SOURCE, "--all")


def _make_lake(events: Workload) -> Path:
    """A lake with its own raw logs, so that a copy of it shares none with the others."""
    lake = scratch() / "lake"
    options = ["--source", SOURCE, "--lake", str(lake), "--keep-raw", "--json"]
    run([sys.executable, "-m", CLI, "load", str(events.folder), *options])
    return lake


def _find_user(lake: Path) -> str:
    """The median of the users by the number of files with events of theirs."""
    files: Counter[str] = Counter()
    for path in (lake / LAKE_DATA).rglob("*.parquet"):
        users = pq.read_table(path, columns=["user_id"], partitioning=None)["user_id"]
        files.update(set(users.drop_null().to_pylist()))
    ranked = files.most_common()
    return ranked[len(ranked) // 2][0]


def _run(lake: Path, *words: str) -> Timed:
    copy = Path(shutil.copytree(lake, scratch() / "lake"))
    ran = run([sys.executable, "-m", CLI, *words, "--lake", str(copy), "--json"])
    timings = ran.answer.get("timings") or {"total": ran.answer["seconds"]}
    return Timed(
        seconds=timings["total"],
        start_up=timings.get("spark_start"),
        wall=ran.wall,
        peak=ran.peak,
        landed=landed(copy / LAKE_DATA),
    )
