"""Sources as Segment's Azure product left them, landed with Arrow and Thrift alone."""

import io
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow.parquet as pq
from hive_metastore.ttypes import (
    AddPartitionsRequest,
    Database,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from pyarrow.fs import FileSelector

from eventlake.catalogs.hive_calls import EXISTS
from eventlake.catalogs.hive_types import FORMATS
from eventlake.lakes.azure_settings import AzureSettings
from tests.aws.sources import PARTITIONS, SegmentSource, folder_of
from tests.azure.azurite import Azure
from tests.azure.metastores import Metastore


@dataclass(frozen=True)
class Place:
    """A container, and the metastore with its tables."""

    azure: Azure
    metastore: Metastore


@dataclass(frozen=True)
class AzureSource(SegmentSource):
    """One source of a container."""

    aws: Place
    default_data: ClassVar[str] = "staging"
    data: str = "staging"
    scheme: str = "abfss"
    by_spark: bool = False
    """Whether Spark created the tables, with its own schema of them in parts."""

    @property
    def settings(self) -> AzureSettings:
        return self.aws.azure.settings(metastore_url=self.aws.metastore.url)

    @property
    def root(self) -> str:
        return self.aws.azure.root.replace("abfss", self.scheme)

    def register(
        self, event_type: str, partitions: list[dict[str, str]], columns: dict[str, str]
    ) -> None:
        calls, name = self.aws.metastore.calls, self.catalog_name(event_type)
        own = Database(name=self.database, locationUri="file:/tmp/warehouse", parameters={})
        calls.call("create_database", own, accept=EXISTS)
        keys = dict.fromkeys(PARTITIONS[self.date_partition], "string")
        place = f"{self.root}/{self.location(event_type)}"
        table = Table(
            dbName=self.database,
            tableName=name,
            tableType="EXTERNAL_TABLE",
            partitionKeys=_fields(keys),
            parameters={"EXTERNAL": "TRUE", **(_of_spark(columns, keys) if self.by_spark else {})},
            sd=_storage(columns, place),
        )
        calls.call("create_table", table)
        parts = [
            Partition(
                values=list(values.values()),
                dbName=self.database,
                tableName=name,
                sd=_storage(columns, f"{place}/{folder_of(values)}"),
                parameters={},
            )
            for values in partitions
        ]
        request = AddPartitionsRequest(self.database, name, parts, True, False)
        calls.call("add_partitions_req", request)

    def _put(self, key: str, body: bytes) -> None:
        path = f"{self.aws.azure.container}/{key}"
        with self.aws.azure.client().open_output_stream(path) as file:
            file.write(body)

    def columns(self) -> dict[str, set[str]]:
        calls = self.aws.metastore.calls
        names = calls.call("get_all_tables", self.database)
        tables = (calls.call("get_table", self.database, name) for name in names)
        return {one.tableName: {column.name for column in one.sd.cols} for one in tables}

    def ids(self, table: str) -> Counter[str]:
        client, found = self.aws.azure.client(), Counter[str]()
        for one in self.aws.metastore.calls.call("get_partitions", self.database, table, -1):
            place = one.sd.location.split("/", 3)[3].rstrip("/")
            for key in self.object_keys(f"{place}/"):
                body = client.open_input_file(f"{self.aws.azure.container}/{key}").read()
                found.update(pq.read_table(io.BytesIO(body))[self.id_column].to_pylist())
        return found

    def object_keys(self, prefix: str = "") -> list[str]:
        container = self.aws.azure.container
        below = FileSelector(f"{container}/{prefix}".rstrip("/"), recursive=True)
        found = self.aws.azure.client().get_file_info(below)
        return [one.path.removeprefix(f"{container}/") for one in found if one.is_file]


def _fields(columns: dict[str, str]) -> list[Any]:
    return [FieldSchema(name=name, type=kind, comment="") for name, kind in columns.items()]


def _storage(columns: dict[str, str], place: str) -> Any:
    classes = FORMATS["parquet"]
    serde = SerDeInfo(serializationLib=classes.serde, parameters={"serialization.format": "1"})
    return StorageDescriptor(
        cols=_fields(columns),
        location=place,
        inputFormat=classes.input,
        outputFormat=classes.output,
        compressed=False,
        numBuckets=-1,
        serdeInfo=serde,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _of_spark(columns: dict[str, str], keys: dict[str, str]) -> dict[str, str]:
    """Parameters as Spark before 3.1 writes them; the parts are short, so that there are many."""
    types = {"bigint": "long"}
    fields = [
        {"name": name, "type": types.get(kind, kind), "nullable": True, "metadata": {}}
        for name, kind in {**columns, **keys}.items()
    ]
    text, name = json.dumps({"type": "struct", "fields": fields}), "spark.sql.sources.schema"
    parts = [text[at : at + 300] for at in range(0, len(text), 300)]
    return {
        "spark.sql.sources.provider": "parquet",
        "spark.sql.partitionProvider": "catalog",
        f"{name}.numParts": str(len(parts)),
        **{f"{name}.part.{number}": part for number, part in enumerate(parts)},
        f"{name}.numPartCols": str(len(keys)),
        **{f"{name}.partCol.{number}": key for number, key in enumerate(keys)},
    }
