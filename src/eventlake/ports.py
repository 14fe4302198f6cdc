"""Interfaces of the backends: catalog, table format, Spark, jobs and progress."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from eventlake.errors import EventLakeError
from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import TableChange
from eventlake.model.job import JobState


class Catalog(Protocol):
    """Registers tables for query engines. Every call is idempotent."""

    def databases(self) -> Sequence[str]:
        """The names of all databases of the catalog, also of others than the lake's."""

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        """Every table of the lake, or of one database, without its partitions."""

    def table(self, database: str, name: str) -> CatalogTable | None:
        """A table with its partitions, or None."""

    def ensure(
        self, tables: Sequence[CatalogTable], progress: "Progress"
    ) -> Mapping[str, EventLakeError]:
        """Create the missing databases and tables, and add missing columns and partitions.

        Returns the errors by the full name of the table; all other tables are registered.
        MissingTable: the catalog has no such table, and it is partial, so it was not created.
        InvalidSettings: the catalog has the name with another location.
        """

    def replace(self, table: CatalogTable) -> None:
        """Set location and partitions to exactly those of `table`; columns added by others stay.

        Creates a missing database or table. Raises InvalidSettings when the catalog has the name
        with a location outside the lake.
        """

    def retype(self, table: CatalogTable) -> None:
        """Give the columns of a registered table the types of `table`; other columns stay."""

    def remove_partitions(self, table: CatalogTable) -> None:
        """Remove the partitions of `table` from the catalog; all others stay."""

    def drop(self, table: CatalogTable) -> None:
        """Remove a table from the catalog; its files stay."""


class TableFormat(Protocol):
    """Makes committed files visible as rows of a table."""

    name: str
    """The value of the setting `format`, which commits and catalog entries have too."""
    needs_partitions: bool
    """Whether engines see a new partition only after it is registered in the catalog."""
    versioned: bool
    """Whether a table has a log of versions: changes are published in the order of their commits,
    replaced files stay for readers of older versions, and all files have one schema."""

    def check(self, tables: Mapping[str, str]) -> None:
        """Raise InvalidSettings if one of these tables, locations by name, cannot be written."""

    def publish(self, changes: Sequence[TableChange]) -> None:
        """Make committed changes of one table visible, in the order of their commits.

        The last is the one to publish; those before it are of runs that may not have ended, if the
        format is versioned. Idempotent; several processes may call it for different commits.
        """

    def restore(self, table: TableChange) -> bool:
        """Make exactly the files in `adds` visible; return False if they are already."""


@runtime_checkable
class FollowsTables(Protocol):
    """A catalog that repeats what engines read from the tables themselves.

    It is told of new tables and columns only: engines find partitions without it, and nobody
    changes types in it.
    """

    follows_tables: bool


@runtime_checkable
class BringsSparkSettings(Protocol):
    """A store, catalog or table format that needs Spark settings; most need none."""

    @property
    def spark_settings(self) -> Mapping[str, str]:
        """Settings for the sessions of runs and of queries with Spark."""


class SparkProvider(Protocol):
    """Provides the Spark session of a run, with the settings that the lake's parts need."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""

    def session(self) -> Any:
        """The session, started by the first call."""

    def stop(self) -> None:
        """Stop the session; tasks on this machine have ended when this returns."""


@runtime_checkable
class JobRunner(Protocol):
    """Runs jobs on a cluster, or in another process on this machine."""

    @property
    def poll_seconds(self) -> float:
        """Seconds to wait between two calls of `state`."""

    @property
    def reads_local_files(self) -> bool:
        """Whether jobs can read this machine's files; otherwise inputs must be in the lake."""

    def submit(self, name: str, job: str) -> str:
        """Submit the job stored at the path `job`; return the runner's id for it."""

    def state(self, handle: str) -> JobState:
        """The current state of a submitted job."""

    def cancel(self, handle: str) -> None:
        """Stop a job, or keep it from starting."""

    def log(self, handle: str) -> str:
        """The address of a job's log."""


class Progress(Protocol):
    """Listens to the progress of a run."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        """Called when a stage has finished `done` of `total` steps, with `rows` rows so far."""


class NoProgress:
    """Ignores all progress."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        """Do nothing."""
