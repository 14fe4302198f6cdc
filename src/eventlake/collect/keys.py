"""Who may send: the write key of a source, compared in constant time and shown to nobody."""

import binascii
import hmac
import re
from base64 import b64decode
from dataclasses import dataclass, field

from eventlake.collect.refusal import Refusal
from eventlake.errors import InvalidSettings

MAX_KEY = 256
_KEY = re.compile(rf"[ -9;-~]{{1,{MAX_KEY}}}")


@dataclass(frozen=True)
class Gate:
    """A source's write key, and whether the source takes events at all."""

    write_key: str = field(repr=False)
    enabled: bool = True

    def admit(self, given: str | None) -> None:
        """Refuse whoever does not have the key, and everybody while the source is disabled."""
        if not given:
            raise Refusal(401, "no_write_key", "send the write key as Basic user or `writeKey`")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.write_key.encode()):
            raise Refusal(401, "invalid_write_key", "no source has this write key")
        if not self.enabled:
            raise Refusal(401, "source_disabled", "the source is disabled")


def basic_user(header: bytes) -> str | None:
    """The user of a Basic `Authorization` header; None when it is another kind or malformed."""
    scheme, _, coded = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        return b64decode(coded, validate=False).decode("utf-8", "replace").partition(":")[0]
    except (binascii.Error, ValueError):
        return None


def check_key(key: str, origin: str) -> None:
    """Raise `InvalidSettings` for a key that no sender could send as Basic user."""
    if not _KEY.fullmatch(key):
        raise InvalidSettings(
            f"the write key of {origin} cannot be sent as Basic user: it must have 1 to {MAX_KEY} "
            "printable ASCII characters and no colon"
        )
