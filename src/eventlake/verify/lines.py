"""The lines of an archive file, whatever packs it."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import zstandard

LARGEST = 1 << 20
"""Bytes of a line that is not too large."""

Opener = Callable[[], AbstractContextManager[Any]]
"""Opens a file at its start, as often as it is asked to."""


def read_lines(opener: Opener) -> Iterator[bytes | None]:
    """A file's lines; None comes last when what follows is damaged."""
    rest, whole = b"", True
    for piece in _inflated(opener):
        *lines, rest = (rest + (piece or b"")).split(b"\n")
        yield from lines
        rest = rest[: LARGEST + 1]  # enough to see that it is too large
        whole = piece is not None
    if rest:
        yield rest
    if not whole:
        yield None


def _inflated(opener: Opener) -> Iterator[bytes | None]:
    pieces = _pieces(opener)
    head = next(pieces, b"")
    pieces = chain((head,), pieces)
    if head.startswith(b"\x1f\x8b"):
        return _unpacked(pieces, opener, lambda: zlib.decompressobj(31))
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _unpacked(pieces, opener, zstandard.ZstdDecompressor().decompressobj)
    return pieces


def _pieces(opener: Opener) -> Iterator[bytes]:
    with opener() as file:
        yield from iter(lambda: file.read(1 << 16), b"")


def _bytes(opener: Opener) -> Iterator[bytes]:
    return (piece[at : at + 1] for piece in _pieces(opener) for at in range(len(piece)))


def _unpacked(
    pieces: Iterator[bytes], opener: Opener, start: Callable[[], Any]
) -> Iterator[bytes | None]:
    given = 0
    # A damaged piece gives nothing; fed byte by byte it gives all that stands before the damage.
    for source in (pieces, _bytes(opener)):
        seen = 0
        try:
            for out in _frames(source, start):
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
