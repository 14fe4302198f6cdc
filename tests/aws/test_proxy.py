"""The proxy of these tests: boto3 takes its refusals for AWS's own, and it sees every request."""

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from eventlake.lakes import open_store
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Expiring

ROLE = {"RoleArn": "arn:aws:iam::123456789012:role/lake", "RoleSessionName": "test"}


def client(service: str) -> Any:
    """With the product's own credentials, which rules are for."""
    return boto3.Session().client(service)


@pytest.mark.parametrize(
    ("permission", "service", "ask", "code", "status"),
    [
        ("s3:ListBucket", "s3", ("list_objects_v2", {"Bucket": "the-lake"}), "AccessDenied", 403),
        ("glue:GetDatabases", "glue", ("get_databases", {}), "AccessDeniedException", 400),
        ("sts:AssumeRole", "sts", ("assume_role", ROLE), "AccessDenied", 403),
        (
            "elasticmapreduce:DescribeCluster",
            "emr",
            ("describe_cluster", {"ClusterId": "j-1"}),
            "AccessDeniedException",
            400,
        ),
    ],
)
@pytest.mark.usefixtures("aws")
def test_a_refusal_is_as_the_services_own(
    proxy: Proxy,
    permission: str,
    service: str,
    ask: tuple[str, dict[str, str]],
    code: str,
    status: int,
) -> None:
    name, given = ask
    with proxy.ruled(Denied(permission)), pytest.raises(ClientError) as refused:
        getattr(client(service), name)(**given)
    answer = refused.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)
    assert f"is not authorized to perform: {permission} on resource: " in answer["Error"]["Message"]


def test_keys_that_may_not_be_deleted_are_told_one_by_one(aws: Aws, proxy: Proxy) -> None:
    s3, keys = client("s3"), ["segment-stage/a", "segment-data/b"]
    for key in keys:
        s3.put_object(Bucket=aws.bucket, Key=key, Body=b"")
    named = {"Objects": [{"Key": key} for key in keys]}
    with proxy.ruled(Denied("s3:DeleteObject", "segment-data/")):
        answer = s3.delete_objects(Bucket=aws.bucket, Delete=named)
    assert [one["Key"] for one in answer["Deleted"]] == ["segment-stage/a"]
    assert [(one["Key"], one["Code"]) for one in answer["Errors"]] == [
        ("segment-data/b", "AccessDenied")
    ]
    left = s3.list_objects_v2(Bucket=aws.bucket)["Contents"]
    assert [one["Key"] for one in left] == ["segment-data/b"]


def test_a_copy_needs_both_permissions(aws: Aws, proxy: Proxy) -> None:
    s3 = client("s3")
    s3.put_object(Bucket=aws.bucket, Key="segment-stage/a", Body=b"")
    copy = {"Bucket": aws.bucket, "Key": "segment-data/a", "CopySource": "the-lake/segment-stage/a"}
    for permission in ("s3:GetObject", "s3:PutObject"):
        with proxy.ruled(Denied(permission)), pytest.raises(ClientError, match=permission):
            s3.copy_object(**copy)
    s3.copy_object(**copy)


def test_who_may_not_list_is_not_told_what_is_not_there(aws: Aws, proxy: Proxy) -> None:
    with proxy.ruled(Denied("s3:ListBucket")), pytest.raises(ClientError, match="AccessDenied"):
        client("s3").get_object(Bucket=aws.bucket, Key="segment-data/none")


def test_a_token_is_refused_once_it_has_expired(aws: Aws, proxy: Proxy) -> None:
    with proxy.ruled(Expiring(seconds=-1)):
        given = client("sts").assume_role(**ROLE)["Credentials"]
        names = {
            "aws_access_key_id": given["AccessKeyId"],
            "aws_secret_access_key": given["SecretAccessKey"],
            "aws_session_token": given["SessionToken"],
        }
        s3 = boto3.Session(**names).client("s3")
        with pytest.raises(ClientError, match="ExpiredToken"):
            s3.list_objects_v2(Bucket=aws.bucket)


def test_what_is_beside_the_lake_is_seen(aws: Aws, proxy: Proxy) -> None:
    store = open_store(aws.settings())
    store.write("segment-data/ours", b"")
    assert proxy.astray() == []
    store.write("theirs", b"")
    store.delete(["others/theirs"])
    list(store.objects(""))
    assert len(proxy.astray()) == 3


def test_a_tests_own_clients_are_neither_seen_nor_refused(aws: Aws, proxy: Proxy) -> None:
    with proxy.ruled(Denied("s3:ListBucket")):
        proxy.here.client("s3").list_objects_v2(Bucket=aws.bucket)
    assert proxy.calls == []
