"""Passwords: hashed with Argon2id, with the parameters of RFC 9106 for little memory."""

import threading
from functools import cache

from argon2 import PasswordHasher, profiles
from argon2.exceptions import InvalidHashError, VerificationError

from eventlake.errors import InvalidSettings

MIN_CHARS, MAX_CHARS = 10, 1024
_HASHER = PasswordHasher.from_parameters(profiles.RFC_9106_LOW_MEMORY)
_ONE_AT_A_TIME = threading.Lock()  # each takes 64 MB


def hash_password(password: str) -> str:
    """Return the form in which a password is stored; raises InvalidSettings if it is too short."""
    if not MIN_CHARS <= len(password) <= MAX_CHARS:
        raise InvalidSettings(f"the password must have {MIN_CHARS} to {MAX_CHARS} characters")
    with _ONE_AT_A_TIME:
        return _HASHER.hash(password)


def verify_password(password: str, stored: str | None) -> bool:
    """Return whether a password is the stored one; none at all takes equally long."""
    with _ONE_AT_A_TIME:
        try:
            return _HASHER.verify(stored or _unknown_hash(), password) and bool(stored)
        except (VerificationError, InvalidHashError):
            return False


@cache
def _unknown_hash() -> str:
    return _HASHER.hash("the password of a user that does not exist")
