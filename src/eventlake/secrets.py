"""The secrets of lakes. Providers pickle without them: each process reads them itself."""

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eventlake.errors import InvalidSettings


class Secrets(Protocol):
    """Provides the secrets of one lake, by the names in `LakeSettings.secrets`."""

    def get(self, name: str) -> str | None:
        """A secret, or None if it is not set."""


@dataclass(frozen=True)
class EnvironmentSecrets:
    """Reads secrets from environment variables; `variables` has the variable of each secret."""

    variables: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return os.environ.get(self.variables[name]) or None


@dataclass(frozen=True)
class FileSecrets:
    """Reads secrets from the TOML file that the setting `credentials_file` names.

    `get` raises InvalidSettings if the file cannot be read or has anything but `names`.
    """

    path: str
    names: Collection[str]

    def get(self, name: str) -> str | None:
        shown = f"credentials_file is {self.path!r}"
        try:
            secrets = tomllib.loads(Path(self.path).read_text("utf-8"))
        except OSError as problem:
            raise InvalidSettings(f"{shown}: {problem.strerror}") from None
        except ValueError:  # the message may quote the secret
            raise InvalidSettings(f"{shown}: not valid TOML") from None
        if not all(key in self.names and isinstance(value, str) for key, value in secrets.items()):
            names = " or ".join(self.names)
            raise InvalidSettings(f"{shown}: it may only have {names}, as a string")
        return secrets.get(name) or None


@dataclass(frozen=True)
class FirstSecrets:
    """Takes each secret from the first provider that has it."""

    providers: tuple[Secrets, ...]

    def get(self, name: str) -> str | None:
        return next(filter(None, (one.get(name) for one in self.providers)), None)


@dataclass(frozen=True)
class RenamedSecrets:
    """Secrets of another provider under other names; `names` has the name there of each."""

    provider: Secrets
    names: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return self.provider.get(self.names[name]) if name in self.names else None
