"""Tries every operation of a run on a lake, with temporary objects and a temporary table."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings
from eventlake.lakes import cluster_checks, open_parts, open_store, resolve_settings
from eventlake.model import report
from eventlake.model.catalog import CatalogTable
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import LOGS, STAGE
from eventlake.model.schema import Column
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel
from eventlake.ports import Catalog
from eventlake.runners.java import check_java
from eventlake.stores import Disk, Store

PREFIXES = (LOGS, STAGE, "segment-data")


class Check(FrozenModel):
    """The result of one operation that was tried."""

    name: str
    ok: bool
    detail: str
    """What was found; for a failure, the error and what to do."""


def check(lake: str | Path | LakeSettings) -> list[Check]:
    """Try what a run does; operations that depend on a failed one are skipped."""
    probe = Probe(lake)
    ready = probe.attempt("settings", probe.read_settings) and probe.attempt("access", probe.open)
    if ready and not probe.is_missing:
        for prefix in PREFIXES:
            probe.try_prefix(prefix)
        probe.try_catalog()
        probe.try_cluster()
    probe.attempt("java", _check_java)
    return probe.results


def _check_java() -> str:
    check_java()
    return "can run Spark"


@dataclass
class Probe:
    """Creates, changes and removes temporary objects and a temporary table."""

    lake: str | Path | LakeSettings
    mark: str = field(default_factory=lambda: f"check-{secrets.token_hex(6)}")
    results: list[Check] = field(default_factory=list)

    def attempt(self, name: str, operation: Callable[[], str]) -> bool:
        """Run an operation, which returns a text to show; append its result, return whether ok."""
        try:
            self.results.append(Check(name=name, ok=True, detail=operation()))
        except EventLakeError as problem:
            self.results.append(Check(name=name, ok=False, detail=f"{problem} ({problem.code})"))
        return self.results[-1].ok

    @cached_property
    def settings(self) -> LakeSettings:
        return resolve_settings(self.lake)

    @cached_property
    def store(self) -> Store:
        return open_store(self.settings, make=True)

    @cached_property
    def catalog(self) -> Catalog:
        return open_parts(self.settings).catalog

    def read_settings(self) -> str:
        return f"kind: {type(self.settings).__name__.removesuffix('Settings').lower()}"

    @property
    def is_missing(self) -> bool:
        """Whether the lake is a folder that does not exist yet."""
        return isinstance(self.store, Disk) and not Path(self.store.root).exists()

    def _try_create_folder(self) -> str:
        """Create a temporary folder where the lake's folder would be created, and remove it."""
        root = Path(self.store.root)
        parent = next(folder for folder in root.parents if folder.exists())
        try:
            (parent / self.mark).mkdir()
            (parent / self.mark).rmdir()
        except OSError as problem:
            raise InsufficientPermissions(
                f"folder {root} does not exist and cannot be created: {problem.strerror} ({parent})"
            ) from problem
        return f"folder {root} does not exist; load and serve create it"

    def open(self) -> str:
        """Check credentials and bucket; later operations show missing permissions."""
        if self.is_missing:
            return self._try_create_folder()
        with suppress(InsufficientPermissions):
            self.store.names(f"{STAGE}/{self.mark}")
        return self.store.root

    def try_prefix(self, prefix: str) -> None:
        path = f"{prefix}/{self.mark}/probe"
        self.attempt(f"list {prefix}", partial(self._list, prefix))
        if not self.attempt(f"write {prefix}", partial(self._write, path)):
            return
        self.attempt(f"read {prefix}", partial(self._read, path))
        if prefix == STAGE:
            self.attempt("write once", partial(self._write_once, path))
            self.attempt("publish", partial(self._publish, path, f"segment-data/{self.mark}/probe"))
        self.attempt(f"delete {prefix}", partial(self._delete, path))

    def _list(self, prefix: str) -> str:
        self.store.names(f"{prefix}/{self.mark}")
        return "can be listed"

    def _write(self, path: str) -> str:
        self.store.write(path, b"probe")
        return "can be written"

    def _read(self, path: str) -> str:
        if self.store.read(path) != b"probe":
            raise InvalidSettings(f"{path} differs from what was just written")
        return "can be read"

    def _write_once(self, path: str) -> str:
        """The ledger needs it: of two runs that commit at the same time, one must fail."""
        if self.store.create(path, b"again"):
            raise InvalidSettings(
                f"{self.store.root} overwrites an object despite If-None-Match: use a store with "
                "conditional writes, or two runs may land the same events"
            )
        return "existing objects are not overwritten"

    def _publish(self, staged: str, final: str) -> str:
        self.store.publish(staged, final)
        return "staged objects can be published"

    def _delete(self, path: str) -> str:
        self.store.delete([path])
        if self.store.exists(path):
            raise InvalidSettings(f"{path} still exists after it was deleted")
        self.store.remove_folder(path.rpartition("/")[0])
        return "can be deleted"

    @cached_property
    def table(self) -> CatalogTable:
        return CatalogTable(
            database=report.DATABASE,
            name=self.mark.replace("-", "_"),
            source="",
            location=f"{STAGE}/{self.mark}",
            columns=(Column(name="id", type=Type.STRING),),
            partition_columns=("day",),
        )

    def try_catalog(self) -> None:
        if self.attempt(f"database {report.DATABASE}", self._database) and self.attempt(
            "create a table", self._create
        ):
            self.attempt("add a column", self._add_column)
            self.attempt("add a partition", self._add_partition)
            self.attempt("drop a table", self._drop)

    def try_cluster(self) -> None:
        """Stop at the first failure: each operation needs the one before."""
        for name, operation in cluster_checks(self.settings):
            if not self.attempt(name, operation):
                return

    def _database(self) -> str:
        self.catalog.database(report.DATABASE)
        return "exists"

    def _create(self) -> str:
        self.catalog.create(self.table)
        return "created"

    def _add_column(self) -> str:
        self.catalog.add_columns(self.table, [Column(name="name", type=Type.STRING)])
        return "added"

    def _add_partition(self) -> str:
        self.catalog.add_partitions(self.table, [{"day": "2026-11-01"}])
        return "added"

    def _drop(self) -> str:
        self.catalog.drop(self.table)
        if self.catalog.table(self.table.database, self.table.name) is not None:
            raise InvalidSettings(f"{self.table.name} is still in the catalog after it was dropped")
        return "dropped"
