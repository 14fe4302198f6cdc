"""The parts joined: what a store that fails means to a client, and what a restart finds."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.collect.limits import Limits
from eventlake.collect.metrics import Metrics
from eventlake.collect.server import Collector, Desk, Told
from eventlake.errors import Unavailable
from eventlake.model.settings import source_settings
from eventlake.stores import Disk, Store
from tests.collect.parts.test_app import Answer, ask, basic

SETTINGS = source_settings(source="web")
# A segment for each event, and no room for a second one while the first waits.
TIGHT = Limits(seal_bytes=1, backlog_bytes=10, drain_seconds=0.3)


@dataclass(frozen=True)
class Bucket(Disk):
    """A store that can be out of reach."""

    away: list[str] = field(default_factory=list)

    def exists(self, path: str) -> bool:
        if self.away:
            raise Unavailable("no route to the bucket")
        return super().exists(path)


def collecting(store: Store, limits: Limits, story: Callable[[Desk], Awaitable[None]]) -> Metrics:
    async def told() -> Metrics:
        desk = Desk(Collector(store, SETTINGS, write_key="the-key", limits=limits), Told(Metrics()))
        await story(desk)
        await desk.close()
        return desk.app.metrics

    return asyncio.run(told())


async def page(desk: Desk, number: int) -> Answer:
    event = {"userId": "u", "messageId": f"m{number}"}
    return await ask(desk.app, "POST", "/v1/page", event, basic())


def ids(store: Store) -> list[str]:
    files = sorted(Path(store.root).glob("segment-logs/web/1*/*.gz"))
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    return sorted(json.loads(line)["messageId"] for line in lines)


def test_an_unreachable_bucket_is_503_until_it_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Bucket(str(tmp_path), ["away"])

    async def story(desk: Desk) -> None:
        assert (await page(desk, 1)).status == 200
        assert (await page(desk, 2)).status == 503
        assert desk.gauges()["spool_bytes"] > 0
        while not desk.app.metrics.troubles:
            await asyncio.sleep(0.01)
        store.away.clear()
        for _ in range(100):
            if (await page(desk, 3)).status == 200:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it did not mend itself")

    collecting(store, TIGHT, story)
    assert ids(store) == ["m1", "m3"]
    assert "no route to the bucket" in capsys.readouterr().err


def test_what_the_bucket_did_not_take_is_archived_by_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Bucket(str(tmp_path), ["away"])

    async def first(desk: Desk) -> None:
        assert (await page(desk, 1)).status == 200

    collecting(store, TIGHT, first)
    assert "the next start will" in capsys.readouterr().err
    assert ids(store) == []
    store.away.clear()

    async def second(desk: Desk) -> None:
        """Nothing comes."""

    collecting(store, TIGHT, second)
    assert ids(store) == ["m1"]


def test_files_that_change_are_followed_and_broken_ones_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Disk(str(tmp_path / "lake"))

    async def told() -> None:
        people = tmp_path / "people"
        people.write_text("u\n")
        desk = Desk(Collector(store, SETTINGS, suppress=people), Told(Metrics()))
        key = desk.app.gate.write_key
        assert desk.app.suppressed == {"u"}
        people.write_text("u\nv\n")
        file = tmp_path / "lake/segment-logs/web/.spool/source.json"
        file.write_text("{")
        desk.follow()
        assert desk.app.gate.write_key == key
        file.write_text(json.dumps({"write_key": "new"}))
        desk.follow()
        assert (desk.app.gate.write_key, desk.app.suppressed) == ("new", {"u", "v"})
        await desk.close()

    asyncio.run(told())
    assert "no source file" in capsys.readouterr().err
