"""Which lake a user means: a folder, an address, or a file of settings."""

import os
from pathlib import Path

import pytest

from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.lakes import cluster_checks, open_job_runner, open_store, resolve_settings
from eventlake.lakes.aws_settings import AwsSettings, Encryption
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.local_settings import LocalSettings
from eventlake.stores import Disk
from eventlake.stores.azure import Adls
from eventlake.stores.s3 import S3
from tests import users


def test_a_lake_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b").mkdir()
    for given in ("a b", tmp_path / "a b", f"file://{tmp_path}/a%20b", "~/a b", "./x/../a b"):
        assert open_store(given, make=False) == Disk(str(tmp_path / "a b"))


@pytest.mark.parametrize(
    ("lake", "message"),
    [
        ("s3://bucket/lake", "lake is 's3://bucket/lake': a lake is a whole bucket, s3://bucket"),
        ("gs://bucket", "lake is 'gs://bucket': give a folder, s3://bucket, abfss://container@a"),
        (
            "abfss://lake@account.dfs.core.windows.net/lake",
            "a lake is a whole container, abfss://lake@account.dfs.core.windows.net; it uses only",
        ),
        ("abfss://lake", "lake is 'abfss://lake': a container's address is abfss://container@acc"),
        ("abfss://lake@account.example.com", "a container's address is abfss://container@account"),
        ("abfss://lake@Account.dfs.core.windows.net", "storage_account is 'Account': it should"),
        ("a-file", "lake is '.*a-file': it is a file, and a lake is a folder"),
        ("nowhere", "lake is '.*nowhere': no such folder"),
    ],
)
def test_what_is_no_lake(lake: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    given = lake if "://" in lake else tmp_path / lake
    with pytest.raises(InvalidSettings, match=message):
        open_store(given, make=False)


@pytest.mark.parametrize(
    ("lake", "message"),
    [
        ("", "lake is '': an empty path: is a variable unset"),
        ("file://", "lake is 'file://': an empty path: is a variable unset"),
        ("file://lake", "lake is 'file://lake': write file:///lake, with three slashes"),
        ("x" * 300, "File name too long"),
        ("x" * 300 + ".toml", "File name too long"),
        ("a/" * 3000, "File name too long"),
        ("nul\0", "lake is .*a path cannot have a null byte"),
        ("nul\0.toml", "lake is .*a path cannot have a null byte"),
        ("~nobody-at-all/lake", "lake is '~nobody-at-all/lake': ~nobody-at-all has no home"),
        ("link", "lake is 'link': it is a link to nowhere, which does not exist"),
        ("link/lake", "lake is 'link/lake': link is a link to nowhere, which does not exist"),
        ("loop", "Too many levels of symbolic links"),
        ("a-file/lake", "lake is 'a-file/lake': a-file is a file"),
        ("a-pipe", "lake is 'a-pipe': it is not a folder, and a lake is"),
    ],
)
@pytest.mark.parametrize("make", [True, False])
def test_what_can_be_no_lake(
    lake: str, message: str, make: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").touch()
    os.mkfifo("a-pipe")
    Path("link").symlink_to("nowhere")
    Path("loop").symlink_to("loop")
    with pytest.raises(InvalidSettings, match=message):
        open_store(lake, make=make)


def test_a_lake_that_may_not_be_looked_at() -> None:
    with users.open_folder() as root:
        (root / "closed").mkdir(mode=0o700)
        (root / "closed/lake.toml").write_text('path = "x"')
        (root / "settings.toml").write_text('path = "x"')
        (root / "settings.toml").chmod(0)
        with users.unprivileged():
            for name in ("closed/lake", "closed/lake.toml", "settings.toml"):
                with pytest.raises(InsufficientPermissions, match=str(root)):
                    open_store(root / name, make=True)


def test_who_lands_events_may_make_a_lake(tmp_path: Path) -> None:
    open_store(tmp_path / "new", make=True).write("a", b"")
    assert (tmp_path / "new/a").exists()


def test_a_bucket_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert resolve_settings("s3://a-bucket/") == AwsSettings(
        s3_bucket="a-bucket", aws_region="eu-west-1"
    )
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(InvalidSettings, match="lake is 's3://a-bucket': set AWS_REGION to the"):
        resolve_settings("s3://a-bucket")


def test_a_container_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ENDPOINT", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    address = "abfss://a-container@anaccount.dfs.core.windows.net"
    assert resolve_settings(f"{address}/") == AzureSettings(
        storage_account="anaccount", storage_container="a-container"
    )
    store = open_store(address)
    assert isinstance(store, Adls)
    assert store.root == address
    assert store.uri("a/b") == f"{address}/a/b"


@pytest.mark.parametrize("given", ["http://127.0.0.1:1", "http://127.0.0.1:1/anaccount/"])
def test_an_emulator_of_the_environment(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", given)
    store = open_store("abfss://a-container@anaccount.dfs.core.windows.net")
    assert isinstance(store, Adls)
    assert store.endpoint == "http://127.0.0.1:1"


def test_a_lake_in_adls_has_no_cluster() -> None:
    settings = AzureSettings(storage_account="anaccount", storage_container="a-container")
    store = open_store(settings)
    assert open_job_runner(settings, store, temporary=False) is None
    assert list(cluster_checks(settings)) == []
    with pytest.raises(InvalidSettings, match="need the setting databricks_instance_url"):
        open_job_runner(settings, store, temporary=True)


AWS = """
s3_bucket = "a-bucket"
aws_region = "eu-west-1"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "aws.toml"


def test_a_file_of_settings(file: Path) -> None:
    file.write_text(AWS + 'workspace_id = "ws"\nencryption = "SSE-KMS"\nkms_key_id = "k"\n')
    assert resolve_settings(file) == AwsSettings(
        s3_bucket="a-bucket",
        aws_region="eu-west-1",
        workspace_id="ws",
        encryption=Encryption.SSE_KMS,
        kms_key_id="k",
    )


def test_paths_are_seen_from_the_file(file: Path) -> None:
    file.write_text('path = "lake"')
    assert resolve_settings(file) == LocalSettings(path=str(file.parent / "lake"))
    file.write_text(AWS + 'credentials_file = "keys"')
    settings = resolve_settings(str(file))
    assert isinstance(settings, AwsSettings)
    assert settings.credentials_file == str(file.parent / "keys")


def test_a_folder_may_end_in_toml(tmp_path: Path) -> None:
    (tmp_path / "x.toml").mkdir()
    assert resolve_settings(tmp_path / "x.toml") == LocalSettings(path=str(tmp_path / "x.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\na = =", r"aws.toml is not valid TOML: .*line 2"),
        (
            "",
            "aws.toml: the kind of lake is not clear: set kind, or one of path .local., s3_",
        ),
        (
            's3_bucket = "B"\naws_region = "eu-west-1"',
            "aws.toml: s3_bucket is 'B': it should match",
        ),
        ('s3_bucket = "a-bucket"', "aws.toml: aws_region is missing"),
    ],
)
def test_a_file_that_is_wrong(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=message):
        resolve_settings(file)


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"lake is '.*aws.toml': no such file"):
        resolve_settings(file)


def opened(monkeypatch: pytest.MonkeyPatch, **changes: object) -> S3:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    given = {"s3_bucket": "a-bucket", "aws_region": "eu-west-1", **changes}
    store = open_store(AwsSettings.model_validate(given))
    assert isinstance(store, S3)
    return store


@pytest.mark.parametrize(
    ("given", "path_style"),
    [
        ({}, False),
        ({"s3_bucket": "a.dotted.bucket"}, True),
        ({"s3_endpoint": "https://store.example"}, True),
        ({"s3_endpoint": "https://store.example", "s3_path_style": False}, False),
        ({"s3_path_style": True}, True),
    ],
)
def test_how_the_bucket_is_addressed(
    given: dict[str, object], path_style: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opened(monkeypatch, **given).path_style is path_style


def test_an_endpoint_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1/")
    given = AwsSettings(s3_bucket="a-bucket", aws_region="eu-west-1")
    store = open_store(given)
    assert isinstance(store, S3)
    assert (store.endpoint, store.path_style) == ("http://127.0.0.1:1", True)
