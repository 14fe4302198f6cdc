"""Large objects go up in parts: all of them or none; and everything is encrypted as was asked."""

import os
from typing import Any

import pytest

from eventlake.errors import EventLakeError, InsufficientPermissions, Unavailable
from eventlake.lakes import open_store
from tests import lakes
from tests.aws.calls import ENCRYPTED, Call
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied, Once, Refuses, Rule, Trouble, done_but_500, done_but_silent
from tests.aws.worlds import World

PATH = "segment-stage/1/write/big.parquet"
LARGE = os.urandom(11 << 20)
"""Three parts."""
PARTS = ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")


def upload(aws: Aws, **settings: Any) -> None:
    with open_store(aws.settings(**settings)).open_staged(PATH) as file:
        file.write(LARGE)


def left_open(aws: Aws) -> list[str]:
    found = aws.client("s3").list_multipart_uploads(Bucket=aws.bucket)
    return [one["Key"] for one in found.get("Uploads", ())]


def keys(aws: Aws) -> list[str]:
    found = aws.client("s3").list_objects_v2(Bucket=aws.bucket)
    return [one["Key"] for one in found.get("Contents", ())]


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (Refuses("UploadPart", 403, "AccessDenied"), InsufficientPermissions),
        (Refuses("UploadPart", 500, "InternalError"), Unavailable),
        (Refuses("CompleteMultipartUpload", 500, "InternalError"), Unavailable),
        (Denied("s3:PutObject", "segment-stage/"), InsufficientPermissions),
    ],
)
def test_an_upload_that_fails_for_good_is_aborted(
    aws: Aws,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    rule: Rule,
    error: type[EventLakeError],
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    with proxy.ruled(rule), pytest.raises(error, match=PATH):
        upload(aws)
    begun, aborted = proxy.asked("CreateMultipartUpload"), proxy.asked("AbortMultipartUpload")
    assert bool(aborted) == (not isinstance(rule, Denied))
    assert {call.key for call in (*begun, *aborted)} == {PATH}
    assert (left_open(aws), keys(aws)) == ([], [])


@pytest.mark.parametrize("trouble", [done_but_500, done_but_silent])
def test_lost_answers_on_the_way_up(aws: Aws, proxy: Proxy, trouble: Trouble) -> None:
    def first(action: str) -> Once:
        return Once(trouble, lambda call: call.action == action)

    rules = [first(action) for action in PARTS]
    with proxy.ruled(*rules):
        upload(aws)
    assert all(rule.is_over for rule in rules)
    found = aws.client("s3").get_object(Bucket=aws.bucket, Key=PATH)["Body"].read()
    assert found == LARGE


# Encryption

ALGORITHM = "x-amz-server-side-encryption"


def asked_for(call: Call) -> dict[str, str]:
    return {name: value for name, value in call.headers.items() if name.startswith(ALGORITHM)}


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({}, {}),
        ({"encryption": "SSE-S3"}, {ALGORITHM: "AES256"}),
        (
            {"encryption": "SSE-KMS", "kms_key_id": "alias/lake"},
            {
                ALGORITHM: "aws:kms",
                f"{ALGORITHM}-aws-kms-key-id": "alias/lake",
                f"{ALGORITHM}-bucket-key-enabled": "true",
            },
        ),
    ],
)
def test_whatever_is_written_is_encrypted_as_asked(
    world: World,
    aws: Aws,
    proxy: Proxy,
    settings: dict[str, str],
    headers: dict[str, str],
) -> None:
    """Stage, ledger, tables, catalog and reports, also what is copied or goes up in parts."""
    lakes.load(world.files, aws.settings(catalog="files", **settings))
    upload(aws, **settings)
    written = proxy.asked(*ENCRYPTED)
    assert {call.action for call in written} == set(ENCRYPTED)
    assert [call for call in written if asked_for(call) != headers] == []
    # A part belongs to an upload that has said it.
    assert {bool(asked_for(call)) for call in proxy.asked("UploadPart")} == {False}
