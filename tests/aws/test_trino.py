"""Trino, which Athena is made of, finds in Glue and S3 what a lake on disk has."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from eventlake.lakes.aws_settings import AwsSettings
from eventlake.model.layout import DatePartition
from eventlake.model.settings import SourceSettings
from eventlake.services.load import LoadResult
from eventlake.services.read import open_lake
from tests import adversary, lakes
from tests.aws.moto import Aws
from tests.aws.trino import Trino, trino

__all__ = ["trino"]

Rows = Counter[tuple[Any, ...]]


def as_text(value: Any) -> Any:
    """A value as Trino's JSON has it."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"{value:f}" if isinstance(value, Decimal) else value


def lake_rows(lake: lakes.Place, database: str, table: str) -> tuple[list[str], Rows]:
    """The columns and rows of a table as our own query returns them."""
    found = open_lake(lake).query(f'select * from "{database}"."{table}"')
    rows = zip(*(map(as_text, column.to_pylist()) for column in found.columns), strict=True)
    return found.column_names, Counter(rows)


def trino_rows(trino: Trino, database: str, table: str, columns: list[str]) -> Rows:
    selected = ", ".join(f'"{name}"' for name in columns)
    return Counter(map(tuple, trino.rows(f'select {selected} from "{database}"."{table}"')))


def check_tables(trino: Trino, lake: lakes.Place) -> int:
    """Compare every cell of a lake on disk with Trino's; return how many there are."""
    names = [(one.database, one.name) for one in open_lake(lake).tables()]

    def compare(name: tuple[str, str]) -> int:
        columns, rows = lake_rows(lake, *name)
        assert trino_rows(trino, *name, columns) == rows, name
        return len(columns) * rows.total()

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(compare, names))


def events(path: Path, day: str, *numbers: int, **properties: object) -> Path:
    """Order Done events of one hour; their ids come from the numbers."""
    path.write_text(
        "".join(
            json.dumps(
                {
                    "type": "track",
                    "event": "Order Done",
                    "messageId": f"m{number}",
                    "receivedAt": f"{day}T07:00:00.123456Z",
                    "properties": {"total": number, **properties},
                }
            )
            + "\n"
            for number in numbers
        )
    )
    return path


def load_one(path: Path, lake: AwsSettings, source: str = lakes.SOURCE) -> LoadResult:
    return lakes.load([path], lake, settings=SourceSettings(source=source))


def test_every_cell_is_that_of_a_lake_on_disk(aws: Aws, trino: Trino, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.json"
    hostile.write_bytes(b"\n".join(adversary.lines(3, 100)))
    raw = [*lakes.small_sample(tmp_path / "raw"), hostile]
    for lake in (tmp_path / "lake", aws.settings()):
        lakes.load(raw[:2], lake)
        lakes.load(raw, lake)
    assert check_tables(trino, tmp_path / "lake") > 3000


def test_old_partitions_have_a_new_column(aws: Aws, trino: Trino, tmp_path: Path) -> None:
    lake = aws.settings()
    load_one(events(tmp_path / "1.json", "2026-11-01", 1), lake)
    load_one(events(tmp_path / "2.json", "2026-11-02", 2, coupon="x"), lake)
    sql = "select day, hr, total, coupon, received_at from web.order_done order by day"
    assert trino.rows(sql) == [
        ["2026-11-01", "07", 1, None, "2026-11-01 07:00:00.123456"],
        ["2026-11-02", "07", 2, "x", "2026-11-02 07:00:00.123456"],
    ]


@pytest.mark.parametrize("layout", ["day/hour", "year/month/day"])
def test_projection_finds_partitions_that_nobody_registered(
    aws: Aws, trino: Trino, tmp_path: Path, layout: str
) -> None:
    lake = aws.settings(partition_projection=True)
    settings = SourceSettings(source=lakes.SOURCE, date_partition=DatePartition(layout))
    for number, day in enumerate(("2026-10-31", "2026-11-01", "2026-11-02")):
        path = events(tmp_path / f"{number}.json", day, number)
        lakes.load([path], lake, settings=settings)
    glue = aws.client("glue")
    assert glue.get_partitions(DatabaseName="web", TableName="order_done")["Partitions"] == []
    assert trino.rows("select total from web.order_done order by total") == [[0], [1], [2]]
    last = DatePartition(layout).values(1_793_577_600_000_000)  # 2026-11-02
    where = " and ".join(f"{name} = '{value}'" for name, value in last.items() if name != "hr")
    assert trino.rows(f"select total from web.order_done where {where}") == [[2]]


def test_the_reports_of_all_runs_and_sources_are_a_table(
    aws: Aws, trino: Trino, tmp_path: Path
) -> None:
    """Several runs of a day are in one partition, and nothing lies below a partition's folder."""
    lake = aws.settings()
    for number, source in enumerate(("web", "web", "ios")):
        path = events(tmp_path / f"{number}.json", "2026-11-01", number, coupon="x")
        assert load_one(path, lake, source).status == "finished"
    columns, rows = lake_rows(lake, "__segment_datalake", "sync_reports")
    assert (rows.total(), len(columns)) == (6, 32)
    assert trino_rows(trino, "__segment_datalake", "sync_reports", columns) == rows
    sql = (
        "select source_id, count(distinct run_id), sum(row_count) from "
        "__segment_datalake.sync_reports where type = 'source' group by 1 order by 1"
    )
    assert trino.rows(sql) == [["ios", 1, 1], ["web", 2, 2]]
