"""Archive files to lines: compressed or plain, whole or damaged, in pieces of any size."""

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.lines import STEP_BYTES, Damage, OpenFile, decompress, is_utf8, read_blocks
from eventlake.verify import lines as second

LINES = st.lists(
    st.sampled_from([b"", b" ", b"{}", b'{"a":1}', b"x" * 300, "é注文".encode(), b"\r", b"\x00"]),
    max_size=8,
)
Pack = Callable[[bytes], bytes]
PACKS: dict[str, Pack] = {
    "plain": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def pieces(data: bytes, size: int) -> OpenFile:
    def read() -> Iterator[bytes]:
        return (data[at : at + size] for at in range(0, len(data), size))

    return read


def read_lines(data: bytes, size: int = 7, **limit: int) -> tuple[list[bytes], Damage | None]:
    """Return all lines, and the damage if there is any."""
    found, damage = [], None
    for block in read_blocks(pieces(data, size), **limit):
        assert damage is None
        if isinstance(block, Damage):
            damage = block
        else:
            found += block.split(b"\n")
    return found, damage


def lines_of(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


@given(LINES, st.booleans(), st.integers(1, 500), st.sampled_from([*PACKS]))
def test_lines_are_the_same_in_pieces_of_any_size(
    lines: list[bytes], ended: bool, size: int, pack: str
) -> None:
    data = b"\n".join(lines) + b"\n" * ended
    if data.startswith(b"\x1f\x8b"):
        return
    assert read_lines(PACKS[pack](data), size) == (lines_of(data), None)


@given(
    st.lists(LINES.map(b"\n".join), min_size=1, max_size=4),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 60),
    st.sampled_from(["gzip", "zstd"]),
)
def test_many_frames_with_zeros_between_and_after(
    parts: list[bytes], between: int, after: int, size: int, pack: str
) -> None:
    packed = (b"\0" * between).join(map(PACKS[pack], parts)) + b"\0" * after
    assert read_lines(packed, size) == (lines_of(b"".join(parts)), None)


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [1, 64, 1 << 18])
def test_zeros_at_the_end_are_no_damage(pack: str, size: int) -> None:
    packed = PACKS[pack](b"a\nb\n")
    assert read_lines(packed + b"\0" * 1000, size) == ([b"a", b"b"], None)
    assert read_lines(packed + b"\0" * 1000 + packed, size) == ([b"a", b"b"] * 2, None)


CONTENT = b"".join(b'{"line":%d,"text":"%d"}\n' % (n, n * 7919) for n in range(80))


