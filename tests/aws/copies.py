"""A lake in AWS as a folder on disk, read by nothing but boto3 and plain HTTP."""

import json
import os
from contextlib import closing
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from eventlake.lakes.aws_settings import AwsCatalog, AwsSettings
from tests.aws.moto import Aws


def copied(lake: AwsSettings, folder: Path) -> Path:
    """Every object of the bucket, and what Glue says as the files that a lake on disk has."""
    here = copy_objects(lake, folder)
    if lake.catalog is AwsCatalog.GLUE:
        _copy_glue(here, folder / "segment-data/catalog")
    return folder


@cache
def _client(here: Aws, service: str) -> Any:
    return here.client(service)


def copy_objects(lake: AwsSettings, folder: Path, prefix: str = "") -> Aws:
    """The objects of the bucket whose keys begin with `prefix`; the AWS that has them."""
    here = Aws(os.environ["AWS_ENDPOINT_URL"], lake.s3_bucket, lake.aws_region)
    pages = _client(here, "s3").get_paginator("list_objects_v2")
    with closing(HTTPConnection(urlsplit(here.url).netloc)) as connection:
        for page in pages.paginate(Bucket=here.bucket, Prefix=prefix):
            for found in page.get("Contents", ()):
                path = folder / found["Key"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_read(connection, here.bucket, found["Key"]))
    return here


# Nobody looks at the signature, only at whose it is.
_SIGNED = "AWS4-HMAC-SHA256 Credential=another/20261101/us-east-1/s3/aws4_request, Signature=0"


def _read(connection: HTTPConnection, bucket: str, key: str) -> bytes:
    """An object's content; boto3 needs six times the CPU for it."""
    connection.request("GET", quote(f"/{bucket}/{key}"), headers={"Authorization": _SIGNED})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, content
    return content


def _copy_glue(here: Aws, folder: Path) -> None:
    glue = _client(here, "glue")
    for database in glue.get_databases()["DatabaseList"]:
        for table in glue.get_tables(DatabaseName=database["Name"])["TableList"]:
            path = folder / database["Name"] / f"{table['Name']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(_table(here, glue, table)))


def _table(here: Aws, glue: Any, table: dict[str, Any]) -> dict[str, Any]:
    names = [column["Name"] for column in table["PartitionKeys"]]
    given = {"DatabaseName": table["DatabaseName"], "TableName": table["Name"]}
    found = glue.get_partitions(**given)["Partitions"]
    return {
        "location": _place(here, table),
        "columns": _columns(table),
        "partition_columns": names,
        "partitions": [
            dict(zip(names, one["Values"], strict=True))
            for one in sorted(found, key=lambda one: one["Values"])
            if _fits(here, table, one)
        ],
    }


def _columns(shape: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"name": column["Name"], "type": column["Type"]}
        for column in shape["StorageDescriptor"]["Columns"]
    ]


def _place(here: Aws, shape: dict[str, Any]) -> str:
    place: str = shape["StorageDescriptor"]["Location"]
    return place.removeprefix(f"s3://{here.bucket}/").rstrip("/")


def _fits(here: Aws, table: dict[str, Any], partition: dict[str, Any]) -> bool:
    """Whether a partition lies below its table and has the table's columns."""
    is_below = _place(here, partition).startswith(f"{_place(here, table)}/")
    return is_below and _columns(partition) == _columns(table)
