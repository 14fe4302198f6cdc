"""A run in ADLS killed at every stage and in the middle of requests: the next one recovers."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from eventlake.lakes import open_parts
from eventlake.lakes.azure_settings import AzureSettings
from tests import processes
from tests.aws.rules import Kills
from tests.aws.test_killed import Request, load_until_killed
from tests.azure.azurite import Azure, entered
from tests.azure.metastores import Metastore
from tests.azure.proxy import Proxy
from tests.faults import kills
from tests.faults.kills import AtStep, World

# Before and after the commit itself: see REQUESTS.
STEPS = [("write", 0), ("publish", 3), ("report", 0), ("clean", 0)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return kills.make_world(tmp_path_factory.mktemp("world"), events=60)


def within(here: Azure, work: Callable[..., None], *given: Any) -> None:
    """In a process that was forked from one that knows nothing of this Azure."""
    with entered(here):
        work(*given)


def check(world: World, lake: AzureSettings) -> None:
    world.check(lake)
    schemas = open_parts(lake).store.names("staging/web/schemas")[1]
    assert schemas == sorted(f"{name}.json" for name in world.once.tables)


@pytest.mark.parametrize(
    ("catalog", "steps"),
    [("files", STEPS), ("hive", [("publish", 3), ("register", 3)])],
)
def test_killed_at_a_step(
    world: World,
    azure: Azure,
    request: pytest.FixtureRequest,
    catalog: str,
    steps: list[tuple[str, int]],
    subtests: pytest.Subtests,
) -> None:
    server: Metastore | None = request.getfixturevalue("hive") if catalog == "hive" else None
    for step in steps:
        with subtests.test(step=step):
            here = Azure(azure.url)
            here.make_container()
            lake = here.settings(metastore_url=server.url if server else "")
            if server:
                server.empty()
            work = (kills.killed_at_step, world.files[:2], lake, AtStep(0, *step))
            assert kills.run(within, azure, *work) == -signal.SIGKILL
            check(world, lake)


REQUESTS = [
    Request("PutObject segment-stage/.*/lease.json", after=True),
    Request("PutObject segment-data/ledger/web/0"),
    Request("PutObject segment-data/ledger/web/0", after=True),
    Request("CopyObject staging/web/segment_type", 2, after=True),
    Request("PutObject staging/web/schemas/", 2, after=True),
    Request("DeleteObjects segment-stage/.*/read/", after=True),
]


def test_killed_in_the_middle_of_a_request(
    world: World, azure: Azure, proxy: Proxy, subtests: pytest.Subtests
) -> None:
    for request in REQUESTS:
        with subtests.test(request=request):
            here = Azure(azure.url)
            here.make_container()
            lake, at = here.settings(), Kills(request.picks, request.number, request.after)
            with proxy.ruled(at), proxy.visited():
                work = (load_until_killed, world.files[:2], lake)
                process = processes.start(within, proxy.here, *work)
                at.victim.set_result(process.pid or 0)
                assert processes.finish(process) == -signal.SIGKILL
            with entered(azure):
                check(world, lake)
    assert proxy.astray() == []
