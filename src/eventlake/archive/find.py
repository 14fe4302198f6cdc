"""Find the inputs that a user's paths name, and what to ignore among them."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from eventlake.archive.addresses import (
    LAKE,
    NO_STORES,
    InputStores,
    bucket_address,
    fingerprint,
    is_address,
    lake_address,
    local_path,
    resolve_address,
)
from eventlake.archive.walk import (
    OTHER_LAKES,
    SUFFIXES,
    Entry,
    IgnoredPath,
    Stream,
    Unreadable,
    find_entries,
    has_input_name,
    lake_folders,
    refuse_lake_folder,
)
from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.model.commit import Input
from eventlake.model.layout import DEFAULT_LAYOUT, LOGS, Layout
from eventlake.paths import file_status
from eventlake.stores import Disk, Object, Store

__all__ = ["SUFFIXES", "InputListing", "find_inputs"]

MAX_REQUESTS = 16
"""Inputs that are looked up in parallel."""
CLUSTER_LOGS = "logs"
"""Where clusters write their logs in a lake's bucket."""
MAX_NAMED_PATHS = 5
"""Unreadable paths that an error lists."""


@dataclass(frozen=True)
class InputListing:
    """What was found below paths."""

    inputs: tuple[Input, ...]
    streams: tuple[str, ...] = ()
    """Pipes, and `-` for standard input: each can be read once."""
    passed_over: tuple[str, ...] = ()
    """Other files in folders; with the reason if their name does not show it."""
    without_logs: tuple[str, ...] = ()
    """Paths of the user without any input."""


def find_inputs(
    paths: Iterable[str | Path], stores: InputStores = NO_STORES, layout: Layout = DEFAULT_LAYOUT
) -> InputListing:
    """Find all inputs below the paths, each once, sorted by address.

    What is in the tables and stages of the lake, by its `layout`, is not an input.
    Raises `InsufficientPermissions` when a file or folder cannot be read.
    """
    inputs: dict[str, Input] = {}
    streams: dict[str, None] = {}
    passed_over: set[IgnoredPath] = set()
    unreadable: list[Unreadable] = []
    without_logs = []
    for path in map(str, paths):
        logs = 0
        for entry in _find_entries(path, stores, layout):
            if isinstance(entry, IgnoredPath):
                passed_over.add(entry)
            elif isinstance(entry, Unreadable):
                unreadable.append(entry)
            else:
                logs += 1
                _add(entry, inputs, streams)
        if not logs and not path.startswith(LAKE):
            without_logs.append(path)
    _check_readable(unreadable)
    # Paths with a reason come first, because they are less expected than files of another type.
    ordered = sorted(passed_over, key=lambda one: (not one.reason, one.path))
    return InputListing(
        inputs=tuple(inputs[uri] for uri in sorted(inputs)),
        streams=tuple(streams),
        passed_over=tuple(map(str, ordered)),
        without_logs=tuple(without_logs),
    )


def _add(entry: Input | Stream, inputs: dict[str, Input], streams: dict[str, None]) -> None:
    if isinstance(entry, Stream):
        streams[entry.path] = None
    else:
        inputs[entry.uri] = entry


def _check_readable(unreadable: list[Unreadable]) -> None:
    if not unreadable:
        return
    named = ", ".join(f"{one.path} ({one.reason})" for one in unreadable[:MAX_NAMED_PATHS])
    more = len(unreadable) - MAX_NAMED_PATHS
    rest = f" and {more:,} more" if more > 0 else ""
    raise InsufficientPermissions(
        f"no permission to read {named}{rest}: grant read access, or name the files to load; "
        "nothing was loaded"
    )


def _find_entries(path: str, stores: InputStores, layout: Layout) -> Iterator[Entry]:
    path = resolve_address(path, stores)
    lake = stores.get(LAKE)
    if is_address(path):
        return _find_objects(path, stores, layout)
    return find_entries(path, lake.root if isinstance(lake, Disk) else None, layout)


def _find_objects(address: str, stores: InputStores, layout: Layout) -> Iterator[Entry]:
    """Find inputs in a bucket; an object that the address names exactly is one by any name.

    An address that ends with a slash is that of a folder.
    """
    root = bucket_address(address)
    store, path = stores[root], address.removeprefix(root).strip("/")
    own = store is stores.get(LAKE)
    if own:
        refuse_lake_folder(address, path, layout)
    if path and not address.endswith("/") and (named := store.find(path)):
        yield _object_input(store, named, own=own)
        return
    empty = True
    for one in _list_objects(store, path, layout if own else None):
        empty = False
        if isinstance(one, IgnoredPath):
            yield one
        elif has_input_name(PurePosixPath(one.path).relative_to(path)):
            yield _object_input(store, one, own=own)
        else:
            yield IgnoredPath(store.uri(one.path))
    if empty:
        raise InvalidSettings(f"there is no object {address!r} and none below it")


def find_lost(inputs: Iterable[Input], stores: InputStores) -> tuple[Input, ...]:
    """The inputs whose file is gone, or is another than the one that was loaded."""
    every = list(inputs)
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        unchanged = pool.map(lambda one: _is_unchanged(one, stores), every)
        return tuple(one for one, same in zip(every, unchanged, strict=True) if not same)


def _is_unchanged(one: Input, stores: InputStores) -> bool:
    uri = resolve_address(one.uri, stores)
    if is_address(uri):
        root = bucket_address(uri)
        item = stores[root].find(uri.removeprefix(f"{root}/"))
        return item is not None and fingerprint(one.uri, item.size, item.etag) == one.fingerprint
    status = file_status(local_path(uri))
    if status is None:
        return False
    return fingerprint(one.uri, status.st_size, f"{status.st_mtime_ns:x}") == one.fingerprint


def _list_objects(store: Store, path: str, own: Layout | None) -> Iterator[Object | IgnoredPath]:
    """List the objects below a path; in a whole bucket, ignore the folders of a lake.

    `own` is the layout of the lake that is loaded into, if the bucket is that lake.
    """
    own_folders = (*lake_folders(own), LOGS, CLUSTER_LOGS) if own else ()
    if path:
        yield from store.objects(path)
        return
    folders, names = store.names("")
    for name in names:
        if item := store.find(name):
            yield item
    for folder in folders:
        if folder in own_folders:
            yield IgnoredPath(store.uri(folder), "the lake itself")
        elif folder in OTHER_LAKES:
            yield IgnoredPath(store.uri(folder), "tables of a lake")
        else:
            yield from store.objects(folder)


def _object_input(store: Store, item: Object, *, own: bool) -> Input:
    uri = lake_address(item.path) if own else store.uri(item.path)
    mark = fingerprint(uri, item.size, item.etag)
    return Input(uri=uri, fingerprint=mark, size=item.size)
