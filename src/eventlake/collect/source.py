"""What a collector knows of its source: its folder in the archive, its write key, its people."""

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from eventlake.collect.keys import Gate, check_key
from eventlake.errors import InvalidSettings
from eventlake.ledger import find_source
from eventlake.model.layout import LOGS
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.stores import Store


def settings_for(store: Store, source: str, **given: object) -> SourceSettings:
    """A source's settings: what is given, else as its last load had them, else the defaults.

    `source` is its slug or its id; with a `source_id` it is the slug of that source.
    """
    known = find_source(store, str(given.get("source_id") or source))
    if known and source not in (known.source, known.source_id):
        raise InvalidSettings(
            f"source is {source!r}, and {known.source_id} is the id of {known.source}: "
            "leave one of the two out"
        )
    before = known.model_dump() if known else {"source": source}
    return source_settings(**before | {k: v for k, v in given.items() if v is not None})


def archive_folder(settings: SourceSettings) -> str:
    """Where a source's raw events lie in the lake."""
    return f"{LOGS}/{settings.folder}"


class Kept(msgspec.Struct):
    """The source's file: who may send."""

    write_key: str = ""
    enabled: bool = True


def source_gate(path: Path, given: str | None = None) -> Gate:
    """The gate of a source: a given key, else that of its file, which the first start makes."""
    if not path.exists():
        if given:
            return Gate(given)
        _make(path, Kept(secrets.token_urlsafe(24)))
    kept = _read(path)
    if not (given or kept.write_key):
        raise InvalidSettings(f"{path} has no write_key: add one, or remove the file for a new one")
    if not given:
        check_key(kept.write_key, str(path))
    return Gate(given or kept.write_key, kept.enabled)


def _read(path: Path) -> Kept:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except msgspec.MsgspecError as problem:
        raise InvalidSettings(f"{path} is no source file: {problem}; remove or mend it") from None


def _make(path: Path, kept: Kept) -> None:
    """Two collectors may start at once: the first file counts, and it is never half there."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(kept))
        file.flush()
        os.fsync(file.fileno())  # senders are told this key: it must not change with a power cut
    with suppress(FileExistsError):
        path.hardlink_to(new)
    new.unlink()


@dataclass
class Watched:
    """A file that is read again when it changes."""

    path: Path | None
    seen: tuple[int, int] = (0, 0)

    def changed(self) -> bool:
        """Whether there is something new to read; a file that has gone is no news."""
        if self.path is None:
            return False
        try:
            state = self.path.stat()
        except OSError:
            return False
        now = (state.st_mtime_ns, state.st_size)
        before, self.seen = self.seen, now
        return before != now


def people(path: Path) -> frozenset[str]:
    """The user ids of a suppression file, one a line, exactly as they are written there.

    Spaces and every other character count: only `\\n` and `\\r\\n` end a line.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidSettings(f"{path} is not UTF-8: it should have one user id a line") from None
    return frozenset(line.removesuffix("\r") for line in text.split("\n")) - {""}
