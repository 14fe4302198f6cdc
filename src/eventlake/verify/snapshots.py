"""The snapshots of a ledger: whether they say what the commits say."""

import json
from base64 import b64decode
from hashlib import blake2b
from typing import Any

import zstandard

from eventlake.verify.check import Check
from eventlake.verify.index import live_index
from eventlake.verify.ledger import Commit

_REMEDY = "`eventlake repair` writes it again"
_RECENT_RUNS = 200

State = dict[str, Any]


def check_snapshots(check: Check) -> None:
    """Compare each snapshot with the commits up to its own."""
    folder = f"segment-data/ledger/{check.folder}/snapshots"
    numbered = {int(path[-17:-5]): path for path in check.place.files(folder) if _is_one(path)}
    state: State = {"inputs": set(), "tables": {}, "runs": {}, "files": {}}
    for number, commit in enumerate(check.commits, 1):
        _fold(state, commit)
        if path := numbered.get(commit.seq):
            problem = _compare(check, path, state, check.commits[:number])
            if problem:
                check.problems.append(f"{path} {problem}: {_REMEDY}")


def _is_one(path: str) -> bool:
    return path.endswith(".json") and path[-17:-5].isdecimal() and path[-18] == "/"


def _fold(state: State, commit: Commit) -> None:
    body = commit.body
    state["sequence"], state["settings"] = commit.seq, body["settings"]
    for one in body["inputs"]:
        known = [(one["uri"], one["fingerprint"]), *filter(None, [one.get("origin")])]
        state["inputs"].update(map(_digest, known))
    for one in body.get("tables", ()):
        name = one["table"]["name"]
        if one.get("adds") or one.get("adopted") or name in state["tables"]:
            state["tables"][name] = one["table"]
        for file in one.get("removes", ()):
            state["files"].pop(file["path"], None)
        for file in one.get("adds", ()):
            state["files"][file["path"]] = (name, file["partition"], file["rows"], file["bytes"])
    state["runs"][commit.run] = commit.seq
    state["runs"] = dict(list(state["runs"].items())[-_RECENT_RUNS:])


def _digest(identity: Any) -> bytes:
    return blake2b("\n".join(identity).encode(), digest_size=12).digest()


def _compare(check: Check, path: str, state: State, commits: list[Commit]) -> str:
    """What is wrong with a snapshot; empty if nothing is."""
    try:
        held = json.loads(check.place.read([path])[0])
        packed = b64decode(held.get("inputs", ""))
        found = {
            "sequence": held.get("sequence"),
            "settings": held.get("settings"),
            "inputs": {packed[at : at + 12] for at in range(0, len(packed), 12)},
            "tables": held.get("tables", {}),
            "runs": held.get("runs", {}),
            "ids": {one["path"]: one for one in held.get("ids", ())},
            "files": _files(check, held.get("manifests", ())),
        }
    except FileNotFoundError as problem:
        return f"names a manifest that is gone ({problem})"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zstandard.ZstdError):
        return "cannot be read"
    wanted = {**state, "ids": live_index(commits)[0]}
    differs = [name for name, value in wanted.items() if found[name] != value]
    return f"does not agree with the commits ({', '.join(differs)})" if differs else ""


def _files(check: Check, manifests: Any) -> dict[str, tuple[Any, ...]]:
    """The data files that manifests list, one after the other."""
    files: dict[str, tuple[Any, ...]] = {}
    for one in manifests:
        if not check.place.has(one["path"]):
            raise FileNotFoundError(one["path"])
        (packed,) = check.place.read([one["path"]])
        body = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
        for path in body["removes"]:
            files.pop(path, None)
        for path, file in body["adds"].items():
            files[path] = (file["table"], file["partition"], file["rows"], file["bytes"])
    return files
