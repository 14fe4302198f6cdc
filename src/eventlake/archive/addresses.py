"""Addresses of raw logs, and the bytes at an address.

A log is a file on disk (`file:///…`), an object in a bucket (`s3://…`), or a part of the lake
itself (`lake:segment-logs/…`), which goes where the lake goes.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.model.layout import LOGS
from eventlake.stores import Store

PIECE = 256 << 10
"""Bytes that a file or a pipe is read by."""
LAKE = "lake:"
"""What the address of a file in the lake begins with: a path below the lake's root follows."""

Holders = Mapping[str, Store]
"""The stores that logs are in, by what the logs' addresses begin with."""
NONE: Holders = MappingProxyType({})


def lake_holders(store: Store) -> dict[str, Store]:
    """A lake as the holder of its own logs, by either address."""
    return {LAKE: store, store.root: store}


def lake_address(path: str) -> str:
    """The address of a path below the lake's root."""
    return LAKE + quote(os.fsencode(path))


def absolute(address: str, holders: Holders) -> str:
    """An address that says where the lake is."""
    if not address.startswith(LAKE):
        return address
    return holders[LAKE].uri(os.fsdecode(unquote_to_bytes(address.removeprefix(LAKE))))


def fingerprint(uri: str, size: int, mark: str) -> str:
    """What tells a changed log from a known one; `mark` changes when the log does.

    A log in the lake's archive is never changed in place. Its size is enough, and it is the same
    in a copy of the lake, which has other times.
    """
    return f"{size:x}" if uri.startswith(f"{LAKE}{LOGS}/") else f"{size:x}-{mark}"


def is_address(path: str) -> bool:
    """Whether a path names objects in a bucket."""
    return "://" in path and not path.startswith("file://")


def holder_of(uri: str) -> str:
    """What the address of an object in a bucket begins with: `s3://bucket`."""
    return "/".join(uri.split("/", 3)[:3])


def local_path(uri: str) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(urlsplit(uri).path)))


def readable(uri: str) -> str:
    """An address for a person: of a file in the lake the path below the lake's root."""
    return unquote(uri.removeprefix(LAKE)) if uri.startswith(LAKE) else uri


def open_log(uri: str, holders: Holders = NONE) -> Iterator[bytes]:
    """A log's bytes as they are stored, piece by piece."""
    uri = absolute(uri, holders)
    if is_address(uri):
        root = holder_of(uri)
        yield from holders[root].stream(uri.removeprefix(f"{root}/"))
        return
    path = local_path(uri)
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
    except PermissionError as problem:
        raise InsufficientPermissions(f"may not read {path}: grant that and run again") from problem
    except FileNotFoundError as problem:
        raise InvalidSettings(f"{path} has gone since the run was planned") from problem
