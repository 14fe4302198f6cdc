"""Damage to a lake in a bucket, objects in it that are not ours, and no bucket at all."""

from pathlib import Path
from typing import Any

import pytest

from eventlake.errors import Damaged, InvalidSettings
from eventlake.lakes import open_store
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.services.read import open_lake
from eventlake.verify import LakeFiles, verify
from tests import lakes
from tests.aws.moto import Aws

LEDGER = "segment-data/ledger/web"


@pytest.fixture(params=["glue", "files"])
def settings(aws: Aws, request: pytest.FixtureRequest) -> AwsSettings:
    return aws.settings(catalog=request.param)


@pytest.fixture
def landed(settings: AwsSettings, tmp_path: Path) -> AwsSettings:
    for file in lakes.small_sample(tmp_path / "raw", events=60, hours=2):
        lakes.load([file], settings)
    return settings


def check(settings: AwsSettings) -> Any:
    return verify(LakeFiles(*open_store(settings).filesystem()), "web")


USES = {
    "tables": lambda lake: lake.tables(),
    "schema": lambda lake: lake.schema("web.page"),
    "query": lambda lake: lake.query("select 1"),
    "reports": lambda lake: lake.reports("web"),
    "quarantine": lambda lake: lake.quarantine("web"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_such_bucket(settings: AwsSettings, use: Any) -> None:
    nowhere = settings.model_copy(update={"s3_bucket": "nowhere"})
    with pytest.raises(InvalidSettings, match="s3_bucket is 'nowhere', and that bucket does not"):
        use(open_lake(nowhere))


def test_an_empty_bucket_is_no_lake(settings: AwsSettings) -> None:
    with pytest.raises(InvalidSettings, match="there is no lake at s3://"):
        open_lake(settings)
    with pytest.raises(InvalidSettings, match="there is no lake at"):
        check(settings)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_commit_is_gone(aws: Aws, landed: AwsSettings, use: Any) -> None:
    store, path = open_store(landed), f"{LEDGER}/000000000001.json"
    content = store.read(path)
    store.delete([path])
    with pytest.raises(Damaged, match=f"s3://{aws.bucket}/{path}"):
        use(open_lake(landed))
    with pytest.raises(Damaged, match=f"{aws.bucket}/{path}"):
        check(landed)
    store.write(path, content)
    use(open_lake(landed))
    assert check(landed).ok


def test_a_damaged_data_file(aws: Aws, landed: AwsSettings) -> None:
    store = open_store(landed)
    path = next(o.path for o in store.objects("segment-data/data") if "page" in o.path)
    store.write(path, store.read(path)[:-20])
    with pytest.raises(Damaged, match=f"s3://{aws.bucket}/{path}"):
        open_lake(landed).query("select id from web.page")
    assert any(path in problem for problem in check(landed).problems)


def test_folders_that_a_console_made_are_left_alone(
    aws: Aws, landed: AwsSettings, tmp_path: Path
) -> None:
    """The AWS console keeps a folder as an empty object whose key ends with a slash."""
    lake = open_lake(landed)
    before = [use(lake) for use in USES.values()]
    keys = [o.path for o in open_store(landed).objects("")]
    folders = {key[: at + 1] for key in keys for at in range(len(key)) if key[at] == "/"}
    for folder in folders:
        for name in ("", ".DS_Store", "notes.txt"):
            aws.client("s3").put_object(Bucket=aws.bucket, Key=f"{folder}{name}", Body=b"")
    assert [use(open_lake(landed)) for use in USES.values()] == before
    assert check(landed).problems == ()
    more = lakes.small_sample(tmp_path / "more", seed=8, events=60, hours=1)
    assert lakes.load(more, landed).status == "finished"
    assert check(landed).problems == ()
