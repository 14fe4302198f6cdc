"""An archive file as blocks of whole lines; damage ends the file, never the run.

Compressed data is decompressed in bounded steps: a few kilobytes can stand for gigabytes.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import zstandard
from isal import isal_zlib

MAX_KEPT_LINE = 64 << 20
"""A longer line would fill the memory: it is cut here, and its quarantine row says so."""
STEP_BYTES = 1 << 20
"""Bytes that a file is read in at a time, after decompression."""

# isal's stubs call its error an exception, not a class of them.
_BAD_DATA = (cast("type[Exception]", isal_zlib.error), zlib.error, zstandard.ZstdError)
_GZIP = b"\x1f\x8b"
# A frame without content, which pzstd and others begin files with.
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_ZSTD = b"\x28\xb5\x2f\xfd"
_BLANK = b" \t\r"


@dataclass(frozen=True)
class Damage:
    """Why the rest of a file could not be read."""

    detail: str


Open = Callable[[], Iterator[bytes]]
"""Begins to read a file's bytes, from the start, in pieces of any size."""


def blocks(open_file: Open) -> Iterator[bytes | Damage]:
    """A file in pieces that end where a line does; a `Damage` comes last, if at all."""
    rest = _LineStart()
    for piece in inflate(open_file):
        if isinstance(piece, Damage):
            yield from rest.take()
            yield piece
            return
        cut = piece.rfind(b"\n")
        if cut < 0:
            rest.add(piece)
            continue
        first = piece.find(b"\n")
        rest.add(piece[:first])
        yield b"".join([*rest.pieces, piece[first:cut]])
        rest = _LineStart()
        rest.add(piece[cut + 1 :])
    yield from rest.take()


class _LineStart:
    """The first `MAX_KEPT_LINE` bytes of a line whose end has not been read yet."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._room = MAX_KEPT_LINE
        self._blank = True

    def add(self, piece: bytes) -> None:
        kept = piece[: self._room]
        self._room -= len(kept)
        self.pieces.append(kept)
        if self._blank:
            # A blank line is no line: of one that is not, a byte must be kept that shows it.
            kept, dropped = kept.lstrip(_BLANK), piece[len(kept) :].lstrip(_BLANK)
            self._blank = not (kept or dropped)
            self.pieces.append(b"" if kept else dropped[:1])

    def take(self) -> Iterator[bytes]:
        """The line, unless nothing was read of it."""
        line = b"".join(self.pieces)
        if line:
            yield line


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
    """A file's bytes, decompressed if need be, in steps of at most about `STEP_BYTES`.

    What the file begins with says how it is compressed, whatever its name is.
    """
    head = _head(open_file())
    if head.startswith(_GZIP):
        yield from _decompress(open_file, _ISAL, _ZLIB)
    elif head.startswith(_ZSTD) or _SKIPPABLE.match(head):
        yield from _decompress(open_file, _read_zstd, _ZSTD_FRAMES)
    else:
        yield from _sliced(open_file(), STEP_BYTES)


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


def _sliced(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        if len(piece) <= size:
            yield piece
        else:
            yield from (piece[at : at + size] for at in range(0, len(piece), size))


@dataclass(frozen=True)
class _Codec:
    """How frames (gzip: members) are decompressed one after the other."""

    name: str
    start: Callable[[], Any]
    """Makes the decompressor of one frame."""
    feed: Callable[[Any, bytes], bytes]
    """Gives it more input; the output is bounded."""
    input_bytes: int
    """How much input it gets at a time."""

    def __call__(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        return self.frames(_sliced(pieces, self.input_bytes))

    def frames(self, steps: Iterable[bytes]) -> Iterator[bytes]:
        """Decompress all frames; raises `EOFError` when the last one is cut short."""
        frame = self.start()
        for step in steps:
            data, full = step, False
            while data or full:
                if frame.eof:
                    data = data.lstrip(b"\0")  # padding between frames and at the end
                    if not data:
                        break
                    frame = self.start()
                out = self.feed(frame, data)
                if out:
                    yield out
                full = len(out) == STEP_BYTES  # there may be more, even without more input
                data = frame.unused_data if frame.eof else frame.unconsumed_tail
        if not frame.eof:
            raise EOFError


def _feed_zlib(frame: Any, data: bytes) -> bytes:
    out: bytes = frame.decompress(data, STEP_BYTES)
    return out


def _feed_zstd(frame: Any, data: bytes) -> bytes:
    out: bytes = frame.decompress(data)
    return out


_ISAL = _Codec("gzip", lambda: isal_zlib.decompressobj(wbits=31), _feed_zlib, 256 << 10)
# isal loses its way in some headers that come in two pieces.
_ZLIB = _Codec("gzip", lambda: zlib.decompressobj(wbits=31), _feed_zlib, 32 << 10)
# This decompressor cannot bound its output, but four bytes of input make 128 KB of it at most.
_ZSTD_FRAMES = _Codec("zstd", zstandard.ZstdDecompressor().decompressobj, _feed_zstd, 32)


def _read_zstd(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress good zstd files fast; raises `OSError` for all others, and for zero padding."""
    with pa.CompressedInputStream(pa.PythonFile(_Pieces(pieces), mode="r"), "zstd") as stream:
        while out := stream.read(STEP_BYTES):
            yield out


class _Pieces:
    """An iterator of bytes as the file that Arrow wants."""

    closed = False

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = _sliced(pieces, 32 << 10)

    def read(self, _size: int) -> bytes:
        return next(self._pieces, b"")

    def close(self) -> None:
        self.closed = True


Decompress = Callable[[Iterable[bytes]], Iterator[bytes]]


def _decompress(open_file: Open, fast: Decompress, careful: _Codec) -> Iterator[bytes | Damage]:
    produced = 0
    try:
        for out in fast(open_file()):
            produced += len(out)
            yield out
    except (*_BAD_DATA, EOFError, OSError):
        yield from _salvage(open_file, careful, produced)


def _salvage(open_file: Open, codec: _Codec, produced: int) -> Iterator[bytes | Damage]:
    """What comes after the first `produced` bytes up to the damage, if there is some."""
    good, seen = _good_steps(open_file, codec), 0
    steps = _sliced(open_file(), codec.input_bytes)
    try:
        for out in codec.frames(_bytewise_after(steps, good)):
            seen += len(out)
            if seen > produced:
                yield out[produced - seen :]
                produced = seen
    except EOFError:
        yield Damage(f"the {codec.name} data ends too soon")
    except _BAD_DATA as problem:
        yield Damage(_why(codec, str(problem)))


def _why(codec: _Codec, problem: str) -> str:
    if "too much memory" in problem:
        return "the zstd window is over 128 MB: compress the file again with a smaller --long"
    return f"the {codec.name} data is damaged: {problem}"


def _good_steps(open_file: Open, codec: _Codec) -> int:
    """How many steps of input can be read before the first that fails."""
    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for step in _sliced(open_file(), codec.input_bytes):
            yield step
            count += 1

    try:
        for _ in codec.frames(counted()):
            pass
    except (*_BAD_DATA, EOFError):
        pass
    return count


def _bytewise_after(steps: Iterable[bytes], good: int) -> Iterator[bytes]:
    """The good steps whole, the others byte by byte: a call that fails gives no output at all."""
    for number, step in enumerate(steps):
        yield from (step,) if number < good else _sliced((step,), 1)
