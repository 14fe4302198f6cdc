"""Delta tables: a load into them, many syncs in a row, and the log of a table with many commits.

    python -m bench.delta syncs <folder>
    python -m bench.delta open <folder>

each print their figures as JSON.
"""

import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.folders import scratch
from bench.measure import run
from bench.tools import Landed, Timed, load
from bench.workload import Workload

SYNCS, TABLES, TEN = 300, 50, 10
COMMITS = 10_000


def loads(events: Workload) -> Iterator[Timed]:
    """`eventlake load` into Delta tables."""
    while True:
        lake = scratch() / "lake"
        settings = lake.with_suffix(".toml")
        settings.write_text(f'path = "{lake}"\nformat = "delta"\n')
        yield load(events, lake, settings)


def measure(what: str, _: Workload) -> Iterator[Timed]:
    """One of the figures below, in a process of its own; its details have all of them."""
    while True:
        ran = run([sys.executable, "-m", "bench.delta", what, str(scratch())])
        yield Timed(ran.answer["seconds"], ran.wall, ran.peak, Landed(0, 0, 0), details=ran.answer)


def sync_many(folder: Path) -> dict[str, float]:
    """Seconds of the first and the last ten of many syncs into the same tables."""
    from eventlake.lakes.local_settings import LocalSettings
    from eventlake.services import load as services

    lake, seconds = LocalSettings(path=str(folder / "lake"), format="delta"), []
    for number in range(SYNCS):
        path = folder / f"{number:05}.gz"
        path.write_bytes(_events(number))
        began = time.monotonic()
        services.load([path], lake=lake, settings={"source": "bench"}, where="local[2]")
        seconds.append(time.monotonic() - began)
    warm = seconds[TEN : 2 * TEN]  # Spark and its workers are up by then
    first, last = sum(warm), sum(seconds[-TEN:])
    return {"seconds": sum(seconds), "first": first, "last": last}


def _events(number: int) -> bytes:
    """One event of each table, all received in one hour."""
    lines = (
        {
            "type": "track",
            "event": f"Event {table}",
            "messageId": f"{number}-{table}",
            "receivedAt": f"2026-11-{number // 24 + 1:02}T{number % 24:02}:00:00Z",
            "properties": {"number": number, "share": number / 7, "text": str(number)},
        }
        for table in range(TABLES)
    )
    return gzip.compress("\n".join(map(json.dumps, lines)).encode())


def open_late(folder: Path) -> dict[str, float]:
    """Seconds to open a table after many commits, each of one file."""
    from eventlake.formats.delta import DeltaFormat
    from eventlake.model.commit import DataFile, TableChange, Transaction
    from eventlake.model.naming import Call, Naming
    from eventlake.model.schema import new_table
    from eventlake.stores import Disk

    tables, table = DeltaFormat(Disk(str(folder))), new_table("t", Call.TRACK, Naming.SEGMENT)
    for number in range(1, COMMITS + 1):
        file = DataFile(path=f"t/{number:019}-0.parquet", rows=1, bytes=1, partition={"day": "d"})
        change = TableChange(
            transaction=Transaction(
                source="bench", ledger="1", run_id=f"{number:019}", sequence=number
            ),
            location="t",
            table=table,
            partition_columns=("day",),
            adds=(file,),
            is_new=number == 1,
        )
        tables.publish([change])
    began = time.monotonic()
    DeltaFormat(Disk(str(folder))).check({"t": "t"})
    return {"seconds": time.monotonic() - began}


if __name__ == "__main__":
    work = {"syncs": sync_many, "open": open_late}[sys.argv[1]]
    sys.stdout.write(f"{json.dumps(work(Path(sys.argv[2])))}\n")
