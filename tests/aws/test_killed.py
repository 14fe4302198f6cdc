"""A run on AWS killed at every stage, and in the middle of its requests: the next one recovers."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eventlake.lakes.aws_settings import AwsSettings
from tests import lakes, processes
from tests.aws.calls import Call
from tests.aws.moto import Aws, entered
from tests.aws.proxy import Proxy
from tests.aws.rules import Kills
from tests.faults import kills
from tests.faults.kills import AtStep, World
from tests.tiers import choose, sweep


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return kills.make_world(tmp_path_factory.mktemp("world"), events=120)


def within(here: Aws, work: Callable[..., None], *given: Any) -> None:
    """In a process that was forked from one that knows nothing of this AWS."""
    with entered(here):
        work(*given)


def killed(proxy: Proxy, files: list[Path], lake: AwsSettings, at: AtStep) -> None:
    with proxy.visited():
        code = kills.run(within, proxy.here, kills.killed_at_step, files, lake, at)
    assert code == -signal.SIGKILL


def emptied(here: Aws) -> None:
    here.reset()
    here.make_bucket()


# At its steps

BEFORE_COMMIT = [("read", 0), ("write", 0), ("commit", 0)]
AFTER_COMMIT = [("publish", 0), ("publish", 3), ("register", 3), ("report", 0), ("clean", 0)]


@sweep
@pytest.mark.parametrize(
    ("catalog", "steps"),
    [("files", BEFORE_COMMIT + AFTER_COMMIT), ("glue", AFTER_COMMIT[1:4])],
)
def test_killed_at_a_step(
    world: World,
    aws: Aws,
    proxy: Proxy,
    catalog: str,
    steps: list[tuple[str, int]],
    subtests: pytest.Subtests,
) -> None:
    lake = aws.settings(catalog=catalog)
    for step in choose(steps, 4):
        with subtests.test(step=step):
            emptied(aws)
            killed(proxy, world.files[:2], lake, AtStep(0, *step))
            assert bool(lakes.read_commits(lake)) == (step in AFTER_COMMIT)
            world.check(lake)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("write", 0), ("publish", 3)),
        (("publish", 3), ("publish", 2)),
        (("clean", 0), ("register", 3)),
    ],
)
def test_the_run_that_recovers_is_killed_too(
    world: World, aws: Aws, proxy: Proxy, first: tuple[str, int], then: tuple[str, int]
) -> None:
    killed(proxy, world.files[:2], aws.settings(), AtStep(0, *first))
    killed(proxy, world.files, aws.settings(), AtStep(0, *then))
    world.check(aws.settings())


# In the middle of a request


@dataclass(frozen=True)
class Request:
    """One of the requests of a run, by what it needs."""

    pattern: str
    number: int = 0
    after: bool = False
    """Whether it is carried out, and only its answer comes too late."""

    def picks(self, call: Call) -> bool:
        return any(re.match(self.pattern, f"{call.action} {need.resource}") for need in call.needs)


REQUESTS = [
    Request("PutObject segment-stage/.*/lease.json", after=True),
    Request("PutObject segment-stage/.*/write/", 3),
    Request("PutObject segment-data/ledger/web/0"),
    Request("PutObject segment-data/ledger/web/0", after=True),
    Request("CopyObject segment-data/data", 2, after=True),
    Request("CopyObject segment-data/data", 4),
    Request("CreateDatabase database/web", after=True),
    Request("CreateTable table/web/", 2, after=True),
    Request("BatchCreatePartition table/web/", 2),
    Request("CreateTable table/__segment_datalake/", after=True),
    Request("PutObject segment-data/reports/"),
    Request("DeleteObjects segment-stage/.*/read/", after=True),
    Request("DeleteObjects segment-stage/.*/lease.json"),
]


def load_until_killed(files: list[Path], lake: AwsSettings) -> None:
    lakes.load(files, lake)


@sweep
def test_killed_in_the_middle_of_a_request(
    world: World, aws: Aws, proxy: Proxy, subtests: pytest.Subtests
) -> None:
    for request in choose(REQUESTS, 6):
        with subtests.test(request=request):
            emptied(aws)
            at = Kills(request.picks, request.number, request.after)
            with proxy.ruled(at), proxy.visited():
                files, lake = world.files[:2], aws.settings()
                process = processes.start(within, proxy.here, load_until_killed, files, lake)
                at.victim.set_result(process.pid or 0)
                assert processes.finish(process) == -signal.SIGKILL
            world.check(aws.settings())
    assert proxy.astray() == []


# At moments that nobody chose


@pytest.mark.spark
def test_the_command_is_killed_at_random(aws: Aws, tmp_path: Path) -> None:
    named = tmp_path / "lake.toml"
    named.write_text(f's3_bucket = "{aws.bucket}"\naws_region = "{aws.region}"\n')
    kills.check_random_kills(tmp_path, aws.settings(), named, times=2, env=aws.environ)
