"""A collector without a socket: store failures, restarts, reloaded files."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.collect.limits import Limits
from eventlake.collect.metrics import Metrics
from eventlake.collect.server import CollectorRuntime, CollectorSettings, TroubleLog
from eventlake.errors import Unavailable
from eventlake.model.settings import source_settings
from eventlake.stores import Disk, Store
from tests.collect.parts.test_app import Response, ask, basic

SETTINGS = source_settings(source="web")
# A segment for each event, and no room for a second one while the first waits.
TIGHT = Limits(seal_bytes=1, backlog_bytes=10, drain_seconds=0.3)


@dataclass(frozen=True)
class UnreachableBucket(Disk):
    """A store that fails while `failures` is not empty."""

    failures: list[str] = field(default_factory=list)

    def exists(self, path: str) -> bool:
        if self.failures:
            raise Unavailable("no route to the bucket")
        return super().exists(path)


def run_collector(
    store: Store, limits: Limits, scenario: Callable[[CollectorRuntime], Awaitable[None]]
) -> Metrics:
    async def run() -> Metrics:
        runtime = CollectorRuntime(
            CollectorSettings(store, SETTINGS, write_key="the-key", limits=limits),
            TroubleLog(Metrics()),
        )
        await scenario(runtime)
        await runtime.close()
        return runtime.app.metrics

    return asyncio.run(run())


async def page(runtime: CollectorRuntime, number: int) -> Response:
    event = {"userId": "u", "messageId": f"m{number}"}
    return await ask(runtime.app, "POST", "/v1/page", event, basic())


def ids(store: Store) -> list[str]:
    files = sorted(Path(store.root).glob("segment-logs/web/1*/*.gz"))
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    return sorted(json.loads(line)["messageId"] for line in lines)


def test_an_unreachable_bucket_is_503_until_it_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = UnreachableBucket(str(tmp_path), ["unreachable"])

    async def scenario(runtime: CollectorRuntime) -> None:
        assert (await page(runtime, 1)).status == 200
        assert (await page(runtime, 2)).status == 503
        assert runtime.get_gauges()["spool_bytes"] > 0
        while not runtime.app.metrics.troubles:
            await asyncio.sleep(0.01)
        store.failures.clear()
        for _ in range(100):
            if (await page(runtime, 3)).status == 200:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it did not recover")

    run_collector(store, TIGHT, scenario)
    assert ids(store) == ["m1", "m3"]
    assert "no route to the bucket" in capsys.readouterr().err


def test_segments_that_were_not_archived_are_archived_by_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = UnreachableBucket(str(tmp_path), ["unreachable"])

    async def first(runtime: CollectorRuntime) -> None:
        assert (await page(runtime, 1)).status == 200

    run_collector(store, TIGHT, first)
    assert "some events are still in the spool" in capsys.readouterr().err
    assert ids(store) == []
    store.failures.clear()

    async def second(runtime: CollectorRuntime) -> None:
        """Send nothing."""

    run_collector(store, TIGHT, second)
    assert ids(store) == ["m1"]


def test_changed_files_are_reloaded_and_invalid_ones_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Disk(str(tmp_path / "lake"))

    async def run() -> None:
        users = tmp_path / "users"
        users.write_text("u\n")
        runtime = CollectorRuntime(
            CollectorSettings(store, SETTINGS, suppress=users), TroubleLog(Metrics())
        )
        key = runtime.app.gate.write_key
        assert runtime.app.suppressed == {"u"}
        users.write_text("u\nv\n")
        file = tmp_path / "lake/segment-logs/web/.spool/source.json"
        file.write_text("{")
        runtime.reload_files()
        assert runtime.app.gate.write_key == key
        file.write_text(json.dumps({"write_key": "new"}))
        runtime.reload_files()
        assert (runtime.app.gate.write_key, runtime.app.suppressed) == ("new", {"u", "v"})
        await runtime.close()

    asyncio.run(run())
    assert "not a valid source file" in capsys.readouterr().err
