"""A running collector from its start to its end."""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from eventlake.services.suppress import suppress_users
from tests.collect.servers import KEY, archived, event, rejected, serving, spooled


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_sigterm_drains_seals_and_exits_with_0(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as server:
        assert server.post("/v1/track", event(1)).status_code == 200
        assert server.post("/v1/track", {"event": "no user"}).status_code == 200
        assert spooled(lake)
        assert archived(lake) == []
        assert server.stop() == 0
    assert [one["messageId"] for one in archived(lake)] == ["m1"]
    assert [one["reason"] for one in rejected(lake)] == ["no_user_anon_id"]
    assert not spooled(lake)
    (day,) = (p for p in (lake / "segment-logs/web").iterdir() if not p.name.startswith("."))
    assert int(day.name) % 86_400_000 == 0


def test_a_request_in_progress_is_answered_before_the_exit(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    body = json.dumps(event(1)).encode()
    with serving(lake) as server:

        def slowly() -> Iterator[bytes]:
            yield body[:10]
            server.process.terminate()
            time.sleep(0.5)
            yield body[10:]

        answer = httpx.post(f"{server.url}/v1/track", content=slowly(), auth=(KEY, ""))
        assert answer.status_code == 200
        assert server.process.wait(30) == 0
    assert [one["messageId"] for one in archived(lake)] == ["m1"]


def test_the_spool_is_sealed_by_age(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake, "--seal-seconds", "1") as server:
        server.post("/v1/track", event(1))
        assert server.metrics()["spool_bytes"] > 0
        wait_until(lambda: len(archived(lake)) == 1)
        wait_until(lambda: server.metrics()["archive_lag_seconds"] == 0)


def test_the_spool_is_sealed_by_size(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake, "--seal-seconds", "600", "--seal-mb", "0.01") as server:
        server.post("/v1/track", event(1))
        server.post("/v1/track", event(2, properties={"a": "x" * 12_000}))
        wait_until(lambda: len(archived(lake)) == 2)


def test_an_unreachable_archive_is_retried_until_it_is_back(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake, "--seal-seconds", "0.2") as server:
        days = lake / "segment-logs/web"
        blocks = [days / str(today() + 86_400_000 * n) for n in (0, 1)]  # it may be midnight
        for block in blocks:
            block.touch()  # a file where the archive needs a folder
        assert server.post("/v1/track", event(1)).status_code == 200
        wait_until(lambda: server.metrics()["troubles_total"] > 1)
        assert server.metrics()["archive_lag_seconds"] > 0.2
        assert spooled(lake)
        for block in blocks:
            block.unlink()
        wait_until(lambda: len(archived(lake)) == 1)
        wait_until(lambda: server.metrics()["archive_lag_seconds"] == 0)
        assert not spooled(lake)
        assert "could not archive" in server.log.read_text()


def today() -> int:
    return int(time.time()) // 86_400 * 86_400_000


def test_two_collectors_share_an_archive(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as first, serving(lake) as second:
        for number in range(10):
            server = (first, second)[number % 2]
            assert server.post("/v1/track", event(number)).status_code == 200
        first.kill()
        with serving(lake) as third:
            wait_until(lambda: len(archived(lake)) == 5)
            assert third.stop() == 0
        assert second.stop() == 0
    assert sorted(one["messageId"] for one in archived(lake)) == [f"m{n}" for n in range(10)]


def test_a_generated_key_is_reused_and_a_source_can_be_disabled(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    file = lake / "segment-logs/web/.spool/source.json"
    with serving(lake, key=None) as server:
        key = json.loads(file.read_text())["write_key"]
        assert server.process.stdout
        assert server.process.stdout.readline() == f"write key of web: {key}\n"
        line = server.process.stdout.readline()
        assert f"curl -u {key}:" in line
        assert server.post("/v1/track", event(1), key=key).status_code == 200
        server.kill()
    with serving(lake, key=None) as server:
        assert server.post("/v1/track", event(2), key=key).status_code == 200
        file.write_text(json.dumps({"write_key": key, "enabled": False}))
        wait_until(lambda: server.post("/v1/track", event(3), key=key).status_code == 401)
        assert server.post("/v1/track", event(3), key=key).json()["code"] == "source_disabled"


def test_events_of_suppressed_users_are_dropped(tmp_path: Path) -> None:
    lake, users = tmp_path / "lake", tmp_path / "users.txt"
    users.write_text("u\n")
    with serving(lake, "--suppress", str(users)) as server:
        assert server.post("/v1/track", event(1)).status_code == 200
        users.write_text("u\nv\n")
        time.sleep(1.3)
        assert server.post("/v1/track", event(2, userId="v")).status_code == 200
        assert server.post("/v1/track", event(3, userId="w")).status_code == 200
        assert server.metrics()["suppressed_total"] == 2
        assert server.stop() == 0
    assert [one["messageId"] for one in archived(lake)] == ["m3"]


def test_users_who_are_suppressed_while_it_runs_are_dropped(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    suppress_users(["u"], lake=lake)
    with serving(lake) as server:
        assert server.post("/v1/track", event(1)).status_code == 200
        suppress_users(["v"], lake=lake)
        time.sleep(2.0)
        assert server.post("/v1/track", event(2, userId="v")).status_code == 200
        assert server.post("/v1/track", event(3, userId="w")).status_code == 200
        assert server.metrics()["suppressed_total"] == 2
        assert server.stop() == 0
    assert [one["messageId"] for one in archived(lake)] == ["m3"]


def test_every_kind_of_body_is_stored_without_the_key(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    beacon = json.dumps({**event(2), "writeKey": KEY})
    packed = gzip.compress(json.dumps({"batch": [{"type": "track", **event(3)}, 5]}).encode())
    with serving(lake) as server:
        server.post("/v1/track", event(1, writeKey=KEY))
        httpx.post(f"{server.url}/v1/t", content=beacon, headers={"content-type": "text/plain"})
        zipped = {"content-encoding": "gzip"}
        httpx.post(f"{server.url}/v1/batch", content=packed, headers=zipped, auth=(KEY, ""))
        server.post("/v1/track", {"writeKey": KEY})
        server.post("/v1/track", event(9), key=KEY + "!")
        assert server.metrics()["accepted_total"] == 3
        assert server.stop() == 0
        log = server.log.read_text()
    assert sorted(one["messageId"] for one in archived(lake)) == ["m1", "m2", "m3"]
    assert len(rejected(lake)) == 2
    written = [p.read_bytes() for p in lake.rglob("*") if p.is_file()]
    unpacked = [gzip.decompress(data) for data in written if data[:2] == b"\x1f\x8b"]
    assert all(KEY.encode() not in data for data in [*written, *unpacked, log.encode()])


def test_behind_a_proxy_the_forwarded_address_is_stored(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake) as server:
        headers = {"origin": "https://shop.example", "x-forwarded-for": "203.0.113.9"}
        assert server.post("/v1/page", {"userId": "u"}, headers=headers).status_code == 200
        assert server.stop() == 0
    assert archived(lake)[0]["context"] == {"ip": "203.0.113.9"}


def test_a_port_in_use_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from eventlake.cli.main import main

    with serving(tmp_path / "lake") as server:
        port = server.url.rpartition(":")[2]
        lake = str(tmp_path / "other")
        assert main(["serve", "--source", "web", "--lake", lake, "--port", port]) == 2
    sentence = f"port {port} of 127.0.0.1 is in use: stop what uses it, or give --port"
    assert sentence in capsys.readouterr().err


def test_a_load_of_the_whole_lake_finds_only_sealed_files(tmp_path: Path) -> None:
    from eventlake.archive import find_inputs

    lake = tmp_path / "lake"
    with serving(lake) as server:
        server.post("/v1/track", event(1))
        server.post("/v1/track", {"bad": 1})
        assert server.stop() == 0
    with serving(lake) as server:
        server.post("/v1/track", event(2))
        server.post("/v1/track", {"bad": 1})
        files = find_inputs([lake])
        server.kill()
    names = [one.uri.rpartition("/segment-logs/web/")[2] for one in files.inputs]
    assert len(names) == 1
    assert not names[0].startswith(".")
