"""What landed in S3, read by others through Glue's own location, columns and partitions."""

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlake.model.settings import SourceSettings
from tests import lakes, processes
from tests.aws import engine
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy

ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "decimal(38,6)": pa.decimal128(38, 6),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


class Reader:
    """Somebody who knows Glue and S3, and nothing of EventLake."""

    def __init__(self, aws: Aws) -> None:
        self.glue, self.s3 = aws.client("glue"), aws.client("s3")

    def tables(self, database: str) -> dict[str, Any]:
        pages = self.glue.get_paginator("get_tables").paginate(DatabaseName=database)
        return {table["Name"]: table for page in pages for table in page["TableList"]}

    def partitions(self, table: Any) -> list[Any]:
        pages = self.glue.get_paginator("get_partitions").paginate(
            DatabaseName=table["DatabaseName"], TableName=table["Name"]
        )
        return [one for page in pages for one in page["Partitions"]]

    def objects(self, location: str) -> Iterator[bytes]:
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for page in pages:
            for found in page.get("Contents", ()):
                yield self.s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()

    def rows(self, table: Any) -> Counter[Any]:
        """Every row as its values by name, in the types that Glue has for them."""
        columns = {one["Name"]: one["Type"] for one in table["StorageDescriptor"]["Columns"]}
        keys = [key["Name"] for key in table["PartitionKeys"]]
        found: Counter[Any] = Counter()
        for partition in self.partitions(table):
            place = tuple(zip(keys, partition["Values"], strict=True))
            assert (
                partition["StorageDescriptor"]["Columns"] == table["StorageDescriptor"]["Columns"]
            )
            for body in self.objects(partition["StorageDescriptor"]["Location"]):
                held = pq.read_table(io.BytesIO(body))
                for field in held.schema:
                    assert field.type == ARROW[columns[field.name]], (table["Name"], field)
                found.update((place, *_values(row)) for row in held.to_pylist())
        return found


def _values(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))


def on_disk(lake: Path) -> dict[str, Counter[Any]]:
    """The same of a lake on disk, by its folders."""
    tables: dict[str, Counter[Any]] = {}
    for file in lake.glob("segment-data/data/web/*/**/*.parquet"):
        _, *folders = file.relative_to(lake / "segment-data/data/web").parts[:-1]
        name = file.relative_to(lake / "segment-data/data/web").parts[0].split("=", 1)[1]
        place = tuple(tuple(folder.split("=", 1)) for folder in folders)
        rows = pq.read_table(file, partitioning=None).to_pylist()
        tables.setdefault(name, Counter()).update((place, *_values(row)) for row in rows)
    return tables


@pytest.fixture
def raw(tmp_path: Path) -> list[Path]:
    return lakes.small_sample(tmp_path / "raw")


def test_others_find_every_row_with_its_type(
    aws: Aws, proxy: Proxy, raw: list[Path], tmp_path: Path
) -> None:
    for files in (raw[:2], raw):  # the second brings new columns to old partitions
        lakes.load(files, aws.settings())
        lakes.load(files, tmp_path / "lake")
    reader = Reader(aws)
    found = {name: reader.rows(table) for name, table in reader.tables("web").items()}
    assert found == on_disk(tmp_path / "lake")
    assert proxy.astray() == []


def test_the_reports_are_a_table(aws: Aws, raw: list[Path]) -> None:
    settings = SourceSettings(source="web", source_id="src1", partition_by_slug=True)
    done = lakes.load(raw, aws.settings(workspace_id="ws1"), settings=settings)
    reader = Reader(aws)
    [table] = reader.tables("__segment_datalake").values()
    assert [key["Name"] for key in table["PartitionKeys"]] == ["source_id", "day"]
    [partition] = reader.partitions(table)
    assert partition["Values"][0] == "src1"
    [body] = reader.objects(partition["StorageDescriptor"]["Location"])
    lines = [json.loads(line) for line in body.splitlines()]
    assert lines[0]["run_id"] == done.run_id
    assert (lines[0]["workspace_id"], lines[0]["s3_bucket"]) == ("ws1", aws.bucket)


def test_two_sources_have_a_database_each(aws: Aws, raw: list[Path]) -> None:
    for slug in ("ios-prod", "web"):
        lakes.load(raw, aws.settings(), settings=SourceSettings(source=slug))
    reader = Reader(aws)
    one, other = reader.tables("ios_prod"), reader.tables("web")
    assert one.keys() == other.keys()
    assert {table["StorageDescriptor"]["Location"].split("/")[5] for table in one.values()} == {
        "ios-prod"
    }


@pytest.mark.spark
def test_the_command_and_a_spark_of_ones_own(aws: Aws, raw: list[Path], tmp_path: Path) -> None:
    """From `eventlake load` on Spark to a query over `s3a://`, with nothing of ours between."""
    lake = tmp_path / "aws.toml"
    lake.write_text(f's3_bucket = "{aws.bucket}"\naws_region = "{aws.region}"\n')
    ran = processes.command(
        "load", *raw, "--source", "web", "--lake", lake, "--json", env=aws.environ
    )
    assert ran.code == 0, ran.err
    landed = {done["table"]["name"]: done["counts"]["landed"] for done in ran.value["tables"]}
    verified = processes.command("verify", "--source", "web", "--lake", lake, env=aws.environ)
    assert verified.code == 0, verified.out + verified.err
    assert counted_by_spark(aws) == landed


def counted_by_spark(aws: Aws) -> dict[str, int]:
    tables = [
        {"name": name, "schema": _schema(table), "location": _s3a(table)}
        for name, table in Reader(aws).tables("web").items()
    ]
    return engine.count_rows(aws, tables)


def _schema(table: Any) -> str:
    columns = [*table["StorageDescriptor"]["Columns"], *table["PartitionKeys"]]
    return ", ".join(f"`{one['Name']}` {one['Type']}" for one in columns)


def _s3a(table: Any) -> str:
    return str(table["StorageDescriptor"]["Location"]).replace("s3://", "s3a://")
