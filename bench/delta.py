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
from typing import TYPE_CHECKING

from bench.folders import scratch
from bench.measure import run
from bench.tools import Landed, Timed, load
from bench.workload import Workload

if TYPE_CHECKING:
    from eventlake.model.commit import TableChange

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
    """Seconds of the first and the last ten of many syncs into the same tables.

    Wall time, as users see it; `_cpu` is of this process, which publishes, without Spark's.
    """
    from eventlake.lakes.local_settings import LocalSettings
    from eventlake.services import load as services

    lake, seconds, cpu = LocalSettings(path=str(folder / "lake"), format="delta"), [], []
    for number in range(SYNCS):
        path = folder / f"{number:05}.gz"
        path.write_bytes(_events(number))
        began, used = time.monotonic(), time.process_time()
        services.load([path], lake=lake, settings={"source": "bench"}, where="local[2]")
        seconds.append(time.monotonic() - began)
        cpu.append(time.process_time() - used)
    return {
        "seconds": sum(seconds),
        "first": sum(seconds[1 : TEN + 1]),  # the first of all starts Spark
        "second": sum(seconds[TEN : 2 * TEN]),  # all tables have a checkpoint by then
        "last": sum(seconds[-TEN:]),
        "first_cpu": sum(cpu[1 : TEN + 1]),
        "second_cpu": sum(cpu[TEN : 2 * TEN]),
        "last_cpu": sum(cpu[-TEN:]),
    }


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
    """Seconds to open a table after many commits, each of one file.

    All but the first two and the last twenty are copies of the second with other numbers, as
    committing 10,000 times would take ten minutes. Checkpoints are only at the end.
    """
    from deltalake import DeltaTable

    from eventlake.formats.delta import DeltaFormat
    from eventlake.stores import Disk

    tables, last = DeltaFormat(Disk(str(folder))), COMMITS - 2 * TEN
    tables.publish([_change(1), _change(2)])
    log = folder / "t/_delta_log"
    second = (log / f"{1:020}.json").read_text()
    for number in range(3, last + 1):
        text = second.replace(f"{2:019}", f"{number:019}")
        text = text.replace('"version":2', f'"version":{number}')
        (log / f"{number - 1:020}.json").write_text(text)
    DeltaTable(str(folder / "t")).create_checkpoint()
    for number in range(last + 1, COMMITS + 1):
        tables.publish([_change(number)])
    began = time.monotonic()
    DeltaFormat(Disk(str(folder))).check({"t": "t"})
    seconds = time.monotonic() - began
    table = DeltaTable(str(folder / "t"))
    assert (table.version(), len(table.file_uris())) == (COMMITS - 1, COMMITS)
    return {"seconds": seconds}


def _change(number: int) -> "TableChange":
    """A commit that adds a file."""
    from eventlake.model.commit import DataFile, TableChange, Transaction
    from eventlake.model.naming import Call, Naming
    from eventlake.model.schema import new_table

    file = DataFile(path=f"t/{number:019}-0.parquet", rows=1, bytes=1, partition={"day": "d"})
    run = Transaction(source="bench", ledger="1", run_id=f"{number:019}", sequence=number)
    return TableChange(
        transaction=run,
        location="t",
        table=new_table("t", Call.TRACK, Naming.SEGMENT),
        partition_columns=("day",),
        adds=(file,),
        is_new=number == 1,
    )


if __name__ == "__main__":
    work = {"syncs": sync_many, "open": open_late}[sys.argv[1]]
    sys.stdout.write(f"{json.dumps(work(Path(sys.argv[2])))}\n")
