"""Segment's settings become those of a lake and of a source."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from eventlake.cli.main import main
from eventlake.errors import InvalidSettings
from eventlake.lakes import resolve_settings
from eventlake.services.import_settings import import_settings
from tests.processes import Ran

AWS = {
    "awsRegion": "us-east-1",
    "datePartition": "Year/Month/Day [YYYY/MM/DD]",
    "emrClusterId": "j-123ABC",
    "glueCatalogId": "123456789012",
    "glueDatabase": "analytics",
    "iamRoleArn": "arn:aws:iam::123456789012:role/Lake",
    "partitionBySlugName": True,
    "s3Bucket": "acme-lake",
}
AWS_LAKE = {
    "kind": "aws",
    "s3_bucket": "acme-lake",
    "aws_region": "us-east-1",
    "iam_role_arn": "arn:aws:iam::123456789012:role/Lake",
    "glue_catalog_id": "123456789012",
    "emr_cluster_id": "j-123ABC",
}
AWS_SOURCE = {
    "date_partition": "year/month/day",
    "database": "analytics",
    "partition_by_slug": True,
}
GUID = "0a1b2c3d-1111-2222-3333-444444444444"
AZURE = {
    "azureStorageAccount": "acmelake",
    "azureStorageContainer": "events",
    "azureSubscriptionId": GUID,
    "azureTenantId": GUID,
    "databricksClusterId": "0701-123456-abc",
    "datePartition": "",
    "partitionBySlugName": False,
    "servicePrincipalClientId": GUID,
    "servicePrincipalClientSecret": "hush-hush",
}


def export(folder: Path, document: object) -> Path:
    path = folder / "segment.json"
    path.write_text(json.dumps(document))
    return path


def of_config_api(settings: dict[str, Any]) -> dict[str, Any]:
    name = "workspaces/acme/sources/web/destinations/data-lakes"
    config = [{"name": f"{name}/config/{key}", "value": settings[key]} for key in settings]
    return {"name": name, "config": config}


@pytest.mark.parametrize(
    ("document", "source"),
    [
        (AWS, {}),
        (
            {"data": {"destination": {"sourceId": "rh5BDZ", "settings": AWS}}},
            {"source_id": "rh5BDZ"},
        ),
        (of_config_api(AWS), {"source": "web"}),
    ],
    ids=["settings", "public", "config"],
)
def test_each_kind_of_export(tmp_path: Path, document: Any, source: dict[str, str]) -> None:
    imported = import_settings(export(tmp_path, document))
    assert imported.lake == AWS_LAKE
    assert imported.source == AWS_SOURCE | source
    assert (imported.secrets, imported.unknown) == ({}, ())


def test_the_output_is_a_lake_file_and_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = export(tmp_path, {**AZURE, "sourceId": "rh5BDZ"})
    ran = Ran(main(["import-settings", str(path)]), *capsys.readouterr())
    assert ran.code == 0
    assert "hush" not in ran.out + ran.err
    assert tomllib.loads(ran.out) == {
        "kind": "azure",
        "storage_account": "acmelake",
        "storage_container": "events",
        "subscription_id": GUID,
        "tenant_id": GUID,
        "client_id": GUID,
        "databricks_cluster_id": "0701-123456-abc",
    }
    file = tmp_path / "lake.toml"
    file.write_text(ran.out)
    assert resolve_settings(file).kind == "azure"
    adopt = "eventlake adopt --source my-source --source-id rh5BDZ --lake lake.toml\n"
    assert f"#   {adopt}" in ran.out
    assert ran.err.splitlines() == [
        "warning: the file does not have the source's slug: replace my-source",
        "warning: client_secret is a secret: put it into AZURE_CLIENT_SECRET",
    ]


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = export(tmp_path, {**of_config_api(AZURE)})
    assert main(["import-settings", str(path), "--json"]) == 0
    out = capsys.readouterr().out
    assert "hush" not in out
    imported = json.loads(out)
    assert imported["source"] == {"source": "web", "partition_by_slug": False}
    assert imported["secrets"] == {"client_secret": "AZURE_CLIENT_SECRET"}
    assert imported["lake"]["databricks_cluster_id"] == "0701-123456-abc"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "segment.json is not valid JSON: Expecting"),
        ("[]", "segment.json has no settings: it should be a JSON object"),
        ("{}", "segment.json: the kind of lake is not clear"),
        ('{"s3Bucket": "A"}', "segment.json: s3_bucket is 'A'"),
        (json.dumps({**AWS, "datePartition": "week"}), "date_partition is 'week'"),
        (json.dumps({**AWS, "s3_bucket": "b"}), "s3_bucket is given twice, also as s3_bucket"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "segment.json"
    path.write_text(text)
    with pytest.raises(InvalidSettings) as caught:
        import_settings(path)
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"cannot read .*nope\.json: No such file"):
        import_settings(tmp_path / "nope.json")
