"""A running collector with several sources on one port."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.collect.servers import Server, archived, event, rejected, serving, spooled
from tests.collect.test_clients import CALLS, ROOT, check_event
from tests.collect.test_serve import today, wait_until

KEYS = {"web": "the-key-of-web", "ios": "the-key-of-ios"}


@contextmanager
def serving_both(lake: Path, *options: str) -> Iterator[Server]:
    keys = "\n".join(f"{source}:{key}" for source, key in KEYS.items())
    with serving(lake, *options, key=keys, sources=tuple(KEYS)) as server:
        yield server


def send(server: Server, source: str, number: int, **more: object) -> int:
    """Send an event with the key of a source and return the status."""
    return server.post("/v1/track", event(number, **more), key=KEYS[source]).status_code


def ids(lake: Path, source: str) -> list[str]:
    return sorted(one["messageId"] for one in archived(lake, source=source))


def test_events_go_to_the_source_of_their_key(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving_both(lake) as server:
        assert [send(server, "web", 1), send(server, "ios", 2)] == [200, 200]
        by_body = {"batch": [{"type": "track", **event(3)}, 5], "writeKey": KEYS["ios"]}
        assert httpx.post(f"{server.url}/v1/batch", json=by_body).status_code == 200
        wrong = server.post("/v1/track", event(4), key="the-key-of-nobody")
        assert (wrong.status_code, wrong.json()["code"]) == (401, "invalid_write_key")
        web, ios = server.metrics("web"), server.metrics("ios")
        assert (web["accepted_total"], ios["accepted_total"]) == (1, 2)
        assert ios['rejected_total{reason="event_not_object"}'] == 1
        assert web['rejected_total{reason="invalid_write_key"}'] == 1
        assert 'rejected_total{reason="event_not_object"}' not in web
        assert server.stop() == 0
    assert (ids(lake, "web"), ids(lake, "ios")) == (["m1"], ["m2", "m3"])
    assert [one["projectId"] for one in archived(lake, source="ios")] == ["ios", "ios"]
    assert rejected(lake) == []
    assert not spooled(lake, "web") + spooled(lake, "ios")


def test_sdks_of_both_sources_need_no_change(tmp_path: Path) -> None:
    lake, calls = tmp_path / "lake", tmp_path / "calls.json"
    calls.write_text(json.dumps(CALLS))
    with serving_both(lake) as server:
        command = [sys.executable, "-m", "tests.collect.sdk_python", server.url]
        senders = [
            subprocess.Popen([*command, key, str(calls), how], cwd=ROOT)
            for key, how in zip(KEYS.values(), ("plain", "gzip"), strict=True)
        ]
        assert [sender.wait(60) for sender in senders] == [0, 0]
        assert server.stop() == 0
    for source in KEYS:
        events = {one["type"]: one for one in archived(lake, source=source)}
        for expected in CALLS:
            check_event(events[expected["type"]], expected, source)


def test_after_a_kill_the_spools_of_both_are_archived(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    spool = ("--spool", str(tmp_path / "spool"))
    with serving_both(lake, *spool) as server:
        for number in range(20):
            assert send(server, ("web", "ios")[number % 2], number) == 200
        server.kill()
    for source in KEYS:
        assert list((tmp_path / "spool" / source).rglob("*.open"))
        assert not ids(lake, source)
    with serving_both(lake, *spool) as server:
        wait_until(lambda: len(ids(lake, "web")) == len(ids(lake, "ios")) == 10)
        assert server.stop() == 0
    assert ids(lake, "web") == sorted(f"m{n}" for n in range(0, 20, 2))
    assert ids(lake, "ios") == sorted(f"m{n}" for n in range(1, 20, 2))
    assert not list((tmp_path / "spool").rglob("*.open"))


def test_each_source_is_sealed_by_its_own_size_and_age(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving_both(lake, "--seal-seconds", "600", "--seal-mb", "0.01") as server:
        assert send(server, "web", 1) == 200
        assert send(server, "ios", 2, properties={"a": "x" * 12_000}) == 200
        wait_until(lambda: ids(lake, "ios") == ["m2"])
        assert server.metrics("ios")["spool_bytes"] == 0
        assert server.metrics("web")["spool_bytes"] > 0
        assert not ids(lake, "web")
        server.kill()
    with serving_both(lake, "--seal-seconds", "1") as server:
        assert [send(server, "web", 3), send(server, "ios", 4)] == [200, 200]
        wait_until(lambda: (ids(lake, "web"), ids(lake, "ios")) == (["m1", "m3"], ["m2", "m4"]))


def test_users_are_suppressed_in_one_source_or_in_all(tmp_path: Path) -> None:
    lake, everywhere, ios = tmp_path / "lake", tmp_path / "everywhere", tmp_path / "ios"
    everywhere.write_text("a\n")
    ios.write_text("b\n")
    options = ("--suppress", str(everywhere), "--suppress", f"ios:{ios}")
    with serving_both(lake, *options) as server:
        for number, user in enumerate("abc"):
            for source in KEYS:
                assert send(server, source, number, userId=user) == 200
        assert server.metrics("web")["suppressed_total"] == 1
        assert server.metrics("ios")["suppressed_total"] == 2
        assert server.stop() == 0
    assert (ids(lake, "web"), ids(lake, "ios")) == (["m1", "m2"], ["m2"])


def test_a_source_that_cannot_be_stored_does_not_stop_the_others(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving_both(lake, "--seal-seconds", "0.2") as server:
        logs = lake / "segment-logs/ios"
        blocks = [logs / str(today() + 86_400_000 * n) for n in (0, 1)]  # it may be midnight
        for block in blocks:
            block.touch()  # a file where the archive needs a folder
        assert send(server, "ios", 1) == 200
        wait_until(lambda: server.metrics("ios")["troubles_total"] > 1)
        (events,) = logs.glob(".spool/*/events")
        moved = events.rename(events.with_name("moved"))
        events.touch()  # and one where the spool does
        assert send(server, "ios", 2) == 503
        assert send(server, "web", 3) == 200
        wait_until(lambda: ids(lake, "web") == ["m3"])
        web = server.metrics("web")
        assert (web["archive_lag_seconds"], web['responses_total{status="503"}']) == (0, 1)
        assert 'rejected_total{reason="unavailable"}' not in web
        assert server.metrics("ios")['rejected_total{reason="unavailable"}'] == 1
        assert "source ios: could not archive" in server.log.read_text()
        assert "source web" not in server.log.read_text()
        for block in (*blocks, events):
            block.unlink()
        moved.rename(events)
        wait_until(lambda: ids(lake, "ios") == ["m1"])
        assert send(server, "ios", 4) == 200
        assert server.stop() == 0
    assert ids(lake, "ios") == ["m1", "m4"]


def test_a_key_is_replaced_without_a_restart(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(lake, key=None, sources=("web", "ios")) as server:
        files = {source: lake / f"segment-logs/{source}/.spool/source.json" for source in KEYS}
        old = {source: json.loads(file.read_text())["write_key"] for source, file in files.items()}
        assert server.process.stdout
        printed = [server.process.stdout.readline() for _ in KEYS]
        assert printed == [f"write key of {source}: {key}\n" for source, key in old.items()]

        def status(key: str) -> int:
            return server.post("/v1/track", event(1), key=key).status_code

        files["ios"].write_text(json.dumps({"write_key": "new"}))
        wait_until(lambda: status("new") == 200)
        assert (status(old["web"]), status(old["ios"])) == (200, 401)
        files["web"].write_text(json.dumps({"write_key": old["web"], "enabled": False}))
        wait_until(lambda: status(old["web"]) == 401)
        assert status("new") == 200


@pytest.mark.parametrize("same", ["options", "files"])
def test_the_same_key_for_two_sources_is_refused_at_the_start(tmp_path: Path, same: str) -> None:
    command = [sys.executable, "-m", "eventlake.cli.main", "serve", "--lake", str(tmp_path)]
    command += ["--source", "web", "--source", "ios", "--port", "0"]
    if same == "options":
        command += ["--write-key", "web:secret", "--write-key", "ios:secret"]
    for source in KEYS if same == "files" else ():
        file = tmp_path / f"segment-logs/{source}/.spool/source.json"
        file.parent.mkdir(parents=True)
        file.write_text('{"write_key":"secret"}')
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the sources web and ios have the same write key: give each its own" in done.stderr
    assert "secret" not in done.stderr
