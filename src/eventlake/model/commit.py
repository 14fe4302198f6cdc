"""The plan of a run and the commit it ends in: plain values, all that another process needs."""

from pydantic import Field

from eventlake.model.schema import Column, TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel


class Input(FrozenModel):
    """One raw log: its address, and what tells a changed file from a known one.

    The address of a file in the lake is `lake:` and its path below the lake's root.
    """

    uri: str
    fingerprint: str
    size: int
    origin: tuple[str, str] | None = None
    """Address and fingerprint of the file that was copied into the lake's archive; of a pipe
    `stream:sha256` and the digest of what came through it."""

    @property
    def identities(self) -> tuple[tuple[str, str], ...]:
        own = (self.uri, self.fingerprint)
        return (own, self.origin) if self.origin else (own,)


class IdFile(FrozenModel):
    """A file of the message-id index: hashes in order, and the first and last time of receipt."""

    path: str
    rows: int
    first: int
    last: int
    staged: str = ""
    """Where the file is until its commit is published."""


class IdMerge(FrozenModel):
    """Files of the index that are merged into one, so that a run opens few of them."""

    file: IdFile
    replaces: tuple[str, ...]
    """The paths of the files that it replaces; they are deleted a day later."""


class Plan(FrozenModel):
    """Everything a run needs; it reads nothing else."""

    run_id: str
    settings: SourceSettings
    base: int
    """The ledger's last sequence when the run was planned."""
    inputs: tuple[Input, ...]
    tables: dict[str, TableSchema] = Field(default_factory=dict)
    ids: tuple[IdFile, ...] = ()
    merges: tuple[tuple[IdFile, ...], ...] = ()
    """Index files that the run merges, each group into one."""
    deletes: tuple[str, ...] = ()
    """Index files that were replaced so long ago that no run reads them any more."""
    renamed: bool = False
    """Whether the tables get other names in the catalog than they had."""


Bound = int | str | None
"""The least or greatest value of a column: a number, or the text of a decimal, time or string."""

ColumnStats = tuple[int, Bound, Bound]
"""How many nulls a column has in a file, and its least and greatest value where that is known."""


class DataFile(FrozenModel):
    """A Parquet file of a table."""

    path: str
    rows: int | None
    """None for a file of somebody else's that nobody has opened."""
    bytes: int
    partition: dict[str, str]
    staged: str = ""
    """Where the file is until its commit is published; empty for one that was there before."""
    stats: dict[str, ColumnStats] = Field(default_factory=dict)
    """Of the columns that have statistics."""


class StagedFile(FrozenModel):
    """An object in the stage, and the path that it is published to."""

    staged: str
    path: str


class Counts(FrozenModel):
    """The books: `received` equals the sum of the other five, rescued values aside."""

    received: int = 0
    landed: int = 0
    duplicates: int = 0
    suppressed: int = 0
    quarantined: int = 0
    skipped: int = 0
    rescued: int = 0

    @property
    def balanced(self) -> bool:
        out = self.landed + self.duplicates + self.suppressed + self.quarantined + self.skipped
        return self.received == out

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{k: v + getattr(other, k) for k, v in self})


class TableCommit(FrozenModel):
    """What a run did to one table."""

    table: TableSchema
    counts: Counts
    new_columns: tuple[Column, ...] = ()
    is_new: bool = False
    adopted: bool = False
    """Whether it was there before, filled by somebody else."""
    adds: tuple[DataFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    """Files that are part of the table no longer."""

    @property
    def partitions(self) -> tuple[dict[str, str], ...]:
        """Each partition that got files, once, in order."""
        unique = {tuple(file.partition.items()) for file in self.adds}
        return tuple(dict(items) for items in sorted(unique))


class Commit(FrozenModel):
    """One step of the ledger: all that happened, and all that is left to do after a crash."""

    run_id: str
    settings: SourceSettings
    inputs: tuple[Input, ...]
    counts: Counts
    tables: tuple[TableCommit, ...] = ()
    ids: tuple[IdFile, ...] = ()
    """The message ids that the run landed."""
    merges: tuple[IdMerge, ...] = ()
    deletes: tuple[str, ...] = ()
    """Replaced index files that go when the commit is carried out."""
    quarantine: StagedFile | None = None
    abandons: tuple[str, ...] = ()
    """Runs found dead at planning: should one still live, it may not commit any more."""
    renamed: bool = False
    """Whether all tables are to be registered with their history, as their names changed."""

    @property
    def is_adoption(self) -> bool:
        """Whether it takes over tables that somebody else filled."""
        return any(done.adopted for done in self.tables)


class TableChange(FrozenModel):
    """What a commit does to the files of one table, as a table format needs it."""

    location: str
    table: TableSchema
    partition_columns: tuple[str, ...]
    new_columns: tuple[Column, ...] = ()
    adds: tuple[DataFile, ...] = ()
    removes: tuple[DataFile, ...] = ()


class Transaction(FrozenModel):
    """Identifies a commit of a source."""

    source: str
    """The source's folder."""
    run_id: str
    sequence: int
