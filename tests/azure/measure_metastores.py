"""Measure registrations in metastores: `python -m tests.azure.measure_metastores [2.3|3.1|4.0] …`.

Prints seconds: 1,000 new tables with 3 partitions each, 10,000 partitions of one table, and a new
column of that table.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventlake.catalogs.hive import HiveCatalog
from eventlake.catalogs.hive_calls import HiveCalls
from eventlake.catalogs.private_metastore import HIVE, PrivateMetastore
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column
from eventlake.model.types import Type
from eventlake.ports import Catalog, NoProgress
from tests.azure.metastores import HIVE_4, MariaDb, java_path, started_hive, started_mariadb
from tests.catalogs import add_columns, register

COLUMNS = tuple(Column(name=f"c{number}", type=Type.STRING) for number in range(30))


def make_table(number: int, partitions: int) -> CatalogTable:
    return CatalogTable(
        database="web",
        name=f"t{number}",
        source="web",
        location=f"staging/web/segment_type=t{number}",
        columns=COLUMNS,
        partition_columns=("day", "hr"),
        partitions=tuple(
            {"day": f"2026-{1 + n // 672:02}-{1 + n // 24 % 28:02}", "hr": f"{n % 24:02}"}
            for n in range(partitions)
        ),
    )


def measure(catalog: Catalog, tables: int, partitions: int) -> dict[str, float]:
    """Seconds of each measurement; raises the first error."""
    many = [make_table(number, 3) for number in range(tables)]
    long = make_table(tables, partitions)

    def register_many() -> None:
        for problem in catalog.ensure(many, NoProgress()).values():
            raise problem

    return {
        f"{tables} tables with 3 partitions": _seconds(register_many),
        "the same again": _seconds(register_many),
        f"{partitions} partitions": _seconds(lambda: register(catalog, long)),
        "a new column": _seconds(
            lambda: add_columns(catalog, long, [Column(name="x", type=Type.BIGINT)])
        ),
    }


def _seconds(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


@contextmanager
def started(version: str, mariadb: MariaDb, folder: str) -> Iterator[HiveCatalog]:
    """A catalog of a Hive version; locations are on disk for servers, which make the folders."""
    if version == "2.3":
        root = "abfss://lake@events.dfs.core.windows.net"
        database = mariadb.database(mariadb.make_database())
        private = PrivateMetastore(database, root, "segment-data/databases", java_path)
        yield HiveCatalog(HiveCalls(private.addresses), root)
        return
    archive = HIVE if version == "3.1" else HIVE_4
    with started_hive(mariadb, "http://127.0.0.1:1", archive) as server:
        yield server.catalog(f"file:{folder}")


def main(versions: list[str], tables: int = 1000, partitions: int = 10_000) -> None:
    with started_mariadb() as mariadb, tempfile.TemporaryDirectory() as folder:
        for version in versions:
            with started(version, mariadb, folder) as catalog:
                catalog.databases()
                for name, seconds in measure(catalog, tables, partitions).items():
                    sys.stdout.write(f"Hive {version}: {name}: {seconds:.1f} s\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:] or ["2.3", "3.1", "4.0"])
