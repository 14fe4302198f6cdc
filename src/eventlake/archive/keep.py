"""Copies of raw logs in the lake's own archive."""

import hashlib
import time
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
    NONE,
    PIECE,
    Holders,
    absolute,
    fingerprint,
    holder_of,
    is_address,
    lake_address,
    local_path,
    open_log,
)
from eventlake.errors import InvalidSettings, Unavailable
from eventlake.kernels.lines import Damage, OpenFile, read_blocks, suffix_of
from eventlake.kernels.route import InvalidLine, validate_line
from eventlake.model.commit import Input
from eventlake.model.layout import LOGS
from eventlake.model.types import timestamp
from eventlake.stores import Disk, Store

NAME_BYTES = 160
"""Of a file's own name in the archive: with what is put around it, it must fit into 255."""
HEAD_BYTES = 4
"""Enough to see how a stream is compressed."""


def keep(
    inputs: Iterable[Input], store: Store, folder: str, holders: Holders = NONE
) -> tuple[Input, ...]:
    """Copies of logs in the lake's own archive, each made once, in order of their addresses."""
    kept = (_kept(one, store, folder, holders) for one in inputs)
    return tuple(sorted(kept, key=lambda one: one.uri))


def _kept(one: Input, store: Store, folder: str, holders: Holders) -> Input:
    archive = f"{LOGS}/{folder}"
    if one.uri.startswith(f"{LAKE}{archive}/"):
        return one
    name = _plain_name(_name(one.uri))
    mark = hashlib.sha256(f"{one.uri} {one.fingerprint}".encode()).hexdigest()[:12]
    received = _first_received(lambda: open_log(one.uri, holders)) or _modified(one, holders)
    path = f"{archive}/{_day(received)}/{mark}-{name}"
    if not store.exists(path):
        with store.write_durably(path) as copy:
            for piece in open_log(one.uri, holders):
                copy.write(piece)
    return _archived(store, path, (one.uri, one.fingerprint))


def keep_stream(path: str, store: Store, folder: str) -> Input | None:
    """A copy of what a pipe, or standard input (`-`), has; None when that is nothing.

    The name of the copy comes from its content: the same stream has the same copy.
    """
    archive = f"{LOGS}/{folder}"
    with store.translate_errors("write", archive), _spool(store) as spool:
        digest, suffix = _copy(_read_stream(path), spool)
        if not suffix:
            return None
        received = _first_received(lambda: _pieces(spool)) or int(time.time() * 1e6)
        place = f"{archive}/{_day(received)}/{digest[:32]}-stream{suffix}"
        if not store.exists(place):
            with store.write_durably(place) as copy:
                for piece in _pieces(spool):
                    copy.write(piece)
    return _archived(store, place, ("stream:sha256", digest))


def _spool(store: Store) -> Any:
    """A file without a name, on the lake's own disk if it has one: it goes with the process."""
    if not isinstance(store, Disk):
        return TemporaryFile()
    Path(store.root).mkdir(parents=True, exist_ok=True)
    return TemporaryFile(dir=store.root)


def _read_stream(path: str) -> Iterator[bytes]:
    try:
        with open(0 if path == "-" else path, "rb", buffering=0, closefd=path != "-") as pipe:
            while piece := pipe.read(PIECE):
                yield piece
    except OSError as problem:
        raise Unavailable(f"could not read {path}: {problem.strerror}") from problem


def _copy(pieces: Iterator[bytes], out: IO[bytes]) -> tuple[str, str]:
    """Copy a stream, plain text as gzip; return its SHA-256, and the suffix, "" when empty."""
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


def _pieces(spool: IO[bytes]) -> Iterator[bytes]:
    spool.seek(0)
    while piece := spool.read(PIECE):
        yield piece


def _archived(store: Store, path: str, origin: tuple[str, str]) -> Input:
    """An object of the lake's archive, as a sync knows it, and what it is a copy of."""
    found = store.find(path)
    if found is None:
        raise InvalidSettings(f"{path} has gone from the lake since it was written")
    uri = lake_address(path)
    mark = fingerprint(uri, found.size, found.etag)
    return Input(uri=uri, fingerprint=mark, size=found.size, origin=origin)


def _name(uri: str) -> str:
    """The last part of an address as the file is called; keys in a bucket have no escapes."""
    name = uri.rpartition("/")[2]
    return name if is_address(uri) else unquote(name)


def _plain_name(name: str) -> str:
    """A name of letters, digits and `._-`; of a long one the end is kept, for its suffix."""
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in name)
    return plain.encode()[-NAME_BYTES:].decode(errors="ignore")


def _day(moment: int) -> int:
    """The UTC day of a moment in microseconds, as the archive's folders are named: in ms."""
    day = datetime.fromtimestamp(moment // 1_000_000, UTC).replace(hour=0, minute=0, second=0)
    return int(day.timestamp()) * 1000


def _modified(one: Input, holders: Holders) -> int:
    """When a log was changed, in microseconds since 1970."""
    uri = absolute(one.uri, holders)
    if not is_address(uri):
        return int(local_path(uri).stat().st_mtime * 1e6)
    root = holder_of(uri)
    found = holders[root].find(uri.removeprefix(f"{root}/"))
    return int((found.modified.timestamp() if found else time.time()) * 1e6)


def _first_received(open_file: OpenFile) -> int | None:
    """When the first event of a log was received, in microseconds since 1970."""
    for block in read_blocks(open_file):
        if isinstance(block, Damage):
            return None
        for line in block.split(b"\n"):
            try:
                return timestamp(validate_line(line).receivedAt)
            except InvalidLine:
                continue
    return None