@pytest.mark.parametrize("size", [50, 1 << 18])
@pytest.mark.parametrize("left", [0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_gives_what_can_be_read(left: float, size: int) -> None:
    packed = PACKS["gzip"](CONTENT)
    cut = packed[: int(len(packed) * left)]
    readable = zlib.decompressobj(31).decompress(cut)
    found, damage = read_lines(cut, size)
    assert damage == Damage("the gzip data is truncated")
    assert b"\n".join(found) == readable.removesuffix(b"\n")


def test_a_zstd_file_cut_short() -> None:
    packed = PACKS["zstd"](CONTENT)
    found, damage = read_lines(packed[:-20])
    assert damage == Damage("the zstd data is truncated")
    assert CONTENT.startswith(b"\n".join(found))


def test_a_second_frame_cut_short() -> None:
    packed = PACKS["gzip"](b"a\nb\n") + PACKS["gzip"](b"c\nd\n")[:-9]
    found, damage = read_lines(packed)
    assert found[:2] == [b"a", b"b"]
    assert damage is not None


@pytest.mark.parametrize("size", [1, 50, 1 << 18])
@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_a_wrong_checksum_loses_no_line(pack: str, size: int) -> None:
    packed = bytearray(PACKS[pack](CONTENT))
    packed[-1 if pack == "zstd" else -5] ^= 1
    found, damage = read_lines(bytes(packed), size)
    assert damage is not None
    assert damage.detail.startswith(f"the {pack} data is damaged: ")
    assert found == lines_of(CONTENT)


@pytest.mark.parametrize("size", [1, 50, 1 << 18])
def test_trailing_garbage_is_damage(size: int) -> None:
    found, damage = read_lines(PACKS["gzip"](CONTENT) + b"and so on", size)
    assert found == lines_of(CONTENT)
    assert damage is not None


@pytest.mark.parametrize("size", [50, 1 << 18])
def test_damage_in_the_middle_keeps_the_lines_before(size: int) -> None:
    first, second = PACKS["gzip"](CONTENT), bytearray(PACKS["gzip"](CONTENT))
    second[len(second) // 2 :] = b"\xff" * (len(second) - len(second) // 2)
    found, damage = read_lines(first + bytes(second), size)
    assert found[:80] == lines_of(CONTENT)
    assert 80 < len(found) < 160
    assert damage is not None


def test_empty_files() -> None:
    assert read_lines(b"") == ([], None)
    for pack in PACKS.values():
        assert read_lines(pack(b"")) == ([], None)


def test_the_content_decides_and_not_the_name() -> None:
    assert list(decompress(pieces(b"\x1f", 1))) == [b"\x1f"]
    assert list(decompress(pieces(b"{}", 1))) == [b"{", b"}"]
    assert b"".join(decompress(pieces(PACKS["zstd"](b"x"), 1))) == b"x"  # type: ignore[arg-type]


def test_a_file_with_windows_line_ends() -> None:
    assert read_lines(b"{}\r\n{}\r\n") == ([b"{}\r", b"{}\r"], None)


def test_a_line_without_end_is_cut() -> None:
    data = b"a\n" + b"x" * 1000 + b"\nb\n"
    (first, long, last), damage = read_lines(data, size=10, max_line_bytes=100)
    assert (first, last, damage) == (b"a", b"b", None)
    assert 100 <= len(long) < 130
    assert set(long) == {ord("x")}


def test_a_long_line_of_blanks_with_something_at_its_end_is_no_blank_line() -> None:
    data = b" " * 1000 + b"x\n" + b" " * 1000 + b"\n" + b" " * 1000
    (first, blank, last), damage = read_lines(data, size=10, max_line_bytes=100)
    assert (first, damage) == (b" " * 100 + b"x", None)
    assert blank == last == b" " * 100


SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"hello"


@pytest.mark.parametrize("size", [1, 3, 1 << 18])
def test_frames_to_skip_may_be_anywhere(size: int) -> None:
    a, b = PACKS["zstd"](b"a\n"), PACKS["zstd"](b"b\n")
    packed = SKIPPABLE + a + SKIPPABLE * 2 + b + SKIPPABLE
    assert read_lines(packed, size) == second_lines(packed) == ([b"a", b"b"], None)
    assert read_lines(SKIPPABLE, size) == second_lines(SKIPPABLE) == ([], None)


def second_lines(data: bytes) -> tuple[list[bytes], Damage | None]:
    """Read lines as the verifier does, which does not describe the damage."""
    lines = list(second.read_lines(lambda: BytesIO(data)))
    damaged = lines[-1:] == [None]
    whole = [line for line in lines if line is not None]
    return whole, Damage("") if damaged else None


@cache
def bomb(pack: str, pattern: bytes, megabytes: int) -> bytes:
    packer = (
        zstandard.ZstdCompressor().compressobj()
        if pack == "zstd"
        else zlib.compressobj(9, zlib.DEFLATED, 31)
    )
    block = pattern * ((1 << 20) // len(pattern))
    return b"".join([*(packer.compress(block) for _ in range(megabytes)), packer.flush()])


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
@pytest.mark.parametrize("tail", [b"", b"\0", b"junk"])
def test_a_small_file_is_decompressed_in_small_steps(pack: str, tail: bytes) -> None:
    packed = bomb(pack, b" ", 64)
    assert len(packed) < 70_000
    sizes = [
        len(piece) if isinstance(piece, bytes) else 0
        for piece in decompress(pieces(packed + tail, 1 << 18))
    ]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 2 * STEP_BYTES


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_the_verifier_decompresses_in_small_steps_too(pack: str) -> None:
    steps = second._decompress(lambda: BytesIO(bomb(pack, b" ", 64)))
    sizes = [len(piece or b"") for piece in steps]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 2 * STEP_BYTES


def test_a_zstd_window_that_does_not_fit_in_memory_is_named() -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=30)
    packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    packed = packer.compress(b"{}\n") + packer.flush()
    found, damage = read_lines(packed)
    assert found == []
    assert damage is not None
    assert "--long" in damage.detail


@given(
    st.lists(LINES.map(b"\n".join), min_size=1, max_size=4),
    st.sampled_from(["gzip", "zstd"]),
    st.integers(0, 1 << 30),
    st.integers(0, 255),
    st.integers(1, 40),
)
def test_the_verifier_reads_the_same_lines_of_damaged_files(
    parts: list[bytes], pack: str, at: int, other: int, size: int
) -> None:
    packed = bytearray(b"".join(map(PACKS[pack], parts)))
    packed[at % len(packed)] = other
    for data in (bytes(packed), bytes(packed[: at % len(packed)])):
        found, damage = read_lines(data, size)
        again, damaged = second_lines(data)
        assert found == again
        assert (damage is None) == (damaged is None)


def member(flags: int, content: bytes) -> bytes:
    """A gzip member whose header has optional fields: 4 extra, 8 name, 16 comment."""
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = raw.compress(content) + raw.flush()
    optional = {4: b"\x06\0BC\x02\0\x1b\0", 8: b"name\0", 16: b"comment\0"}
    head = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\x03"
    head += b"".join(field for flag, field in optional.items() if flags & flag)
    return head + packed + struct.pack("<II", zlib.crc32(content), len(content))


@pytest.mark.parametrize(
    "flags",
    [
        4,
        8,
        16,
        12,
    ],
)
def test_a_header_may_be_split_anywhere(flags: int) -> None:
    packed = member(flags, b"a\nb\n") * 2
    for size in range(1, len(packed)):
        assert read_lines(packed, size) == ([b"a", b"b"] * 2, None)


@given(
    st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
)
def test_valid_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        assert not is_utf8(data)
    else:
        assert is_utf8(data)


@pytest.mark.parametrize(
    "data", [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"a\xff"]
)
def test_invalid_utf8(data: bytes) -> None:
    assert not is_utf8(data)
