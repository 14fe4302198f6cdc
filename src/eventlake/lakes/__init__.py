"""Opens a lake from a folder, an address, or a file of settings."""

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from eventlake import archive
from eventlake.clock import SYSTEM_CLOCK, Clock
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

__all__ = [
    "cluster_checks",
    "open_input_stores",
    "open_job_runner",
    "open_parts",
    "open_store",
    "resolve_settings",
]


class Backend(NamedTuple):
    """The module that opens a kind of lake, and the extra to install for it."""

    module: str
    extra: str = ""


BACKENDS: Mapping[type, Backend] = {
    LocalSettings: Backend("eventlake.lakes.local"),
    AwsSettings: Backend("eventlake.lakes.aws", extra="aws"),
    AzureSettings: Backend("eventlake.lakes.azure"),
}


def open_parts(
    lake: str | Path | LakeSettings | Lake, *, make: bool = False, clock: Clock = SYSTEM_CLOCK
) -> Lake:
    """Open a lake's store, catalog and format, unless `lake` has them already.

    With `make`, a folder on disk need not exist.
    """
    if isinstance(lake, Lake):
        return lake
    settings = resolve_settings(lake)
    parts: Lake = _module(settings).make_lake(settings, open_store(settings, make=make))
    return replace(parts, clock=clock)


def open_store(lake: str | Path | LakeSettings, *, make: bool = False) -> Store:
    """Open a lake's store alone; with `make`, a folder on disk need not exist."""
    settings = resolve_settings(lake)
    store: Store = _module(settings).make_store(settings, make=make)
    return store


def open_input_stores(inputs: Iterable[str | Path], lake: Store) -> dict[str, Store]:
    """Open the buckets of paths or addresses; return them and the lake's store by prefix."""
    roots = {archive.bucket_address(str(one)) for one in inputs if archive.is_address(str(one))}
    others = {root: open_store(root) for root in roots if root != lake.root}
    return {**archive.lake_input_stores(lake), **others}


def open_job_runner(
    lake: str | Path | LakeSettings, store: Store, *, temporary: bool
) -> AbstractContextManager[JobRunner] | None:
    """A context with the runner of a lake's jobs; None if runs are in this process."""
    settings = resolve_settings(lake)
    runner: AbstractContextManager[JobRunner] | None = _module(settings).job_runner(
        settings, store, temporary=temporary
    )
    return runner


def cluster_checks(settings: LakeSettings) -> Iterable[tuple[str, Callable[[], str]]]:
    """Names and functions of checks of the lake's cluster; none if runs are in this process."""
    checks: Iterable[tuple[str, Callable[[], str]]] = _module(settings).cluster_checks(settings)
    return checks


def _module(settings: LakeSettings) -> Any:
    backend = BACKENDS[type(settings)]
    try:
        return import_module(backend.module)
    except ModuleNotFoundError as problem:
        if not backend.extra:
            raise
        raise InvalidSettings(
            f"this lake needs {problem.name}, which is not installed: "
            f"pip install 'eventlake[{backend.extra}]'"
        ) from problem


def resolve_settings(lake: str | Path | LakeSettings) -> LakeSettings:
    """The settings of a lake given as a folder, an address or a file of settings."""
    if isinstance(lake, LakeSettings):
        return lake
    if "://" in str(lake):
        return _parse_url(str(lake))
    path = parse_path(str(lake), "lake")
    status = file_status(path)
    if path.suffix == ".toml" and not (status and stat.S_ISDIR(status.st_mode)):
        return _read_file(path)
    return lake_settings({"path": str(lake)})


def _parse_url(lake: str) -> LakeSettings:
    url = urlsplit(lake)
    if url.scheme == "file":
        return lake_settings({"path": str(parse_path(lake, "lake"))})
    if url.scheme not in _CONTAINER_WORDS:
        raise InvalidSettings(
            f"lake is {lake!r}: give a folder, s3://bucket, {CONTAINER}, or a file of settings "
            "(.toml)"
        )
    if url.path.strip("/"):
        raise InvalidSettings(
            f"lake is {lake!r}: a lake is a whole {_CONTAINER_WORDS[url.scheme]}, "
            f"{url.scheme}://{url.netloc}; it uses only four prefixes in it"
        )
    return (
        _bucket_settings(lake, url.netloc)
        if url.scheme == "s3"
        else _container_settings(lake, url.netloc)
    )


_CONTAINER_WORDS = {"s3": "bucket", "abfss": "container"}
CONTAINER = "abfss://container@account.dfs.core.windows.net"


def _bucket_settings(lake: str, name: str) -> LakeSettings:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise InvalidSettings(f"lake is {lake!r}: set AWS_REGION to the bucket's region")
    return lake_settings({"s3_bucket": name, "aws_region": region})


def _container_settings(lake: str, netloc: str) -> LakeSettings:
    match = re.fullmatch(r"([^@]+)@([^@.]+)\.dfs\.core\.windows\.net", netloc)
    if not match:
        raise InvalidSettings(f"lake is {lake!r}: a container's address is {CONTAINER}")
    return lake_settings({"storage_container": match[1], "storage_account": match[2]})


def _read_file(path: Path) -> LakeSettings:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InvalidSettings(f"lake is {str(path)!r}: no such file") from None
    except PermissionError as problem:
        raise InsufficientPermissions(f"no permission to read {path}: grant it") from problem
    except OSError as problem:
        raise InvalidSettings(f"lake is {str(path)!r}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InvalidSettings(f"{path} is not valid TOML: {problem}") from problem
    try:
        settings = lake_settings(values)
    except InvalidSettings as problem:
        raise InvalidSettings(f"{path}: {problem}") from problem
    return settings.model_copy(update=_absolute_paths(path.parent, settings))


def _absolute_paths(folder: Path, settings: LakeSettings) -> dict[str, str]:
    """The paths in a file of settings, which are relative to its folder."""
    names = ("path", "credentials_file")
    values = {name: getattr(settings, name, "") for name in names}
    return {name: str(folder / parse_path(v, name)) for name, v in values.items() if v}
