"""Clients that do everything wrong against a running collector, while Segment's SDK sends."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from segment.analytics.client import Client

from tests.collect.servers import KEY, Server, event, file_limit, serving

ROOT = Path(__file__).parents[2]
MAX_MEMORY = 300e6
"""What docs/collect.md promises."""
MAX_REFUSED_SECONDS = 1.0
"""Where nothing else runs, as with `make abuse`; other tests take the same time of the CPU."""
MIN_SECONDS = 5.0
"""Seconds that Segment's SDK sends at least."""
FILES = 512


@contextmanager
def abused(server: Server, seed: int, seconds: float) -> Iterator["subprocess.Popen[str]"]:
    """Attackers in a process of their own, so that the senders here are not slowed by them."""
    address = urlsplit(server.url)
    given = [address.hostname, address.port, KEY, seed, seconds]
    command = [sys.executable, "-m", "tests.abuse.collector", *map(str, given)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class Watch:
    """Sends an event every 20 ms and samples the collector's memory."""

    server: Server
    sent: list[str] = field(default_factory=list)
    refused_seconds: float = 0.0
    refusals: list[str] = field(default_factory=list)
    memory: int = 0
    stop: Event = field(default_factory=Event)

    def run(self) -> None:
        process = psutil.Process(self.server.process.pid)
        with httpx.Client(base_url=self.server.url, auth=(KEY, ""), timeout=10) as client:
            number = 0
            while not self.stop.wait(0.02):
                self.deliver(client, number)
                number += 1
                self.memory = max(self.memory, process.memory_info().rss)

    def deliver(self, client: httpx.Client, number: int) -> None:
        """Send until it is accepted, and note for how long it was refused."""
        first_refusal = None
        while (problem := attempt(client, number)) and not self.stop.is_set():
            self.refusals.append(problem)
            first_refusal = first_refusal or time.monotonic()
            time.sleep(0.02)
        if first_refusal:
            waited = time.monotonic() - first_refusal
            self.refused_seconds = max(self.refused_seconds, waited)
        if not problem:
            self.sent.append(f"m{number}")


def attempt(client: httpx.Client, number: int) -> str | None:
    """Send an event; the reason why it was not accepted, or None."""
    try:
        answer = client.post("/v1/track", json=event(number))
    except httpx.TransportError as problem:
        return repr(problem)
    return None if answer.status_code == 200 else answer.text


def send_with_sdk(url: str, seconds: float) -> tuple[list[str], list[Any]]:
    """Segment's SDK sends for so long; the ids of its events, and what it gave up on."""
    problems: list[Any] = []
    client = Client(
        KEY,
        host=url,
        upload_interval=0.1,
        on_error=lambda problem, _: problems.append(problem),
    )
    ids: list[str] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ids.append(f"sdk-{len(ids)}")
        client.track(user_id="u", event="Tick", message_id=ids[-1])
        time.sleep(0.005)
    client.flush()
    client.join()
    return ids, problems


def archived_ids(lake: Path) -> set[str]:
    """The message ids in the archive; numbers are left as text, since they may be of any size."""
    files = (lake / "segment-logs" / "web").glob("*/*.gz")
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    return {json.loads(line, parse_int=str)["messageId"] for line in lines}


def test_no_client_harms_the_others(tmp_path: Path, abuse_seconds: float, abuse_seed: int) -> None:
    lake, seconds = tmp_path / "lake", max(abuse_seconds, MIN_SECONDS)
    with ExitStack() as stack:
        with file_limit(FILES):
            server = stack.enter_context(serving(lake))
        watch = Watch(server)
        thread = Thread(target=watch.run)
        thread.start()
        with abused(server, abuse_seed, seconds) as attackers:
            ids, problems = send_with_sdk(server.url, seconds)
            out, _ = attackers.communicate(timeout=60)
        watch.stop.set()
        thread.join()
        counts = server.metrics()
        assert server.stop() == 0
    statuses = {int(status): count for status, count in json.loads(out).items()}
    sys.stdout.write(f"answers {statuses}, memory {watch.memory / 1e6:.0f} MB, refused for ")
    sys.stdout.write(f"{watch.refused_seconds:.2f} s at most: {watch.refusals[-5:]}\n")
    assert problems == []
    assert set(ids) | set(watch.sent) <= archived_ids(lake)
    if abuse_seconds:
        assert watch.refused_seconds < MAX_REFUSED_SECONDS
    assert watch.memory < MAX_MEMORY
    assert 500 not in statuses
    assert 'responses_total{status="500"}' not in counts
    assert {200, 400, 401, 431} <= statuses.keys()
    assert "Traceback" not in server.log.read_text()
