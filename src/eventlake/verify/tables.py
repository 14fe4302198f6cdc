"""The rows of the tables, as they lie in their files."""

import pyarrow as pa

from eventlake.verify.check import Check
from eventlake.verify.parquet import File, query_parquet

_ROWS = """
    INSERT INTO found SELECT __table, {}, epoch_us(received_at), __number FROM rows
"""


def read_tables(check: Check) -> None:
    """Every row's table, id and moment, and of every file its partition and its commit."""
    data = f"segment-data/data/{check.folder}/segment_type="
    paths = [
        path
        for path in check.place.files(data.rpartition("/")[0], deep=True)
        if path.startswith(data) and path.endswith(".parquet")
    ]
    named = {name: commit.seq for commit in check.commits for name in commit.files}
    check.report("Parquet files that no commit names", set(paths) - named.keys())
    check.report("Parquet files that a commit names and that are gone", named.keys() - set(paths))
    files, facts = [], []
    for number, path in enumerate(paths):
        table, *place = path.removeprefix(data).split("/")[:-1]
        files.append(File(path, number, table))
        facts.append((number, table, "/".join(place), named.get(path)))
    check.insert("file", facts)
    identity = "message_id" if check.settings["naming"] == "native" else "id"
    columns = pa.schema([(identity, pa.string()), ("received_at", pa.timestamp("us", "UTC"))])
    query_parquet(check, _ROWS.format(identity), files, columns)
