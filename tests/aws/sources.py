"""Sources as Segment's pages describe them, landed with boto3 and pyarrow alone."""

import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.model.lake import LakeSettings
from tests.aws.segments import ARROW

Event = dict[str, Any]

PLURALS = {"identify": "identifies", "page": "pages", "group": "groups"}
PARTITIONS = {
    "day/hour": {"day": "%Y-%m-%d", "hr": "%H"},
    "year/month/day/hour": {"year": "%Y", "month": "%m", "day": "%d", "hr": "%H"},
    "year/month/day": {"year": "%Y", "month": "%m", "day": "%d"},
    "day": {"day": "%Y-%m-%d"},
}
TOP = {"anonymous_id": "anonymousId", "user_id": "userId", "event": "event", "type": "type"}
OWN = {"track": "properties", "page": "properties", "identify": "traits", "group": "traits"}


def event(kind: str, number: int, received: str, name: str = "", **own: Any) -> Event:
    """A raw event; `own` are its properties or traits."""
    named = {"event": name} if kind == "track" else {}
    return {
        "type": kind,
        **named,
        "messageId": f"{kind}-{name}-{number}",
        "userId": f"u{number}",
        "receivedAt": received,
        OWN[kind]: own,
        "context": {"ip": "10.0.0.1"},
    }


