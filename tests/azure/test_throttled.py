"""Throttling, 5xx and lost answers of ADLS: the sync finishes, and nothing is lost or doubled."""

from typing import Any

import pytest

from tests import lakes
from tests.aws.rules import Once, Sometimes, Trouble, done_but_500, done_but_silent, half
from tests.aws.test_throttled import COMMIT, of
from tests.aws.worlds import World
from tests.azure.metastores import Metastore
from tests.azure.proxy import Proxy


def check_loads(world: World, proxy: Proxy, metastore: str, *rules: Any) -> None:
    """Two loads, and the lake is as if nothing had been."""
    lake = proxy.upstream.settings(metastore_url=metastore)
    with proxy.ruled(*rules):
        assert lakes.load(world.files[:1], lake).status == "finished"
        assert lakes.load(world.files, lake).status == "finished"
    assert proxy.astray() == []
    world.check(lake, twice=True)


def test_trouble_at_random(world: World, proxy: Proxy) -> None:
    trouble = Sometimes(1, share=0.08)
    check_loads(world, proxy, "", trouble)
    assert len({kind for kind, _ in trouble.told}) >= 4


def test_trouble_beside_a_metastore(world: World, proxy: Proxy, hive: Metastore) -> None:
    check_loads(world, proxy, hive.url, Sometimes(3, share=0.05))


@pytest.mark.parametrize("trouble", [done_but_500, done_but_silent])
def test_a_commit_whose_answer_is_lost_is_made_once(
    world: World, proxy: Proxy, trouble: Trouble
) -> None:
    lake, once = proxy.upstream.settings(), Once(trouble, COMMIT)
    with proxy.ruled(once):
        result = lakes.load(world.files, lake)
    assert (once.is_over, result.status) == (True, "finished")
    tries = [call for call in proxy.calls if COMMIT(call)]
    assert {call.headers["if-none-match"] for call in tries} == {"*"}
    assert [commit["run_id"] for commit in lakes.read_commits(lake)] == [result.run_id]
    world.check(lake, twice=False)


CHANGES = [
    of("CopyObject", "staging/web/segment_type"),
    of("CopyObject", "/ledger/web/ids/"),
    of("DeleteObjects", "/write/"),
    of("PutObject", "staging/web/schemas/"),
    of("PutObject", "/catalog/web/"),
    of("PutObject", "/reports/"),
    of("PutObject", "/lease.json"),
    of("ListObjects", "segment-stage/"),
    of("ListObjects", "segment-data/ledger/"),
]


@pytest.mark.parametrize("trouble", [done_but_500, done_but_silent, half])
def test_lost_answers(world: World, proxy: Proxy, trouble: Trouble) -> None:
    each = [Once(trouble, pick) for pick in CHANGES]
    check_loads(world, proxy, "", *each)
    # Answers without a body cannot break off in the middle.
    assert trouble is half or all(one.is_over for one in each)
