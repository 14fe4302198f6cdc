"""The plan of a run and the commit it ends in: plain values, all that another process needs."""

from pydantic import Field

from eventlake.model.schema import Column, TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.model.values import Value


class Input(Value):
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


class IdFile(Value):
    """Message ids of one run: hashes in order, with the first and last moment of receipt."""

    path: str
    rows: int
    first: int
    last: int


class Plan(Value):
    """Everything a run needs; it reads nothing else."""

    run_id: str
    settings: SourceSettings
    base: int
    """The ledger's last sequence when the run was planned."""
    inputs: tuple[Input, ...]
    tables: dict[str, TableSchema] = Field(default_factory=dict)
    ids: tuple[IdFile, ...] = ()
    renamed: bool = False
    """Whether the tables get other names in the catalog than they had."""


class Move(Value):
    """A staged object and the place that it is published to."""

    staged: str
    final: str


class DataFile(Value):
    """A Parquet file of a table."""

    path: str
    rows: int
    bytes: int
    partition: dict[str, str]


class Counts(Value):
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


class TableCommit(Value):
    """What a run did to one table."""

    table: TableSchema
    counts: Counts
    new_columns: tuple[Column, ...] = ()
    is_new: bool = False
    adopted: bool = False
    """Whether it was there before, filled by somebody else."""
    files: tuple[DataFile, ...] = ()

    @property
    def partitions(self) -> tuple[dict[str, str], ...]:
        """Each partition touched, once, in order."""
        unique = {tuple(file.partition.items()) for file in self.files}
        return tuple(dict(items) for items in sorted(unique))


class Commit(Value):
    """One step of the ledger: all that happened, and all that is left to do after a crash."""

    run_id: str
    settings: SourceSettings
    inputs: tuple[Input, ...]
    counts: Counts
    tables: tuple[TableCommit, ...] = ()
    moves: tuple[Move, ...] = ()
    ids: tuple[IdFile, ...] = ()
    quarantine: str = ""
    abandons: tuple[str, ...] = ()
    """Runs found dead at planning: should one still live, it may not commit any more."""
    adopted: tuple[str, ...] = ()
    """Data files that somebody else had written before."""
    renamed: bool = False
    """Whether all tables are to be registered with their history, as their names changed."""
