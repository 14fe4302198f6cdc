"""Segment's own SDKs send every call to a running collector; all of it is archived."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eventlake.cli.main import main
from eventlake.model.types import timestamp
from eventlake.services.read import open_lake
from tests import npm
from tests.collect.flaky import flaky_proxy
from tests.collect.servers import KEY, archived, serving

ROOT = Path(__file__).parents[2]
PACKAGES = ("@segment/analytics-node@3.1.0", "@segment/analytics-next@1.84.3", "jsdom@29.1.1")
WHEN = "2026-11-14T08:30:00.250+00:00"
CONTEXT = {"ip": "198.51.100.4", "locale": "de-AT", "app": {"name": "Shop", "version": "1.10"}}

HOME = {"name": "Home", "category": "Docs"}

Send = Callable[[str, list[dict[str, Any]]], None]


def call(kind: str, **more: Any) -> dict[str, Any]:
    common = {"userId": f"user-{kind}", "anonymousId": "anon-1", "context": CONTEXT}
    return {"type": kind, **common, "integrations": {"All": True}, "timestamp": WHEN, **more}


CALLS = [
    call("track", event="Order Completed", properties={"total": 12.5, "n": 3, "tags": ["a", "ü"]}),
    call("identify", traits={"email": "ada@example.com", "address": {"city": "Wien"}}),
    # The Node SDK copies name and category into the properties, so all calls have them there.
    call("page", **HOME, properties={**HOME, "path": "/", "ok": True}),
    call("screen", **HOME, properties={**HOME, "width": 320}),
    call("group", groupId="group-1", traits={"plan": "Enterprise", "seats": 5}),
    {
        key: value
        for key, value in call("alias", previousId="old-1").items()
        if key != "anonymousId"
    },
]


def many(count: int) -> list[dict[str, Any]]:
    return [call("track", event="Tick", properties={"number": n}) for n in range(count)]


@pytest.fixture(scope="module")
def packages() -> Path:
    return npm.packages("Segment's SDK for JavaScript", *PACKAGES)


def run(command: list[str], calls: Path, expected: list[dict[str, Any]]) -> None:
    calls.write_text(json.dumps(expected))
    done = subprocess.run(command, check=False, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(params=["python", "python-gzip", "node"])
def send(request: pytest.FixtureRequest, tmp_path: Path) -> Send:
    """A function that sends calls with an SDK and returns when all are delivered."""
    calls = tmp_path / "calls.json"

    def python(url: str, expected: list[dict[str, Any]]) -> None:
        how = request.param.rpartition("-")[2]
        script = [sys.executable, "-m", "tests.collect.sdk_python", url, KEY, str(calls), how]
        run(script, calls, expected)

    if request.param != "node":
        return python
    folder = request.getfixturevalue("packages")

    def node(url: str, expected: list[dict[str, Any]]) -> None:
        script = [str(ROOT / "tests/collect/sdk_node.js"), url, KEY, str(calls), str(folder)]
        run(["node", *script], calls, expected)

    return node


def test_every_call_arrives_field_by_field(send: Send, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as server:
        send(server.url, CALLS)
        assert server.metrics()["accepted_total"] == len(CALLS)
        assert server.stop() == 0
    events = {event["type"]: event for event in archived(lake)}
    for expected in CALLS:
        check_event(events[expected["type"]], expected)


def check_event(event: dict[str, Any], expected: dict[str, Any], source: str = "web") -> None:
    for name in expected.keys() - {"timestamp", "context", "integrations"}:
        assert event[name] == expected[name], name
    assert event["context"].items() >= CONTEXT.items()
    assert "library" in event["context"]
    assert event["integrations"]["All"] is True
    assert event["messageId"]
    assert event["projectId"] == source
    assert "writeKey" not in event
    check_times(event)


def check_times(event: dict[str, Any]) -> None:
    """Check the times; client and collector have the same clock here."""
    original, sent = timestamp(event["originalTimestamp"]), timestamp(event["sentAt"])
    received, when = timestamp(event["receivedAt"]), timestamp(event["timestamp"])
    assert original == timestamp(WHEN)
    assert None not in (sent, received, when)
    assert when == received - (sent - original)  # type: ignore[operator]
    now = int(datetime.now(UTC).timestamp() * 1e6)
    assert abs(now - (received or 0)) < timedelta(minutes=1).total_seconds() * 1e6


def test_batches_and_retries_lose_nothing(send: Send, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as server, flaky_proxy(server.url) as proxy:
        send(proxy.url, many(12))
        assert proxy.statuses[:2] == [429, 503]
        assert server.stop() == 0
    events = archived(lake)
    assert {event["properties"]["number"] for event in events} == set(range(12))
    # Retried events have the same id, which is all that de-duplication needs.
    assert len({event["messageId"] for event in events}) == 12
    assert len(events) > 12


@pytest.mark.parametrize("strategy", ["standard", "batching"])
def test_calls_of_the_browser_library_arrive(strategy: str, packages: Path, tmp_path: Path) -> None:
    lake, script = tmp_path / "lake", str(ROOT / "tests/collect/sdk_browser.mjs")
    with serving(lake) as server:
        host = server.url.removeprefix("http://")
        command = ["node", script, host, KEY, str(packages), strategy]
        done = subprocess.run(command, check=False, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        assert server.stop() == 0
    events = {event["type"]: event for event in archived(lake)}
    assert sorted(events) == ["alias", "group", "identify", "page", "screen", "track"]
    assert events["track"]["event"] == "Order Completed"
    assert events["track"]["properties"] == {"total": 12.5, "tags": ["a", "ü"]}
    assert events["identify"]["traits"] == {"email": "ada@example.com"}
    assert (events["page"]["name"], events["screen"]["name"]) == ("Home", "Cart")
    assert (events["group"]["groupId"], events["alias"]["previousId"]) == ("g1", "u1")
    for event in events.values():
        assert event["userId"]
        assert event["anonymousId"]
        assert event["context"]["ip"] == "127.0.0.1"
        assert event["context"]["page"]["url"] == "http://shop.test/cart?x=1"
        assert "writeKey" not in event
        assert event["originalTimestamp"] <= event["sentAt"]


@pytest.mark.spark
def test_what_an_sdk_sends_lands_in_typed_tables(tmp_path: Path) -> None:
    lake, calls = tmp_path / "lake", tmp_path / "calls.json"
    with serving(lake) as server:
        script = [sys.executable, "-m", "tests.collect.sdk_python", server.url, KEY, str(calls), ""]
        run(script, calls, CALLS)
        assert server.stop() == 0
    command = ["sync", "--source", "web", "--lake", str(lake), "--master", "local[2]", "--quiet"]
    assert main(command) == 0
    rows = open_lake(lake)
    (order,) = rows.query(
        "select user_id, event, total, n, tags, context_app_version, project_id, sent_at, timestamp"
        " from web.order_completed"
    ).to_pylist()
    assert order.pop("sent_at") > order.pop("timestamp")
    assert {name: str(value) for name, value in order.items()} == {
        "user_id": "user-track",
        "event": "Order Completed",
        "total": "12.500000",
        "n": "3",
        "tags": '["a","ü"]',
        "context_app_version": "1.10",
        "project_id": "web",
    }
    (person,) = rows.query("select user_id, email, address_city from web.identify").to_pylist()
    assert list(person.values()) == ["user-identify", "ada@example.com", "Wien"]
    for table, column, value in [
        ("page", "name", "Home"),
        ("screen", "width", 320),
        ("group", "group_id", "group-1"),
        ("alias", "previous_id", "old-1"),
    ]:
        (row,) = rows.query(f"select {column} from web.{table}").to_pylist()
        assert row[column] == value
