"""The collector with its archive in ADLS: what is acknowledged gets there, sooner or later."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector

from tests import lakes, processes
from tests.azure.azurite import ACCOUNT, KEY, Azure, Azurite, entered, started
from tests.collect.servers import KEY as WRITE_KEY
from tests.collect.servers import event, serving
from tests.collect.test_serve import wait_until

SEAL_SOON = ("--seal-seconds", "0.5")
RETRIES = 40.0
"""Seconds after which obstore has surely tried again."""


@pytest.fixture
def lake(azure: Azure, tmp_path: Path) -> Path:
    return settings_file(azure, tmp_path)


def settings_file(azure: Azure, folder: Path) -> Path:
    file = folder / "azure.toml"
    file.write_text(f'storage_account = "{ACCOUNT}"\nstorage_container = "{azure.container}"\n')
    return file


@pytest.fixture
def spool(tmp_path: Path) -> tuple[str, str]:
    return "--spool", str(tmp_path / "spool")


@pytest.fixture
def server() -> Iterator[Azurite]:
    """A server of the test's own, which it may stop."""
    with started() as azurite:
        yield azurite


@pytest.fixture
def own(server: Azurite) -> Iterator[Azure]:
    here = Azure(server.url)
    here.make_container()
    with entered(here):
        yield here


def archived(azure: Azure) -> list[str]:
    """The ids of all that is in the archive, read by a client that is not ours."""
    client = azure.client()
    below = FileSelector(
        f"{azure.container}/segment-logs/web", recursive=True, allow_not_found=True
    )
    paths = [found.path for found in client.get_file_info(below) if found.is_file]
    assert all(path.endswith(".gz") for path in paths)
    bodies = (client.open_input_file(path).read() for path in paths)
    lines = (line for body in bodies for line in gzip.decompress(body).splitlines())
    return sorted(json.loads(line)["messageId"] for line in lines)


def waiting(spool: tuple[str, str]) -> int:
    return len(list(Path(spool[1]).rglob("*.open")))


def test_from_a_request_to_the_archive_to_a_table(
    azure: Azure, lake: Path, spool: tuple[str, str], tmp_path: Path
) -> None:
    with serving(lake, *spool) as server:
        for number in range(20):
            assert server.post("/v1/track", event(number)).status_code == 200
        assert server.stop() == 0
    assert len(archived(azure)) == 20
    for status, landed in (("finished", 20), ("nothing", 0)):
        done = lakes.load([f"{azure.root}/segment-logs/web"], tmp_path / "lake")
        assert (done.status, done.counts.landed) == (status, landed)


@pytest.mark.spark
def test_workers_read_a_container_without_being_told_its_key(azure: Azure, tmp_path: Path) -> None:
    line = json.dumps({**event(1), "type": "track", "receivedAt": "2026-11-01T07:00:00Z"})
    with azure.client().open_output_stream(f"{azure.container}/segment-logs/web/1/a.log") as file:
        file.write(line.encode())
    ran = processes.command(
        *("load", f"{azure.root}/segment-logs/web", "--source", "web", "--json", "--quiet"),
        *("--lake", tmp_path / "lake", "--master", "local[2]"),
        env=azure.environ,
    )
    assert (ran.code, ran.value["counts"]["landed"]) == (0, 1), ran.err
    assert KEY not in ran.out + ran.err


def test_a_container_out_of_reach_is_tried_until_it_is_back(
    server: Azurite, own: Azure, tmp_path: Path, spool: tuple[str, str]
) -> None:
    with serving(settings_file(own, tmp_path), *spool, *SEAL_SOON) as collector:
        assert collector.post("/v1/track", event(1)).status_code == 200
        wait_until(lambda: archived(own) == ["m1"], RETRIES)
        server.stop()
        for number in (2, 3):
            assert collector.post("/v1/track", event(number)).status_code == 200
        wait_until(lambda: collector.metrics()["archive_lag_seconds"] > 1)
        assert waiting(spool)
        server.start()
        wait_until(lambda: archived(own) == ["m1", "m2", "m3"], RETRIES)
        wait_until(lambda: not collector.metrics()["spool_bytes"])
        assert collector.stop() == 0


def test_killed_before_the_container_had_it(
    server: Azurite, own: Azure, tmp_path: Path, spool: tuple[str, str]
) -> None:
    lake = settings_file(own, tmp_path)
    with serving(lake, *spool, *SEAL_SOON) as collector:
        server.stop()
        for number in range(5):
            assert collector.post("/v1/track", event(number)).status_code == 200
        collector.kill()
    assert waiting(spool)
    server.start()
    assert archived(own) == []
    with serving(lake, *spool, *SEAL_SOON) as collector:
        wait_until(lambda: len(archived(own)) == 5, RETRIES)
        assert collector.stop() == 0
    assert archived(own) == [f"m{number}" for number in range(5)]
    assert not waiting(spool)


def test_a_container_that_refuses_is_told_without_the_key(
    azure: Azure, lake: Path, spool: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lake, *spool, *SEAL_SOON) as collector:
        azure.client().delete_dir(azure.container)
        assert collector.post("/v1/track", event(1)).status_code == 200
        wait_until(lambda: "could not archive" in collector.log.read_text(), RETRIES)
        azure.make_container()
        wait_until(lambda: archived(azure) == ["m1"], RETRIES)
        assert collector.stop() == 0
    log = collector.log.read_text()
    assert f"storage_container is '{azure.container}', and the storage account" in log
    assert KEY not in log
    assert WRITE_KEY not in log
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "YW5vdGhlciBrZXk=")
    ran = processes.command("serve", "--source", "web", "--lake", lake, *spool)
    assert ran.code == 1
    assert f"network rules of {ACCOUNT}, or check that AZURE_STORAGE_ACCOUNT_KEY" in ran.err
    assert "YW5vdGhlciBrZXk=" not in ran.err


def test_a_container_needs_a_spool_on_disk(azure: Azure, lake: Path) -> None:
    for given in (lake, azure.root):
        ran = processes.command("serve", "--source", "web", "--lake", given, env=azure.environ)
        assert ran.code == 2
        assert f"spool is not set: {azure.root} is not a local folder" in ran.err
        assert "--spool" in ran.err


def test_a_check_tries_the_container(azure: Azure, lake: Path) -> None:
    ran = processes.command("check", "--lake", lake, "--json", env=azure.environ)
    said = {one["name"]: (one["ok"], one["detail"]) for one in ran.value}
    assert ran.code == 0, said
    for place in ("segment-logs", "segment-stage", "segment-data", "staging"):
        assert all(said[f"{verb} {place}"][0] for verb in ("list", "write", "read", "delete"))
    assert said["write once"][0]
    assert said["create a table"][0]
