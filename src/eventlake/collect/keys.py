"""Write keys: which source each is for. No error message has a key."""

import binascii
import re
from base64 import b64decode
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from eventlake.collect.refusal import Refusal
from eventlake.collect.source import Source
from eventlake.errors import InvalidSettings

MAX_KEY_CHARS = 256
_KEY = re.compile(rf"[ -9;-~]{{1,{MAX_KEY_CHARS}}}")


@dataclass(frozen=True)
class WriteKey:
    """A key, the source that it is for, and whether that source accepts events."""

    key: str = field(repr=False)
    source: Source
    enabled: bool = True


class SourceKeys:
    """The source of each write key.

    It never changes: to change keys or sources while requests arrive, replace it as a whole.
    `waiting` has the keys of sources that cannot be served at the moment. Raises `InvalidSettings`
    for a key that two sources have.
    """

    def __init__(self, keys: Iterable[WriteKey], waiting: Container[str] = ()) -> None:
        self._waiting = waiting
        self._by_key: dict[str, WriteKey] = {}
        for key in keys:
            other = self._by_key.setdefault(key.key, key)
            if other.source is not key.source:
                raise InvalidSettings(
                    f"the sources {other.source.name} and {key.source.name} have the same write "
                    "key: give each its own"
                )

    @property
    def sources(self) -> list[Source]:
        """Every source that has a key, also if it is disabled."""
        return list(dict.fromkeys(key.source for key in self._by_key.values()))

    def find(self, key: str | None) -> Source:
        """Return the source of a key.

        Raises a 401 `Refusal` if the key is missing or wrong, or its source is disabled; 503, with
        which clients send the event again, if the source cannot be served at the moment.
        """
        if not key:
            raise Refusal(401, "no_write_key", "send the write key as Basic user or `writeKey`")
        # A lookup compares keys only if their hashes, which differ in each process, are equal. So
        # the time it takes does not tell how much of a guessed key is right.
        match = self._by_key.get(key)
        if match is None and key in self._waiting:
            raise Refusal(503, "not_served", "the source cannot be served now; send it again")
        if match is None:
            raise Refusal(401, "invalid_write_key", "no source has this write key")
        if not match.enabled:
            raise Refusal(401, "source_disabled", "the source is disabled")
        return match.source


def parse_basic_user(header: bytes) -> str | None:
    """Return the user of a Basic `Authorization` header; None for other or malformed headers."""
    scheme, _, credentials = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        return b64decode(credentials, validate=False).decode("utf-8", "replace").partition(":")[0]
    except (binascii.Error, ValueError):
        return None


def validate_write_key(key: str, origin: str) -> None:
    """Raise `InvalidSettings`, naming `origin`, for a key that cannot be sent as Basic user.

    It must have 1 to `MAX_KEY_CHARS` printable ASCII characters and no colon.
    """
    if not _KEY.fullmatch(key):
        raise InvalidSettings(
            f"the write key of {origin} cannot be sent as Basic user: it must have 1 to "
            f"{MAX_KEY_CHARS} printable ASCII characters and no colon"
        )
