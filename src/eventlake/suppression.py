"""Suppressed users, whose events neither the collector stores nor a load lands."""

from pathlib import Path

from eventlake.errors import InvalidSettings


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
