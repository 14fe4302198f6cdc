"""Addresses of inputs, and how to open them.

An input is a file on disk (`file:///…`), an object in a bucket (`scheme://bucket/…`), or a file in
the lake itself (`lake:segment-logs/…`), whose address stays the same when the lake is moved.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from eventlake.errors import Conflict, InsufficientPermissions, InvalidSettings
from eventlake.model.layout import LOGS, is_rewritten
from eventlake.stores import Disk, Store

READ_BYTES = 256 << 10
"""Bytes per read of a file or a pipe."""
LAKE = "lake:"
"""Prefix of the address of a file in the lake; the path below the lake's root follows."""

InputStores = Mapping[str, Store]
"""The stores of inputs, by address prefix."""
NO_STORES: InputStores = MappingProxyType({})


def lake_input_stores(store: Store) -> dict[str, Store]:
    """A lake's store by both prefixes that addresses of its files can have."""
    return {LAKE: store, store.root: store}


def lake_address(path: str) -> str:
    """The address of a path below the lake's root."""
    return LAKE + quote(os.fsencode(path))


def object_address(path: str) -> str:
    """The address of an object that a commit rewrites: below the lake's root, or elsewhere."""
    return path if "://" in path else lake_address(path)


def lake_path(address: str) -> str:
    """The path below the lake's root of an address that begins with `lake:`."""
    return os.fsdecode(unquote_to_bytes(address.removeprefix(LAKE)))


def locate_input(address: str, stores: InputStores) -> tuple[Store, str]:
    """The store that has an input, and its path there; for a file on disk, that of its folder."""
    address = resolve_address(address, stores)
    if is_address(address):
        root = bucket_address(address)
        return stores[root], address.removeprefix(f"{root}/")
    path = local_path(address)
    return Disk(str(path.parent)), path.name


def resolve_address(address: str, stores: InputStores) -> str:
    """Replace the prefix `lake:` of an address by the lake's own address."""
    if not address.startswith(LAKE):
        return address
    return stores[LAKE].uri(lake_path(address))


def fingerprint(uri: str, size: int, mark: str) -> str:
    """A text that changes when the input does; `mark` is its etag or time of modification.

    A file in the lake's archive is never changed in place, so its size is enough, and stays the
    same in a copy of the lake, where times differ. The same goes for one that a run has rewritten.
    """
    is_final = uri.startswith(f"{LAKE}{LOGS}/") or is_rewritten(uri)
    return f"{size:x}" if is_final else f"{size:x}-{mark}"


def is_address(path: str) -> bool:
    """Whether a path is the address of objects in a bucket."""
    return "://" in path and not path.startswith("file://")


def bucket_address(uri: str) -> str:
    """The address of an object's bucket: `scheme://bucket`."""
    return "/".join(uri.split("/", 3)[:3])


def local_path(uri: str) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(urlsplit(uri).path)))


def display_address(uri: str) -> str:
    """An address for display; for a file in the lake, the path below the lake's root."""
    return unquote(uri.removeprefix(LAKE)) if uri.startswith(LAKE) else uri


def open_input(uri: str, stores: InputStores = NO_STORES) -> Iterator[bytes]:
    """Read an input's bytes as stored, in pieces; raises `Conflict` if it was deleted meanwhile.

    A forget gives the raw logs that it rewrites other names.
    """
    uri = resolve_address(uri, stores)
    if is_address(uri):
        root = bucket_address(uri)
        store, key = stores[root], uri.removeprefix(f"{root}/")
        try:
            yield from store.stream(key)
        except InvalidSettings as problem:
            if store.exists(key):
                raise
            raise _deleted_error(uri) from problem
        return
    path = local_path(uri)
    try:
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                yield piece
    except PermissionError as problem:
        message = f"no permission to read {path}: grant read access and run again"
        raise InsufficientPermissions(message) from problem
    except FileNotFoundError as problem:
        raise _deleted_error(str(path)) from problem


def _deleted_error(name: str) -> Conflict:
    """Return, not raise, the error for a raw log that was there when the run was planned."""
    return Conflict(
        f"{name} was deleted after the run was planned; this run landed nothing: run it again"
    )
