"""Accounts for the events of forgotten users, which the archive and the tables have lost."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import PurePosixPath
from struct import unpack
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from eventlake.verify.check import Check
from eventlake.verify.files import LAKE
from eventlake.verify.ledger import Commit, Identity
from eventlake.verify.parquet import File, query_parquet

_HASHES = pa.schema([(name, pa.int64()) for name in ("high", "low")])
_EXPECT_NONE = "DELETE FROM outcome WHERE id IN (FROM erased_id)"
_EXPECT_STORED = """
    INSERT INTO outcome SELECT f.seq, r.tbl, r.id, r.received, true, false
    FROM stored r JOIN file f ON f.number = r.file WHERE r.id IN (FROM erased_id)
"""


def follow_rewrites(commits: Sequence[Commit]) -> list[Commit]:
    """The commits with the raw logs and data files that later commits put in place of theirs."""
    logs: dict[str, Identity] = {}
    newer: dict[str, str] = {}
    added: dict[str, Any] = {}
    followed = []
    for commit in reversed(commits):
        inputs = sorted(logs.get(uri, (uri, mark)) for uri, mark in commit.inputs)
        added |= commit.files
        erased = {one["path"]: one.get("new_path", "") for one in _erased_files(commit)}
        own = [path for path in _list_added(commit) if path not in erased.values()]
        live = {newer.get(path, path) for path in own}
        files = {path: file for path, file in added.items() if path in live}
        newer |= {path: newer.get(new, new) for path, new in erased.items()}
        followed.append(replace(commit, inputs=inputs, files=files))
        for one in commit.body.get("rewrites", ()):
            logs[_address(one["path"])] = _follow_log(one, logs)
    return followed[::-1]


def _list_added(commit: Commit) -> list[str]:
    tables = commit.body.get("tables", ())
    return [file["path"] for table in tables for file in table.get("adds", ())]


def _erased_files(commit: Commit) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = commit.body.get("erasure", {}).get("files", [])
    return files


def _follow_log(rewrite: dict[str, Any], later: dict[str, Identity]) -> Identity:
    new = rewrite.get("input") or {"uri": _address(rewrite.get("new_path", "")), "fingerprint": ""}
    return later.get(new["uri"], (new["uri"], new["fingerprint"]))


def _address(path: str) -> str:
    return path if "://" in path else LAKE + quote(os.fsencode(path))


def count_erased_lines(check: Check) -> dict[int, Counter[str]]:
    """By commit, the erased lines of its inputs: received, quarantined, and these by reason."""
    loaded_by: dict[str, int] = {}
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for commit in check.active:
        if not commit.replaces:
            loaded_by |= {one["uri"]: commit.seq for one in commit.body["inputs"]}
        moved = {one["path"]: one.get("input") for one in commit.body.get("rewrites", ())}
        for one in _erased_files(commit):
            seq = loaded_by.get(_address(one["path"]))
            if one["kind"] == "raw log" and seq is not None and (new := moved.get(one["path"])):
                reasons = one.get("reasons", {})
                received = one["rows"] - one.get("new_rows", 0)
                counts[seq].update({"received": received, "quarantined": sum(reasons.values())})
                counts[seq].update(reasons)
                loaded_by[new["uri"]] = seq
    return counts


def count_erased_quarantine(commits: Iterable[Commit]) -> dict[str, Counter[str]]:
    """By run and reason, the lines that were erased from the quarantine."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in (one for commit in commits for one in _erased_files(commit)):
        if one["kind"] == "quarantine":
            run = PurePosixPath(one["path"]).name[:19]
            counts[run].update(one.get("reasons", {}))
    return counts


def find_erased_ids(check: Check) -> None:
    """Fill the table `erased_id` with the ids of events that a forgotten user's rows had, too."""
    paths = [
        file["path"]
        for commit in check.active
        if "erasure" in commit.body
        for file in commit.body.get("removed_ids", ())
        if check.files.has(file["path"])
    ]
    if not paths:
        return
    erased = set(query_parquet(check, "SELECT high, low FROM rows", map(File, paths), _HASHES))
    ids = [one for (one,) in check.rows("SELECT DISTINCT id FROM event") if _hash(one) in erased]
    check.insert("erased_id", ((one,) for one in ids))


def trust_rows_of_erased_ids(check: Check) -> None:
    """Expect of each erased id the rows that are there.

    An event that shares its id with an erased one may have been dropped as its duplicate.
    """
    check.rows(_EXPECT_NONE)
    check.rows(_EXPECT_STORED)


def _hash(identity: str) -> tuple[int, int]:
    high, low = unpack("<qq", blake2b(identity.encode(), digest_size=16).digest())
    return high, low
