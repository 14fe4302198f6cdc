"""Throttling, 5xx and lost answers: the sync finishes, and nothing is lost or doubled."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import open_store
from tests import lakes
from tests.aws.answers import Answer
from tests.aws.calls import Call
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import (
    Forward,
    Once,
    Sometimes,
    Trouble,
    done_but_500,
    done_but_silent,
    half,
)
from tests.aws.worlds import World


def check_loads(world: World, proxy: Proxy, catalog: str, *rules: Any) -> None:
    """Two loads, and the lake is as if nothing had been."""
    lake = proxy.upstream.settings(catalog=catalog)
    with proxy.ruled(*rules):
        assert lakes.load(world.files[:1], lake).status == "finished"
        assert lakes.load(world.files, lake).status == "finished"
    world.check(lake, twice=True)
    assert proxy.astray() == []


@pytest.mark.parametrize(
    ("catalog", "seed"), [("files", 1), ("files", 2), ("glue", 3), ("glue", 4)]
)
def test_trouble_at_random(world: World, proxy: Proxy, catalog: str, seed: int) -> None:
    trouble = Sometimes(seed, share=0.08)
    check_loads(world, proxy, catalog, trouble)
    assert len({kind for kind, _ in trouble.told}) >= 4


# One by one


def of(action: str, key: str = "") -> Callable[[Call], bool]:
    def picks(call: Call) -> bool:
        return call.action == action and any(key in need.resource for need in call.needs)

    return picks


COMMIT = of("PutObject", "/ledger/web/0")
LOST = [done_but_500, done_but_silent, half]


@pytest.mark.parametrize("trouble", LOST[:2])
def test_a_commit_whose_answer_is_lost_is_made_once(
    world: World, aws: Aws, proxy: Proxy, trouble: Trouble
) -> None:
    """The try after it meets its own object, and knows it by the run."""
    lake, once = aws.settings(catalog="files"), Once(trouble, COMMIT)
    with proxy.ruled(once):
        result = lakes.load(world.files, lake)
    assert (once.is_over, result.status) == (True, "finished")
    tries = [call for call in proxy.calls if COMMIT(call)]
    assert {call.headers["if-none-match"] for call in tries} == {"*"}
    assert {call.key for call in tries} == {"segment-data/ledger/web/000000000001.json"}
    assert [commit["run_id"] for commit in lakes.read_commits(lake)] == [result.run_id]
    world.check(lake, twice=False)


S3_CHANGES = [
    of("CopyObject", "/data/"),
    of("CopyObject", "/ledger/web/ids/"),
    of("DeleteObjects", "/write/"),
    of("DeleteObjects", "/read/"),
    of("PutObject", "/catalog/web/"),
    of("PutObject", "/catalog/__segment_datalake/"),
    of("PutObject", "/reports/"),
    of("PutObject", "/lease.json"),
    of("ListObjects", "segment-stage/"),
    of("ListObjects", "segment-data/ledger/"),
]
GLUE_ACTIONS = [
    "GetDatabase",
    "CreateDatabase",
    "GetTable",
    "CreateTable",
    "UpdateTable",
    "GetPartitions",
    "BatchCreatePartition",
    "BatchUpdatePartition",
]


def lost(trouble: Trouble, picks: Sequence[Callable[[Call], bool]]) -> list[Once]:
    return [Once(trouble, pick) for pick in picks]


@pytest.mark.parametrize("trouble", LOST)
def test_lost_answers_of_s3(world: World, proxy: Proxy, trouble: Trouble) -> None:
    """The files that are published, the stage, the catalog's files, reports, leases, listings."""
    each = lost(trouble, S3_CHANGES)
    check_loads(world, proxy, "files", *each)
    # What S3 has no words for cannot break off in the middle.
    assert trouble is half or all(one.is_over for one in each)


@pytest.mark.parametrize("trouble", LOST)
def test_lost_answers_of_glue(world: World, proxy: Proxy, trouble: Trouble) -> None:
    each = lost(trouble, list(map(of, GLUE_ACTIONS)))
    check_loads(world, proxy, "glue", *each)
    assert all(one.is_over for one in each)


def test_a_listing_that_breaks_off_goes_on_where_it_was(aws: Aws, proxy: Proxy) -> None:
    names = [f"segment-stage/{number}" for number in range(100, 170)]  # obstore hands out 50
    pages: list[str] = []

    def short(call: Call, forward: Forward) -> Answer | None:
        """Pages of sixty, of which the second is not whole."""
        if call.action != "ListObjects":
            return None
        pages.append(call.target)
        answer = forward(replace(call, target=f"{call.target}&max-keys=60"))
        return replace(answer, cut=100) if len(pages) == 2 else answer

    store = open_store(aws.settings())
    for name in names:
        store.write(name, b"")
    with proxy.ruled(short):
        assert [found.path for found in store.objects("segment-stage")] == names
    assert "start-after=segment-stage%2F149" in pages[2]


def test_refusals_whose_answer_breaks_off(aws: Aws, proxy: Proxy) -> None:
    """That there is no object, or one already, is asked again."""
    store, path = open_store(aws.settings()), "segment-data/catalog/web/t.json"
    get, put = (Once(half, of(action, path)) for action in ("GetObject", "PutObject"))
    with proxy.ruled(get), pytest.raises(InvalidSettings, match="does not exist"):
        store.read(path)
    store.write(path, b"1")
    with proxy.ruled(put):
        assert store.create(path, b"2") is False
    assert (get.is_over, put.is_over) == (True, True)


def test_two_that_change_one_object_lose_nothing(aws: Aws, proxy: Proxy) -> None:
    """The answer to one is lost, and before it tries again another has changed the object."""
    store, path = open_store(aws.settings()), "segment-data/catalog/web/t.json"
    store.write(path, b"1")

    def overtaken(call: Call, forward: Forward) -> Answer:
        answer = done_but_500(call, forward)
        known = aws.client("s3").get_object(Bucket=aws.bucket, Key=path)["Body"].read()
        aws.client("s3").put_object(Bucket=aws.bucket, Key=path, Body=known + b"3")
        return answer

    def with_two(known: bytes | None) -> bytes | None:
        return None if b"2" in (known or b"") else (known or b"") + b"2"

    with proxy.ruled(Once(overtaken, of("PutObject", path))):
        store.update(path, with_two)
    assert store.read(path) == b"123"
