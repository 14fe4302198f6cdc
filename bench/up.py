"""The collector in `eventlake up` beside `eventlake serve`: `make bench-up`.

In `up` the scheduler and the supervisor run, and pages are open, which ask again every few seconds.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep

import httpx
import uvloop

from bench.collect import KEY, Phase, phases, run_phase, server

ROUNDS = 3
PAGES = 20
PAGE_SECONDS = 5.0
"""How often an open page is refreshed while no run is shown."""
SOURCES = 50
TARGET = 0.9


@contextmanager
def up(folder: Path) -> Iterator[str]:
    """A server with many sources, of which one has the key of the load."""
    command = [sys.executable, "-m", "eventlake.cli.main", "up", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            url = process.stdout.readline().split()[-1]
            for number in range(SOURCES):
                key = {"write_key": KEY} if number == 0 else {}
                body = {"slug": f"bench{number}", "lake": "main", **key}
                httpx.post(f"{url}/api/v1/sources", json=body, timeout=60).raise_for_status()
            wait_for_key(url)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def wait_for_key(url: str) -> None:
    event = {"userId": "u", "event": "Hello"}
    while httpx.post(f"{url}/v1/track", json=event, auth=(KEY, "")).status_code != 200:
        sleep(0.2)


@contextmanager
def pages(url: str) -> Iterator[None]:
    """Ask as open pages do, until the end of the block."""
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=f"{url}/api/v1", timeout=60) as http:
            while not stop.wait(PAGE_SECONDS):
                http.get("/health").raise_for_status()

    threads = [threading.Thread(target=ask) for _ in range(PAGES)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def measure(url: str, phase: Phase) -> float:
    """Events per second."""
    measured = uvloop.run(run_phase(phase, url))
    assert not measured.refused
    return len(measured.latencies) * phase.events / measured.seconds


def main() -> None:
    fast = phases()[:2]
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        with TemporaryDirectory(dir=".", prefix="bench-up-") as folder:
            with server(Path(folder) / "serve") as (url, _):
                for phase in fast:
                    rates.setdefault((phase.name, "serve"), []).append(measure(url, phase))
            with up(Path(folder)) as url, pages(url):
                for phase in fast:
                    rates.setdefault((phase.name, "up"), []).append(measure(url, phase))
    print(f"{'phase':36}{'serve':>12}{'up':>12}{'share':>8}")
    for phase in fast:
        alone, within = (median(rates[phase.name, kind]) for kind in ("serve", "up"))
        met = "met" if within >= TARGET * alone else "MISSED"
        share = f"{within / alone:8.0%}  {TARGET:.0%}: {met}"
        print(f"{phase.name:36}{alone:12,.0f}{within:12,.0f}{share}")


if __name__ == "__main__":
    main()
