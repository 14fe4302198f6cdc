"""Raw logs: what a user's paths name, which files are logs, how one is opened."""

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.kernels.lines import Damage, blocks
from eventlake.kernels.route import Refused, examine
from eventlake.model.commit import Input
from eventlake.model.layout import LOGS
from eventlake.model.types import timestamp
from eventlake.stores import Store

PIECE = 256 << 10
SUFFIXES = (".gz", ".zst", ".json", ".jsonl", ".ndjson", ".log")


@dataclass(frozen=True)
class Found:
    """The logs that paths name, and the files in folders that are something else."""

    inputs: tuple[Input, ...]
    passed_over: tuple[str, ...]


def find(paths: Iterable[str | Path]) -> Found:
    """Every log below the paths, each once, in order of their addresses."""
    inputs: dict[str, Input] = {}
    passed_over: set[str] = set()
    for path in paths:
        for file, is_log in _files(str(path)):
            if is_log:
                one = _input(file)
                inputs[one.uri] = one
            else:
                passed_over.add(str(file))
    ordered = tuple(inputs[uri] for uri in sorted(inputs))
    return Found(ordered, tuple(sorted(passed_over)))


def _files(path: str) -> Iterator[tuple[Path, bool]]:
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


def _below(given: Path) -> Iterator[tuple[Path, bool]]:
    if given.is_file():
        yield given, True
        return
    for file in sorted(given.rglob("*")):
        if file.is_file():
            yield file, _looks_like_logs(file.relative_to(given))


def _looks_like_logs(file: Path) -> bool:
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


def open_log(uri: str) -> Iterator[bytes]:
    """A log's bytes as they are stored, piece by piece."""
    path = local_path(uri)
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
    except PermissionError as problem:
        raise InsufficientPermissions(f"may not read {path}: grant that and run again") from problem
    except FileNotFoundError as problem:
        raise InvalidSettings(f"{path} has gone since the run was planned") from problem


def keep(inputs: Iterable[Input], store: Store, folder: str) -> tuple[Input, ...]:
    """Copies of logs in the lake's own archive, each made once, in order of their addresses."""
    return tuple(sorted((_kept(one, store, folder) for one in inputs), key=lambda kept: kept.uri))


def _kept(one: Input, store: Store, folder: str) -> Input:
    source = local_path(one.uri)
    mark = hashlib.sha256(f"{one.uri} {one.fingerprint}".encode()).hexdigest()[:12]
    path = f"{LOGS}/{folder}/{_received_day(one)}/{mark}-{_plain_name(source.name)}"
    if not store.exists(path):
        _copy(source, store, path)
    kept = _input(Path(store.root) / path)
    return kept.model_copy(update={"origin": (one.uri, one.fingerprint)})


def _copy(source: Path, store: Store, path: str) -> None:
    """A file into the archive, piece by piece; it has its name only when it is whole."""
    folder, _, name = path.rpartition("/")
    part = f"{folder}/.{name}.part"
    with store.writing(part) as copy:
        for piece in open_log(source.as_uri()):
            copy.write(piece)
    store.settle(part)
    store.move(part, path)


def _plain_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "-" for char in name)


def _received_day(one: Input) -> int:
    """The day of a log's first event, as the archive's folders are named: Unix milliseconds."""
    moment = _first_received(one)
    if moment is None:
        moment = int(local_path(one.uri).stat().st_mtime * 1e6)
    day = datetime.fromtimestamp(moment // 1_000_000, UTC).replace(hour=0, minute=0, second=0)
    return int(day.timestamp()) * 1000


def _first_received(one: Input) -> int | None:
    for block in blocks(lambda: open_log(one.uri)):
        if isinstance(block, Damage):
            return None
        for line in block.split(b"\n"):
            try:
                return timestamp(examine(line).receivedAt)
            except Refused:
                continue
    return None
