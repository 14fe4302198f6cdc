"""An archive file as blocks of whole lines; damage ends the file, never the run."""

import re
import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pyarrow as pa
import zstandard
from isal import isal_zlib

MAX_KEPT_LINE = 64 << 20
"""A longer line would fill the memory: it is cut here, and its quarantine row says so."""

# isal's stubs call its error an exception, not a class of them.
_BAD_DATA = (cast("type[Exception]", isal_zlib.error), zlib.error, zstandard.ZstdError)
_GZIP = b"\x1f\x8b"
# A frame that says nothing, which some writers begin with.
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Damage:
    """Why the rest of a file could not be read."""

    detail: str


Open = Callable[[], Iterator[bytes]]
"""Begins to read a file's bytes, from the start, in pieces of any size."""


def blocks(open_file: Open) -> Iterator[bytes | Damage]:
    """A file in pieces that end where a line does; a `Damage` comes last, if at all."""
    rest: list[bytes] = []
    for piece in inflate(open_file):
        if isinstance(piece, Damage):
            yield from _joined(rest)
            yield piece
            return
        cut = piece.rfind(b"\n")
        if cut < 0:
            _keep(rest, piece)
            continue
        first = piece.find(b"\n")
        _keep(rest, piece[:first])
        yield b"".join([*rest, piece[first:cut]])
        rest = [piece[cut + 1 :]]
    yield from _joined(rest)


def _keep(rest: list[bytes], piece: bytes) -> None:
    """More of a line that is not whole yet, as long as there is room for it."""
    room = MAX_KEPT_LINE - sum(map(len, rest))
    rest.append(piece[:room] if room < len(piece) else piece)


def _joined(rest: list[bytes]) -> Iterator[bytes]:
    tail = b"".join(rest)
    if tail:
        yield tail


def is_utf8(block: bytes) -> bool:
    """Whether a block is valid UTF-8, without making a string of it."""
    if block.isascii():
        return True
    offsets = pa.py_buffer(struct.pack("<2i", 0, len(block)))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(block)])
    try:
        whole.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def inflate(open_file: Open) -> Iterator[bytes | Damage]:
    """A file's bytes decompressed, by what it begins with, whatever its name says."""
    head = _head(open_file())
    if head.startswith(_GZIP):
        yield from _decompress(open_file, lambda: isal_zlib.decompressobj(wbits=31), "gzip")
    elif head.startswith(_ZSTD) or _SKIPPABLE.match(head):
        yield from _decompress(open_file, zstandard.ZstdDecompressor().decompressobj, "zstd")
    else:
        yield from open_file()


def suffix_of(head: bytes) -> str:
    """The suffix of a compressed file by its first four bytes; "" for plain text."""
    if head.startswith(_GZIP):
        return ".gz"
    return ".zst" if head.startswith(_ZSTD) or _SKIPPABLE.match(head) else ""


def _head(pieces: Iterator[bytes]) -> bytes:
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= len(_ZSTD):
            break
    return head


def _decompress(open_file: Open, start: Callable[[], Any], name: str) -> Iterator[bytes | Damage]:
    done = produced = 0
    try:
        for read, out in _frames(open_file(), start):
            done, produced = read, produced + len(out)
            yield out
    except EOFError:
        yield Damage(f"the {name} data ends too soon")
    except _BAD_DATA as problem:
        # zlib itself, byte by byte: isal loses its way in some headers that come in two pieces.
        start = partial(zlib.decompressobj, wbits=31) if name == "gzip" else start
        whole = yield from _salvage(_finely(open_file(), done), start, produced)
        if not whole:
            yield Damage(f"the {name} data is damaged: {problem}")


def _frames(pieces: Iterator[bytes], start: Callable[[], Any]) -> Iterator[tuple[int, bytes]]:
    """Each output with how many pieces were read whole before; a file may hold many frames."""
    frame = start()
    for done, piece in enumerate(pieces):
        data = piece
        while data:
            if frame.eof:
                data = data.lstrip(b"\0")  # frames may have padding between them, and at the end
                frame = start() if data else frame
                continue
            out = frame.decompress(data)
            if out:
                yield done, out
            data = frame.unused_data
    if not frame.eof:
        raise EOFError


def _finely(pieces: Iterator[bytes], whole: int) -> Iterator[bytes]:
    """The first pieces as they are, the others byte by byte."""
    for number, piece in enumerate(pieces):
        if number < whole:
            yield piece
        else:
            yield from (piece[at : at + 1] for at in range(len(piece)))


def _salvage(
    pieces: Iterator[bytes], start: Callable[[], Any], known: int
) -> Generator[bytes, None, bool]:
    """What can still be read after the first `known` bytes, and whether that is all there was."""
    seen = 0
    try:
        for _, out in _frames(pieces, start):
            seen += len(out)
            if seen > known:
                yield out[known - seen :]
                known = seen
    except (*_BAD_DATA, EOFError):
        return False
    return True
