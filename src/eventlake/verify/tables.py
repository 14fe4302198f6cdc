"""Reads the rows of the tables, and compares data files with their commits."""

import pyarrow as pa

from eventlake.verify.check import Check
from eventlake.verify.ledger import kept_files
from eventlake.verify.parquet import File, query_parquet

_ROWS = """
    INSERT INTO stored SELECT __table, {}, epoch_us(received_at), __number FROM rows
"""
_COUNTS = (
    "SELECT number, count(stored.file) FROM file LEFT JOIN stored ON number = file GROUP BY ALL"
)


def read_tables(check: Check) -> None:
    """Fill the tables `stored` and `file`, and report missing, extra and changed files."""
    sizes, tables = _list_files(check)
    paths = list(sizes)
    committed = {name: commit.seq for commit in check.commits for name in commit.files}
    named = committed.keys() | kept_files(check.commits)
    check.report("Parquet files that no commit names", sizes.keys() - named)
    paths = [path for path in paths if path in committed or path not in named]
    check.report("Parquet files of commits that are gone", committed.keys() - sizes.keys())
    files, facts = [], []
    for number, path in enumerate(paths):
        location, partition = _split_path(path)
        table = tables.get(location) or location.rpartition("=")[2]
        files.append(File(path, number, table))
        facts.append((number, table, partition, committed.get(path)))
    check.insert("file", facts)
    naming = check.settings["column_naming"] or check.settings["naming"]
    identity = "message_id" if naming == "native" else "id"
    columns = pa.schema([(identity, pa.string()), ("received_at", pa.timestamp("us", "UTC"))])
    query_parquet(check, _ROWS.format(identity), files, columns)
    rows = {paths[number]: count for number, count in check.rows(_COUNTS)}
    _check_files(check, sizes, rows)


def _list_files(check: Check) -> tuple[dict[str, int], dict[str, str]]:
    """The sizes of the Parquet files in the tables' folders, by path; the tables by folder.

    Files in other folders beside the tables count too, unless other software may have put them
    there.
    """
    tables = {check.table_location(table): table for table in check.tables}
    adopted = any(commit.adopted for commit in check.commits)
    sources = {check.source_path, *(location.rpartition("/")[0] for location in tables)}
    sizes = {
        path: size
        for source in sorted(sources)
        for path, size in check.files.files(source).items()
        if path.startswith(f"{source}/segment_type=") and path.endswith(".parquet")
        if "/_delta_log/" not in path
        if not adopted or _split_path(path)[0] in tables
    }
    return sizes, tables


def _split_path(path: str) -> tuple[str, str]:
    """The table's folder and the partition of a data file."""
    source, mark, rest = path.partition("/segment_type=")
    table, _, below = rest.partition("/")
    return f"{source}{mark}{table}", below.rpartition("/")[0]


def _check_files(check: Check, sizes: dict[str, int], rows: dict[str, int]) -> None:
    """Report files whose size or number of rows differs from their commit."""
    changed = []
    for path, file in ((p, f) for commit in check.commits for p, f in commit.files.items() if f):
        if path not in sizes:
            continue
        if sizes[path] != file["bytes"]:
            changed.append(f"{path} ({sizes[path]} bytes, not {file['bytes']})")
        is_counted = file["rows"] is not None  # not for adopted files
        if is_counted and rows[path] != file["rows"] and path not in check.unreadable:
            changed.append(f"{path} ({rows[path]} rows, not {file['rows']})")
    check.report("Parquet files that differ from their commits", changed)
