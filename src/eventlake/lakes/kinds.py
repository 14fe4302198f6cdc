"""The kinds of lakes, and the interface of each.

Nothing here imports a vendor's library: `settings_model` works without the extras.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from eventlake.errors import InvalidSettings
from eventlake.model.lake import LakeSettings

if TYPE_CHECKING:
    from eventlake.databricks.workspace import Workspace
    from eventlake.lake import Lake
    from eventlake.ports import JobRunner
    from eventlake.secrets import Secrets
    from eventlake.stores import Store


@runtime_checkable
class LakeKind(Protocol):
    """Builds the parts of a lake. It is created with the lake's settings and its secrets."""

    def open_store(self, *, make: bool) -> "Store":
        """Open the lake's objects; with `make`, a folder on disk need not exist."""

    def make_lake(self, store: "Store") -> "Lake":
        """Join the store to the lake's catalog and format."""

    def job_runner(
        self, store: "Store", *, temporary: bool
    ) -> "AbstractContextManager[JobRunner] | None":
        """A context with the runner of jobs; None if runs are in this process.

        `temporary` asks for a cluster that exists for one run, if the kind `makes_clusters`.
        Raises InvalidSettings if the cluster cannot be used.
        """

    def cluster_checks(self) -> Iterable[tuple[str, Callable[[], str]]]:
        """Names and functions of checks of the lake's cluster; none if runs are in this process.

        The functions return a text to show, and each needs the one before.
        """


@runtime_checkable
class HasWorkspace(Protocol):
    """A kind of lake that may have a Databricks workspace."""

    @property
    def workspace(self) -> "Workspace":
        """The workspace; raises InvalidSettings if the settings name none."""


class RegisteredKind(NamedTuple):
    """The module and the name of a kind of lake, and the extra to install for it.

    `lakes.aws` has the class `AwsKind`, and `lakes.aws_settings` the class `AwsSettings`.
    """

    module: str
    name: str
    extra: str = ""


KINDS: Mapping[str, RegisteredKind] = {
    "local": RegisteredKind("eventlake.lakes.local", "Local"),
    "aws": RegisteredKind("eventlake.lakes.aws", "Aws", extra="aws"),
    "azure": RegisteredKind("eventlake.lakes.azure", "Azure", extra="azure"),
    "databricks": RegisteredKind("eventlake.lakes.databricks", "Databricks", extra="databricks"),
}


def settings_model(kind: str) -> type[LakeSettings]:
    """The class of a kind's settings; raises InvalidSettings for an unknown kind."""
    if kind not in KINDS:
        raise InvalidSettings(f"kind is {kind!r}: choose one of {', '.join(KINDS)}")
    module, name, _ = KINDS[kind]
    model: type[LakeSettings] = resolve_name(f"{module}_settings:{name}Settings")
    return model


def load_kind(settings: LakeSettings, secrets: "Secrets") -> LakeKind:
    """Load the kind of lake of the settings; raises InvalidSettings if its extra is missing."""
    module, name, extra = KINDS[settings.kind]
    with needs_extra(extra):
        kind: LakeKind = resolve_name(f"{module}:{name}Kind")(settings, secrets)
    return kind


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Raise InvalidSettings with the extra to install if a module is missing."""
    try:
        yield
    except ModuleNotFoundError as problem:
        if not extra:
            raise
        raise InvalidSettings(
            f"this lake needs {problem.name}, which is not installed: "
            f"pip install 'eventlake[{extra}]'"
        ) from problem
