"""Everything that a run will ask of a lake, tried for real: one line each, with what to mend."""

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

PLACES = (LOGS, STAGE, "segment-data")


class Check(FrozenModel):
    """One thing that was tried."""

    what: str
    ok: bool
    said: str
    """What was found; where it failed, what was wrong and what to do."""


def check(lake: str | Path | LakeSettings) -> list[Check]:
    """Try all that a run does; where one thing fails, what needs it is left out."""
    probe = Probe(lake)
    ready = probe.tried("settings", probe.read_settings) and probe.tried("access", probe.open)
    if ready and not probe.is_missing:
        for place in PLACES:
            probe.try_place(place)
        probe.try_catalog()
        probe.try_cluster()
    probe.tried("java", _java)
    return probe.done


def _java() -> str:
    check_java()
    return "runs Spark here"


@dataclass
class Probe:
    """Objects and a table of its own, which it makes, changes and removes."""

    lake: str | Path | LakeSettings
    mark: str = field(default_factory=lambda: f"check-{secrets.token_hex(6)}")
    done: list[Check] = field(default_factory=list)

    def tried(self, what: str, how: Callable[[], str]) -> bool:
        """Try one thing, which answers what was found."""
        try:
            self.done.append(Check(what=what, ok=True, said=how()))
        except EventLakeError as problem:
            self.done.append(Check(what=what, ok=False, said=f"{problem} ({problem.code})"))
        return self.done[-1].ok

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
        return f"a lake of the kind {type(self.settings).__name__.removesuffix('Settings').lower()}"

    @property
    def is_missing(self) -> bool:
        """Whether the lake is a folder that nobody has made yet."""
        return isinstance(self.store, Disk) and not Path(self.store.root).exists()

    def _make_folder(self) -> str:
        """Make a folder where the lake's would be made, and remove it: nothing stays behind."""
        root = Path(self.store.root)
        parent = next(folder for folder in root.parents if folder.exists())
        try:
            (parent / self.mark).mkdir()
            (parent / self.mark).rmdir()
        except OSError as problem:
            raise InsufficientPermissions(
                f"there is no folder {root}, and it cannot be made: {problem.strerror} ({parent})"
            ) from problem
        return f"there is no folder {root} yet; load and serve make it"

    def open(self) -> str:
        """Credentials and bucket; what may not be done there shows later, one by one."""
        if self.is_missing:
            return self._make_folder()
        with suppress(InsufficientPermissions):
            self.store.names(f"{STAGE}/{self.mark}")
        return self.store.root

    def try_place(self, place: str) -> None:
        path = f"{place}/{self.mark}/probe"
        self.tried(f"list {place}", partial(self._list, place))
        if not self.tried(f"write {place}", partial(self._write, path)):
            return
        self.tried(f"read {place}", partial(self._read, path))
        if place == STAGE:
            self.tried("write once", partial(self._write_once, path))
            self.tried("publish", partial(self._publish, path, f"segment-data/{self.mark}/probe"))
        self.tried(f"delete {place}", partial(self._delete, path))

    def _list(self, place: str) -> str:
        self.store.names(f"{place}/{self.mark}")
        return "may be listed"

    def _write(self, path: str) -> str:
        self.store.write(path, b"probe")
        return "takes objects"

    def _read(self, path: str) -> str:
        if self.store.read(path) != b"probe":
            raise InvalidSettings(f"{path} is not what was written there a moment ago")
        return "gives them back"

    def _write_once(self, path: str) -> str:
        """The ledger stands on it: of two runs that commit at once, one must be told no."""
        if self.store.create(path, b"again"):
            raise InvalidSettings(
                f"{self.store.root} overwrites where it is asked not to: it takes a store that "
                "knows conditional writes (If-None-Match), or two runs may both land"
            )
        return "an object that is there is not overwritten"

    def _publish(self, staged: str, final: str) -> str:
        self.store.publish(staged, final)
        return "staged objects reach their place"

    def _delete(self, path: str) -> str:
        self.store.delete([path])
        if self.store.exists(path):
            raise InvalidSettings(f"{path} is still there after it was deleted")
        self.store.remove_folder(path.rpartition("/")[0])
        return "lets them go"

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
        if self.tried(f"database {report.DATABASE}", self._database) and self.tried(
            "make a table", self._create
        ):
            self.tried("add a column", self._add_column)
            self.tried("add a partition", self._add_partition)
            self.tried("remove a table", self._drop)

    def try_cluster(self) -> None:
        """Each step of it needs the one before."""
        for what, how in cluster_checks(self.settings):
            if not self.tried(what, how):
                return

    def _database(self) -> str:
        self.catalog.database(report.DATABASE)
        return "is there"

    def _create(self) -> str:
        self.catalog.create(self.table)
        return "made"

    def _add_column(self) -> str:
        self.catalog.add_columns(self.table, [Column(name="name", type=Type.STRING)])
        return "added"

    def _add_partition(self) -> str:
        self.catalog.add_partitions(self.table, [{"day": "2026-11-01"}])
        return "added"

    def _drop(self) -> str:
        self.catalog.drop(self.table)
        if self.catalog.table(self.table.database, self.table.name) is not None:
            raise InvalidSettings(f"{self.table.name} is still in the catalog after it was removed")
        return "removed"
