"""Read an archive file as blocks of whole lines; damage ends the file, never the run.

The first bytes of a file decide whether it is gzip, zstd or plain text; its name does not matter.
It is decompressed in steps of bounded size, as a few kilobytes can expand to gigabytes, and the
output is cut at line ends into blocks. Of a line longer than `MAX_KEPT_LINE_BYTES` only the start
is kept.

A fast decompressor reads good files. If it fails, a careful one starts again from the beginning,
skips what was read already, and goes on byte by byte at the step that failed, so that every byte
before the damage is read. After that comes one `Damage`, which says what is wrong.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import pyarrow as pa
import zstandard
from isal import isal_zlib

MAX_KEPT_LINE_BYTES = 64 << 20
"""A longer line is cut here to bound memory, and its quarantine row says so."""
STEP_BYTES = 2 << 20
"""Most bytes of decompressed data at a time: more than one input of `_ISAL` usually expands to."""

# isal's stubs declare its error class as an instance.
_BAD_DATA = (cast("type[Exception]", isal_zlib.error), zlib.error, zstandard.ZstdError)
_GZIP = b"\x1f\x8b"
# pzstd and other tools start files with a frame without content.
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_ZSTD = b"\x28\xb5\x2f\xfd"
_BLANK = b" \t\r"


@dataclass(frozen=True)
class Damage:
    """The reason why the rest of a file cannot be read."""

    detail: str


OpenFile = Callable[[], Iterator[bytes]]
"""Opens a file from the start and yields its bytes in pieces of any size."""


def read_blocks(
    open_file: OpenFile, max_line_bytes: int = MAX_KEPT_LINE_BYTES
) -> Iterator[bytes | Damage]:
    """Decompress a file and yield blocks of whole lines, without the last line end of each.

    A `Damage` comes last if the rest cannot be read. Of a line longer than `max_line_bytes`, only
    the start is kept. Calls `open_file` once, and again where the file is damaged.
    """
    line_start = _LineStart(max_line_bytes)
    for piece in decompress(open_file):
        if isinstance(piece, Damage):
            yield from line_start.flush()
            yield piece
            return
        last_end = piece.rfind(b"\n")
        if last_end < 0:
            line_start.add(piece)
            continue
        first_end = piece.find(b"\n")
        line_start.add(piece[:first_end])
        yield b"".join([*line_start.pieces, piece[first_end:last_end]])
        line_start = _LineStart(max_line_bytes)
        line_start.add(piece[last_end + 1 :])
    yield from line_start.flush()


class _LineStart:
    """The first `max_bytes` bytes of a line whose end has not been read yet."""

    def __init__(self, max_bytes: int) -> None:
        self.pieces: list[bytes] = []
        self._room = max_bytes
        self._blank = True

    def add(self, piece: bytes) -> None:
        """Add the next piece of the line, which has no line end; drop what is over `max_bytes`.

        If all that is kept is blank, also keeps the first byte after it that is not.
        """
        kept = piece[: self._room]
        self._room -= len(kept)
        self.pieces.append(kept)
        if self._blank:
            # Blank lines are ignored, so keep one byte that shows that this line is not blank.
            kept, dropped = kept.lstrip(_BLANK), piece[len(kept) :].lstrip(_BLANK)
            self._blank = not (kept or dropped)
            self.pieces.append(b"" if kept else dropped[:1])

    def flush(self) -> Iterator[bytes]:
        """Yield what is kept of the line, unless that is empty; the pieces stay."""
        line = b"".join(self.pieces)
        if line:
            yield line


def is_utf8(block: bytes) -> bool:
    """Whether a block is valid UTF-8; does not create a string."""
    if block.isascii():
        return True
    offsets = pa.py_buffer(struct.pack("<2i", 0, len(block)))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(block)])
    try:
        whole.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def decompress(open_file: OpenFile) -> Iterator[bytes | Damage]:
    """Yield a file's bytes, decompressed if it is gzip or zstd, about `STEP_BYTES` at a time.

    A `Damage` comes last, if the file is damaged.
    """
    pieces = open_file()
    head = _take_head(pieces)
    whole, suffix = chain(head, pieces), suffix_of(b"".join(head))
    if suffix == ".gz":
        yield from _decompress_or_retry(open_file, _ISAL(whole), _ZLIB)
    elif suffix == ".zst":
        yield from _decompress_or_retry(open_file, _decompress_zstd(whole), _ZSTD_FRAMES)
    else:
        yield from _limit_size(whole, STEP_BYTES)


def suffix_of(head: bytes) -> str:
    """Return ".gz" or ".zst" by the first four bytes of a file; "" for any other, as plain text."""
    if head.startswith(_GZIP):
        return ".gz"
    return ".zst" if head.startswith(_ZSTD) or _SKIPPABLE.match(head) else ""


def _take_head(pieces: Iterator[bytes]) -> list[bytes]:
    """Take the first pieces of a file: four bytes or more, unless the file is shorter."""
    head: list[bytes] = []
    for piece in pieces:
        head.append(piece)
        if sum(map(len, head)) >= len(_ZSTD):
            break
    return head


def _limit_size(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the pieces in order, those of more than `size` bytes split."""
    for piece in pieces:
        if len(piece) <= size:
            yield piece
        else:
            yield from (piece[at : at + size] for at in range(0, len(piece), size))


