"""Opens a lake from a folder, an address, or a file of settings."""

import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import InsufficientPermissions, InvalidSettings
from eventlake.lakes.kinds import KINDS, HasWorkspace, LakeKind, load_kind, settings_model
from eventlake.model.lake import LakeSettings
from eventlake.model.settings import translate_names
from eventlake.paths import file_status, parse_path
from eventlake.secrets import EnvironmentSecrets, Secrets

if TYPE_CHECKING:  # these import Arrow, which commands like --help must not wait for
    from eventlake.databricks.workspace import Workspace
    from eventlake.lake import Lake
    from eventlake.ports import JobRunner
    from eventlake.stores import Store

__all__ = [
    "absolute_paths",
    "choose_model",
    "cluster_checks",
    "describe_addresses",
    "lake_settings",
    "open_input_stores",
    "open_job_runner",
    "open_parts",
    "open_store",
    "open_workspace",
    "parse_settings",
    "resolve_settings",
]


def open_parts(
    lake: "str | Path | LakeSettings | Lake",
    *,
    make: bool = False,
    clock: Clock = SYSTEM_CLOCK,
    secrets: Secrets | None = None,
) -> "Lake":
    """Open a lake's store, catalog and format, unless `lake` has them already.

    With `make`, a folder on disk need not exist. Secrets are read from the environment unless a
    provider is given.
    """
    if not isinstance(lake, str | Path | LakeSettings):
        return lake
    kind = _open_kind(lake, secrets)
    return replace(kind.make_lake(kind.open_store(make=make)), clock=clock, open_bucket=open_store)


def open_store(
    lake: str | Path | LakeSettings, *, make: bool = False, secrets: Secrets | None = None
) -> "Store":
    """Open a lake's store alone; with `make`, a folder on disk need not exist."""
    return _open_kind(lake, secrets).open_store(make=make)


def open_input_stores(inputs: Iterable[str | Path], lake: "Store") -> "dict[str, Store]":
    """Open the buckets of paths or addresses; return them and the lake's store by prefix."""
    from eventlake import archive  # noqa: PLC0415 - it imports Arrow

    roots = {archive.bucket_address(str(one)) for one in inputs if archive.is_address(str(one))}
    others = {root: open_store(root) for root in roots if root != lake.root}
    return {**archive.lake_input_stores(lake), **others}


def open_job_runner(
    lake: str | Path | LakeSettings,
    store: "Store",
    *,
    temporary: bool,
    secrets: Secrets | None = None,
) -> "AbstractContextManager[JobRunner] | None":
    """A context with the runner of a lake's jobs; None if runs are in this process."""
    settings = resolve_settings(lake)
    if temporary and not settings.makes_clusters:
        kinds = " or ".join(model.kind for model in _settings_models() if model.makes_clusters)
        raise InvalidSettings(
            f"a temporary cluster needs a lake of kind {kinds}, and this one is {settings.kind}"
        )
    return _open_kind(settings, secrets).job_runner(store, temporary=temporary)


def cluster_checks(
    lake: str | Path | LakeSettings, *, secrets: Secrets | None = None
) -> Iterable[tuple[str, Callable[[], str]]]:
    """Names and functions of checks of the lake's cluster; none if runs are in this process."""
    return _open_kind(lake, secrets).cluster_checks()


def open_workspace(
    lake: str | Path | LakeSettings, *, secrets: Secrets | None = None
) -> "Workspace":
    """The Databricks workspace of a lake; raises InvalidSettings if it has none."""
    kind = _open_kind(lake, secrets)
    if not isinstance(kind, HasWorkspace):
        raise InvalidSettings(
            f"this lake is of kind {resolve_settings(lake).kind}, and only lakes of kind azure or "
            "databricks have a Databricks workspace"
        )
    return kind.workspace


def _open_kind(lake: str | Path | LakeSettings, secrets: Secrets | None) -> LakeKind:
    settings = resolve_settings(lake)
    return load_kind(settings, secrets or EnvironmentSecrets(settings.secrets))


def resolve_settings(lake: str | Path | LakeSettings) -> LakeSettings:
    """The settings of a lake given as a folder, an address or a file of settings."""
    if isinstance(lake, LakeSettings):
        return lake
    if "://" in str(lake) and not str(lake).startswith("file:"):
        return _parse_address(str(lake))
    path = parse_path(str(lake), "lake")
    status = file_status(path)
    if path.suffix == ".toml" and not (status and stat.S_ISDIR(status.st_mode)):
        return _read_file(path)
    return lake_settings({"path": str(lake)})


def lake_settings(values: Mapping[str, Any]) -> LakeSettings:
    """Validate a lake's settings; raises InvalidSettings with each wrong one and what is allowed.

    The kind is the value of `kind`, else it follows from the settings that there are. Segment's
    names, such as `workspaceId`, are accepted too.
    """
    model = choose_model(values)
    named = translate_names(values, model.segment_names)
    named.pop("kind", None)
    return model.from_values(named)


def choose_model(values: Mapping[str, Any]) -> type[LakeSettings]:
    """The class of the lake that settings are for; raises InvalidSettings if it is not clear."""
    if (kind := values.get("kind")) is not None:
        return settings_model(str(kind))
    for model in _settings_models():
        if model.chosen_by in translate_names(values, model.segment_names):
            return model
    choices = ", ".join(f"{model.chosen_by} ({model.kind})" for model in _settings_models())
    raise InvalidSettings(f"the kind of lake is not clear: set kind, or one of {choices}")


def _settings_models() -> Iterable[type[LakeSettings]]:
    return map(settings_model, KINDS)


def parse_settings(words: Iterable[str]) -> LakeSettings:
    """Validate settings from words `name=value`, as `LakeSettings.to_words` gives them."""
    return lake_settings({name: value for name, _, value in (w.partition("=") for w in words)})


def describe_addresses() -> str:
    """The forms of the addresses of lakes, for messages."""
    return ", ".join(model.address for model in _settings_models() if model.address)


def _parse_address(lake: str) -> LakeSettings:
    url = urlsplit(lake)
    for model in _settings_models():
        if not model.address.startswith(f"{url.scheme}://"):
            continue
        if url.path.strip("/"):
            raise InvalidSettings(
                f"lake is {lake!r}: a lake is a whole {model.container}, "
                f"{url.scheme}://{url.netloc}; it uses only four prefixes in it"
            )
        return model.from_values(model.parse_address(lake))
    raise InvalidSettings(
        f"lake is {lake!r}: give a folder, {describe_addresses()}, or a file of settings (.toml)"
    )


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
    return settings.model_copy(update=absolute_paths(path.parent, settings))


def absolute_paths(folder: Path, settings: LakeSettings) -> dict[str, str]:
    """The paths in settings as absolute ones; relative ones are below `folder`."""
    names = ("path", "credentials_file", "metastore_jars")
    values = {name: getattr(settings, name, "") for name in names}
    return {name: str(folder / parse_path(v, name)) for name, v in values.items() if v}
