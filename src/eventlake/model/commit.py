"""The plan and the commit of a run, as JSON values that another process can continue from."""

from enum import StrEnum

from pydantic import Field

from eventlake.model.erasure import Erasure
from eventlake.model.schema import Column, TableSchema, column, new_table
from eventlake.model.settings import SourceSettings
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel


class Input(FrozenModel):
    """A raw log: its address, and a fingerprint that changes with the file.

    The address of a file in the lake is `lake:` and its path below the lake's root.
    """

    uri: str
    fingerprint: str
    size: int
    origin: tuple[str, str] | None = None
    """Address and fingerprint of the file that this is a copy of; for a pipe, `stream:sha256` and
    the digest of its data."""
    staged: str = ""
    """For a raw log that its run has written, the path in the stage until the commit is published;
    empty when it is read again."""
    first: int | None = None
    """The first time of receipt in it, in microseconds; known to commits, None without events."""
    last: int | None = None

    @property
    def identities(self) -> tuple[tuple[str, str], ...]:
        """Address and fingerprint of the input, and of the file that it is a copy of."""
        own = (self.uri, self.fingerprint)
        return (own, self.origin) if self.origin else (own,)


class IdFile(FrozenModel):
    """A file of the id index: sorted hashes; `first` and `last` are receipt times."""

    path: str
    rows: int
    first: int
    last: int
    staged: str = ""
    """Its path in the stage, until the commit is published."""
    without: tuple[str, ...] = ()
    """Files of ids that later commits removed from the lake: they do not count here any more."""


class IdMerge(FrozenModel):
    """A merge of several index files into one."""

    file: IdFile
    replaces: tuple[str, ...]
    """Paths of the merged files; a run deletes them a day later."""


END_OF_TIME = 1 << 62
"""Later than any event, in microseconds; its negative is earlier than any."""


class Replacement(FrozenModel):
    """The rows that a run replaces: of some tables or all, received in [since, until)."""

    base: int
    """The last commit whose rows are replaced; a replay reads its inputs and those before it."""
    since: int = -END_OF_TIME
    until: int = END_OF_TIME
    tables: tuple[str, ...] = ()
    """Empty for all tables."""
    left_out: tuple[Input, ...] = ()
    """Inputs that are gone or changed, and that a replay does without."""

    @property
    def is_bounded(self) -> bool:
        return (self.since, self.until) != (-END_OF_TIME, END_OF_TIME)

    @property
    def is_whole(self) -> bool:
        """Whether it replaces all rows of the source."""
        return not self.tables and not self.is_bounded

    def overlaps(self, one: Input) -> bool:
        """Whether an input has events of the time; all inputs belong to a whole replacement."""
        if self.is_whole:
            return True
        if one.first is None or one.last is None:
            return False
        return one.first < self.until and one.last >= self.since


class Plan(FrozenModel):
    """What a run lands and the state that it starts from."""

    run_id: str
    settings: SourceSettings
    base: int
    """The ledger's last sequence when the run was planned."""
    inputs: tuple[Input, ...]
    tables: dict[str, TableSchema] = Field(default_factory=dict)
    ids: tuple[IdFile, ...] = ()
    merges: tuple[tuple[IdFile, ...], ...] = ()
    """Groups of index files; the run merges each group into one file."""
    deletes: tuple[str, ...] = ()
    """Index files replaced so long ago that no run reads them."""
    renamed: bool = False
    """Whether the catalog names of the tables change."""
    replaces: Replacement | None = None
    removes: dict[str, tuple["DataFile", ...]] = Field(default_factory=dict)
    """By table, the files with the rows that the run replaces, or that it merges."""
    compacts: bool = False
    """Whether the run merges the files that it removes, and does nothing else."""
    infer: tuple[str, ...] = ()
    """Tables whose columns and types are inferred anew, except for pinned types."""
    pinned: dict[str, dict[str, Type]] = Field(default_factory=dict)
    """By table, the types that the user has set with `retype`."""

    retyped: dict[str, dict[str, Type]] = Field(default_factory=dict)
    """By table, columns that get another type with this run."""

    def starting_table(self, name: str) -> TableSchema | None:
        """A table as the run extends it: with its new types; to infer, only pinned columns.

        None if the table is new.
        """
        table, retyped = self.tables.get(name), self.retyped.get(name, {})
        if table is None:
            return None
        if name not in self.infer:
            return table.with_types(retyped)
        pinned = self.pinned.get(name, {}) | retyped
        base = new_table(name, table.call, self.settings.columns)
        return base.with_columns(tuple(column(*pin) for pin in sorted(pinned.items())))


Bound = int | str | None
"""Minimum or maximum of a column: a number, or the text of a decimal or time."""

ColumnStats = tuple[int, Bound, Bound]
"""Null count, minimum and maximum of a column in a file; None if unknown, and for strings."""


class DataFile(FrozenModel):
    """A Parquet file of a table."""

    path: str
    rows: int | None
    """None for a file of another program that was not opened."""
    bytes: int
    partition: dict[str, str]
    staged: str = ""
    """Its path in the stage, until the commit is published; empty for an adopted file."""
    stats: dict[str, ColumnStats] = Field(default_factory=dict)
    """Statistics of columns that have them."""


class StagedFile(FrozenModel):
    """A file in the stage, and the path that it is published to."""

    staged: str
    path: str


