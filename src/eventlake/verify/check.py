"""The state of one verification: a database of what was read, and the problems."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from eventlake.verify.events import CALL_TABLES, catalog_name
from eventlake.verify.files import LakeFiles, Prefixes
from eventlake.verify.ledger import Commit

MAX_EXAMPLES = 20
"""Maximum number of ids or files in one problem."""

_SCHEMA = """
    SET preserve_insertion_order = false;
    CREATE TABLE event (seq INT, tbl TEXT, id TEXT, received INT8, file INT, line INT8, doubt INT);
    CREATE TABLE outcome (
        seq INT, tbl TEXT, id TEXT, received INT8, kept BOOL, removed BOOL);
    CREATE VIEW expected AS SELECT * FROM outcome WHERE NOT removed;
    CREATE TABLE erased_id (id TEXT);
    CREATE TABLE replaced (base INT, since INT8, until INT8, tbl TEXT);
    CREATE TABLE without (number INT, removed INT);
    CREATE TABLE left_out (number INT, high INT8, low INT8, received INT8);
    CREATE TABLE file (number INT, tbl TEXT, part TEXT, seq INT);
    CREATE TABLE stored (tbl TEXT, id TEXT, received INT8, file INT);
    CREATE TABLE origin (seq INT, origin INT);
    CREATE VIEW landed_by AS
        SELECT tbl, id, received, f.seq AS added_by, coalesce(origin, f.seq) AS seq
        FROM (SELECT r.*, f.seq FROM stored r JOIN file f ON f.number = r.file) f
        LEFT JOIN origin ON origin.seq = f.seq;
"""


@dataclass
class Check:
    """The state of one verification."""

    db: Any
    files: LakeFiles
    folder: str
    commits: list[Commit]
    problems: list[str] = field(default_factory=list)
    recounts: dict[int, Counter[str]] = field(default_factory=dict)
    """By commit, the counts and the reasons for quarantine, counted from the archive."""
    unverifiable: list[int] = field(default_factory=list)
    """Commits whose archive is incomplete: their rows are not compared."""
    unreadable: set[str] = field(default_factory=set)
    """Parquet files that cannot be read; each is already reported as a problem."""
    files_read: int = 0

    def __post_init__(self) -> None:
        self.db.execute(_SCHEMA)
        pairs = [(one.seq, origin) for one in self.commits for origin in sorted(one.origins)]
        self.insert("origin", pairs)

    @property
    def prefixes(self) -> Prefixes:
        return self.files.prefixes

    @property
    def settings(self) -> dict[str, Any]:
        return self.commits[-1].settings

    def table_location(self, table: str) -> str:
        """The folder of a table: the one in the ledger, else by rule."""
        own = self.tables[table].get("location")
        return str(own or f"{self.source_path}/segment_type={table}")

    def table_name(self, table: str) -> str:
        """The name of a table in the catalog: the one in the ledger, else by rule."""
        own = self.tables[table].get("catalog_name")
        return str(own or catalog_name(table, self.settings["table_prefix"]))

    @cached_property
    def table_of_folder(self) -> dict[str, str]:
        """By name of a folder that an adopted table has, the table of track events named so."""
        found = {}
        for name, table in self.tables.items():
            folder = table.get("location", "").rpartition("=")[2]
            is_track = table.get("call") == "track"
            if folder and folder != name and not (is_track and folder in CALL_TABLES):
                found[folder] = name if is_track else f"track_{folder}"
        return found

    @property
    def source_path(self) -> str:
        """The folder of the source's tables, except of adopted ones that are elsewhere."""
        settings = self.settings
        name = settings["source" if settings["partition_by_slug"] else "source_id"]
        return f"{settings['data_folder'] or self.prefixes.data}/{name or self.folder}"

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The last JSON of every table that a commit names."""
        tables = (one["table"] for commit in self.commits for one in commit.body.get("tables", ()))
        return {table["name"]: table for table in tables}

    @property
    def active(self) -> list[Commit]:
        """The commits since all that the source had was dropped, which have rows in the tables."""
        drops = [number for number, one in enumerate(self.commits, 1) if one.is_whole_drop]
        return self.commits[drops[-1] if drops else 0 :]

    def report(self, title: str, examples: Collection[str]) -> None:
        """Append a problem with a few of the examples, if there are any."""
        if examples:
            shown = ", ".join(sorted(examples)[:MAX_EXAMPLES])
            self.problems.append(f"{title}: {shown}{', …' if len(examples) > MAX_EXAMPLES else ''}")

    def rows(self, query: str, *parameters: object) -> list[Any]:
        rows: list[Any] = self.db.execute(query, parameters).fetchall()
        return rows

    def insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows in batches."""
        remaining = iter(rows)
        names = [column[0] for column in self.rows(f"DESCRIBE {table}")]
        while batch := list(islice(remaining, 50_000)):
            self.db.register("batch", pa.table(list(zip(*batch, strict=True)), names))
            self.db.execute(f"INSERT INTO {table} FROM batch")
            self.db.unregister("batch")
