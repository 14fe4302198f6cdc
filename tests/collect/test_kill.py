"""Nothing that was acknowledged is lost, however the collector ends."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from eventlake.services.load import sync
from eventlake.services.read import open_lake
from tests import lakes
from tests.collect.servers import KEY, archived, serving, spooled

ROUNDS = 5


def client(url: str, prefix: str, out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.collect.client", url, KEY, prefix, str(out)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])


def kill_under_load(lake: Path, out: Path, turn: int) -> None:
    """Start a collector, let a client send, and kill the collector at a random moment.

    Segments are small, so that some are sealed meanwhile.
    """
    with serving(lake, "--seal-mb", "0.05", "--seal-seconds", "0.3") as server:
        sender = client(server.url, f"round{turn}", out)
        try:
            wait_for_growth(out)
            time.sleep(random.Random(turn).uniform(0.1, 0.6))
            server.kill()
            sender.wait(15)
        finally:
            sender.kill()
            sender.wait(5)


def wait_for_growth(out: Path) -> None:
    before, until = size(out), time.monotonic() + 10
    while size(out) == before:
        assert time.monotonic() < until, "the client got no acknowledgement"
        time.sleep(0.02)


def size(out: Path) -> int:
    return out.stat().st_size if out.exists() else 0


def test_every_acknowledged_event_is_in_the_lake_exactly_once(tmp_path: Path) -> None:
    lake, out = tmp_path / "lake", tmp_path / "acknowledged"
    for turn in range(ROUNDS):
        kill_under_load(lake, out, turn)
    assert spooled(lake), "the kills left nothing to recover, so the test proves nothing"
    acknowledged = set(out.read_text().split())
    with serving(lake) as server:
        again = [{"type": "page", "userId": "u", "messageId": one} for one in acknowledged]
        assert server.post("/v1/batch", {"batch": again[:500]}).status_code == 200
        assert server.stop() == 0
    assert not spooled(lake)
    assert len(acknowledged) > 100 * ROUNDS
    result = sync("web", lake=lake, where=lakes.InlineRunner())
    assert result.status == "finished"
    rows = open_lake(lake).query("select id, count(*) as n from web.page group by id")
    landed = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert acknowledged - landed.keys() == set()
    assert result.counts.duplicates >= 500
    assert set(landed.values()) == {1}
    assert sync("web", lake=lake, where=lakes.InlineRunner()).status == "nothing"


def test_a_kill_between_archive_and_spool_archives_nothing_twice(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as server:
        server.post("/v1/page", {"userId": "u", "messageId": "once"})
        server.kill()
    (segment,) = spooled(lake)
    content = segment.read_bytes()
    with serving(lake) as server:
        assert server.stop() == 0
    segment.parent.mkdir(parents=True)
    segment.write_bytes(content)  # as if the kill had come before the segment was removed
    with serving(lake) as server:
        assert server.stop() == 0
    assert Counter(event["messageId"] for event in archived(lake)) == {"once": 1}
    assert not spooled(lake)


def test_an_incomplete_line_is_removed_and_the_rest_archived(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as server:
        server.post("/v1/page", {"userId": "u", "messageId": "whole"})
        server.kill()
    (segment,) = spooled(lake)
    with segment.open("ab") as file:
        file.write(b'{"messageId":"torn","type":"pa')
    with serving(lake) as server:
        assert server.stop() == 0
    assert [event["messageId"] for event in archived(lake)] == ["whole"]
