"""The index of message ids: whether it holds the ids that have landed, and no others."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from struct import unpack
from typing import NamedTuple

import pyarrow as pa

from eventlake.verify.check import Check
from eventlake.verify.parquet import File, query_parquet

_COLUMNS = pa.schema([(name, pa.int64()) for name in ("high", "low", "received")])
_SUMS = """
    SELECT __number, count(*), sum(high)::TEXT, sum(low)::TEXT, sum(received)::TEXT,
    min(received), max(received) FROM rows GROUP BY __number
"""
_LANDED = """
    SELECT f.seq, r.id, r.received FROM found r JOIN file f ON f.number = r.file
    WHERE r.id IS NOT NULL AND f.seq IS NOT NULL
"""


class Sums(NamedTuple):
    """Some rows of the index, whatever their order."""

    rows: int = 0
    high: int = 0
    low: int = 0
    received: int = 0

    def plus(self, other: "Sums") -> "Sums":
        return Sums(*(one + another for one, another in zip(self, other, strict=True)))


def check_index(check: Check) -> None:
    """Compare the index files with what their commits say, and with the rows of the tables."""
    folder = f"segment-data/ledger/{check.folder}/ids"
    paths = [path for path in check.place.files(folder) if path.endswith(".parquet")]
    said = {file["path"]: file for commit in check.commits for file in commit.ids}
    check.report("files of the id index that no commit names", set(paths) - said.keys())
    check.report("files of the id index that are gone", said.keys() - set(paths))
    sums: defaultdict[str, Sums] = defaultdict(Sums)
    times: defaultdict[str, list[int]] = defaultdict(list)
    files = [File(path, number) for number, path in enumerate(paths)]
    for number, rows, high, low, received, first, last in query_parquet(
        check, _SUMS, files, _COLUMNS
    ):
        path = paths[number]
        sums[path] = sums[path].plus(Sums(rows, int(high), int(low), int(received)))
        times[path] += [first, last]
    whole = [path for path in paths if path in said and path not in check.unreadable]
    differs = [flaw for path in whole for flaw in _flaws(path, said[path], sums, times)]
    check.report("files of the id index that are not as their commits wrote them", differs)
    if not differs:
        _compare_ids(check, {path: sums[path] for path in whole})


def _flaws(
    path: str, said: dict[str, int], sums: dict[str, Sums], times: dict[str, list[int]]
) -> Iterator[str]:
    if sums[path].rows != said["rows"]:
        yield f"{path} ({sums[path].rows} rows, not {said['rows']})"
    elif times[path] and (min(times[path]), max(times[path])) != (said["first"], said["last"]):
        yield f"{path} (other times of receipt)"


def _compare_ids(check: Check, sums: dict[str, Sums]) -> None:
    """Name the index files of commits whose rows have other ids, where all files can be read."""
    landed = _landed_sums(check)
    present = Counter(dict(check.rows("SELECT seq, count(*) FROM file GROUP BY seq")))
    for commit in check.commits:
        paths = [file["path"] for file in commit.ids]
        sound = present[commit.seq] == len(commit.files) and not (
            check.unreadable.intersection(commit.files)
        )
        if commit.adopted or not sound or not paths or not sums.keys() >= set(paths):
            continue
        total = Sums()
        for path in paths:
            total = total.plus(sums[path])
        if total != landed[commit.seq]:
            check.report(f"commit {commit.seq}: the id index has other ids than the tables", paths)


def _landed_sums(check: Check) -> defaultdict[int, Sums]:
    sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    rows = check.db.cursor().execute(_LANDED)
    while batch := rows.fetchmany(50_000):
        for seq, identity, received in batch:
            high, low = unpack("<qq", blake2b(identity.encode(), digest_size=16).digest())
            known = sums[seq]
            known[0] += 1
            known[1] += high
            known[2] += low
            known[3] += received
    return defaultdict(Sums, {seq: Sums(*known) for seq, known in sums.items()})
