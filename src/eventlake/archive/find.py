"""The logs that a user's paths name, and what is left out of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from eventlake.archive.addresses import (
    LAKE,
    NONE,
    Holders,
    absolute,
    fingerprint,
    holder_of,
    is_address,
    lake_address,
)
from eventlake.archive.walk import (
    SUFFIXES,
    TABLES,
    Entry,
    PassedOver,
    Stream,
    Unreadable,
    files,
    has_log_name,
    refuse_own,
)
from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.model.commit import Input
from eventlake.model.layout import LOGS
from eventlake.stores import Disk, Object, Store

__all__ = ["SUFFIXES", "Found", "find"]

CLUSTER_LOGS = "logs"
"""Where EMR writes its logs in a lake's bucket."""
NAMED_PROBLEMS = 5


@dataclass(frozen=True)
class Found:
    """What paths name."""

    inputs: tuple[Input, ...]
    streams: tuple[str, ...] = ()
    """Pipes, and `-` for standard input: each can be read once."""
    passed_over: tuple[str, ...] = ()
    """What is in a folder and not a log; where its name does not say why, the reason follows."""
    without_logs: tuple[str, ...] = ()
    """Paths of the user that name no log at all."""


def find(paths: Iterable[str | Path], holders: Holders = NONE) -> Found:
    """Every log below the paths, each once, in order of their addresses.

    Raises `InsufficientPermissions` when a file or folder cannot be read.
    """
    inputs: dict[str, Input] = {}
    streams: dict[str, None] = {}
    passed_over: set[PassedOver] = set()
    unreadable: list[Unreadable] = []
    without_logs = []
    for path in map(str, paths):
        logs = 0
        for entry in _entries(path, holders):
            if isinstance(entry, PassedOver):
                passed_over.add(entry)
            elif isinstance(entry, Unreadable):
                unreadable.append(entry)
            else:
                logs += 1
                _add(entry, inputs, streams)
        if not logs and not path.startswith(LAKE):
            without_logs.append(path)
    _check_readable(unreadable)
    # What has a reason comes first: it is less expected than a file of another kind.
    ordered = sorted(passed_over, key=lambda one: (not one.reason, one.path))
    return Found(
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
    named = ", ".join(f"{one.path} ({one.reason})" for one in unreadable[:NAMED_PROBLEMS])
    more = len(unreadable) - NAMED_PROBLEMS
    rest = f" and {more:,} more" if more > 0 else ""
    raise InsufficientPermissions(
        f"may not read {named}{rest}: grant that, or name the files to load; nothing was loaded"
    )


def _entries(path: str, holders: Holders) -> Iterator[Entry]:
    path = absolute(path, holders)
    lake = holders.get(LAKE)
    if is_address(path):
        return _objects(path, holders)
    return files(path, lake.root if isinstance(lake, Disk) else None)


def _objects(address: str, holders: Holders) -> Iterator[Entry]:
    """Objects; one that the user named himself is a log whatever its name."""
    root = holder_of(address)
    store, path = holders[root], address.removeprefix(root).strip("/")
    own = store is holders.get(LAKE)
    if own:
        refuse_own(address, path)
    if path and (named := store.find(path)):
        yield _stored(store, named, own=own)
        return
    found = _listed(store, path, own=own)
    empty = True
    for one in found:
        empty = False
        if isinstance(one, PassedOver):
            yield one
        elif has_log_name(PurePosixPath(one.path).relative_to(path)):
            yield _stored(store, one, own=own)
        else:
            yield PassedOver(store.uri(one.path))
    if empty:
        raise InvalidSettings(f"there is no object {address!r}, and none below it")


def _listed(store: Store, path: str, *, own: bool) -> Iterator[Object | PassedOver]:
    """The objects below a path; of a whole bucket not those that a lake has made in it."""
    if path:
        yield from store.objects(path)
        return
    folders, names = store.names("")
    for name in names:
        found = store.find(name)
        if found:
            yield found
    for folder in folders:
        if own and folder in (*TABLES, LOGS, CLUSTER_LOGS):
            yield PassedOver(store.uri(folder), "the lake itself")
        elif folder in TABLES:
            yield PassedOver(store.uri(folder), "tables of a lake")
        else:
            yield from store.objects(folder)


def _stored(store: Store, found: Object, *, own: bool) -> Input:
    uri = lake_address(found.path) if own else store.uri(found.path)
    mark = fingerprint(uri, found.size, found.etag)
    return Input(uri=uri, fingerprint=mark, size=found.size)
