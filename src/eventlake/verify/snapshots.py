"""The snapshots of a ledger: whether they say what the commits say."""

import json
from collections.abc import Callable
from typing import Any

from eventlake.verify.check import Check
from eventlake.verify.ledger import Commit

_REMEDY = "delete it, loads do without it"

State = dict[str, Any]


def check_snapshots(check: Check) -> None:
    """Compare each snapshot with the commits up to its own."""
    folder = f"segment-data/ledger/{check.folder}/snapshots"
    numbered = {int(path[-17:-5]): path for path in check.place.files(folder) if _is_one(path)}
    state: State = {"inputs": set(), "tables": {}, "ids": [], "runs": {}}
    for commit in check.commits:
        _fold(state, commit)
        if path := numbered.get(commit.seq):
            (content,) = check.place.read([path])
            if problem := _compare(content, state):
                check.problems.append(f"{path} {problem}: {_REMEDY}")


def _is_one(path: str) -> bool:
    return path.endswith(".json") and path[-17:-5].isdecimal() and path[-18] == "/"


def _fold(state: State, commit: Commit) -> None:
    body = commit.body
    state["sequence"], state["settings"] = commit.seq, body["settings"]
    for one in body["inputs"]:
        state["inputs"].add((one["uri"], one["fingerprint"]))
        if one.get("origin"):
            state["inputs"].add(tuple(one["origin"]))
    for one in body.get("tables", ()):
        name = one["table"]["name"]
        if one.get("files") or one.get("adopted") or name in state["tables"]:
            state["tables"][name] = one["table"]
    state["ids"] += commit.ids
    state["runs"][commit.run] = commit.seq


_FORMS: dict[str, Callable[[Any], Any]] = {"inputs": lambda held: {tuple(one) for one in held}}
_NOTHING: State = {"inputs": [], "tables": {}, "ids": [], "runs": {}}


def _compare(content: bytes, state: State) -> str:
    """What is wrong with a snapshot; empty if nothing is."""
    try:
        held = _NOTHING | json.loads(content)
        differs = [
            name
            for name, value in state.items()
            if _FORMS.get(name, lambda held: held)(held.get(name)) != value
        ]
    except (ValueError, TypeError, RecursionError):
        return "cannot be read"
    return f"does not agree with the commits ({', '.join(differs)})" if differs else ""
