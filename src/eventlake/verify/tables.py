"""The rows of the tables, as they lie in their files."""

from glob import escape
from itertools import groupby
from typing import Any

import duckdb

from eventlake.verify.check import Check

_ROWS = """
    INSERT INTO found SELECT f.tbl, r.{}, epoch_us(r.received_at), f.number
    FROM read_parquet(?, filename = true, hive_partitioning = false) r
    JOIN file f ON f.path = r.filename
"""


def read_tables(check: Check) -> None:
    """Every row's table, id and moment, and of every file its partition and its commit."""
    data = check.root / "segment-data/data" / check.folder
    there = sorted(data.glob("segment_type=*/**/*.parquet"))
    files = {path.relative_to(check.root).as_posix(): path for path in there}
    named = {name: commit.seq for commit in check.commits for name in commit.files}
    check.report("Parquet files that no commit names", files.keys() - named.keys())
    check.report("Parquet files that a commit names and that are gone", named.keys() - files.keys())
    rows = []
    for number, (name, path) in enumerate(files.items()):
        table, *place = path.relative_to(data).parts[:-1]
        table = table.removeprefix("segment_type=")
        rows.append((number, str(path), table, "/".join(place), named.get(name)))
    check.insert("file", rows)
    identity = "message_id" if check.settings["naming"] == "native" else "id"
    for _, same in groupby(rows, key=lambda row: row[2]):
        from_parquet(check, _ROWS.format(identity), [row[1] for row in same])


def from_parquet(check: Check, query: str, paths: list[str]) -> list[Any]:
    """What a query gives; a file that cannot be read is a problem and is left out."""
    if not paths:
        return []
    try:
        return check.rows(query, [escape(path) for path in paths])
    except duckdb.Error as error:
        if len(paths) == 1:
            check.problems.append(f"{paths[0]} cannot be read: {str(error).splitlines()[0]}")
            return []
    half = len(paths) // 2
    first = from_parquet(check, query, paths[:half])
    return first + from_parquet(check, query, paths[half:])