class Rewrite(FrozenModel):
    """An object that a commit replaces or removes: a quarantine file, a raw log of the archive.

    Data files of tables are replaced by `TableCommit.adds` and `removes`.
    """

    path: str
    """Below the lake's root, or the address of a raw log outside of the lake."""
    new_path: str = ""
    """The path or address of the object that takes its place; empty if there is none."""
    staged: str = ""
    """The path of the new object in the stage, until the commit is published."""
    input: Input | None = None
    """The new object as an input, if a run has loaded the old one: it counts as loaded, too."""


class Counts(FrozenModel):
    """Numbers of events: `received` is the sum of the others, without `rescued` values."""

    received: int = 0
    landed: int = 0
    duplicates: int = 0
    suppressed: int = 0
    quarantined: int = 0
    skipped: int = 0
    rescued: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every received event is in exactly one other count."""
        out = self.landed + self.duplicates + self.suppressed + self.quarantined + self.skipped
        return self.received == out

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{k: v + getattr(other, k) for k, v in self})


class TableCommit(FrozenModel):
    """The changes of a commit to one table."""

    table: TableSchema
    counts: Counts
    new_columns: tuple[Column, ...] = ()
    retyped: tuple[Column, ...] = ()
    """Columns whose type is another than before, with their new type."""
    is_new: bool = False
    adopted: bool = False
    """Whether the table was filled by another program."""
    dropped: bool = False
    """Whether the table no longer exists."""
    adds: tuple[DataFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    """Files that no longer belong to the table."""

    @property
    def partitions(self) -> tuple[dict[str, str], ...]:
        """The distinct partitions with new files, in order."""
        unique = {tuple(file.partition.items()) for file in self.adds}
        return tuple(dict(items) for items in sorted(unique))


class CommitKind(StrEnum):
    """What a commit was made for."""

    LOAD = "load"
    ADOPT = "adopt"
    REPLAY = "replay"
    FORGET = "forget"
    REDRIVE = "redrive"
    COMPACT = "compact"
    DROP = "drop"
    RETYPE = "retype"


class Commit(FrozenModel):
    """An entry of the ledger: what a run landed, and all that finishing it after a crash needs."""

    run_id: str
    settings: SourceSettings
    kind: CommitKind = CommitKind.LOAD
    inputs: tuple[Input, ...]
    counts: Counts
    tables: tuple[TableCommit, ...] = ()
    ids: tuple[IdFile, ...] = ()
    """The message ids that the run landed."""
    removed_ids: tuple[IdFile, ...] = ()
    """The message ids of the rows that the run removed from the tables, whether or not it landed
    them again."""
    duplicate_ids: str = ""
    """Hashes of the message ids that the run left out as duplicates, in Base64; empty if there are
    very many. A replay beside the run conflicts with it only if it drops one of these."""
    merges: tuple[IdMerge, ...] = ()
    deletes: tuple[str, ...] = ()
    """Replaced index files to delete when the commit is finished."""
    quarantine: StagedFile | None = None
    users: StagedFile | None = None
    """The object with the hashes of the users' ids in each file that the run read or wrote."""
    rewrites: tuple[Rewrite, ...] = ()
    """Other objects that it replaces or removes; no two have the same path."""
    unquarantined: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By run and reason, the number of lines that it takes out of the quarantine."""
    erasure: Erasure | None = None
    """What it has removed of a forgotten user."""
    abandons: tuple[str, ...] = ()
    """Runs that seemed dead at planning; they cannot commit any more."""
    renamed: bool = False
    """Whether to register all tables with all partitions, because their names changed."""
    replaces: Replacement | None = None
    """The rows of earlier commits that it replaces or drops."""
    pins: dict[str, dict[str, Type]] = Field(default_factory=dict)
    """By table, the types that the user has set with `retype`."""
    format: str = "parquet"
    """The format of the tables."""
    keeps_removed: bool = False
    """Whether the data files that it removes stay in storage for a while, for those who read older
    versions of the tables."""

    @property
    def is_whole(self) -> bool:
        """Whether it replaces or drops all that earlier commits landed."""
        return self.replaces is not None and self.replaces.is_whole

    @property
    def removed_paths(self) -> frozenset[str]:
        """Paths of the data files that it removes."""
        return frozenset(file.path for table in self.tables for file in table.removes)

    @property
    def rewritten_paths(self) -> frozenset[str]:
        """Paths of the other objects that it replaces or removes."""
        return frozenset(one.path for one in self.rewrites)

    @property
    def objects(self) -> dict[str, str]:
        """The quarantine file and the new objects of `rewrites`: staged path by final path."""
        files = {one.new_path: one.staged for one in self.rewrites if one.new_path}
        return files | ({self.quarantine.path: self.quarantine.staged} if self.quarantine else {})


class Transaction(FrozenModel):
    """Identifies a commit of a source."""

    source: str
    """The source's folder."""
    ledger: str
    """The run of the ledger's first commit: a ledger that is begun anew has another."""
    run_id: str
    sequence: int
    kind: CommitKind = CommitKind.LOAD


class TableChange(FrozenModel):
    """The changes of a commit to one table, as a table format needs them."""

    transaction: Transaction
    location: str
    table: TableSchema
    partition_columns: tuple[str, ...]
    new_columns: tuple[Column, ...] = ()
    adds: tuple[DataFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    superseded: frozenset[str] = frozenset()
    """Paths of `adds` that later commits have removed: the files may be gone."""
    is_new: bool = False
    is_dropped: bool = False
    keeps_removed: bool = False
    """Whether the files in `removes` stay in storage."""

    @property
    def has_changes(self) -> bool:
        return bool(self.adds or self.removes or self.new_columns or self.is_dropped)
