"""A source's settings, archive folder, write key and suppressed users."""

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from eventlake.collect.keys import Gate, validate_write_key
from eventlake.errors import InvalidSettings
from eventlake.ledger import find_source
from eventlake.model.layout import LOGS, Layout
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.stores import Store


def resolve_settings(
    store: Store, layout: Layout, source: str, **changes: object
) -> SourceSettings:
    """Return the settings of a source's last load, or the defaults, with `changes` applied.

    `source` is its slug or its id; with a `source_id` it is the slug of that source. Changes that
    are None are ignored. Raises `InvalidSettings` when `source` and `source_id` contradict.
    """
    last = find_source(store, layout, str(changes.get("source_id") or source))
    if last and source not in (last.source, last.source_id):
        raise InvalidSettings(
            f"source is {source!r}, and {last.source_id} is the id of {last.source}: "
            "leave one of the two out"
        )
    settings = last.model_dump() if last else {"source": source}
    return source_settings(**settings | {k: v for k, v in changes.items() if v is not None})


def archive_folder(settings: SourceSettings) -> str:
    """Return the folder of a source's raw events, relative to the lake."""
    return f"{LOGS}/{settings.folder}"


class SourceFile(msgspec.Struct):
    """The content of `source.json`: the write key, and whether events are accepted."""

    write_key: str = ""
    enabled: bool = True


def load_gate(path: Path, write_key: str | None = None) -> Gate:
    """Return the gate with the given key, else with the key of the source file at `path`.

    Without a key and without a file, creates the file with a new key. Raises `InvalidSettings`
    for a file that cannot be parsed or whose key cannot be used.
    """
    if not path.exists():
        if write_key:
            return Gate(write_key)
        _create_file(path, SourceFile(secrets.token_urlsafe(24)))
    file = _read_file(path)
    if not (write_key or file.write_key):
        raise InvalidSettings(f"{path} has no write_key: add one, or remove the file for a new one")
    if not write_key:
        validate_write_key(file.write_key, str(path))
    return Gate(write_key or file.write_key, file.enabled)


def _read_file(path: Path) -> SourceFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=SourceFile)
    except msgspec.MsgspecError as problem:
        raise InvalidSettings(
            f"{path} is not a valid source file: {problem}; fix or remove it"
        ) from None


def _create_file(path: Path, content: SourceFile) -> None:
    """Create the file atomically; one that another collector created meanwhile stays."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(content))
        file.flush()
        os.fsync(file.fileno())  # senders are configured with this key: it must survive a crash
    with suppress(FileExistsError):
        path.hardlink_to(new)
    new.unlink()


@dataclass
class WatchedFile:
    """Detects changes of a file by its modification time and size."""

    path: Path | None
    last_state: tuple[int, int] = (0, 0)

    def has_changed(self) -> bool:
        """Return whether the file has changed since the last call; False if it is missing."""
        if self.path is None:
            return False
        try:
            stat = self.path.stat()
        except OSError:
            return False
        state = (stat.st_mtime_ns, stat.st_size)
        before, self.last_state = self.last_state, state
        return before != state


def read_suppressed_users(path: Path) -> frozenset[str]:
    """Return the user ids of a suppression file, one a line, exactly as they are written there.

    Spaces and every other character count: only `\\n` and `\\r\\n` end a line. Raises
    `InvalidSettings` for a file that is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidSettings(f"{path} is not UTF-8: it should have one user id a line") from None
    return frozenset(line.removesuffix("\r") for line in text.split("\n")) - {""}
