"""The state of one verification: what was read, in a database, and what is wrong."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from eventlake.verify.files import LakeFiles
from eventlake.verify.ledger import Commit

EXAMPLES = 20
"""How many ids or files one problem names."""

_SCHEMA = """
    SET preserve_insertion_order = false;
    CREATE TABLE event (seq INT, tbl TEXT, id TEXT, received INT8, file INT, line INT8, doubt INT);
    CREATE TABLE outcome (seq INT, tbl TEXT, id TEXT, received INT8, kept BOOL);
    CREATE TABLE file (number INT, tbl TEXT, place TEXT, seq INT);
    CREATE TABLE found (tbl TEXT, id TEXT, received INT8, file INT);
"""


@dataclass
class Check:
    """The state of one verification."""

    db: Any
    place: LakeFiles
    folder: str
    commits: list[Commit]
    problems: list[str] = field(default_factory=list)
    ours: dict[int, Counter[str]] = field(default_factory=dict)
    """The books as the archive gives them, and how often each reason for quarantine, by commit."""
    gaps: list[int] = field(default_factory=list)
    """Commits of which the archive does not tell everything: their rows are taken as they are."""
    unreadable: set[str] = field(default_factory=set)
    """Parquet files that cannot be read, which is a problem already."""
    files_read: int = 0

    def __post_init__(self) -> None:
        self.db.execute(_SCHEMA)

    @property
    def settings(self) -> dict[str, Any]:
        return self.commits[-1].settings

    def report(self, what: str, examples: Collection[str]) -> None:
        if examples:
            shown = ", ".join(sorted(examples)[:EXAMPLES])
            self.problems.append(f"{what}: {shown}{', …' if len(examples) > EXAMPLES else ''}")

    def rows(self, query: str, *given: object) -> list[Any]:
        found: list[Any] = self.db.execute(query, given).fetchall()
        return found

    def insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows, some at a time."""
        left = iter(rows)
        names = [column[0] for column in self.rows(f"DESCRIBE {table}")]
        while batch := list(islice(left, 50_000)):
            self.db.register("batch", pa.table(list(zip(*batch, strict=True)), names))
            self.db.execute(f"INSERT INTO {table} FROM batch")
            self.db.unregister("batch")
