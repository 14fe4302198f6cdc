"""The AWS of the tests is one that boto3 and the product can call, and nothing is left in it."""

import os

from tests.aws.moto import ACCOUNT, Aws


def test_clients_call_this_machine_only(aws: Aws) -> None:
    assert aws.url.startswith("http://127.0.0.1:")
    assert aws.access().client("glue").meta.endpoint_url == aws.url
    assert f":{ACCOUNT}:" in aws.access().check()


def test_every_test_begins_with_an_empty_bucket(aws: Aws) -> None:
    s3 = aws.client("s3")
    assert [found["Name"] for found in s3.list_buckets()["Buckets"]] == [aws.bucket]
    s3.put_object(Bucket=aws.bucket, Key="a", Body=b"")
    aws.reset()
    assert s3.list_buckets()["Buckets"] == []


def test_a_process_gets_this_aws_and_no_other(aws: Aws) -> None:
    assert aws.environ["PATH"] == os.environ["PATH"]
    ours = {name for name in aws.environ if name.startswith("AWS_")}
    assert ours == {name for name in aws.env if name.startswith("AWS_")}
