"""Paths as users type them; every mistake in one is an InvalidSettings error."""

import errno
import os
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from eventlake.errors import InsufficientPermissions, InvalidSettings


def parse_path(text: str, setting: str = "") -> Path:
    """The path of a path or `file:///` address; `setting` is the name to put in errors."""
    shown = f"{setting} is {text!r}" if setting else repr(text)
    path = _path_of_url(text, shown) if text.startswith("file://") else text
    if not path:
        raise InvalidSettings(f"{shown}: an empty path: is a variable unset?")
    if "\0" in path:
        raise InvalidSettings(f"{shown}: a path cannot have a null byte")
    if path is not text:
        return Path(path)
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = path.partition("/")[0]
        raise InvalidSettings(f"{shown}: {user} has no home folder on this machine") from None


def _path_of_url(text: str, shown: str) -> str:
    address = urlsplit(text)
    path = os.fsdecode(unquote_to_bytes(address.path))
    if address.netloc not in ("", "localhost"):
        raise InvalidSettings(f"{shown}: write file:///{address.netloc}{path}, with three slashes")
    return path


def file_status(path: Path) -> os.stat_result | None:
    """`stat` of a path, following links; None if nothing is there."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as problem:
        raise InsufficientPermissions(
            f"no permission to read {path}: grant it and run again"
        ) from problem
    except OSError as problem:
        name = _shorten(str(path)) if problem.errno == errno.ENAMETOOLONG else str(path)
        raise InvalidSettings(f"{name}: {problem.strerror}") from problem


def _shorten(name: str) -> str:
    return name if len(name) < 100 else f"{name[:50]}…{name[-30:]}"
