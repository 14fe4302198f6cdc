"""The second opinion, by where a lake and its archive lie, and what a store may refuse."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from eventlake.cli.main import main
from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    InvalidSettings,
    Unavailable,
)
from eventlake.lakes import open_store
from eventlake.services.read import open_lake
from eventlake.stores import Store
from eventlake.stores.s3 import S3
from eventlake.verify import LakeFiles, verify
from tests.aws.moto import Aws, aws
from tests.aws.proxy import Proxy, proxy
from tests.aws.rules import Denied, Refuses
from tests.contracts.test_verify import Lake, Row, lake, line, only, problem
from tests.lakes import SOURCE, load, small_sample

__all__ = ["aws", "lake", "proxy"]


@pytest.fixture
def bucket(aws: Aws, proxy: Proxy, tmp_path: Path) -> Lake:
    """A lake in a bucket that the proxy stands before."""
    return Lake(tmp_path, open_store(aws.settings()))


# An archive that is not in the lake


def test_logs_on_disk(lake: Lake) -> None:
    lake.elsewhere = Path.as_uri
    lake.commit(lake.gz(line("a")), [Row("a")])
    found = lake.verify()
    assert (found.problems, found.files_read) == ((), 1)


def test_a_log_whose_name_is_no_text(lake: Lake) -> None:
    lake.elsewhere = Path.as_uri
    path = lake.root.parent / os.fsdecode(b"odd \xff%20#?.gz")
    path.write_bytes(gzip.compress(line("a")))
    lake.commit(path, [Row("a")])
    assert lake.verify().problems == ()


def test_a_key_that_looks_like_an_address(bucket: Lake) -> None:
    path = bucket.archive("a%20b+c #?é.gz", gzip.compress(line("a")))
    bucket.commit(path, [Row("a")])
    assert bucket.verify().problems == ()


def test_a_log_that_takes_several_requests(bucket: Lake) -> None:
    ids = [f"m{n}" for n in range(30)]
    content = b"\n".join(line(one, x="x" * 100_000) for one in ids)
    assert len(content) > 2 << 20
    bucket.commit(bucket.archive("a.json", content), map(Row, ids))
    assert bucket.verify().problems == ()


def test_logs_in_another_bucket(lake: Lake, aws: Aws) -> None:
    """The lake's own credentials may reach them; a lake on disk has none."""
    other = Aws(aws.url, "other-logs")
    other.make_bucket()
    open_store(other.settings()).write("1.gz", gzip.compress(line("a")))
    lake.elsewhere = "s3://other-logs/{0.name}".format
    lake.commit(lake.gz(line("a")), [Row("a")])
    found = lake.verify()
    if isinstance(lake.store, S3):
        assert found.problems == ()
    else:
        reason = "it is in S3, and the lake is not"
        assert problem(found) == f"s3://other-logs/1.gz cannot be read again: {reason}"
    assert only(found).found == 1


@pytest.mark.parametrize("there", [True, False])
def test_another_bucket_that_is_out_of_reach_is_a_problem(
    bucket: Lake, aws: Aws, proxy: Proxy, there: bool
) -> None:
    if there:
        Aws(aws.url, "other-logs").make_bucket()
    bucket.elsewhere = "s3://other-logs/{0.name}".format
    bucket.commit(bucket.gz(line("a")), [Row("a")])
    with proxy.ruled(Denied("s3:GetObject", "1.gz") if there else Denied("nothing")):
        said = problem(bucket.verify())
    assert said.startswith("s3://other-logs/1.gz cannot be read again: ")
    assert ("ACCESS_DENIED" in said) is there


# What a store refuses

