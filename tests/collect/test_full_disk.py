"""A full disk: only stored events are acknowledged, and the collector recovers."""

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collect.servers import archived, event, serving
from tests.collect.test_serve import wait_until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; mounting it needs root."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs needs root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_503_until_there_is_room(small_disk: Path) -> None:
    lake = small_disk / "lake"
    ballast = small_disk / "ballast"
    with serving(lake) as server:
        assert server.post("/v1/track", event(0)).status_code == 200
        ballast.write_bytes(b"x" * (900 << 10))
        acknowledged, refused = ["m0"], 0
        for number in range(1, 30):
            answer = server.post("/v1/track", event(number, properties={"a": "x" * 9_000}))
            if answer.status_code == 200:
                acknowledged.append(f"m{number}")
            else:
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
                refused += 1
        assert refused > 5
        ballast.unlink()
        wait_until(lambda: server.post("/v1/track", event(99)).status_code == 200)
        assert server.metrics()["troubles_total"] > 0
        assert server.stop() == 0
        assert "No space left" in server.log.read_text()
    assert sorted(one["messageId"] for one in archived(lake)) == sorted([*acknowledged, "m99"])


def test_a_file_that_cannot_grow_is_503_until_it_can(tmp_path: Path) -> None:
    lake, unlimited = tmp_path / "lake", (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    large = {"a": "x" * 9_000}
    with serving(lake) as server:
        assert server.post("/v1/track", event(0)).status_code == 200
        # Every write beyond that size fails half way, as on a full disk.
        limit = (4_000, resource.RLIM_INFINITY)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
        assert server.post("/v1/track", event(1, properties=large)).status_code == 503
        assert server.post("/v1/track", event(2)).status_code == 200
        assert server.post("/v1/track", event(3, properties=large)).status_code == 503
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert server.post("/v1/track", event(4, properties=large)).status_code == 200
        assert server.stop() == 0
    assert [one["messageId"] for one in archived(lake)] == ["m0", "m2", "m4"]
