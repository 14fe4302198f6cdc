"""Reads the lines of an archive file, plain or compressed with gzip or Zstandard."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import zstandard

MAX_LINE_BYTES = 1 << 20
"""The maximum length of a valid line."""

Opener = Callable[[], AbstractContextManager[Any]]
"""Opens a file at its start; may be called repeatedly."""


def read_lines(opener: Opener) -> Iterator[bytes | None]:
    """Yield a file's lines; None at the end if the rest is corrupt."""
    rest, complete = b"", True
    for piece in _decompress(opener):
        *lines, rest = (rest + (piece or b"")).split(b"\n")
        yield from lines
        rest = rest[: MAX_LINE_BYTES + 1]  # enough to see that it is too large
        complete = piece is not None
    if rest:
        yield rest
    if not complete:
        yield None


def _decompress(opener: Opener) -> Iterator[bytes | None]:
    pieces = _pieces(opener)
    head = next(pieces, b"")
    pieces = chain((head,), pieces)
    if head.startswith(b"\x1f\x8b"):
        return _decompress_frames(pieces, opener, lambda: zlib.decompressobj(31))
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _decompress_frames(pieces, opener, zstandard.ZstdDecompressor().decompressobj)
    return pieces


def _pieces(opener: Opener) -> Iterator[bytes]:
    with opener() as file:
        yield from iter(lambda: file.read(1 << 16), b"")


def _bytes(opener: Opener) -> Iterator[bytes]:
    return (piece[at : at + 1] for piece in _pieces(opener) for at in range(len(piece)))


def _decompress_frames(
    pieces: Iterator[bytes], opener: Opener, start: Callable[[], Any]
) -> Iterator[bytes | None]:
    yielded = 0
    # A corrupt piece yields nothing; byte by byte, all data before the corruption is read.
    for source in (pieces, _bytes(opener)):
        position = 0
        try:
            for out in _frames(source, start):
                position += len(out)
                if position > yielded:
                    yield out[yielded - position :]
                    yielded = position
            return
        except EOFError:
            break
        except (zlib.error, zstandard.ZstdError):
            continue
    yield None


def _frames(pieces: Iterable[bytes], start: Callable[[], Any]) -> Iterator[bytes]:
    """Decompress successive frames, with zeros between them; raises EOFError if truncated."""
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