REFUSED = {
    "list": (Denied("s3:ListBucket"), InsufficientPermissions, "grant s3:ListBucket"),
    "commits": (
        Denied("s3:GetObject", "segment-data/ledger/"),
        InsufficientPermissions,
        r"segment-data/ledger/src1/0{11}1\.json: grant .*s3:GetObject",
    ),
    "tables": (
        Denied("s3:GetObject", "segment-data/data/"),
        InsufficientPermissions,
        r"segment-data/data/src1/.*\.parquet: grant .*s3:GetObject",
    ),
    "logs": (
        Denied("s3:GetObject", "my logs/"),
        InsufficientPermissions,
        r"s3://the-lake/my logs/1\.gz: grant .*s3:GetObject",
    ),
    "key": (
        Refuses("", 403, "InvalidAccessKeyId"),
        InvalidSettings,
        "the AWS credentials are not accepted",
    ),
    "token": (
        Refuses("", 400, "ExpiredToken"),
        InvalidSettings,
        "the AWS credentials are not accepted",
    ),
    "region": (
        Refuses("", 301, "PermanentRedirect"),
        InvalidSettings,
        "the bucket is in another region",
    ),
    "trouble": (
        Refuses("GetObject", 500, "InternalError", "segment-data/ledger/"),
        Unavailable,
        "could not read s3://the-lake/segment-data/ledger/",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_bucket_refuses(bucket: Lake, proxy: Proxy, what: str) -> None:
    rule, kind, said = REFUSED[what]
    bucket.commit(bucket.gz(line("a")), [Row("a")])
    place = bucket.place
    with proxy.ruled(rule), pytest.raises(EventLakeError, match=said) as refused:
        verify(place, "web")
    assert type(refused.value) is kind
    assert "\n" not in str(refused.value)


def test_no_such_bucket(aws: Aws) -> None:
    place = LakeFiles(*open_store(Aws(aws.url, "not-there").settings()).filesystem())
    with pytest.raises(InvalidSettings, match=r"s3://not-there/.*the bucket does not exist"):
        verify(place, "web")


def test_an_empty_lake(lake: Lake) -> None:
    with pytest.raises(InvalidSettings, match="there is no lake at "):
        lake.verify()
    lake.store.write("segment-logs/web/1793491200000/1.gz", b"")
    with pytest.raises(InvalidSettings, match="source is 'web'; this lake has: none"):
        lake.verify()


# A lake that was loaded into a bucket


@pytest.fixture
def landed(aws: Aws, proxy: Proxy, tmp_path: Path) -> Store:
    """Two commits, from files on disk and from a copy in the bucket's own archive."""
    first, *others = small_sample(tmp_path / "raw")
    settings = aws.settings()
    load([first], settings)
    load(others, settings, keep_raw=True)
    return open_store(settings)


def test_a_lake_in_a_bucket(
    aws: Aws, proxy: Proxy, landed: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.calls.clear()
    found = open_lake(f"s3://{aws.bucket}").verify(SOURCE)
    assert (found.problems, found.files_read) == ((), 3)
    assert found.landed == found.expected == 240
    assert all(call.action.startswith(("Get", "Head", "List")) for call in proxy.calls)
    assert proxy.astray() == []
    assert main(["verify", "--source", SOURCE, "--lake", f"s3://{aws.bucket}", "--quiet"]) == 0
    assert main(["verify", "--source", SOURCE, "--lake", "s3://not-there", "--quiet"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_bucket_that_somebody_changed(landed: Store) -> None:
    """A Parquet file is gone, one is there twice, one is cut short."""
    pages = (one.path for one in landed.objects("segment-data/data/web/segment_type=page"))
    *_, doubled, gone, cut = sorted(pages)
    again = doubled.replace(".parquet", "-again.parquet")
    landed.write(again, landed.read(doubled))
    landed.delete([gone])
    landed.write(cut, landed.read(cut)[:-1])
    found = verify(LakeFiles(*landed.filesystem()), SOURCE)
    assert found.problems[:2] == (
        f"Parquet files that no commit names: {again}",
        f"Parquet files of commits that are gone: {gone}",
    )
    assert found.problems[2].startswith(f"{cut} cannot be read: ")
    (wrong,) = (one for one in found.tables if one.missing or one.extra or one.doubled)
    assert (wrong.table, wrong.extra) == ("page", 0)
    assert wrong.found == wrong.expected - wrong.missing + wrong.doubled
    assert min(wrong.missing, wrong.doubled) > 0


def test_a_bucket_that_lost_a_log_and_then_a_commit(landed: Store) -> None:
    lost, _ = sorted(one.path for one in landed.objects("segment-logs"))
    landed.delete([lost])
    place = LakeFiles(*landed.filesystem())
    said = problem(verify(place, SOURCE))
    assert said == f"{lost} cannot be read again: No such file or directory"
    landed.delete(["segment-data/ledger/web/000000000002.json"])
    unnamed, index, extra, *_ = verify(place, SOURCE).problems
    assert unnamed.startswith("Parquet files that no commit names: ")
    assert index.startswith("files of the id index that no commit names: ")
    assert "rows are not from the archive" in extra
