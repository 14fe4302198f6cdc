"""A role's credentials that expire while a run goes on: driver and workers get new ones."""

import re
import time
from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import SparkSession

from eventlake.errors import InvalidSettings
from eventlake.runners import local
from tests import lakes
from tests.aws.answers import Answer, denied
from tests.aws.calls import Call
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Expiring, Forward
from tests.aws.worlds import World

ROLE = {"iam_role_arn": "arn:aws:iam::123456789012:role/lake", "workspace_id": "ws-1"}
SECONDS = 3.0
STAGED = re.compile(r"segment-stage/\d+/\w+/")


def is_of_a_worker(call: Call) -> bool:
    """The driver reads nothing of the stage and writes nothing there but its lease."""
    return call.action in ("GetObject", "PutObject") and STAGED.match(call.key) is not None


def tokens(calls: Iterable[Call]) -> set[str]:
    return {call.token for call in calls}


@pytest.fixture
def new_jvm() -> Iterator[None]:
    """No JVM of an earlier test: workers have the environment that theirs was started with."""
    stop_jvm()
    yield
    stop_jvm()


def stop_jvm() -> None:
    if session := SparkSession.getActiveSession():
        local._stop(session, {"settings": "others than the session has"})


@pytest.mark.spark
@pytest.mark.usefixtures("aws", "new_jvm")
def test_credentials_that_expire_are_renewed_on_driver_and_workers(
    world: World, aws: Aws, proxy: Proxy
) -> None:
    lake, expiring = aws.settings(**ROLE), Expiring(SECONDS)
    with proxy.ruled(expiring):
        assert lakes.load(world.files, lake, runner=lakes.SparkRunner).status == "finished"
    assert time.monotonic() > min(expiring.until.values())  # the first are of no use any more
    assert expiring.refused == []
    objects = [call for call in proxy.calls if call.service == "s3"]
    by_workers = [call for call in objects if is_of_a_worker(call)]
    by_driver = [call for call in objects if not is_of_a_worker(call)]
    assert tokens(objects) <= expiring.until.keys()
    assert len(tokens(by_workers) - tokens(by_driver)) > 1
    assert by_driver[0].token != by_driver[-1].token
    assert len(tokens(call for call in proxy.calls if call.service == "glue")) > 1
    assert {call.given["ExternalId"] for call in proxy.asked("AssumeRole")} == {"ws-1"}
    world.check(lake, twice=False)


def test_a_role_that_refuses_in_the_middle_of_a_run(world: World, aws: Aws, proxy: Proxy) -> None:
    """Such as when its trust policy changes: nothing lands, and it is said as at the start."""
    lake, expiring = aws.settings(catalog="files", **ROLE), Expiring(SECONDS)

    def no_more(call: Call, forward: Forward) -> Answer | None:
        staging = any(map(is_of_a_worker, proxy.calls))
        return denied(call, call.needs[0]) if staging and call.action == "AssumeRole" else None

    with (
        proxy.ruled(no_more, expiring),
        pytest.raises(InvalidSettings, match=r"role/lake refuses .* with the external id 'ws-1'"),
    ):
        lakes.load(world.files, lake)
    assert lakes.read_commits(lake) == []
    assert lakes.load(world.files, lake).status == "finished"
    # Its stage may not even be marked as left, and this process lives: it has ten minutes yet.
    world.check(lake, twice=False, but=("strays",))
