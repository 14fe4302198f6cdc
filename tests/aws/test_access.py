"""Who calls AWS: the keys of the environment, a file, a profile, a role; and a full catalog."""

from pathlib import Path

import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import open_store
from tests import lakes
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Refuses

KEYS = """
[default]
aws_access_key_id = of-the-file
aws_secret_access_key = hush

[other]
aws_access_key_id = of-the-profile
aws_secret_access_key = hush
"""


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "keys"
    file.write_text(KEYS)
    return str(file)


def callers(proxy: Proxy) -> set[str]:
    return {call.caller for call in proxy.calls}


def test_the_keys_of_the_environment(aws: Aws, proxy: Proxy) -> None:
    open_store(aws.settings()).names("segment-data")
    assert callers(proxy) == {"testing"}


def test_the_keys_of_a_file(aws: Aws, proxy: Proxy, keys: str) -> None:
    open_store(aws.settings(credentials_file=keys)).names("segment-data")
    assert callers(proxy) == {"of-the-file"}


def test_the_keys_of_a_profile(aws: Aws, proxy: Proxy, keys: str) -> None:
    open_store(aws.settings(credentials_file=keys, profile="other")).names("segment-data")
    assert callers(proxy) == {"of-the-profile"}


def test_a_profile_that_there_is_not(aws: Aws, keys: str) -> None:
    with pytest.raises(InvalidSettings, match=r"no AWS credentials .*nobody"):
        open_store(aws.settings(credentials_file=keys, profile="nobody")).names("segment-data")


def test_no_keys_at_all(aws: Aws, keys: str) -> None:
    with pytest.raises(InvalidSettings, match="no AWS credentials"):
        open_store(aws.settings()).names("segment-data")


def test_the_role_is_asked_for_with_the_external_id(aws: Aws, proxy: Proxy) -> None:
    role = "arn:aws:iam::123456789012:role/lake"
    settings = aws.settings(iam_role_arn=role, workspace_id="ws1")
    lakes.load([], settings)
    asked = [call.given for call in proxy.asked("AssumeRole")]
    assert {(one["RoleArn"], one["ExternalId"]) for one in asked} == {(role, "ws1")}
    own = {call.action for call in proxy.calls if call.caller == "testing"}
    assert own == {"AssumeRole"}  # all else is done as the role


def test_a_catalog_that_is_full_leaves_out_what_is_new(
    aws: Aws, proxy: Proxy, tmp_path: Path
) -> None:
    files = lakes.small_sample(tmp_path / "raw")
    lakes.load(files[:1], aws.settings())
    full = Refuses("CreateTable", 400, "ResourceNumberLimitExceededException")
    more = lakes.small_sample(tmp_path / "more", seed=8, types=9)
    with proxy.ruled(full):
        done = lakes.load(more, aws.settings())
    assert done.status == "partial"
    assert "a limit of the account was reached" in done.message
    report = eventlake_report(aws)
    failed = {line["table_name"] for line in report if line.get("status") == "failed"}
    new = {one.table.name for one in done.tables if one.is_new}
    assert failed == new != set()
    assert {line["error_code"] for line in report if line["table_name"] in failed} == {
        "EventLake.LimitExceeded"
    }
    known = {one.table.name for one in done.tables if one.adds and not one.is_new}
    assert known  # and these went on
    assert lakes.load(more, aws.settings()).status == "nothing"
    tables = aws.client("glue").get_tables(DatabaseName="web")["TableList"]
    assert new | known <= {table["Name"] for table in tables}


def eventlake_report(aws: Aws) -> list[dict[str, str]]:
    from eventlake.services.read import open_lake

    lines = open_lake(aws.settings()).reports("web")
    last = max(line["run_id"] for line in lines)
    return [line for line in lines if line["run_id"] == last]
