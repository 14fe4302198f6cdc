"""The write key of a source. It is compared in constant time and never printed in errors."""

import binascii
import hmac
import re
from base64 import b64decode
from dataclasses import dataclass, field

from eventlake.collect.refusal import Refusal
from eventlake.errors import InvalidSettings

MAX_KEY_CHARS = 256
_KEY = re.compile(rf"[ -9;-~]{{1,{MAX_KEY_CHARS}}}")


@dataclass(frozen=True)
class Gate:
    """A source's write key, and whether the source accepts events."""

    write_key: str = field(repr=False)
    enabled: bool = True

    def check(self, key: str | None) -> None:
        """Raise a 401 `Refusal` if the key is missing or wrong, or the source is disabled."""
        if not key:
            raise Refusal(401, "no_write_key", "send the write key as Basic user or `writeKey`")
        if not hmac.compare_digest(key.encode("utf-8", "replace"), self.write_key.encode()):
            raise Refusal(401, "invalid_write_key", "no source has this write key")
        if not self.enabled:
            raise Refusal(401, "source_disabled", "the source is disabled")


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
    """Raise `InvalidSettings`, naming `origin`, for a key that cannot be sent as Basic user."""
    if not _KEY.fullmatch(key):
        raise InvalidSettings(
            f"the write key of {origin} cannot be sent as Basic user: it must have 1 to "
            f"{MAX_KEY_CHARS} printable ASCII characters and no colon"
        )