@dataclass(frozen=True)
class SegmentSource:
    """One source of a lake that Segment filled."""

    aws: Any
    default_data: ClassVar[str] = "segment-data/data"
    source_id: str = "9sd8fs7d"
    database: str = "ios_prod"
    data: str = "segment-data/data"
    naming: str = "segment"
    id_column: str = "id"
    date_partition: str = "day/hour"
    catalog_name: Callable[[str], str] = str
    """The name of an event type's table in Glue."""
    folder_name: Callable[[str], str] = str
    """The name of an event type in the folder."""

    def event_type(self, found: Event) -> str:
        if found["type"] == "track":
            name = str(found["event"]).lower().replace(" ", "_")
            return f"track_{name}" if self.naming == "native" else name
        kind = str(found["type"])
        return PLURALS[kind] if self.naming == "warehouse" else kind

    def location(self, event_type: str) -> str:
        return f"{self.data}/{self.source_id}/segment_type={self.folder_name(event_type)}"

    def archive(self, events: Iterable[Event], name: str) -> None:
        """Raw logs, a file a day."""
        days: defaultdict[int, list[str]] = defaultdict(list)
        for one in events:
            day = _moment(one).replace(hour=0, minute=0, second=0)
            days[int(day.timestamp() * 1000)].append(json.dumps(one))
        for day_ms, lines in days.items():
            key = f"segment-logs/{self.source_id}/{day_ms}/{name}.json"
            self._put(key, "\n".join(lines).encode())

    def land(self, events: Iterable[Event]) -> None:
        """Write Parquet files and register a Glue table for each event type."""
        tables: defaultdict[str, list[Event]] = defaultdict(list)
        for one in events:
            tables[self.event_type(one)].append(one)
        for event_type, own in tables.items():
            columns = self._columns(own)
            partitions = self._write(event_type, own, columns)
            self.register(event_type, partitions, columns)

    def _columns(self, events: list[Event]) -> dict[str, str]:
        top = [name for name, key in TOP.items() if any(key in one for one in events)]
        strings = dict.fromkeys((self.id_column, *top, "context_ip"), "string")
        numbers = {name: "bigint" for one in events for name in self.own_values(one)}
        return {**strings, "received_at": "timestamp", **numbers}

    def own_values(self, found: Event) -> dict[str, Any]:
        key = OWN[found["type"]]
        prefix = f"{key}_" if self.id_column == "message_id" else ""
        return {f"{prefix}{name}": value for name, value in found[key].items()}

    def _write(
        self, event_type: str, events: list[Event], columns: dict[str, str]
    ) -> list[dict[str, str]]:
        parts: defaultdict[tuple[str, ...], list[Event]] = defaultdict(list)
        forms = PARTITIONS[self.date_partition]
        for one in events:
            parts[tuple(_moment(one).strftime(form) for form in forms.values())].append(one)
        schema = pa.schema([(name, ARROW[kind]) for name, kind in columns.items()])
        partitions = [dict(zip(forms, values, strict=True)) for values in parts]
        for values, own in zip(partitions, parts.values(), strict=True):
            sink = io.BytesIO()
            rows = [self._row(one) for one in own]
            pq.write_table(pa.Table.from_pylist(rows, schema), sink, compression="snappy")
            key = f"{self.location(event_type)}/{folder_of(values)}/part-0.snappy.parquet"
            self._put(key, sink.getvalue())
        return partitions

    def _row(self, found: Event) -> dict[str, Any]:
        return {
            self.id_column: found["messageId"],
            **{name: found.get(key) for name, key in TOP.items()},
            "context_ip": "10.0.0.1",
            "received_at": _moment(found).replace(tzinfo=None),
            **self.own_values(found),
        }

    def register(
        self, event_type: str, partitions: list[dict[str, str]], columns: dict[str, str]
    ) -> None:
        glue, name = self.aws.client("glue"), self.catalog_name(event_type)
        known = [one["Name"] for one in glue.get_databases()["DatabaseList"]]
        if self.database not in known:
            glue.create_database(DatabaseInput={"Name": self.database})
        serde = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
        storage = {
            "Columns": [{"Name": name, "Type": kind} for name, kind in columns.items()],
            "Location": f"s3://{self.aws.bucket}/{self.location(event_type)}/",
            "InputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
            "SerdeInfo": {"SerializationLibrary": serde},
        }
        keys = [{"Name": key, "Type": "string"} for key in PARTITIONS[self.date_partition]]
        table = {"Name": name, "TableType": "EXTERNAL_TABLE", "PartitionKeys": keys}
        glue.create_table(
            DatabaseName=self.database, TableInput={**table, "StorageDescriptor": storage}
        )
        for values in partitions:
            place = {**storage, "Location": f"{storage['Location']}{folder_of(values)}"}
            glue.create_partition(
                DatabaseName=self.database,
                TableName=name,
                PartitionInput={"Values": list(values.values()), "StorageDescriptor": place},
            )

    def _put(self, key: str, body: bytes) -> None:
        self.aws.client("s3").put_object(Bucket=self.aws.bucket, Key=key, Body=body)

    @property
    def settings(self) -> LakeSettings:
        """The lake that has the source."""
        return self.aws.settings()

    # What engines find

    def columns(self) -> dict[str, set[str]]:
        """The columns of the database's tables, without the partition columns."""
        tables = self.aws.client("glue").get_tables(DatabaseName=self.database)["TableList"]
        return {
            one["Name"]: {column["Name"] for column in one["StorageDescriptor"]["Columns"]}
            for one in tables
        }

    def ids(self, table: str) -> Counter[str]:
        """The message ids in the files of a table's partitions in Glue."""
        glue, s3, found = self.aws.client("glue"), self.aws.client("s3"), Counter[str]()
        pages = glue.get_paginator("get_partitions")
        for page in pages.paginate(DatabaseName=self.database, TableName=table):
            for one in page["Partitions"]:
                place = one["StorageDescriptor"]["Location"].split("/", 3)[3].rstrip("/")
                for key in self.object_keys(f"{place}/"):
                    body = s3.get_object(Bucket=self.aws.bucket, Key=key)["Body"].read()
                    found.update(pq.read_table(io.BytesIO(body))[self.id_column].to_pylist())
        return found

    def object_keys(self, prefix: str = "") -> list[str]:
        pages = self.aws.client("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.aws.bucket, Prefix=prefix)
        return [one["Key"] for page in found for one in page.get("Contents", ())]


def _moment(found: Event) -> datetime:
    return datetime.fromisoformat(found["receivedAt"]).astimezone(UTC)


def folder_of(values: dict[str, str]) -> str:
    return "/".join(f"{column}={value}" for column, value in values.items())
