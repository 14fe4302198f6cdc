"""Loads of hostile files: every line is counted, and a worker's memory stays bounded.

The random test takes one seed, and with `EVENTLAKE_ABUSE_SECONDS` as many as there is time for;
a failure names the `EVENTLAKE_ABUSE_SEED` that repeats it.
"""

import gzip
import json
import random
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import zstandard

from eventlake.services.read import open_lake
from eventlake.verify.lines import read_lines

WORKER_MB = 1500
"""The memory limit of a worker in docs/operations.md."""
MB = 1 << 20
Counts = dict[str, int]


def event(number: int, properties: dict[str, Any] | None = None, **fields: Any) -> bytes:
    head = {
        "type": "track",
        "event": "Order Done",
        "messageId": f"m{number}",
        "receivedAt": f"2026-11-01T{number // 60 % 2:02}:{number % 60:02}:00Z",
        "properties": properties or {"total": number},
    }
    return json.dumps(head | fields).encode()


def load_and_count(folder: Path) -> Counts:
    """Load `folder/logs` in a new process; check the number of lines and the peak of memory."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.abuse.loading", folder / "logs", folder / "lake"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[-2000:]}"
    counts: Counts = json.loads(ran.stdout.splitlines()[-1])
    lines = sum(lines_in(path) for path in (folder / "logs").iterdir())
    assert counts["received"] == lines, counts
    assert counts["peak"] < WORKER_MB, counts
    return counts


def lines_in(path: Path) -> int:
    """Count the lines that are not blank, and one more if the file is damaged."""
    lines = read_lines(lambda: path.open("rb"))
    return sum(1 for line in lines if line is None or line.strip(b" \t\r"))


def write(folder: Path, name: str, pieces: Iterable[bytes]) -> None:
    path = folder / "logs" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)


def compress(packer: Any, pieces: Iterable[bytes]) -> Iterable[bytes]:
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def gzipper() -> Any:
    return zlib.compressobj(6, zlib.DEFLATED, 31)


def zstd_packer() -> Any:
    return zstandard.ZstdCompressor().compressobj()


# Data as keys


def burst(count: int, at: int, length: int) -> Iterable[bytes]:
    for i in range(count):
        keys = {f"k{i}_{j}": j for j in range(20)} if at <= i < at + length else {"total": i}
        yield event(i, keys) + b"\n"


@pytest.mark.parametrize("at", [12_000])
def test_a_burst_of_distinct_keys_becomes_columns_up_to_the_limit(tmp_path: Path, at: int) -> None:
    write(tmp_path, "a.jsonl", burst(60_000, at, 1500))
    counts = load_and_count(tmp_path)
    assert counts["landed"] == 60_000
    table = open_lake(tmp_path / "lake").tables()[0]
    assert len(table.columns) > 1900


def test_events_whose_keys_are_all_distinct_land(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", burst(6_000, 0, 6_000))
    assert load_and_count(tmp_path)["landed"] == 6_000
    assert open_lake(tmp_path / "lake").verify("web").problems == ()


# Small files that expand


@pytest.mark.parametrize("packer", [gzipper, zstd_packer])
def test_enormous_lines_of_a_small_file_are_quarantined(
    tmp_path: Path, packer: Callable[[], Any]
) -> None:
    spaces = [b" " * MB] * 300
    write(tmp_path, "a", compress(packer(), [event(1), *spaces, b"\n", event(2), b"\n", *spaces]))
    (tmp_path / "logs/a").rename(tmp_path / "logs/a.gz")
    counts = load_and_count(tmp_path)
    assert (counts["landed"], counts["quarantined"]) == (1, 1)


def test_half_a_million_invalid_lines_are_quarantined(tmp_path: Path) -> None:
    write(tmp_path, "a.gz", compress(gzipper(), [b"1\n" * (MB // 2)]))
    assert load_and_count(tmp_path)["quarantined"] == MB // 2


def test_very_many_small_events_land(tmp_path: Path) -> None:
    small = b'{"type":"page","messageId":"%d","receivedAt":"2026-11-01T00:00:00Z"}\n'
    write(tmp_path, "a.gz", compress(gzipper(), (small % n for n in range(300_000))))
    assert load_and_count(tmp_path)["landed"] == 300_000


# Random files


def content(rng: random.Random, first: int) -> bytes:
    """Make lines of all kinds, most of them events."""
    lines: list[bytes] = []
    while len(lines) < 100:
        number = first + len(lines)
        lines += rng.choice(KINDS)(rng, number)
    end = rng.choice([b"\n", b"\n", b"\r\n"])
    return end.join(lines) + rng.choice([b"", end])


KINDS: list[Callable[[random.Random, int], list[bytes]]] = [
    lambda rng, n: [event(n + i) for i in range(rng.randrange(100))],
    lambda rng, n: [event(n, {rng.choice("abc"): rng.choice([1, "x", 2.5, [1], None, {}])})],
    lambda rng, n: [
        event(n + i, {f"k{n}_{i}_{j}": j for j in range(20)}) for i in range(rng.randrange(60))
    ],
    lambda rng, n: [event(n, {f"wide {j}": j for j in range(rng.randrange(3000))})],
    lambda rng, n: [b'{"a":' * rng.randrange(300) + b"1" + b"}" * rng.randrange(300)],
    lambda rng, n: [event(n, {"x": "y" * rng.randrange(3 * MB)})],
    lambda rng, n: [b" " * rng.randrange(3 * MB), b"\t", b""],
    lambda rng, n: [event(n).decode().encode("utf-16")],
    lambda rng, n: [b"\xef\xbb\xbf" + event(n)],
    lambda rng, n: [event(n, {"é": "ü"}).decode("unicode-escape").encode("latin-1", "ignore")],
    lambda rng, n: [rng.randbytes(rng.randrange(200)), b"\0" * rng.randrange(200)],
    lambda rng, n: [event(n)[: rng.randrange(100)]],
]


def damage(rng: random.Random, data: bytes) -> bytes:
    if data and rng.random() < 0.3:
        data = data[: rng.randrange(len(data))]
    if data and rng.random() < 0.3:
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        data = bytes(flipped)
    return data


def file_of(rng: random.Random, first: int) -> bytes:
    """Make a file: plain or compressed in several frames, and sometimes damaged."""
    parts = [content(rng, first + 10_000 * n) for n in range(rng.randint(1, 3))]
    skippable = struct.pack("<II", 0x184D2A50 + rng.randrange(16), 5) + b"hello"
    zeros = b"\0" * rng.choice([0, 0, 7])
    kind = rng.choice(["plain", "gzip", "zstd", "skip", "bomb"])
    if kind == "gzip":
        packings = [gzip.compress(part, 1) + zeros for part in parts]
    elif kind == "zstd":
        packings = [zstandard.compress(part) + zeros for part in parts]
    elif kind == "skip":
        packings = [skippable + zstandard.compress(part) for part in parts] + [skippable]
    elif kind == "bomb":
        blank = [rng.choice([b" ", b"x", b"\n"]) * MB] * rng.randint(1, 200)
        packings = [b"".join(compress(rng.choice([gzipper, zstd_packer])(), [parts[0], *blank]))]
    else:
        packings = parts
    return damage(rng, b"".join(packings))


def test_every_line_of_random_files_is_counted(
    tmp_path: Path, abuse_seconds: float, abuse_seed: int
) -> None:
    until = time.monotonic() + abuse_seconds
    for seed in count(abuse_seed):
        check_random_files(tmp_path / str(seed), seed)
        if time.monotonic() >= until:
            break


def check_random_files(folder: Path, seed: int) -> None:
    folder.mkdir()
    rng = random.Random(seed)
    for number in range(6):
        write(folder, f"{number}.jsonl", [file_of(rng, 100_000 * number)])
    try:
        load_and_count(folder)
        problems = open_lake(folder / "lake").verify("web").problems
        assert problems == ()
    except AssertionError as problem:
        raise AssertionError(f"EVENTLAKE_ABUSE_SEED={seed}: {problem}") from problem