@dataclass(frozen=True)
class _Codec:
    """A decompressor of files that consist of several frames (gzip: members)."""

    name: str
    start: Callable[[], Any]
    """Makes the decompressor of one frame."""
    feed: Callable[[Any, bytes], bytes]
    """Passes it input and returns its output, whose size is bounded."""
    input_bytes: int
    """Input bytes per call of `feed`."""

    def __call__(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        return self.decompress(_limit_size(pieces, self.input_bytes))

    def decompress(self, steps: Iterable[bytes]) -> Iterator[bytes]:
        """Decompress all frames, at most about `STEP_BYTES` at a time; skips zeros between frames.

        Raises `EOFError` if the last frame is truncated, and the library's error for damaged data.
        """
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
                full = len(out) == STEP_BYTES  # the decompressor may hold more output
                data = frame.unused_data if frame.eof else frame.unconsumed_tail
        if not frame.eof:
            raise EOFError


def _feed_zlib(frame: Any, data: bytes) -> bytes:
    """Decompress gzip data; return at most `STEP_BYTES`, the rest stays with the decompressor."""
    out: bytes = frame.decompress(data, STEP_BYTES)
    return out


def _feed_zstd(frame: Any, data: bytes) -> bytes:
    """Decompress zstd data and return all output; the input must be small to bound it."""
    out: bytes = frame.decompress(data)
    return out


_ISAL = _Codec("gzip", lambda: isal_zlib.decompressobj(wbits=31), _feed_zlib, 256 << 10)
# isal fails on some headers that are split between two inputs.
_ZLIB = _Codec("gzip", lambda: zlib.decompressobj(wbits=31), _feed_zlib, 32 << 10)
# This decompressor has no output limit, but four bytes of input expand to at most 128 KB.
_ZSTD_FRAMES = _Codec("zstd", zstandard.ZstdDecompressor().decompressobj, _feed_zstd, 32)


def _decompress_zstd(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress zstd with Arrow; raises `OSError` for damaged files and for zero padding."""
    with pa.CompressedInputStream(pa.PythonFile(_Pieces(pieces), mode="r"), "zstd") as stream:
        while out := stream.read(STEP_BYTES):
            yield out


class _Pieces:
    """A readable file over an iterator of bytes, for Arrow."""

    closed = False

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = _limit_size(pieces, 32 << 10)

    def read(self, _size: int) -> bytes:
        """Return the next piece, at most 32 KB and not `_size` bytes; b"" at the end."""
        return next(self._pieces, b"")

    def close(self) -> None:
        """Set `closed`, as Arrow expects of a file; the iterator is not touched."""
        self.closed = True


def _decompress_or_retry(
    open_file: OpenFile, fast: Iterator[bytes], careful: _Codec
) -> Iterator[bytes | Damage]:
    """Yield the output of `fast`; if it fails, the rest by `careful`, and `Damage` if that fails.

    Also reads the file again if the failure is the store's: an OSError while it is read.
    """
    produced = 0
    try:
        for out in fast:
            produced += len(out)
            yield out
    except (*_BAD_DATA, EOFError, OSError):
        yield from _decompress_damaged(open_file, careful, produced)


def _decompress_damaged(
    open_file: OpenFile, codec: _Codec, produced: int
) -> Iterator[bytes | Damage]:
    """Read the file again; yield the output after its first `produced` bytes, up to the damage.

    Then yields the `Damage`, unless this decompressor finds none.
    """
    good, total = _count_good_steps(open_file, codec), 0
    steps = _limit_size(open_file(), codec.input_bytes)
    try:
        for out in codec.decompress(_bytewise_after(steps, good)):
            total += len(out)
            if total > produced:
                yield out[produced - total :]
                produced = total
    except EOFError:
        yield Damage(f"the {codec.name} data is truncated")
    except _BAD_DATA as problem:
        yield Damage(_describe_damage(codec, str(problem)))


def _describe_damage(codec: _Codec, problem: str) -> str:
    """Return the text of a `Damage` for a decompressor's message, with a remedy if there is one."""
    if "too much memory" in problem:
        return "the zstd window is over 128 MB: compress the file again with a smaller --long"
    return f"the {codec.name} data is damaged: {problem}"


def _count_good_steps(open_file: OpenFile, codec: _Codec) -> int:
    """Decompress a file; count the steps of input before the first that fails, all if none does."""
    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for step in _limit_size(open_file(), codec.input_bytes):
            yield step
            count += 1

    try:
        for _ in codec.decompress(counted()):
            pass
    except (*_BAD_DATA, EOFError):
        pass
    return count


def _bytewise_after(steps: Iterable[bytes], good: int) -> Iterator[bytes]:
    """Yield the first `good` steps whole, and the others byte by byte.

    A call of the decompressor that fails has no output, so single bytes lose none before the
    damage.
    """
    for number, step in enumerate(steps):
        yield from (step,) if number < good else _limit_size((step,), 1)
