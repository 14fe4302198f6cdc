"""Secrets in the database: sealed with a key that is kept elsewhere, or references.

`env:NAME` and `file:/path` are references. Each process that needs such a secret reads it, and it
is never stored.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from eventlake.errors import InsufficientPermissions, InvalidSettings

KEY_VARIABLE = "EVENTLAKE_SECRET_KEY"
SEALED = "sealed:"


class Vault:
    """Seals texts with the first of its keys, and opens what any of them has sealed."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Raises InvalidSettings for a key that is not one of Fernet's."""
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys])
        except ValueError:  # the message may show the key
            raise InvalidSettings(
                f"a key must be 32 bytes as URL-safe Base64; {KEY_VARIABLE} may have several with "
                "commas between them, the key file several lines, the newest first"
            ) from None

    def store(self, secret: str) -> str:
        """The form in which a secret is stored: as it is if it is a reference, else sealed."""
        return secret if is_reference(secret) else SEALED + self._seal(secret)

    def resolve(self, name: str, stored: str) -> str:
        """The secret `name` of its stored form.

        Raises InvalidSettings if it cannot be opened, or if what it refers to is not there.
        """
        if stored.startswith(SEALED):
            return self._open(name, stored)
        kind, _, place = stored.partition(":")
        return _read_variable(name, place) if kind == "env" else _read_file(name, place)

    def reseal(self, name: str, stored: str) -> str:
        """The stored form of a secret under the newest key."""
        return stored if is_reference(stored) else SEALED + self._seal(self._open(name, stored))

    def _seal(self, secret: str) -> str:
        return self._fernet.encrypt(secret.encode()).decode()

    def _open(self, name: str, stored: str) -> str:
        try:
            return self._fernet.decrypt(stored.removeprefix(SEALED)).decode()
        except InvalidToken:
            raise InvalidSettings(
                f"{name} was sealed with another key: add that key to {KEY_VARIABLE} or to the key "
                f"file, or set {name} again"
            ) from None


def is_reference(secret: str) -> bool:
    return secret.startswith(("env:", "file:"))


def open_vault(key_file: Path, environment: Mapping[str, str] = os.environ) -> Vault:
    """A vault with the keys of the environment, else with those in `key_file`, the newest first.

    The file is created with a new key if it is not there. Raises InsufficientPermissions if others
    than its owner may read it.
    """
    if keys := environment.get(KEY_VARIABLE):
        return Vault(keys.split(","))
    try:
        return Vault(_read_keys(key_file))
    except OSError as problem:
        raise InsufficientPermissions(
            f"cannot use the key file {key_file}: {problem.strerror}"
        ) from problem


def _read_keys(path: Path) -> list[str]:
    if not path.exists():
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(Fernet.generate_key())
            file.flush()
            os.fsync(file.fileno())  # what it seals is lost without it
    if path.stat().st_mode & 0o077:
        raise InsufficientPermissions(f"others may read the key file {path}: chmod 600 {path}")
    return path.read_text("ascii").split() or [""]


def _read_variable(name: str, variable: str) -> str:
    if secret := os.environ.get(variable):
        return secret
    raise InvalidSettings(f"{name} is 'env:{variable}': the environment has no such variable")


def _read_file(name: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "not UTF-8"
        raise InvalidSettings(f"{name} is 'file:{path}': {reason}") from None
