"""Compares the ledger's snapshots with its commits."""

import json
from base64 import b64decode
from hashlib import blake2b
from typing import Any

import zstandard

from eventlake.verify.check import Check
from eventlake.verify.index import live_index
from eventlake.verify.ledger import Commit, kept_files, live_objects

_REMEDY = "`eventlake repair` writes it again"
_RECENT_RUNS = 200

State = dict[str, Any]


def check_snapshots(check: Check) -> None:
    """Report snapshots that differ from the commits up to their own."""
    folder = f"{check.prefixes.ledger}/{check.folder}/snapshots"
    numbered = {int(path[-17:-5]): path for path in check.files.files(folder) if _is_snapshot(path)}
    state: State = {"inputs": set(), "tables": {}, "runs": {}, "files": {}, "pinned": {}}
    for number, commit in enumerate(check.commits, 1):
        _apply(state, commit)
        if path := numbered.get(commit.seq):
            problem = _compare(check, path, state, check.commits[:number])
            if problem:
                check.problems.append(f"{path} {problem}: {_REMEDY}")


def _is_snapshot(path: str) -> bool:
    return path.endswith(".json") and path[-17:-5].isdecimal() and path[-18] == "/"


def _apply(state: State, commit: Commit) -> None:
    body = commit.body
    state["sequence"], state["settings"] = commit.seq, body["settings"]
    if commit.replaces and commit.replaces.is_whole:
        state["inputs"], state["tables"] = set(), {}
    rewritten = (one["input"] for one in body.get("rewrites", ()) if "input" in one)
    for one in (*body["inputs"], *rewritten):
        identities = [(one["uri"], one["fingerprint"]), *filter(None, [one.get("origin")])]
        state["inputs"].update(map(_digest, identities))
    for one in body.get("tables", ()):
        name = one["table"]["name"]
        if one.get("dropped"):
            state["tables"].pop(name, None)
            state["pinned"].pop(name, None)
        elif one.get("adds") or one.get("adopted") or name in state["tables"]:
            state["tables"][name] = one["table"]
        for file in one.get("removes", ()):
            state["files"].pop(file["path"], None)
        for file in one.get("adds", ()):
            state["files"][file["path"]] = (name, file["partition"], file["rows"], file["bytes"])
    for table, types in body.get("pins", {}).items():
        state["pinned"][table] = {**state["pinned"].get(table, {}), **types}
    state["runs"][commit.run] = commit.seq
    state["runs"] = dict(list(state["runs"].items())[-_RECENT_RUNS:])


def _digest(identity: Any) -> bytes:
    return blake2b("\n".join(identity).encode(), digest_size=12).digest()


def _compare(check: Check, path: str, state: State, commits: list[Commit]) -> str:
    """What is wrong with a snapshot, or empty."""
    try:
        content = json.loads(check.files.read([path])[0])
        packed = b64decode(content.get("inputs", ""))
        actual = {
            "sequence": content.get("sequence"),
            "settings": content.get("settings"),
            "inputs": {packed[at : at + 12] for at in range(0, len(packed), 12)},
            "tables": content.get("tables", {}),
            "runs": content.get("runs", {}),
            "pinned": content.get("pinned", {}),
            "ids": {one["path"]: one for one in content.get("ids", ())},
            "kept_files": set(content.get("kept_files", ())),
        }
        files, objects = _read_manifests(check, content.get("manifests", ()))
        actual |= {"files": files, "objects": objects}
    except FileNotFoundError as problem:
        return f"names a manifest that is gone ({problem})"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zstandard.ZstdError):
        return "cannot be read"
    expected = {
        **state,
        "ids": live_index(commits)[0],
        "objects": live_objects(commits),
        "kept_files": kept_files(commits),
    }
    differs = [name for name, value in expected.items() if actual[name] != value]
    return f"differs from the commits ({', '.join(differs)})" if differs else ""


def _read_manifests(check: Check, manifests: Any) -> tuple[dict[str, tuple[Any, ...]], set[str]]:
    """The live data files and other objects by the manifests, applied in order."""
    files: dict[str, tuple[Any, ...]] = {}
    objects: set[str] = set()
    for one in manifests:
        if not check.files.has(one["path"]):
            raise FileNotFoundError(one["path"])
        (packed,) = check.files.read([one["path"]])
        body = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
        for path in body["removes"]:
            files.pop(path, None)
            objects.discard(path)
        for path, file in body["adds"].items():
            files[path] = (file["table"], file["partition"], file["rows"], file["bytes"])
        objects.update(body["objects"])
    return files, objects
