"""Checks that the id index has exactly the ids of the tables."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from struct import unpack
from typing import Any, NamedTuple

import pyarrow as pa

from eventlake.verify.check import Check
from eventlake.verify.ledger import Commit
from eventlake.verify.parquet import File, query_parquet

_COLUMNS = pa.schema([(name, pa.int64()) for name in ("high", "low", "received")])
_REMOVED = """
    INSERT INTO left_out SELECT number, high, low, received
    FROM rows JOIN without ON removed = __number
"""
_SUMS = """
    SELECT __number, EXISTS (FROM left_out l WHERE l.number = __number AND l.high = rows.high
        AND l.low = rows.low AND l.received = rows.received),
    count(*), sum(high)::TEXT, sum(low)::TEXT, sum(received)::TEXT, min(received), max(received)
    FROM rows GROUP BY ALL
"""
_LANDED = """
    SELECT f.seq, r.id, r.received FROM stored r JOIN file f ON f.number = r.file
    WHERE r.id IS NOT NULL AND f.seq IS NOT NULL
"""


class Sums(NamedTuple):
    """Column sums of index rows, which do not depend on their order."""

    rows: int = 0
    high: int = 0
    low: int = 0
    received: int = 0

    def plus(self, other: "Sums") -> "Sums":
        return Sums(*(one + another for one, another in zip(self, other, strict=True)))


def check_index(check: Check) -> None:
    """Compare the index files with their commits and with the rows of the tables."""
    folder = f"{check.prefixes.ledger}/{check.folder}/ids"
    paths = [path for path in check.files.files(folder) if path.endswith(".parquet")]
    described, retired = live_index(check.commits)
    removed = {path for file in described.values() for path in file.get("without", ())}
    named = described.keys() | removed
    check.report("files of the id index that no commit names", set(paths) - named - retired)
    check.report("files of the id index that are gone", named - set(paths))
    paths = [path for path in paths if path in described]
    _read_removed(check, paths, described, sorted(removed))
    sums: defaultdict[str, Sums] = defaultdict(Sums)
    live: defaultdict[str, Sums] = defaultdict(Sums)
    times: defaultdict[str, list[int]] = defaultdict(list)
    files = [File(path, number) for number, path in enumerate(paths)]
    for number, is_left_out, rows, high, low, received, first, last in query_parquet(
        check, _SUMS, files, _COLUMNS
    ):
        path, part = paths[number], Sums(rows, int(high), int(low), int(received))
        sums[path] = sums[path].plus(part)
        live[path] = live[path].plus(Sums() if is_left_out else part)
        times[path] += [first, last]
    whole = [path for path in paths if path not in check.unreadable]
    differs = [
        difference
        for path in whole
        for difference in _differences(path, described[path], sums, times)
    ]
    check.report("files of the id index that differ from their commits", differs)
    if not differs:
        _compare_ids(check, {path: live[path] for path in whole})


def _read_removed(
    check: Check, paths: list[str], described: dict[str, dict[str, Any]], removed: list[str]
) -> None:
    """Fill the table `left_out` with the ids that no longer count in each index file."""
    pairs = [
        (number, removed.index(path))
        for number, index_path in enumerate(paths)
        for path in described[index_path].get("without", ())
    ]
    check.insert("without", pairs)
    present = [File(path, n) for n, path in enumerate(removed) if check.files.has(path)]
    query_parquet(check, _REMOVED, present, _COLUMNS)


def _differences(
    path: str, described: dict[str, int], sums: dict[str, Sums], times: dict[str, list[int]]
) -> Iterator[str]:
    if sums[path].rows != described["rows"]:
        yield f"{path} ({sums[path].rows} rows, not {described['rows']})"
    elif times[path] and (min(times[path]), max(times[path])) != (
        described["first"],
        described["last"],
    ):
        yield f"{path} (other times)"


def live_index(commits: Iterable[Commit]) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """The live index files, as their commits describe them, and the paths of replaced ones.

    A live file has the paths of files with ids that do not count any more in `without`.
    """
    live: dict[str, dict[str, Any]] = {}
    retired: set[str] = set()
    for commit in commits:
        if commit.replaces and commit.replaces.is_whole:
            retired.update(live)
            retired.update(p for file in live.values() for p in file.get("without", ()))
            live.clear()
        for ids in commit.body.get("removed_ids", ()):
            retired.add(ids["path"])  # unless a live file names it
            live = {path: _leave_out(file, ids) for path, file in live.items()}
        for merge in commit.body.get("merges", ()):
            retired.update(merge["replaces"])
            for path in merge["replaces"]:
                live.pop(path, None)
            live[merge["file"]["path"]] = merge["file"]
        live.update({file["path"]: file for file in commit.ids})
    return live, retired


def _leave_out(file: dict[str, Any], ids: dict[str, Any]) -> dict[str, Any]:
    if file["first"] > ids["last"] or ids["first"] > file["last"]:
        return file
    return {**file, "without": [*file.get("without", ()), ids["path"]]}


def _compare_ids(check: Check, sums: dict[str, Sums]) -> None:
    """Report index files whose ids differ from the rows of their commits."""
    landed = _landed_sums(check)
    present = Counter(dict(check.rows("SELECT seq, count(*) FROM file GROUP BY seq")))
    for commits, paths in _groups(check.commits):
        complete = all(
            present[one.seq] == len(one.files)
            and not check.unreadable.intersection(one.files)
            and not one.adopted
            for one in commits
        )
        if not complete or not sums.keys() >= paths:
            continue
        indexed, stored = Sums(), Sums()
        for path in paths:
            indexed = indexed.plus(sums[path])
        for one in commits:
            stored = stored.plus(landed[one.seq])
        if indexed != stored:
            numbers = ", ".join(str(one.seq) for one in commits[:5])
            check.report(f"commit {numbers}: the id index has other ids than the tables", paths)


def _groups(commits: list[Commit]) -> list[tuple[list[Commit], set[str]]]:
    """Groups of commits with their index files; those with merged ids or rows are in one group."""
    owners: dict[str, list[Commit]] = {}
    by_seq: dict[int, tuple[list[Commit], set[str]]] = {}
    for commit in commits:
        if commit.replaces and commit.replaces.is_whole:
            owners.clear()
        for merge in commit.body.get("merges", ()):
            owners[merge["file"]["path"]] = [
                one for path in merge["replaces"] for one in owners.pop(path, [])
            ]
        owners.update({file["path"]: [commit] for file in commit.ids})
    numbered = {one.seq: one for one in commits}
    links = [(members, {path}) for path, members in owners.items()]
    links += [
        ([one, *(numbered[seq] for seq in sorted(one.origins))], set())
        for one in numbered.values()
        if one.origins and one.files
    ]
    for members, own_paths in links:
        joined = [by_seq[one.seq] for one in members if one.seq in by_seq]
        all_commits = {one.seq: one for group in joined for one in group[0]}
        all_commits |= {one.seq: one for one in members}
        paths = own_paths.union(*(group[1] for group in joined))
        group = [all_commits[seq] for seq in sorted(all_commits)], paths
        by_seq |= dict.fromkeys(all_commits, group)
    return [group for seq, group in by_seq.items() if group[0][0].seq == seq]


def _landed_sums(check: Check) -> defaultdict[int, Sums]:
    sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    rows = check.db.cursor().execute(_LANDED)
    while batch := rows.fetchmany(50_000):
        for seq, identity, received in batch:
            high, low = unpack("<qq", blake2b(identity.encode(), digest_size=16).digest())
            totals = sums[seq]
            totals[0] += 1
            totals[1] += high
            totals[2] += low
            totals[3] += received
    return defaultdict(Sums, {seq: Sums(*totals) for seq, totals in sums.items()})
