"""The kinds of lakes: one line each, settings without a vendor's library, secrets passed in."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import (
    kinds,
    lake_settings,
    open_parts,
    open_store,
    parse_settings,
    resolve_settings,
)
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.lakes.kinds import KINDS, LakeKind, RegisteredKind, settings_model
from eventlake.lakes.local import LocalKind
from eventlake.lakes.local_settings import LocalSettings
from eventlake.model.lake import LakeSettings
from eventlake.secrets import EnvironmentSecrets, FileSecrets, FirstSecrets, Secrets
from eventlake.stores import Disk, Store

BLOCKED = """if True:
    import sys
    for name in ("boto3", "botocore", "azure", "obstore", "pyarrow", "pyspark"):
        sys.modules[name] = None  # an import of it fails
    from eventlake.lakes import lake_settings
    from eventlake.lakes.kinds import KINDS, settings_model
    for kind in KINDS:
        print(settings_model(kind).model_json_schema()["title"])
    print(lake_settings({"s3_bucket": "a-bucket", "aws_region": "eu-west-1"}).kind)
"""


def test_settings_need_no_library_of_a_vendor() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == [
        *("LocalSettings", "AwsSettings", "AzureSettings", "DatabricksSettings"),
        "aws",
    ]


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    for module in ("eventlake.aws", "eventlake.lakes.aws", "eventlake.stores.s3"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(InvalidSettings) as caught:
        open_store(AwsSettings(s3_bucket="a-bucket", aws_region="eu-west-1"))
    assert str(caught.value) == (
        "this lake needs boto3, which is not installed: pip install 'eventlake[aws]'"
    )


def test_every_kind_is_complete() -> None:
    for name in KINDS:
        model = settings_model(name)
        assert model.kind == name
        assert model.chosen_by in model.model_fields
        assert all(field.description for field in model.model_fields.values())
        kind = kinds.load_kind(model.model_construct(), EnvironmentSecrets({}))
        assert isinstance(kind, LakeKind)


# Choosing a kind


def test_the_kind_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text('kind = "local"\npath = "x"')
    assert resolve_settings(tmp_path / "lake.toml") == LocalSettings(path=str(tmp_path / "x"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "azul"}, "kind is 'azul': choose one of local, aws, azure"),
        ({"kind": ["aws"]}, "kind is \"['aws']\": choose one of"),
        ({"kind": "aws", "path": "x"}, "s3_bucket is missing; aws_region is missing; path is not"),
        ({}, "the kind of lake is not clear: set kind, or one of path (local), s3_bucket (aws),"),
    ],
)
def test_a_kind_that_is_wrong(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        lake_settings(values)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "settings",
    [
        LocalSettings(path="/a folder/with=signs"),
        AwsSettings(
            s3_bucket="the-lake",
            aws_region="eu-west-1",
            partition_projection=True,
            s3_path_style=False,
            emr_cluster_id="j-1",
            emr_max_instances=3,
        ),
    ],
)
def test_settings_come_back_from_words(settings: LakeSettings) -> None:
    words = settings.to_words()
    assert words[0] == f"kind={settings.kind}"
    assert not [word for word in words if set(word) & set("\"'{}$")]
    assert parse_settings(words) == settings


# One more kind


class OtherSettings(LakeSettings):
    """A folder with an address."""

    kind = "other"
    chosen_by = "folder"
    address = "other://folder"
    container = "folder"
    secrets: ClassVar[Mapping[str, str]] = {"password": "OTHER_PASSWORD"}

    folder: str

    @classmethod
    def parse_address(cls, address: str) -> Mapping[str, str]:
        return {"folder": address.removeprefix("other://").rstrip("/")}


@dataclass(frozen=True)
class OtherKind(LocalKind):
    """A lake on disk that asks for a password."""

    settings: OtherSettings  # type: ignore[assignment]
    secrets: Secrets

    def open_store(self, *, make: bool) -> Store:
        if self.secrets.get("password") != "hush":
            raise InvalidSettings("set OTHER_PASSWORD")
        return Disk(self.settings.folder)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "lakes_of_others", module)
    monkeypatch.setitem(sys.modules, "lakes_of_others_settings", module)
    monkeypatch.setitem(KINDS, "other", RegisteredKind("lakes_of_others", "Other"))  # type: ignore[arg-type]
    return


@pytest.mark.usefixtures("other")
def test_one_line_adds_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text(f'folder = "{tmp_path}"')
    assert resolve_settings(tmp_path / "other.toml") == OtherSettings(folder=str(tmp_path))
    assert resolve_settings("other://x/") == OtherSettings(folder="x")
    with pytest.raises(InvalidSettings, match=r"give a folder, s3://.*, other://folder, or a file"):
        resolve_settings("gs://x")
    with pytest.raises(InvalidSettings, match="a lake is a whole folder, other://x;"):
        resolve_settings("other://x/y")
    with pytest.raises(InvalidSettings, match="password is not a setting: put it into OTHER_PASS"):
        lake_settings({"folder": "x", "password": "hush"})
    with pytest.raises(InvalidSettings, match="set OTHER_PASSWORD"):
        open_parts(tmp_path / "other.toml")
    monkeypatch.setenv("OTHER_PASSWORD", "hush")
    assert open_parts(tmp_path / "other.toml").store == Disk(str(tmp_path))


# Secrets

NAMES = {"key": "THE_KEY", "password": "THE_PASSWORD"}


def test_a_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = EnvironmentSecrets(NAMES)
    assert secrets.get("key") is None
    monkeypatch.setenv("THE_KEY", "")
    assert secrets.get("key") is None
    monkeypatch.setenv("THE_KEY", "hush")
    assert secrets.get("key") == "hush"


def test_a_file_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in NAMES.values():
        monkeypatch.setenv(variable, "of the environment")
    (tmp_path / "secrets.toml").write_text('key = "of the file"')
    file = FileSecrets(str(tmp_path / "secrets.toml"), tuple(NAMES))
    secrets = FirstSecrets((file, EnvironmentSecrets(NAMES)))
    assert (secrets.get("key"), secrets.get("password")) == ("of the file", "of the environment")
    assert file.get("password") is None
