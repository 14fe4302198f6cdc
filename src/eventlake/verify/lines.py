"""The lines of an archive file, whatever packs it."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import zstandard

LARGEST = 1 << 20
"""Bytes of a line that is not too large."""


def read_lines(path: Path) -> Iterator[bytes | None]:
    """A file's lines; None comes last when what follows is damaged."""
    rest, whole = b"", True
    for piece in _inflated(path):
        *lines, rest = (rest + (piece or b"")).split(b"\n")
        yield from lines
        rest = rest[: LARGEST + 1]  # enough to see that it is too large
        whole = piece is not None
    if rest:
        yield rest
    if not whole:
        yield None


def _inflated(path: Path) -> Iterator[bytes | None]:
    head = next(_pieces(path, 4), b"")
    if head.startswith(b"\x1f\x8b"):
        return _unpacked(path, lambda: zlib.decompressobj(31))
    if head == b"\x28\xb5\x2f\xfd":
        return _unpacked(path, zstandard.ZstdDecompressor().decompressobj)
    return _pieces(path, 1 << 16)


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(size), b"")


def _unpacked(path: Path, start: Callable[[], Any]) -> Iterator[bytes | None]:
    given = 0
    # A damaged piece gives nothing; fed byte by byte it gives all that stands before the damage.
    for size in (1 << 16, 1):
        seen = 0
        try:
            for out in _frames(_pieces(path, size), start):
                seen += len(out)
                if seen > given:
                    yield out[given - seen :]
                    given = seen
            return
        except EOFError:
            break
        except (zlib.error, zstandard.ZstdError):
            continue
    yield None


def _frames(pieces: Iterable[bytes], start: Callable[[], Any]) -> Iterator[bytes]:
    """A file may hold several frames, with zeros between them and at the end."""
    frame = start()
    for piece in pieces:
        data = piece
        while data:
            if not frame.eof:
                yield frame.decompress(data)
                data = frame.unused_data
            elif data := data.lstrip(b"\0"):
                frame = start()
    if not frame.eof:
        raise EOFError
