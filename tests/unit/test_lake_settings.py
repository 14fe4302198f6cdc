"""The settings of a lake: what is allowed, and what a wrong one is told."""

from typing import Any

import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import lake_settings
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.local_settings import LocalSettings
from eventlake.model.azure import AzureLogin

AWS = {"s3_bucket": "a-bucket", "aws_region": "eu-west-1"}
AZURE = {"storage_account": "anaccount", "storage_container": "a-container"}
GUID = "0a1b2c3d-1111-2222-3333-444444444444"


def test_a_lake_on_disk() -> None:
    assert lake_settings({"path": "x"}) == LocalSettings(path="x")
    assert lake_settings({"kind": "local", "path": "x"}) == LocalSettings(path="x")


def test_the_least_of_a_lake_on_aws() -> None:
    assert lake_settings(AWS) == AwsSettings(s3_bucket="a-bucket", aws_region="eu-west-1")


def test_segments_own_names() -> None:
    given = {
        "s3Bucket": "a-bucket",
        "awsRegion": "us-east-1",
        "glueCatalogId": "123456789012",
        "iamRoleArn": "arn:aws:iam::123456789012:role/SegmentDataLakeRole",
        "emrClusterId": "j-123ABC",
        "workspaceId": "ws1",
    }
    assert lake_settings(given) == AwsSettings(
        s3_bucket="a-bucket",
        aws_region="us-east-1",
        glue_catalog_id="123456789012",
        iam_role_arn="arn:aws:iam::123456789012:role/SegmentDataLakeRole",
        emr_cluster_id="j-123ABC",
        workspace_id="ws1",
    )


def test_segments_own_names_on_azure() -> None:
    given = {
        "azureStorageAccount": "anaccount",
        "azureStorageContainer": "a-container",
        "azureTenantId": GUID,
        "servicePrincipalClientId": GUID,
    }
    wanted = AzureSettings(**AZURE, tenant_id=GUID, client_id=GUID)
    assert lake_settings(given) == lake_settings({"kind": "azure", **given}) == wanted
    with pytest.raises(InvalidSettings, match="client_secret is not a setting: put it into AZURE"):
        lake_settings({**given, "servicePrincipalClientSecret": "hush"})
    with pytest.raises(InvalidSettings, match="storage_account is given twice"):
        lake_settings({**given, **AZURE})


@pytest.mark.parametrize(
    "region", ["us-east-1", "us-gov-west-1", "ap-southeast-2", "eu-central-1", "il-central-1"]
)
def test_regions(region: str) -> None:
    settings = lake_settings({**AWS, "aws_region": region})
    assert isinstance(settings, AwsSettings)
    assert settings.aws_region == region


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("aws_region", "Frankfurt", "aws_region is 'Frankfurt': it should match '^"),
        ("aws_region", "eu-west-1\n", "aws_region is 'eu-west-1\\n': it should match"),
        ("s3_bucket", "My_Bucket", "s3_bucket is 'My_Bucket': it should match"),
        ("s3_bucket", "ab", "s3_bucket is 'ab': it should match"),
        ("glue_catalog_id", "1234", "glue_catalog_id is '1234': it should match"),
        ("iam_role_arn", "role/x", "iam_role_arn is 'role/x': it should match"),
        ("emr_cluster_id", "123", "emr_cluster_id is '123': it should match"),
        ("workspace_id", "a b", "workspace_id is 'a b': it should match"),
        ("s3_endpoint", "localhost:9000", "s3_endpoint is 'localhost:9000': it should match"),
        ("encryption", "AES", "encryption is 'AES': it should be '', 'SSE-S3' or 'SSE-KMS'"),
        ("kms_key_id", "k", "kms_key_id is 'k': set encryption = 'SSE-KMS' too"),
        ("catalog", "hive", "catalog is 'hive': it should be 'glue' or 'files'"),
        ("colour", "red", "colour is not a setting"),
        ("kind", "azul", "kind is 'azul': choose one of local, aws, azure"),
    ],
)
def test_what_is_wrong_is_named(setting: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        lake_settings({**AWS, setting: value})
    assert message in str(caught.value)


def test_a_secret_is_no_setting() -> None:
    with pytest.raises(InvalidSettings, match="aws_secret_access_key is not a setting") as caught:
        lake_settings({**AWS, "aws_secret_access_key": "hush"})
    assert "hush" not in str(caught.value)


def test_a_container_with_segments_own_names() -> None:
    given = {
        "storageAccount": "anaccount",
        "storageContainer": "a-container",
        "tenantId": GUID,
        "clientId": GUID.upper(),
        "login": "principal",
    }
    assert lake_settings(given) == AzureSettings(
        storage_account="anaccount",
        storage_container="a-container",
        tenant_id=GUID,
        client_id=GUID.upper(),
        login=AzureLogin.PRINCIPAL,
    )
    assert lake_settings({"kind": "azure", **AZURE}) == lake_settings(AZURE)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("storage_account", "an-account", "storage_account is 'an-account': it should match"),
        ("storage_account", "a" * 25, "it should match"),
        ("storage_account", "ab", "storage_account is 'ab': it should match"),
        ("storage_container", "ab", "storage_container is 'ab': it should have at least 3"),
        ("storage_container", "a" * 64, "it should have at most 63 characters"),
        ("storage_container", "a--b", "storage_container is 'a--b': it should match"),
        ("storage_container", "-ab", "storage_container is '-ab': it should match"),
        ("storage_container", "Lake", "storage_container is 'Lake': it should match"),
        ("tenant_id", "me", "tenant_id is 'me': it should match"),
        ("client_id", f"{GUID}0", "it should match"),
        ("endpoint", "localhost:10000", "endpoint is 'localhost:10000': it should match"),
        ("login", "password", "login is 'password': it should be '', 'principal', 'key'"),
        ("databricks_cluster_id", "x", "databricks_cluster_id is 'x'"),
    ],
)
def test_what_is_wrong_in_azure_is_named(setting: str, value: str, message: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        lake_settings({**AZURE, setting: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (
            "clientSecret",
            "client_secret is not a setting: put it into AZURE_CLIENT_SECRET, or into",
        ),
        ("account_key", "account_key is not a setting: put it into AZURE_STORAGE_ACCOUNT_KEY, or"),
    ],
)
def test_secrets_of_azure_have_other_places(name: str, place: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        lake_settings({**AZURE, name: "hush"})
    assert place in str(caught.value)
    assert "hush" not in f"{caught.value} {caught.value.__cause__}"
