"""The lines of an archive file, however it is compressed, in bounded memory."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import zstandard

MAX_LINE_BYTES = 1 << 20
"""The maximum length of a valid line."""
PIECE = 1 << 16

_GZIP = b"\x1f\x8b"
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
"""Begins a frame with content, or one to be skipped; a file may start with either."""
# Input that cannot become more than about a megabyte: deflate makes 1 KB of a byte at most, and
# four bytes are a zstd block of 128 KB.
_GZIP_STEP, _ZSTD_STEP = 1 << 10, 32
_VISIBLE = re.compile(rb"[^ \t\r]")

Opener = Callable[[], AbstractContextManager[Any]]
"""Opens a file at its start, as often as it is asked to."""


def read_lines(opener: Opener) -> Iterator[bytes | None]:
    """A file's lines, large ones cut; None comes last when what follows is damaged."""
    rest, complete = b"", True
    for piece in _decompress(opener):
        if piece is None:
            complete = False
            break
        first, *others = piece.split(b"\n")
        rest = _extend_line(rest, first)
        for line in others:
            yield rest
            rest = line
    if rest:
        yield rest
    if not complete:
        yield None


def _extend_line(line: bytes, more: bytes) -> bytes:
    """A line and what follows; once it is too large, only what shows that it is not blank."""
    if len(line) <= MAX_LINE_BYTES:
        return line + more
    visible = _VISIBLE.search(more)
    return line + visible[0] if visible and not _VISIBLE.search(line) else line


def _decompress(opener: Opener) -> Iterator[bytes | None]:
    head = next(_pieces(opener, PIECE), b"")
    if head.startswith(_GZIP):
        return _decompress_frames(opener, lambda: zlib.decompressobj(31), _GZIP_STEP)
    if _ZSTD.match(head):
        return _decompress_frames(opener, zstandard.ZstdDecompressor().decompressobj, _ZSTD_STEP)
    return _pieces(opener, PIECE)


def _pieces(opener: Opener, size: int) -> Iterator[bytes]:
    with opener() as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            yield from (piece[at : at + size] for at in range(0, len(piece), size))


def _decompress_frames(
    opener: Opener, start: Callable[[], Any], step: int
) -> Iterator[bytes | None]:
    given = 0
    # A damaged step gives nothing; fed byte by byte it gives all that stands before the damage.
    for size in (step, 1):
        seen = 0
        try:
            for out in _frames(_pieces(opener, size), start):
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
