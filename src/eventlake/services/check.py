"""Check a lake: try every operation of a run, and explain how to fix what fails."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes import cluster_checks, open_parts, open_store, resolve_settings
from eventlake.ledger import describe_refusals, list_ledgers, read_refusals
from eventlake.model import report
from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import DataFile, TableChange, Transaction
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import LOGS, Layout
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import Column, new_table
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel
from eventlake.ports import Catalog, NoProgress
from eventlake.runners.java import find_java
from eventlake.stores import Disk, Store


class Check(FrozenModel):
    """An operation that was tried."""

    name: str
    ok: bool
    detail: str
    """The outcome; of a failure, what is wrong and how to fix it."""
    grant: str = ""
    """What to paste to grant a missing permission, if that is known: a statement of an IAM policy,
    a command of the Azure CLI, or SQL."""


def check(
    lake: str | Path | LakeSettings,
    *,
    refusals: bool = True,
    on_check: Callable[[Check], None] = lambda _: None,
) -> list[Check]:
    """Try all operations of a run, without those that depend on a failed one.

    With `refusals`, also find the tables that the catalog refused in the last runs. `on_check` is
    called with each check as soon as it is known.
    """
    probe = Probe(lake, on_check=on_check)
    ready = probe.attempt("settings", probe.read_settings) and probe.attempt("access", probe.open)
    if ready and not probe.is_missing:
        for folder in (LOGS, probe.layout.stage, *probe.layout.roots):
            probe.try_folder(folder)
        if probe.parts.format.versioned:
            probe.attempt(f"write a {probe.parts.format.name} table", probe.publish_table)
        probe.try_catalog()
        if refusals:
            probe.find_refusals()
        probe.try_cluster()
    probe.attempt("java", _try_java)
    return probe.checks


def _try_java() -> str:
    find_java()
    return "can run Spark"


@dataclass
class Probe:
    """Creates, changes and removes objects and a table of its own, and collects the checks."""

    lake: str | Path | LakeSettings
    probe_name: str = field(default_factory=lambda: f"check-{secrets.token_hex(6)}")
    checks: list[Check] = field(default_factory=list)
    on_check: Callable[[Check], None] = lambda _: None

    def add(self, one: Check) -> None:
        self.checks.append(one)
        self.on_check(one)

    def attempt(self, name: str, operation: Callable[[], str]) -> bool:
        """Try an operation, which returns what to print, and add a check; return its success."""
        try:
            self.add(Check(name=name, ok=True, detail=operation()))
        except EventLakeError as problem:
            grant = problem.grant if isinstance(problem, InsufficientPermissions) else ""
            detail = f"{problem} ({problem.code})"
            self.add(Check(name=name, ok=False, detail=detail, grant=grant))
        return self.checks[-1].ok

    @cached_property
    def settings(self) -> LakeSettings:
        return resolve_settings(self.lake)

    @cached_property
    def store(self) -> Store:
        return open_store(self.settings, make=True)

    @cached_property
    def parts(self) -> Lake:
        return open_parts(self.settings)

    @property
    def catalog(self) -> Catalog:
        return self.parts.catalog

    @property
    def layout(self) -> Layout:
        return self.parts.layout

    def read_settings(self) -> str:
        return f"lake type: {self.settings.kind}"

    @property
    def is_missing(self) -> bool:
        """Whether the lake is a folder that does not exist yet."""
        return isinstance(self.store, Disk) and not Path(self.store.root).exists()

    def open(self) -> str:
        """Try credentials and bucket; missing permissions show in the later checks."""
        if self.is_missing:
            raise InvalidSettings(
                f"no such folder: {self.store.root}; the first load or serve creates it"
            )
        with suppress(InsufficientPermissions):
            self.store.names(f"{LOGS}/{self.probe_name}")
        return self.store.root

    def try_folder(self, folder: str) -> None:
        path = f"{folder}/{self.probe_name}/probe"
        self.attempt(f"list {folder}", partial(self._list, folder))
        if not self.attempt(f"write {folder}", partial(self._write, path)):
            return
        self.attempt(f"read {folder}", partial(self._read, path))
        if folder == self.layout.stage:
            self.attempt("write once", partial(self._write_once, path))
            final = f"{self.layout.roots[0]}/{self.probe_name}/probe"
            self.attempt("publish", partial(self._publish, path, final))
        self.attempt(f"delete {folder}", partial(self._delete, path))

    def _list(self, folder: str) -> str:
        self.store.names(f"{folder}/{self.probe_name}")
        return "can list objects"

    def _write(self, path: str) -> str:
        self.store.write(path, b"probe")
        return "can write objects"

    def _read(self, path: str) -> str:
        if self.store.read(path) != b"probe":
            raise InvalidSettings(f"{path} does not have the content that was just written")
        return "can read objects"

    def _write_once(self, path: str) -> str:
        """Commits rely on this: of two that get the same sequence, one must fail."""
        if self.store.create(path, b"again"):
            raise InvalidSettings(
                f"{self.store.root} ignores conditional writes (If-None-Match), so two runs could "
                "both land the same events: use a store that supports them"
            )
        return "does not overwrite existing objects"

    def _publish(self, staged: str, final: str) -> str:
        self.store.publish(staged, final)
        return "can publish staged objects"

    def _delete(self, path: str) -> str:
        self.store.delete([path])
        if self.store.exists(path):
            raise InvalidSettings(f"{path} still exists after it was deleted")
        self.store.remove_folder(path.rpartition("/")[0])
        return "can delete objects"

    @cached_property
    def table(self) -> CatalogTable:
        return CatalogTable(
            database=report.DATABASE,
            name=self.probe_name.replace("-", "_"),
            source="",
            location=f"{self.layout.stage}/{self.probe_name}",
            columns=(Column(name="id", type=Type.STRING),),
            partition_columns=("day",),
            format=getattr(self.catalog, "probe_format", self.parts.format.name),
        )

    def publish_table(self) -> str:
        """Publish a table of one file and drop it: a format may open the store by itself."""
        folder = f"{self.layout.stage}/{self.probe_name}"
        staged, location = f"{folder}/probe.parquet", f"{folder}/table"
        self.store.write(staged, b"probe")
        partition = {"day": "2026-11-01"}
        file = DataFile(
            path=f"{location}/day=2026-11-01/probe.parquet",
            rows=1,
            bytes=5,
            partition=partition,
            staged=staged,
        )
        change = TableChange(
            transaction=Transaction(source="check", ledger="0", run_id="0", sequence=1),
            location=location,
            table=new_table("probe", Call.TRACK, Naming.SEGMENT),
            partition_columns=tuple(partition),
            adds=(file,),
            is_new=True,
        )
        try:
            self.parts.format.publish([change])
            drop = {"adds": (), "removes": (file,), "is_new": False, "is_dropped": True}
            self.parts.format.publish([change.model_copy(update=drop)])
        finally:
            self.store.delete([one.path for one in self.store.objects(folder)])
            self.store.remove_folder(folder)
        return "published and dropped"

    def try_catalog(self) -> None:
        table, more = self.table, [Column(name="name", type=Type.STRING)]
        if self.attempt("create a table", partial(self._ensure, table)):
            self.attempt("add a column", partial(self._ensure, table.with_columns(more)))
            if self.parts.format.needs_partitions:
                partition = {"day": "2026-11-01"}
                self.attempt(
                    "add a partition", partial(self._ensure, table.with_partitions([partition]))
                )
            self.attempt("drop a table", self._drop)

    def find_refusals(self) -> None:
        """Add a failed check for each source with tables that the catalog keeps refusing."""
        with suppress(EventLakeError):  # the checks of the folder have the same error
            for ledger in list_ledgers(self.store, self.layout):
                if refusals := describe_refusals(read_refusals(ledger)):
                    detail = "; ".join(refusals)
                    self.add(Check(name=f"tables of {ledger.folder}", ok=False, detail=detail))

    def try_cluster(self) -> None:
        """Try the steps of using the cluster, up to the first that fails."""
        for name, operation in cluster_checks(self.settings):
            if not self.attempt(name, operation):
                return

    def _ensure(self, table: CatalogTable) -> str:
        for problem in self.catalog.ensure([table], NoProgress()).values():
            raise problem
        return f"registered in {table.database}"

    def _drop(self) -> str:
        self.catalog.drop(self.table)
        if self.catalog.table(self.table.database, self.table.name) is not None:
            raise InvalidSettings(f"{self.table.name} is still in the catalog after it was dropped")
        return "dropped"
