"""A source's write key, in a file beside its spool."""

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from eventlake.collect.keys import validate_write_key
from eventlake.errors import InvalidSettings


class SourceFile(msgspec.Struct):
    """The content of `source.json`: the write key, and whether events are accepted."""

    write_key: str = ""
    enabled: bool = True


@dataclass(frozen=True)
class SourceAccess:
    """A source's write keys, and whether it accepts events."""

    write_keys: tuple[str, ...] = field(repr=False)
    enabled: bool = True


def load_access(path: Path, write_keys: tuple[str, ...] = ()) -> SourceAccess:
    """Return the given keys, else the key of the source file at `path`.

    A file that exists also says whether the source is enabled. Without a key and without a file,
    creates the file with a new key. Raises `InvalidSettings` for a file that cannot be parsed or
    whose key cannot be used, and OSError for one that cannot be read.
    """
    if not path.exists():
        if write_keys:
            return SourceAccess(write_keys)
        _create_source_file(path, SourceFile(secrets.token_urlsafe(24)))
    file = _parse_source_file(path)
    if write_keys:
        return SourceAccess(write_keys, file.enabled)
    if not file.write_key:
        raise InvalidSettings(f"{path} has no write_key: add one, or remove the file for a new one")
    validate_write_key(file.write_key, str(path))
    return SourceAccess((file.write_key,), file.enabled)


def _parse_source_file(path: Path) -> SourceFile:
    """Read the JSON file; raises `InvalidSettings` if it is not valid, OSError if it is unreadable.

    Unknown fields are ignored, and missing ones have their defaults.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=SourceFile)
    except msgspec.MsgspecError as problem:
        raise InvalidSettings(
            f"{path} is not a valid source file: {problem}; fix or remove it"
        ) from None


def _create_source_file(path: Path, content: SourceFile) -> None:
    """Create the file atomically; one that another collector created meanwhile stays.

    It is durable, and only its owner can read it.
    """
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

    path: Path
    last_state: tuple[int, int] = (0, 0)

    def has_changed(self) -> bool:
        """Return whether the file has changed since the last call; False if it is missing.

        The first call returns True if the file is there.
        """
        try:
            stat = self.path.stat()
        except OSError:
            return False
        state = (stat.st_mtime_ns, stat.st_size)
        before, self.last_state = self.last_state, state
        return before != state
