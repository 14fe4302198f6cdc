"""Paths as users type them, with every way in which one can be wrong as an error of ours."""

import errno
import os
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from eventlake.errors import InsufficientPermissions, InvalidSettings


def given_path(text: str) -> Path:
    """The path that a user means by a path or a `file:///` address."""
    if text.startswith("file://"):
        return _addressed_path(text)
    _check_text(text)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = text.partition("/")[0]
        raise InvalidSettings(f"{text!r}: {user} has no home folder on this machine") from None


def _addressed_path(text: str) -> Path:
    address = urlsplit(text)
    path = os.fsdecode(unquote_to_bytes(address.path))
    if address.netloc not in ("", "localhost"):
        raise InvalidSettings(f"{text!r}: write file:///{address.netloc}{path}, with three slashes")
    _check_text(path)
    return Path(path)


def _check_text(path: str) -> None:
    if not path:
        raise InvalidSettings("an empty path: is a variable unset?")
    if "\0" in path:
        raise InvalidSettings(f"{path!r}: a path cannot have a null byte")


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
