"""Paths as users type them, with every way in which one can be wrong as an error of ours."""

import errno
import os
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from eventlake.errors import InsufficientPermissions, InvalidSettings


def parse_path(text: str, setting: str = "") -> Path:
    """The path that a user means by a path or a `file:///` address, as the value of a setting."""
    told = f"{setting} is {text!r}" if setting else repr(text)
    path = _addressed_path(text, told) if text.startswith("file://") else text
    if not path:
        raise InvalidSettings(f"{told}: an empty path: is a variable unset?")
    if "\0" in path:
        raise InvalidSettings(f"{told}: a path cannot have a null byte")
    if path is not text:
        return Path(path)
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = path.partition("/")[0]
        raise InvalidSettings(f"{told}: {user} has no home folder on this machine") from None


def _addressed_path(text: str, told: str) -> str:
    address = urlsplit(text)
    path = os.fsdecode(unquote_to_bytes(address.path))
    if address.netloc not in ("", "localhost"):
        raise InvalidSettings(f"{told}: write file:///{address.netloc}{path}, with three slashes")
    return path


def file_status(path: Path) -> os.stat_result | None:
    """What the system says of a path, at the end of its links; None when nothing is there."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as problem:
        raise InsufficientPermissions(
            f"may not look at {path}: grant that and run again"
        ) from problem
    except OSError as problem:
        name = _shortened(str(path)) if problem.errno == errno.ENAMETOOLONG else str(path)
        raise InvalidSettings(f"{name}: {problem.strerror}") from problem


def _shortened(name: str) -> str:
    return name if len(name) < 100 else f"{name[:50]}…{name[-30:]}"
