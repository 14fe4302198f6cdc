"""Inputs in the lake's own bucket: known by their path in it, and never the lake's own files."""

import gzip
import os
from pathlib import Path

import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import open_store
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.verify import LakeFiles, verify
from tests import lakes
from tests.aws.moto import Aws


@pytest.fixture
def settings(aws: Aws) -> AwsSettings:
    return aws.settings(catalog="files")


@pytest.fixture
def raw(tmp_path: Path) -> list[Path]:
    return lakes.small_sample(tmp_path / "raw")


def test_a_bucket_that_was_copied_is_its_own(
    aws: Aws, settings: AwsSettings, raw: list[Path]
) -> None:
    lakes.load(raw, settings, keep_raw=True)
    s3 = aws.client("s3")
    Aws(aws.url, "the-copy").make_bucket()
    before, copy = open_store(settings), settings.model_copy(update={"s3_bucket": "the-copy"})
    for one in list(before.objects("")):
        s3.put_object(Bucket="the-copy", Key=one.path, Body=before.read(one.path))
        s3.delete_object(Bucket=aws.bucket, Key=one.path)
    assert verify(LakeFiles(*open_store(copy).filesystem()), "web").problems == ()
    done = lakes.sync(copy)
    assert (done.status, done.already_loaded) == ("nothing", len(raw))


def test_a_whole_bucket_without_the_lake_in_it(settings: AwsSettings, raw: list[Path]) -> None:
    lakes.load(raw[:1], settings, keep_raw=True)
    store = open_store(settings)
    store.write("logs/j-1/steps/stderr.gz", gzip.compress(b"not an event"))
    store.write("mine/b.gz", raw[1].read_bytes())
    store.write("c.gz", raw[2].read_bytes())
    done = lakes.load([store.root], settings)
    assert (done.status, done.files, done.already_loaded) == ("finished", 2, 0)
    assert [one["uri"] for one in lakes.read_commits(settings)[-1]["inputs"]] == [
        "lake:c.gz",
        "lake:mine/b.gz",
    ]
    assert done.passed_over == tuple(
        f"{store.root}/{name} (the lake itself)"
        for name in ("logs", "segment-data", "segment-logs")
    )
    assert lakes.load([store.root], settings).status == "nothing"


@pytest.mark.parametrize("path", ["segment-data", "segment-data/ledger/web/000000000001.json"])
def test_the_tables_are_refused(settings: AwsSettings, raw: list[Path], path: str) -> None:
    lakes.load(raw[:1], settings)
    with pytest.raises(InvalidSettings, match="is the lake's own"):
        lakes.load([f"s3://{settings.s3_bucket}/{path}"], settings)


def test_a_stream_is_kept_in_the_bucket(
    settings: AwsSettings, raw: list[Path], tmp_path: Path
) -> None:
    for status in ("finished", "nothing"):
        reader, writer = os.pipe()
        os.write(writer, raw[0].read_bytes())
        os.close(writer)
        assert lakes.load([f"/dev/fd/{reader}"], settings).status == status
        os.close(reader)
    (kept,) = open_store(settings).objects("segment-logs")
    assert open_store(settings).read(kept.path) == raw[0].read_bytes()
    assert lakes.sync(settings).status == "nothing"
    lakes.assert_complete(settings)
