"""What Spark reads of a lake in a bucket: copies of the live files, a folder per partition."""

from pathlib import Path

import pyarrow.parquet as pq

from eventlake.model.settings import source_settings
from eventlake.query import _local_folders
from eventlake.services.read import open_lake
from tests import lakes
from tests.aws.moto import Aws
from tests.faults.test_names import events


def test_the_live_files_of_a_bucket_are_copied_by_partition(aws: Aws, tmp_path: Path) -> None:
    settings = aws.settings()
    file = events(tmp_path / "1.json", "a", range(3))
    lakes.load([file], settings, settings=source_settings(source="web"))
    stray = "segment-data/data/web/segment_type=order_done/day=2026-11-01/hr=00/stray.parquet"
    aws.client("s3").put_object(Bucket=aws.bucket, Key=stray, Body=b"not a live file")
    tables = open_lake(settings)._query_tables("select * from web.order_done", tmp_path)
    (table,) = (one for one in tables if one.name == "order_done")
    folders = _local_folders(table, tmp_path / "files")
    ids = {
        partition["hr"]: pq.read_table(folder, partitioning=None)["id"].to_pylist()
        for folder, partition in folders.items()
    }
    assert ids == {"00": ["a0"], "01": ["a1"], "02": ["a2"]}
