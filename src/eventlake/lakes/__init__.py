"""A lake from what a user says: a folder, an address, or a file of settings."""

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.lake import Lake
from eventlake.model.lake import (
    AwsSettings,
    AzureSettings,
    LakeSettings,
    LocalSettings,
    lake_settings,
)
from eventlake.ports import JobRunner
from eventlake.stores import Store
from eventlake.stores.paths import file_status, parse_path

__all__ = ["cluster_checks", "open_job_runner", "open_parts", "open_store", "resolve_settings"]


class Kind(NamedTuple):
    """Where the parts of a kind of lake are made, and what must be installed for it."""

    module: str
    extra: str = ""


KNOWN: Mapping[type, Kind] = {
    LocalSettings: Kind("eventlake.lakes.local"),
    AwsSettings: Kind("eventlake.lakes.aws", extra="aws"),
    AzureSettings: Kind("eventlake.lakes.azure"),
}


def open_parts(lake: str | Path | LakeSettings, *, make: bool = False) -> Lake:
    """Everything that a run needs of a lake; only who lands events may make one on disk."""
    settings = resolve_settings(lake)
    parts: Lake = _module(settings).lake(settings, open_store(settings, make=make))
    return parts


def open_store(lake: str | Path | LakeSettings, *, make: bool = False) -> Store:
    """A lake's root alone."""
    settings = resolve_settings(lake)
    store: Store = _module(settings).store(settings, make=make)
    return store


def open_job_runner(
    lake: str | Path | LakeSettings, store: Store, *, temporary: bool
) -> AbstractContextManager[JobRunner] | None:
    """Where a lake's runs are, ready when it is entered; None when they are here."""
    settings = resolve_settings(lake)
    found: AbstractContextManager[JobRunner] | None = _module(settings).cluster(
        settings, store, temporary=temporary
    )
    return found


def cluster_checks(settings: LakeSettings) -> Iterable[tuple[str, Callable[[], str]]]:
    """What a run asks of the lake's cluster, each to be tried, none when runs are here."""
    steps: Iterable[tuple[str, Callable[[], str]]] = _module(settings).cluster_checks(settings)
    return steps


def _module(settings: LakeSettings) -> Any:
    kind = KNOWN[type(settings)]
    try:
        return import_module(kind.module)
    except ModuleNotFoundError as problem:
        if not kind.extra:
            raise
        raise InvalidSettings(
            f"this lake needs {problem.name}, which is not installed: "
            f"pip install 'eventlake[{kind.extra}]'"
        ) from problem


def resolve_settings(lake: str | Path | LakeSettings) -> LakeSettings:
    """The settings that a folder, an address or a file of settings stands for."""
    if isinstance(lake, LakeSettings):
        return lake
    if "://" in str(lake):
        return _address(str(lake))
    path = parse_path(str(lake), "lake")
    status = file_status(path)
    if path.suffix == ".toml" and not (status and stat.S_ISDIR(status.st_mode)):
        return _file(path)
    return lake_settings({"path": str(lake)})


def _address(lake: str) -> LakeSettings:
    given = urlsplit(lake)
    if given.scheme == "file":
        return lake_settings({"path": str(parse_path(lake, "lake"))})
    if given.scheme not in _WHOLE:
        raise InvalidSettings(
            f"lake is {lake!r}: give a folder, s3://bucket, {CONTAINER}, or a file of settings "
            "(.toml)"
        )
    if given.path.strip("/"):
        raise InvalidSettings(
            f"lake is {lake!r}: a lake is a whole {_WHOLE[given.scheme]}, "
            f"{given.scheme}://{given.netloc}; it keeps to four prefixes of its own in it"
        )
    return _bucket(lake, given.netloc) if given.scheme == "s3" else _container(lake, given.netloc)


_WHOLE = {"s3": "bucket", "abfss": "container"}
CONTAINER = "abfss://container@account.dfs.core.windows.net"


def _bucket(lake: str, name: str) -> LakeSettings:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise InvalidSettings(f"lake is {lake!r}: set AWS_REGION to the bucket's region")
    return lake_settings({"s3_bucket": name, "aws_region": region})


def _container(lake: str, place: str) -> LakeSettings:
    found = re.fullmatch(r"([^@]+)@([^@.]+)\.dfs\.core\.windows\.net", place)
    if not found:
        raise InvalidSettings(f"lake is {lake!r}: a container's address is {CONTAINER}")
    return lake_settings({"storage_container": found[1], "storage_account": found[2]})


def _file(path: Path) -> LakeSettings:
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InvalidSettings(f"lake is {str(path)!r}: there is no such file") from None
    except PermissionError as problem:
        raise InsufficientPermissions(f"may not read {path}: grant that") from problem
    except OSError as problem:
        raise InvalidSettings(f"lake is {str(path)!r}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InvalidSettings(f"{path} is no TOML: {problem}") from problem
    try:
        settings = lake_settings(given)
    except InvalidSettings as problem:
        raise InvalidSettings(f"{path}: {problem}") from problem
    return settings.model_copy(update=_from(path.parent, settings))


def _from(folder: Path, settings: LakeSettings) -> dict[str, str]:
    """Paths in a file of settings, as seen from where the file lies."""
    names = ("path", "credentials_file")
    given = {name: getattr(settings, name, "") for name in names}
    return {name: str(folder / parse_path(v, name)) for name, v in given.items() if v}
