"""A collector without a socket: store failures, restarts, reloaded files."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.collect.app import App
from eventlake.collect.keys import SourceKeys
from eventlake.collect.limits import Limits
from eventlake.collect.metrics import SourceCounts
from eventlake.collect.refusal import Refusal
from eventlake.collect.server import Collector
from eventlake.collect.settings import CollectorSettings, ServedSource
from eventlake.collect.source_runtime import SourceRuntime
from eventlake.errors import Unavailable
from eventlake.model.settings import source_settings
from eventlake.services.suppress import suppress_users
from eventlake.stores import Disk, Store
from eventlake.suppression import change_suppression_list
from tests.collect.parts.test_app import Response, ask, basic

WEB = ServedSource(source_settings(source="web"), ("the-key",))
IOS = ServedSource(source_settings(source="ios"))
# A segment for each event, and no room for a second one while the first waits.
TIGHT = Limits(seal_bytes=1, backlog_bytes=10, drain_seconds=0.3)


@dataclass(frozen=True)
class UnreachableBucket(Disk):
    """A store that fails for paths with any of `failures` in them."""

    failures: list[str] = field(default_factory=list)

    def exists(self, path: str) -> bool:
        if any(part in path for part in self.failures):
            raise Unavailable("no route to the bucket")
        return super().exists(path)

    def read_if_exists(self, path: str) -> bytes | None:
        return super().read_if_exists(path) if self.exists(path) else None


def run_collector(
    store: Store, limits: Limits, scenario: Callable[[Collector], Awaitable[None]]
) -> None:
    async def run() -> None:
        collector = Collector(CollectorSettings(store, limits=limits), [WEB])
        await scenario(collector)
        await collector.close()

    asyncio.run(run())


def counts(collector: Collector) -> SourceCounts:
    return collector.app.keys.sources[0].counts


async def page(collector: Collector, number: int, key: str = "the-key") -> Response:
    event = {"userId": "u", "messageId": f"m{number}"}
    return await ask(collector.app, "POST", "/v1/page", event, basic(key))


def ids(store: Store) -> list[str]:
    files = sorted(Path(store.root).glob("segment-logs/web/1*/*.gz"))
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    return sorted(json.loads(line)["messageId"] for line in lines)


def test_an_unreachable_bucket_is_503_until_it_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = UnreachableBucket(str(tmp_path), ["segment-logs"])

    async def scenario(collector: Collector) -> None:
        assert (await page(collector, 1)).status == 200
        assert (await page(collector, 2)).status == 503
        assert collector.app.keys.sources[0].get_gauges()["spool_bytes"] > 0
        while not counts(collector).troubles:
            await asyncio.sleep(0.01)
        store.failures.clear()
        for _ in range(100):
            if (await page(collector, 3)).status == 200:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it did not recover")

    run_collector(store, TIGHT, scenario)
    assert ids(store) == ["m1", "m3"]
    assert "no route to the bucket" in capsys.readouterr().err


def test_segments_that_were_not_archived_are_archived_by_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = UnreachableBucket(str(tmp_path), ["segment-logs"])

    async def first(collector: Collector) -> None:
        assert (await page(collector, 1)).status == 200

    run_collector(store, TIGHT, first)
    assert "some events of web are still in the spool" in capsys.readouterr().err
    assert ids(store) == []
    store.failures.clear()

    async def second(collector: Collector) -> None:
        """Send nothing."""

    run_collector(store, TIGHT, second)
    assert ids(store) == ["m1"]


def test_a_source_with_a_full_backlog_leaves_room_for_the_others(tmp_path: Path) -> None:
    store = UnreachableBucket(str(tmp_path), ["segment-logs/ios"])

    async def run() -> None:
        ios = ServedSource(IOS.settings, ("ios-key",))
        collector = Collector(CollectorSettings(store, limits=TIGHT), [WEB, ios])
        assert (await page(collector, 1, "ios-key")).status == 200
        assert (await page(collector, 2, "ios-key")).status == 503
        for number in (3, 4):
            while (await page(collector, number)).status != 200:  # until the last is sealed
                await asyncio.sleep(0.01)
        await collector.close()

    asyncio.run(asyncio.wait_for(run(), 10))
    assert ids(store) == ["m3", "m4"]


def test_changed_files_are_reloaded_and_invalid_ones_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Disk(str(tmp_path / "lake"))
    everyone, users = tmp_path / "everyone", tmp_path / "users"
    everyone.write_text("e\n")
    users.write_text("u\n")

    async def run() -> None:
        web = ServedSource(WEB.settings, ("1", "2"), (everyone,))
        ios = ServedSource(IOS.settings, (), (everyone, users))
        collector = Collector(CollectorSettings(store), [web, ios])
        first, second = collector.app.keys.sources
        assert (first.suppressed, second.suppressed) == ({"e"}, {"e", "u"})
        key = collector.get_write_keys()["ios"]
        users.write_text("u\nv\n")
        file = tmp_path / "lake/segment-logs/ios/.spool/source.json"
        for content in ("{", json.dumps({"write_key": "2"}), json.dumps({"write_key": "new"})):
            assert collector.app.keys.find(key) is second
            file.write_text(content)
            collector.reload_files()
        assert collector.app.keys.find("new") is second
        assert collector.app.keys.find("2") is first
        with pytest.raises(Refusal, match="invalid_write_key"):
            collector.app.keys.find(key)
        assert (first.suppressed, second.suppressed) == ({"e"}, {"e", "u", "v"})
        await collector.close()

    asyncio.run(run())
    warnings = capsys.readouterr().err
    assert "not a valid source file" in warnings
    assert "web and ios have the same write key" in warnings


def test_the_lakes_suppression_list_is_obeyed_and_its_changes_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, users = Disk(str(tmp_path / "lake")), tmp_path / "users"
    users.write_text("by-file\n")
    suppress_users(["u"], lake=tmp_path / "lake")

    async def run() -> None:
        web = ServedSource(WEB.settings, ("the-key",), (users,))
        collector = Collector(CollectorSettings(store), [web])
        (source,) = collector.app.keys.sources
        assert source.suppressed == {"u", "by-file"}
        assert (await page(collector, 1)).status == 200
        change_suppression_list(store, lambda listed: listed.remove(["u"]).add_hashed(["v"]))
        collector.reload_suppression_list()
        assert (await page(collector, 2)).status == 200
        assert [who in source.suppressed for who in ("u", "v", "by-file")] == [False, True, True]
        users.write_text("by-file\nanother\n")
        collector.reload_files()
        assert [who in source.suppressed for who in ("another", "v")] == [True, True]
        path = tmp_path / "lake/segment-data/suppression.json"
        for _ in range(2):  # it is said once
            path.write_text("{")
            collector.reload_suppression_list()
        assert "v" in source.suppressed
        path.write_text('{"users": ["w"]}')
        collector.reload_suppression_list()
        assert source.suppressed == {"w", "by-file", "another"}
        assert counts(collector).suppressed == 1
        await collector.close()

    asyncio.run(run())
    assert ids(store) == ["m2"]
    (warning,) = capsys.readouterr().err.splitlines()
    assert "suppression.json is damaged" in warning
    assert "the last suppression list stays in effect" in warning


def test_the_list_of_a_lake_that_is_gone_stays_in_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    suppress_users(["u"], lake=lake)

    async def run() -> None:
        settings = CollectorSettings(Disk(str(lake)), spool=tmp_path / "spool")
        collector = Collector(settings, [WEB])
        (source,) = collector.app.keys.sources
        lake.rename(tmp_path / "away")
        collector.reload_suppression_list()
        assert "u" in source.suppressed
        (tmp_path / "away").rename(lake)
        await collector.close()

    asyncio.run(run())
    assert "is gone or empty" in capsys.readouterr().err


def test_a_list_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    store = UnreachableBucket(str(tmp_path))
    suppress_users(["u"], lake=tmp_path)
    store.failures.append("suppression")
    with pytest.raises(Unavailable):
        Collector(CollectorSettings(store), [WEB])


def test_events_are_archived_on_request(tmp_path: Path) -> None:
    """While the bucket is unreachable, the request is given up after its time."""
    store = UnreachableBucket(str(tmp_path))

    async def run() -> None:
        runtime = SourceRuntime(CollectorSettings(store), WEB)
        app = App(SourceKeys(runtime.list_keys()), SYSTEM_CLOCK, Limits())
        for number in range(10):
            event = {"userId": "u", "messageId": f"m{number}"}
            assert (await ask(app, "POST", "/v1/page", event, basic("the-key"))).status == 200
            if number == 8:
                store.failures.append("segment-logs")
            await asyncio.to_thread(runtime.archive, 0.05 if store.failures else 30.0)
            assert len(ids(store)) == min(number + 1, 8)
        store.failures.clear()
        await asyncio.to_thread(runtime.archive, 30.0)
        assert len(ids(store)) == 10
        await runtime.close_writers()
        runtime.close(5.0)

    asyncio.run(run())
