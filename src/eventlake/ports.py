"""What the outside must do for us. A backend is one class that answers one of these."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import TableChange, Transaction
from eventlake.model.job import JobState
from eventlake.model.schema import Column


class Catalog(Protocol):
    """Registers tables for the engines that query the lake. Every call may be repeated."""

    def database(self, name: str) -> None:
        """Make sure that a database exists."""

    def tables(self, database: str = "") -> Sequence[CatalogTable]:
        """Every table of the lake, or those in one database, without their many partitions."""

    def table(self, database: str, name: str) -> CatalogTable | None:
        """A table, or None."""

    def create(self, table: CatalogTable) -> None:
        """Register a table; add the columns and partitions that one of this name lacks.

        Raises InvalidSettings when the catalog has the name with another location.
        """

    def add_columns(self, table: CatalogTable, columns: Sequence[Column]) -> None:
        """Append the columns that a table lacks; raises MissingTable when it is not there."""

    def add_partitions(self, table: CatalogTable, partitions: Sequence[Mapping[str, str]]) -> None:
        """Register partitions of a table; raises MissingTable when it is not there."""

    def replace(self, table: CatalogTable) -> None:
        """Make location and partitions exactly those given; columns of others stay.

        Raises InvalidSettings when the catalog has the name with a location outside the lake.
        """

    def drop(self, table: CatalogTable) -> None:
        """Forget a table; its files are not touched."""


class TableFormat(Protocol):
    """Makes committed files visible as rows of a table."""

    needs_partitions: bool
    """Whether engines see a new partition only once the catalog has been told about it."""

    def publish(self, change: TableChange, transaction: Transaction) -> None:
        """Make a committed change of one table visible: the files added first, then the removals.

        May be repeated, by several processes, and for commits in any order.
        """


class SparkProvider(Protocol):
    """Has a Spark session for a run, wherever that is."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    def session(self) -> Any:
        """The session; started when first asked for."""


class JobRunner(Protocol):
    """Runs jobs somewhere else, each when its turn comes."""

    def submit(self, name: str, job: str) -> str:
        """Have the job of an object in the lake run; what the cluster calls it."""

    def state(self, handle: str) -> JobState:
        """How far a job is."""

    def cancel(self, handle: str) -> None:
        """Stop a job, or see to it that it never begins."""

    def log(self, handle: str) -> str:
        """Where to read what a job said."""


class Progress(Protocol):
    """Hears how far a run is."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        """A stage has done so many of its steps, and so many rows."""


class NoProgress:
    """Nobody listens."""

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        """Say nothing."""
