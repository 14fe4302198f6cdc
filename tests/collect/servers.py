"""A collector as a process, and readers of its archive."""

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

KEY = "a-write-key-that-nobody-may-see"


@dataclass
class Server:
    """A running collector."""

    url: str
    process: "subprocess.Popen[str]"
    log: Path

    def post(self, path: str, value: Any, key: str = KEY, **more: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=value, auth=(key, ""), timeout=10, **more)

    def metrics(self, source: str = "web") -> dict[str, float]:
        """Return the metrics of a source, without its label, and those that are of no source."""
        text = httpx.get(self.url + "/metrics").text.replace("eventlake_collect_", "")
        for label in (f'{{source="{source}"}}', f'source="{source}",'):
            text = text.replace(label, "")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        pairs = (line.rpartition(" ") for line in lines if "source=" not in line)
        return {name: float(value) for name, _, value in pairs}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def serving(
    lake: Path, *options: str, key: str | None = KEY, sources: Sequence[str] = ("web",)
) -> Iterator[Server]:
    """Run a collector on a free port until the end of the block."""
    command = [sys.executable, "-m", "eventlake.cli.main", "serve"]
    command += [word for source in sources for word in ("--source", source)]
    command += ["--lake", str(lake), "--port", "0", *options]
    environment = {**os.environ, **({"EVENTLAKE_WRITE_KEY": key} if key else {})}
    log = lake.with_name(f"{lake.name}.log")
    with (
        log.open("a") as errors,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout
            first = process.stdout.readline()
            assert first.startswith("listening on "), log.read_text()
            yield Server(first.split()[-1], process, log)
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def file_limit(files: int) -> Iterator[None]:
    """Set a smaller file limit for processes that are started in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def archived(lake: Path, pattern: str = "*/*.gz", source: str = "web") -> list[dict[str, Any]]:
    """Return all events in the archive of the source."""
    files = sorted((lake / "segment-logs" / source).glob(pattern))
    lines = (line for file in files for line in gzip.decompress(file.read_bytes()).splitlines())
    return [json.loads(line) for line in lines if line]  # a forgotten event leaves an empty line


def rejected(lake: Path) -> list[dict[str, Any]]:
    return archived(lake, ".rejected/*/*.gz")


def spooled(lake: Path, source: str = "web") -> list[Path]:
    """Return the segments of the source that are not in the archive."""
    return sorted((lake / "segment-logs" / source / ".spool").rglob("*.open"))


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"userId": "u", "event": "Hello", "messageId": f"m{number}", **more}
