"""The index of message ids: whether it holds the ids that have landed, and no others."""

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
    said, retired = live_index(check.commits)
    check.report("files of the id index that no commit names", set(paths) - said.keys() - retired)
    check.report("files of the id index that are gone", said.keys() - set(paths))
    paths = [path for path in paths if path in said]
    sums: defaultdict[str, Sums] = defaultdict(Sums)
    times: defaultdict[str, list[int]] = defaultdict(list)
    files = [File(path, number) for number, path in enumerate(paths)]
    for number, rows, high, low, received, first, last in query_parquet(
        check, _SUMS, files, _COLUMNS
    ):
        path = paths[number]
        sums[path] = sums[path].plus(Sums(rows, int(high), int(low), int(received)))
        times[path] += [first, last]
    whole = [path for path in paths if path not in check.unreadable]
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


def live_index(commits: Iterable[Commit]) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """The index files that count, each as its commit describes it, and those that were replaced."""
    live: dict[str, dict[str, Any]] = {}
    retired: set[str] = set()
    for commit in commits:
        for merge in commit.body.get("merges", ()):
            retired.update(merge["replaces"])
            for path in merge["replaces"]:
                live.pop(path, None)
            live[merge["file"]["path"]] = merge["file"]
        live.update({file["path"]: file for file in commit.ids})
    return live, retired


def _compare_ids(check: Check, sums: dict[str, Sums]) -> None:
    """Name index files that have other ids than the rows of the commits that they are of."""
    landed = _landed_sums(check)
    present = Counter(dict(check.rows("SELECT seq, count(*) FROM file GROUP BY seq")))
    for commits, paths in _groups(check.commits):
        sound = all(
            present[one.seq] == len(one.files)
            and not check.unreadable.intersection(one.files)
            and not one.adopted
            for one in commits
        )
        if not sound or not sums.keys() >= paths:
            continue
        ours, theirs = Sums(), Sums()
        for path in paths:
            ours = ours.plus(sums[path])
        for one in commits:
            theirs = theirs.plus(landed[one.seq])
        if ours != theirs:
            numbers = ", ".join(str(one.seq) for one in commits[:5])
            check.report(f"commit {numbers}: the id index has other ids than the tables", paths)


def _groups(commits: Iterable[Commit]) -> list[tuple[list[Commit], set[str]]]:
    """Commits with the index files of their ids; those whose ids were merged are together."""
    owners: dict[str, list[Commit]] = {}
    by_seq: dict[int, tuple[list[Commit], set[str]]] = {}
    for commit in commits:
        for merge in commit.body.get("merges", ()):
            owners[merge["file"]["path"]] = [
                one for path in merge["replaces"] for one in owners.pop(path, [])
            ]
        owners.update({file["path"]: [commit] for file in commit.ids})
    for path, members in owners.items():
        joined = [by_seq[one.seq] for one in members if one.seq in by_seq]
        all_commits = {one.seq: one for group in joined for one in group[0]}
        all_commits |= {one.seq: one for one in members}
        paths = {path}.union(*(group[1] for group in joined))
        group = [all_commits[seq] for seq in sorted(all_commits)], paths
        by_seq |= dict.fromkeys(all_commits, group)
    return [group for seq, group in by_seq.items() if group[0][0].seq == seq]


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
