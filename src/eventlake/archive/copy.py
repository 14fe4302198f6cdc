"""Copy inputs into the lake's own archive."""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import unquote

from isal import isal_zlib

from eventlake.archive.addresses import (
    LAKE,
    NO_STORES,
    READ_BYTES,
    InputStores,
    bucket_address,
    fingerprint,
    is_address,
    lake_address,
    local_path,
    open_input,
    resolve_address,
)
from eventlake.clock import Clock
from eventlake.errors import InvalidSettings, Unavailable
from eventlake.kernels.lines import Damage, OpenFile, read_blocks, suffix_of
from eventlake.kernels.route import InvalidLine, validate_line
from eventlake.model.commit import Input
from eventlake.model.layout import archive_path
from eventlake.model.types import timestamp
from eventlake.stores import Disk, Store

NAME_BYTES = 160
"""Bytes of the original name in a copy's name, which is limited to 255 bytes."""
HEAD_BYTES = 4
"""Bytes that show how a stream is compressed."""


def copy_inputs(
    inputs: Iterable[Input], store: Store, folder: str, stores: InputStores = NO_STORES
) -> tuple[Input, ...]:
    """Copy inputs into the archive of a source, unless they are there; return the sorted copies."""
    copies = (_copy_input(one, store, folder, stores) for one in inputs)
    return tuple(sorted(copies, key=lambda one: one.uri))


def _copy_input(one: Input, store: Store, folder: str, stores: InputStores) -> Input:
    archive = archive_path(folder)
    if one.uri.startswith(f"{LAKE}{archive}/"):
        return one
    name = _plain_name(_file_name(one.uri))
    mark = hashlib.sha256(f"{one.uri} {one.fingerprint}".encode()).hexdigest()[:12]
    received = _first_received(lambda: open_input(one.uri, stores)) or _modified_time(one, stores)
    path = f"{archive}/{day_folder(received)}/{mark}-{name}"
    if not store.exists(path):
        with store.write_durably(path) as copy:
            for piece in open_input(one.uri, stores):
                copy.write(piece)
    return _archived_input(store, path, (one.uri, one.fingerprint))


def copy_stream(path: str, store: Store, folder: str, clock: Clock) -> Input | None:
    """Copy a pipe, or standard input (`-`), into the archive; None if it is empty.

    The copy is named by its content, so that the same data has the same copy.
    """
    archive = archive_path(folder)
    with store.translate_errors("write", archive), _open_spool(store) as spool:
        digest, suffix = _compress_into(_read_stream(path), spool)
        if not suffix:
            return None
        received = _first_received(lambda: _read_spool(spool)) or clock.time_ns() // 1000
        target = f"{archive}/{day_folder(received)}/{digest[:32]}-stream{suffix}"
        if not store.exists(target):
            with store.write_durably(target) as copy:
                for piece in _read_spool(spool):
                    copy.write(piece)
    return _archived_input(store, target, ("stream:sha256", digest))


def _open_spool(store: Store) -> Any:
    """OpenFile an unnamed temporary file, on the lake's disk if it has one."""
    if not isinstance(store, Disk):
        return TemporaryFile()
    Path(store.root).mkdir(parents=True, exist_ok=True)
    return TemporaryFile(dir=store.root)


def _read_stream(path: str) -> Iterator[bytes]:
    try:
        with open(0 if path == "-" else path, "rb", buffering=0, closefd=path != "-") as pipe:
            while piece := pipe.read(READ_BYTES):
                yield piece
    except OSError as problem:
        raise Unavailable(f"could not read {path}: {problem.strerror}") from problem


def _compress_into(pieces: Iterator[bytes], out: IO[bytes]) -> tuple[str, str]:
    """Copy a stream, plain text as gzip; return its SHA-256 and the copy's suffix, "" if empty."""
    digest, head = hashlib.sha256(), b""
    for piece in pieces:
        head += piece
        if len(head) >= HEAD_BYTES:
            break
    if not head:
        return "", ""
    suffix = suffix_of(head)
    packer = None if suffix else isal_zlib.compressobj(wbits=31)
    for piece in chain((head,), pieces):
        digest.update(piece)
        out.write(packer.compress(piece) if packer else piece)
    if packer:
        out.write(packer.flush())
    return digest.hexdigest(), suffix or ".gz"


def _read_spool(spool: IO[bytes]) -> Iterator[bytes]:
    spool.seek(0)
    while piece := spool.read(READ_BYTES):
        yield piece


def _archived_input(store: Store, path: str, origin: tuple[str, str]) -> Input:
    """The input for an object of the archive, with the `origin` that it is a copy of."""
    item = store.find(path)
    if item is None:
        raise InvalidSettings(f"{path} was deleted from the lake after it was written")
    uri = lake_address(path)
    mark = fingerprint(uri, item.size, item.etag)
    return Input(uri=uri, fingerprint=mark, size=item.size, origin=origin)


def _file_name(uri: str) -> str:
    """The file name of an address; keys in a bucket are not percent-encoded."""
    name = uri.rpartition("/")[2]
    return name if is_address(uri) else unquote(name)


def _plain_name(name: str) -> str:
    """Replace characters other than letters, digits and `._-`; cut long names at the front."""
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in name)
    return plain.encode()[-NAME_BYTES:].decode(errors="ignore")


def day_folder(moment: int) -> int:
    """The archive's folder for a time in microseconds: the start of its UTC day in ms."""
    day = datetime.fromtimestamp(moment // 1_000_000, UTC).replace(hour=0, minute=0, second=0)
    return int(day.timestamp()) * 1000


def _modified_time(one: Input, stores: InputStores) -> int:
    """The time of an input's last change, in microseconds since 1970."""
    uri = resolve_address(one.uri, stores)
    if not is_address(uri):
        return int(local_path(uri).stat().st_mtime * 1e6)
    root = bucket_address(uri)
    item = stores[root].find(uri.removeprefix(f"{root}/"))
    return int(item.modified.timestamp() * 1e6) if item else 0  # deleted: copying it will fail


def _first_received(open_file: OpenFile) -> int | None:
    """Receipt time of the first valid event, in microseconds since 1970; None without one."""
    for block in read_blocks(open_file):
        if isinstance(block, Damage):
            return None
        for line in block.split(b"\n"):
            try:
                return timestamp(validate_line(line).receivedAt)
            except InvalidLine:
                continue
    return None
