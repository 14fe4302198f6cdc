"""Files that nobody should send: each line is in the books, and a worker's memory is bounded.

`EVENTLAKE_ABUSE_SECONDS` makes the random campaign longer; a failure says which
`EVENTLAKE_ABUSE_SEED` repeats it.
"""

import gzip
import json
import os
import random
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from eventlake.services.read import open_lake
from eventlake.verify.lines import read_lines

WORKER_MB = 1500
"""What docs/operations.md says that a worker takes at most."""
SECONDS = float(os.environ.get("EVENTLAKE_ABUSE_SECONDS", "10"))
MB = 1 << 20
Books = dict[str, int]


def event(number: int, properties: dict[str, Any] | None = None, **fields: Any) -> bytes:
    head = {
        "type": "track",
        "event": "Order Done",
        "messageId": f"m{number}",
        "receivedAt": f"2026-11-01T{number // 60 % 2:02}:{number % 60:02}:00Z",
        "properties": properties or {"total": number},
    }
    return json.dumps(head | fields).encode()


def loaded(folder: Path) -> Books:
    """Load `folder/logs` in a process of its own; every line must be in the books."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.abuse.loading", folder / "logs", folder / "lake"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[-2000:]}"
    books: Books = json.loads(ran.stdout.splitlines()[-1])
    counted = sum(lines_in(path) for path in (folder / "logs").iterdir())
    assert books["received"] == counted, books
    assert books["peak"] < WORKER_MB, books
    return books


def lines_in(path: Path) -> int:
    """Lines that are not blank, and the damage of a file as one more."""
    lines = read_lines(lambda: path.open("rb"))
    return sum(1 for line in lines if line is None or line.strip(b" \t\r"))


def write(folder: Path, name: str, pieces: Iterable[bytes]) -> None:
    path = folder / "logs" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)


def packed(packer: Any, pieces: Iterable[bytes]) -> Iterable[bytes]:
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def gzipper() -> Any:
    return zlib.compressobj(6, zlib.DEFLATED, 31)


def zstd_packer() -> Any:
    return zstandard.ZstdCompressor().compressobj()


# Keys that are data


def burst(count: int, at: int, length: int) -> Iterable[bytes]:
    for i in range(count):
        keys = {f"k{i}_{j}": j for j in range(20)} if at <= i < at + length else {"total": i}
        yield event(i, keys) + b"\n"


@pytest.mark.parametrize("at", [12_000])
def test_a_burst_of_distinct_keys_wherever_it_is(tmp_path: Path, at: int) -> None:
    write(tmp_path, "a.jsonl", burst(60_000, at, 1500))
    books = loaded(tmp_path)
    assert books["landed"] == 60_000
    table = open_lake(tmp_path / "lake").tables()[0]
    assert len(table.columns) > 1900


def test_keys_that_are_all_data(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", burst(6_000, 0, 6_000))
    assert loaded(tmp_path)["landed"] == 6_000
    assert open_lake(tmp_path / "lake").verify("web").problems == ()


# Small files that become large


@pytest.mark.parametrize("packer", [gzipper, zstd_packer])
def test_a_small_file_of_enormous_lines(tmp_path: Path, packer: Callable[[], Any]) -> None:
    spaces = [b" " * MB] * 300
    write(tmp_path, "a", packed(packer(), [event(1), *spaces, b"\n", event(2), b"\n", *spaces]))
    (tmp_path / "logs/a").rename(tmp_path / "logs/a.gz")
    books = loaded(tmp_path)
    assert (books["landed"], books["quarantined"]) == (1, 1)


def test_millions_of_lines_that_are_no_events(tmp_path: Path) -> None:
    write(tmp_path, "a.gz", packed(gzipper(), [b"1\n" * (MB // 2)]))
    assert loaded(tmp_path)["quarantined"] == MB // 2


def test_very_many_very_small_events(tmp_path: Path) -> None:
    small = b'{"type":"page","messageId":"%d","receivedAt":"2026-11-01T00:00:00Z"}\n'
    write(tmp_path, "a.gz", packed(gzipper(), (small % n for n in range(300_000))))
    assert loaded(tmp_path)["landed"] == 300_000


# Anything


def content(rng: random.Random, first: int) -> bytes:
    """Lines of all kinds; most are events."""
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
    """A file in one of its packings, of several frames, and sometimes damaged."""
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
        packings = [b"".join(packed(rng.choice([gzipper, zstd_packer])(), [parts[0], *blank]))]
    else:
        packings = parts
    return damage(rng, b"".join(packings))


def test_random_files(tmp_path: Path) -> None:
    until, seed = time.monotonic() + SECONDS, int(os.environ.get("EVENTLAKE_ABUSE_SEED", "1"))
    while True:
        folder = tmp_path / str(seed)
        folder.mkdir()
        rng = random.Random(seed)
        for number in range(6):
            write(folder, f"{number}.jsonl", [file_of(rng, 100_000 * number)])
        try:
            loaded(folder)
            problems = open_lake(folder / "lake").verify("web").problems
            assert problems == ()
        except AssertionError as problem:
            raise AssertionError(f"EVENTLAKE_ABUSE_SEED={seed}: {problem}") from problem
        if time.monotonic() > until:
            break
        seed += 1
