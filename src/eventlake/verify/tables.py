"""The rows of the tables, as they lie in their files, and whether these are the commits' own."""

import pyarrow as pa

from eventlake.verify.check import Check
from eventlake.verify.parquet import File, query_parquet

_ROWS = """
    INSERT INTO found SELECT __table, {}, epoch_us(received_at), __number FROM rows
"""
_COUNTS = "SELECT number, count(found.file) FROM file LEFT JOIN found ON number = file GROUP BY ALL"


def read_tables(check: Check) -> None:
    """Every row's table, id and moment, and of every file its partition and its commit."""
    data = f"segment-data/data/{check.folder}/segment_type="
    sizes = {
        path: size
        for path, size in check.place.files(data.rpartition("/")[0]).items()
        if path.startswith(data) and path.endswith(".parquet")
    }
    paths = list(sizes)
    named = {name: commit.seq for commit in check.commits for name in commit.files}
    check.report("Parquet files that no commit names", sizes.keys() - named.keys())
    check.report("Parquet files that a commit names and that are gone", named.keys() - sizes.keys())
    files, facts = [], []
    for number, path in enumerate(paths):
        table, *place = path.removeprefix(data).split("/")[:-1]
        files.append(File(path, number, table))
        facts.append((number, table, "/".join(place), named.get(path)))
    check.insert("file", facts)
    identity = "message_id" if check.settings["naming"] == "native" else "id"
    columns = pa.schema([(identity, pa.string()), ("received_at", pa.timestamp("us", "UTC"))])
    query_parquet(check, _ROWS.format(identity), files, columns)
    rows = {paths[number]: count for number, count in check.rows(_COUNTS)}
    _check_files(check, sizes, rows)


def _check_files(check: Check, sizes: dict[str, int], rows: dict[str, int]) -> None:
    """Whether the files have the sizes and the rows that their commits say."""
    changed = []
    for path, file in ((p, f) for commit in check.commits for p, f in commit.files.items() if f):
        if path not in sizes:
            continue
        if sizes[path] != file["bytes"]:
            changed.append(f"{path} ({sizes[path]} bytes, not {file['bytes']})")
        known = file["rows"] is not None  # nobody counted those that were taken over
        if known and rows[path] != file["rows"] and path not in check.unreadable:
            changed.append(f"{path} ({rows[path]} rows, not {file['rows']})")
    check.report("Parquet files that are not as their commits wrote them", changed)
