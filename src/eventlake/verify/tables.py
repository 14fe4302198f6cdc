"""Reads the rows of the tables, and compares data files with their commits."""

import pyarrow as pa

from eventlake.verify.check import Check
from eventlake.verify.parquet import File, query_parquet

_ROWS = """
    INSERT INTO stored SELECT __table, {}, epoch_us(received_at), __number FROM rows
"""
_COUNTS = (
    "SELECT number, count(stored.file) FROM file LEFT JOIN stored ON number = file GROUP BY ALL"
)


def read_tables(check: Check) -> None:
    """Fill the tables `stored` and `file`, and report missing, extra and changed files."""
    data = f"{check.prefixes.data}/{check.folder}/segment_type="
    sizes = {
        path: size
        for path, size in check.files.files(data.rpartition("/")[0]).items()
        if path.startswith(data) and path.endswith(".parquet")
    }
    paths = list(sizes)
    committed = {name: commit.seq for commit in check.commits for name in commit.files}
    check.report("Parquet files that no commit names", sizes.keys() - committed.keys())
    check.report("Parquet files of commits that are gone", committed.keys() - sizes.keys())
    files, facts = [], []
    for number, path in enumerate(paths):
        table, *partition = path.removeprefix(data).split("/")[:-1]
        files.append(File(path, number, table))
        facts.append((number, table, "/".join(partition), committed.get(path)))
    check.insert("file", facts)
    identity = "message_id" if check.settings["naming"] == "native" else "id"
    columns = pa.schema([(identity, pa.string()), ("received_at", pa.timestamp("us", "UTC"))])
    query_parquet(check, _ROWS.format(identity), files, columns)
    rows = {paths[number]: count for number, count in check.rows(_COUNTS)}
    _check_files(check, sizes, rows)


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
