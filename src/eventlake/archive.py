"""Raw logs: what a user's paths name, which files are logs, how one is opened.

A log is a file on disk (`file:///…`) or an object in a bucket (`s3://…`).
"""

import glob
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType
from urllib.parse import unquote_to_bytes, urlsplit

from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.kernels.lines import Damage, blocks
from eventlake.kernels.route import Refused, examine
from eventlake.model.commit import Input
from eventlake.model.layout import LOGS
from eventlake.model.types import timestamp
from eventlake.stores import Object, Store

PIECE = 256 << 10
SUFFIXES = (".gz", ".zst", ".json", ".jsonl", ".ndjson", ".log")

Holders = Mapping[str, Store]
"""The buckets that logs lie in, by what their addresses begin with."""
NONE: Holders = MappingProxyType({})


@dataclass(frozen=True)
class Found:
    """The logs that paths name, and the files in folders that are something else."""

    inputs: tuple[Input, ...]
    passed_over: tuple[str, ...]


def find(paths: Iterable[str | Path], holders: Holders = NONE) -> Found:
    """Every log below the paths, each once, in order of their addresses."""
    inputs: dict[str, Input] = {}
    passed_over: set[str] = set()
    for path in map(str, paths):
        for one, is_log in _objects(path, holders) if is_address(path) else _files(path):
            if is_log:
                inputs[one.uri] = one
            else:
                passed_over.add(_shown(one.uri))
    ordered = tuple(inputs[uri] for uri in sorted(inputs))
    return Found(ordered, tuple(sorted(passed_over)))


def is_address(path: str) -> bool:
    """Whether a path names objects in a bucket."""
    return "://" in path and not path.startswith("file://")


def holder_of(uri: str) -> str:
    """What the address of an object in a bucket begins with: `s3://bucket`."""
    return "/".join(uri.split("/", 3)[:3])


def _shown(uri: str) -> str:
    return uri if is_address(uri) else str(local_path(uri))


def _objects(address: str, holders: Holders) -> Iterator[tuple[Input, bool]]:
    """Objects, each with whether it is a log; one that the user named himself is."""
    root = holder_of(address)
    store, path = holders[root], address.removeprefix(root).strip("/")
    if path and (named := store.find(path)):
        yield _stored(store, named), True
        return
    found = list(store.objects(path))
    if not found:
        raise InvalidSettings(f"there is no object {address!r}, and none below it")
    for one in found:
        yield _stored(store, one), _looks_like_logs(PurePosixPath(one.path).relative_to(path))


def _stored(store: Store, found: Object) -> Input:
    mark = found.mark.strip('"')
    return Input(uri=store.uri(found.path), fingerprint=f"{found.size:x}-{mark}", size=found.size)


def _files(path: str) -> Iterator[tuple[Input, bool]]:
    """Files, each with whether it is a log; one that the user named himself is."""
    given = local_path(path) if path.startswith("file://") else Path(path).expanduser()
    if given.exists():
        yield from _below(given)
        return
    matches = [Path(match) for match in sorted(glob.glob(str(given), recursive=True))]  # noqa: PTH207 - absolute globs too
    found = [match for match in matches if match.exists()]
    if not found:
        raise InvalidSettings(f"there is no file, folder or match for {path!r}")
    for match in found:
        yield from _below(match)


def _below(given: Path) -> Iterator[tuple[Input, bool]]:
    if given.is_file():
        yield _input(given), True
        return
    for file in sorted(given.rglob("*")):
        if file.is_file():
            yield _input(file), _looks_like_logs(file.relative_to(given))


def _looks_like_logs(file: PurePath) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.parts)
    return not hidden and file.name.lower().endswith(SUFFIXES)


def _input(file: Path) -> Input:
    file = file.resolve()
    try:
        state = file.stat()
    except OSError as problem:
        raise InsufficientPermissions(f"may not read {file}: {problem.strerror}") from problem
    return Input(
        uri=file.as_uri(),
        fingerprint=f"{state.st_size:x}-{state.st_mtime_ns:x}",
        size=state.st_size,
    )


def local_path(uri: str) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(urlsplit(uri).path)))


def open_log(uri: str, holders: Holders = NONE) -> Iterator[bytes]:
    """A log's bytes as they are stored, piece by piece."""
    if is_address(uri):
        root = holder_of(uri)
        yield from holders[root].pieces(uri.removeprefix(f"{root}/"))
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


def keep(
    inputs: Iterable[Input], store: Store, folder: str, holders: Holders = NONE
) -> tuple[Input, ...]:
    """Copies of logs in the lake's own archive, each made once, in order of their addresses."""
    kept = (_kept(one, store, folder, holders) for one in inputs)
    return tuple(sorted(kept, key=lambda one: one.uri))


def _kept(one: Input, store: Store, folder: str, holders: Holders) -> Input:
    archive = f"{LOGS}/{folder}"
    if one.uri.startswith(f"{store.uri(archive)}/"):
        return one
    name = _plain_name(_shown(one.uri).rpartition("/")[2])
    mark = hashlib.sha256(f"{one.uri} {one.fingerprint}".encode()).hexdigest()[:12]
    path = f"{archive}/{_received_day(one, holders)}/{mark}-{name}"
    if not store.exists(path):
        with store.placing(path) as copy:
            for piece in open_log(one.uri, holders):
                copy.write(piece)
    origin = {"origin": (one.uri, one.fingerprint)}
    return _archived(store, path).model_copy(update=origin)


def _archived(store: Store, path: str) -> Input:
    """An object of the lake's archive, as a load of its address knows it."""
    uri = store.uri(path)
    (found,) = find([uri], {holder_of(uri): store}).inputs
    return found


def _plain_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "-" for char in name)


def _received_day(one: Input, holders: Holders) -> int:
    """The day of a log's first event, as the archive's folders are named: Unix milliseconds."""
    moment = _first_received(one, holders)
    if moment is None:
        moment = int(_modified(one, holders) * 1e6)
    day = datetime.fromtimestamp(moment // 1_000_000, UTC).replace(hour=0, minute=0, second=0)
    return int(day.timestamp()) * 1000


def _modified(one: Input, holders: Holders) -> float:
    if not is_address(one.uri):
        return local_path(one.uri).stat().st_mtime
    root = holder_of(one.uri)
    found = holders[root].find(one.uri.removeprefix(f"{root}/"))
    return found.modified.timestamp() if found else time.time()


def _first_received(one: Input, holders: Holders) -> int | None:
    for block in blocks(lambda: open_log(one.uri, holders)):
        if isinstance(block, Damage):
            return None
        for line in block.split(b"\n"):
            try:
                return timestamp(examine(line).receivedAt)
            except Refused:
                continue
    return None
