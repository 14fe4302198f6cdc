"""A bucket and a Glue database as Segment Data Lakes leave them, made by others' hands alone."""

import gzip
import io
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.aws.moto import Aws

SOURCE_ID = "9sd8fs7d"
DATABASE = "ios_prod"

COLUMNS = {
    "id": "string",
    "received_at": "timestamp",
    "anonymous_id": "string",
    "user_id": "string",
    "event": "string",
    "type": "string",
    "total": "decimal(38,6)",
    "quantity": "bigint",
    "gift": "boolean",
    "context_ip": "string",
    "timestamp": "timestamp",
}
"""What Segment's tables had, in an order of its own; not all of our standard columns."""

ARROW = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us"),
    "decimal(38,6)": pa.decimal128(38, 6),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
}


def event(number: int, received: str, **properties: Any) -> dict[str, Any]:
    """A raw event of the archive."""
    return {
        "type": "track",
        "event": "Order Completed",
        "messageId": f"m{number}",
        "userId": f"u{number}",
        "receivedAt": received,
        "timestamp": received,
        "properties": {"total": number + 0.5, "quantity": number, **properties},
        "context": {"ip": "10.0.0.1"},
    }


def row(found: dict[str, Any]) -> dict[str, Any]:
    """The row that Segment landed for an event."""
    moment = datetime.fromisoformat(found["receivedAt"]).replace(tzinfo=None)
    return {
        "id": found["messageId"],
        "received_at": moment,
        "user_id": found["userId"],
        "event": found["event"],
        "type": found["type"],
        "quantity": found["properties"]["quantity"],
        "timestamp": moment,
    }


@dataclass(frozen=True)
class SegmentLake:
    """The bucket and database, filled."""

    aws: Aws
    table: str = "order_completed"

    @property
    def place(self) -> str:
        return f"segment-data/data/{SOURCE_ID}/segment_type={self.table}"

    def archive(self, events: Iterable[dict[str, Any]]) -> None:
        """Raw logs, a file a day."""
        days: defaultdict[int, list[str]] = defaultdict(list)
        for one in events:
            moment = datetime.fromisoformat(one["receivedAt"]).astimezone(UTC)
            day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
            days[int(day.timestamp() * 1000)].append(json.dumps(one))
        for day_ms, lines in days.items():
            body = gzip.compress("\n".join(lines).encode())
            self.put(f"segment-logs/{SOURCE_ID}/{day_ms}/log.gz", body)

    def land(self, events: Iterable[dict[str, Any]], columns: dict[str, str] = COLUMNS) -> None:
        """What Segment had synced: snappy files by hour, and the Glue table."""
        hours: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for one in events:
            hours[one["receivedAt"][:10], one["receivedAt"][11:13]].append(row(one))
        schema = pa.schema([(name, ARROW[kind]) for name, kind in columns.items()])
        for number, ((day, hr), rows) in enumerate(hours.items()):
            sink = io.BytesIO()
            pq.write_table(pa.Table.from_pylist(rows, schema), sink, compression="snappy")
            name = f"part-{number:05d}-c000.snappy.parquet"
            self.put(f"{self.place}/day={day}/hr={hr}/{name}", sink.getvalue())
        self.register(list(hours), columns)

    def register(self, partitions: list[tuple[str, str]], columns: dict[str, str]) -> None:
        glue = self.aws.client("glue")
        glue.create_database(DatabaseInput={"Name": DATABASE})
        storage = {
            "Columns": [{"Name": name, "Type": kind} for name, kind in columns.items()],
            "Location": f"s3://{self.aws.bucket}/{self.place}",
            "InputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
            "SerdeInfo": {
                "SerializationLibrary": (
                    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
                )
            },
        }
        keys = [{"Name": "day", "Type": "string"}, {"Name": "hr", "Type": "string"}]
        glue.create_table(
            DatabaseName=DATABASE,
            TableInput={
                "Name": self.table,
                "TableType": "EXTERNAL_TABLE",
                "PartitionKeys": keys,
                "StorageDescriptor": storage,
                "Parameters": {"made_by": "segment"},
            },
        )
        for day, hr in partitions:
            place = f"{storage['Location']}/day={day}/hr={hr}"
            glue.create_partition(
                DatabaseName=DATABASE,
                TableName=self.table,
                PartitionInput={
                    "Values": [day, hr],
                    "StorageDescriptor": {**storage, "Location": place},
                },
            )

    def put(self, key: str, body: bytes) -> None:
        self.aws.client("s3").put_object(Bucket=self.aws.bucket, Key=key, Body=body)

    def keys(self) -> list[str]:
        pages = self.aws.client("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.aws.bucket)
        return [one["Key"] for page in found for one in page.get("Contents", ())]

    def rows(self) -> list[dict[str, Any]]:
        """Every row, as an engine finds it: by Glue's own partitions."""
        glue, s3 = self.aws.client("glue"), self.aws.client("s3")
        pages = glue.get_paginator("get_partitions")
        rows: list[dict[str, Any]] = []
        for page in pages.paginate(DatabaseName=DATABASE, TableName=self.table):
            for one in page["Partitions"]:
                place = one["StorageDescriptor"]["Location"].split("/", 3)[3].rstrip("/")
                for key in self.keys():
                    if key.startswith(f"{place}/"):
                        body = s3.get_object(Bucket=self.aws.bucket, Key=key)["Body"].read()
                        rows += pq.read_table(io.BytesIO(body)).to_pylist()
        return rows
