"""The ledger, as plain JSON."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlake.errors import InvalidSettings

BOOKS = ("received", "landed", "duplicates", "suppressed", "quarantined", "skipped")
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Commit:
    """What a commit says; what it leaves out is filled in."""

    seq: int
    run: str
    settings: dict[str, Any]
    uris: list[str]
    counts: dict[str, int]
    tables: dict[str, dict[str, int]]
    files: list[str]

    @property
    def window(self) -> int:
        return int(self.settings["dedup_days"]) * _DAY


_DEFAULTS = {
    "naming": "warehouse",
    "date_partition": "day/hour",
    "table_prefix": "",
    "dedup_days": 7,
    "skip_events": (),
}


def _commit(path: Path) -> Commit:
    body = json.loads(path.read_bytes())
    tables = body.get("tables", ())
    return Commit(
        seq=int(path.stem),
        run=body["run_id"],
        settings=_DEFAULTS | body["settings"],
        uris=sorted(one["uri"] for one in body["inputs"]),
        counts=dict.fromkeys(BOOKS, 0) | body["counts"],
        tables={one["table"]["name"]: dict.fromkeys(BOOKS, 0) | one["counts"] for one in tables},
        files=[file["path"] for one in tables for file in one.get("files", ())],
    )


def _commit_paths(root: Path, folder: str) -> list[Path]:
    return sorted((root / "segment-data/ledger" / folder).glob("[0-9]" * 12 + ".json"))


def read_commits(root: Path, folder: str) -> list[Commit]:
    return [_commit(path) for path in _commit_paths(root, folder)]


def find_folder(root: Path, source: str) -> str:
    """The folder of a source; an id goes before a slug, which two sources may share."""
    known: dict[str, tuple[str, str]] = {}
    for folder in sorted((root / "segment-data/ledger").glob("*/")):
        for path in _commit_paths(root, folder.name)[-1:]:
            slug = _commit(path).settings["source"]
            known[folder.name] = _commit(path).settings.get("source_id", slug), slug
    for which in (0, 1):
        matches = [folder for folder, names in known.items() if names[which] == source]
        if len(matches) == 1:
            return matches[0]
    listed = ", ".join(f"{slug} (id {identity})" for identity, slug in known.values())
    raise InvalidSettings(f"source is {source!r}; this lake has: {listed or 'none'}")
