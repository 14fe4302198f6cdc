"""Compares the logs of Delta tables with the ledger, reading them without Delta's libraries."""

import json
import re
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.verify.check import Check
from eventlake.verify.files import LakeFiles

_REPAIR = "`eventlake repair` corrects it"
_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.\d{10})?\.parquet", re.ASCII)
_UNREADABLE = (ValueError, KeyError, TypeError, pa.ArrowException)


def check_delta(check: Check) -> None:
    """Report tables whose log has other files than the ledger, if the last format is Delta."""
    if check.commits[-1].body.get("format") != "delta":
        return
    live: dict[str, set[str]] = {}
    for commit in check.commits:
        for path in commit.files:
            location, _, name = path.partition("/segment_type=")
            table, _, rest = name.partition("/")
            live.setdefault(f"{location}/segment_type={table}", set()).add(rest)
    for location, expected in sorted(live.items()):
        _compare(check, location, expected)


def _compare(check: Check, location: str, expected: set[str]) -> None:
    try:
        actual = read_log(check.files, f"{location}/_delta_log")
    except _UNREADABLE as problem:
        check.problems.append(f"the log of the Delta table {location} cannot be read: {problem!r}")
        return
    title = f"files of the ledger that the Delta table {location} lacks ({_REPAIR})"
    check.report(title, expected - actual)
    title = f"files of the Delta table {location} that no commit names ({_REPAIR})"
    check.report(title, actual - expected)


def read_log(files: LakeFiles, folder: str) -> set[str]:
    """The files of a table: those of the newest checkpoint, with the changes of later commits.

    A file that has a deletion vector is not one of ours: its path is followed by the vector's id.
    """
    names = [path.rpartition("/")[2] for path in files.files(folder)]
    checkpoints = [match for name in names if (match := _CHECKPOINT.fullmatch(name))]
    newest = max((match[1] for match in checkpoints), default="")
    live: set[str] = set()
    for name in sorted(match[0] for match in checkpoints if match[1] == newest):
        table = pq.read_table(BytesIO(files.read([f"{folder}/{name}"])[0]), columns=["add"])
        live.update(_key(add) for add in table["add"].to_pylist() if add)
    later = sorted(name for name in names if (m := _COMMIT.fullmatch(name)) and m[1] > newest)
    for content in files.read(f"{folder}/{name}" for name in later):
        for action in map(json.loads, content.splitlines()):
            if "remove" in action:
                live.discard(_key(action["remove"]))
            if "add" in action:
                live.add(_key(action["add"]))
    return live


def _key(action: dict[str, Any]) -> str:
    vector = action.get("deletionVector")
    path = unquote(action["path"])
    return f"{path} (deletion vector {vector['pathOrInlineDv']})" if vector else path
