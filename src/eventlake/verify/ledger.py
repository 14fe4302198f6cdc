"""The ledger, as plain JSON."""

import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from eventlake.errors import InvalidSettings
from eventlake.verify.place import Place

BOOKS = ("received", "landed", "duplicates", "suppressed", "quarantined", "skipped")
_DAY = 86_400_000_000
_LEDGER = "segment-data/ledger"
_COMMIT = re.compile(r".*/\d{12}\.json", re.ASCII)


@dataclass(frozen=True)
class Commit:
    """What a commit says; what it leaves out is filled in."""

    seq: int
    run: str
    settings: dict[str, Any]
    uris: list[str]
    counts: dict[str, int]
    tables: dict[str, dict[str, int]]
    columns: dict[str, list[str]]
    """Of each table that there is from here on."""
    files: list[str]
    adopted: bool
    """Whether it takes over what somebody else has landed."""

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


def _commit(path: str, content: bytes) -> Commit:
    body = json.loads(content)
    tables = body.get("tables", ())
    own = [file["path"] for one in tables for file in one.get("adds", ())]
    return Commit(
        seq=int(PurePosixPath(path).stem),
        run=body["run_id"],
        settings=_DEFAULTS | body["settings"],
        uris=sorted(one["uri"] for one in body["inputs"]),
        counts=dict.fromkeys(BOOKS, 0) | body["counts"],
        tables={one["table"]["name"]: dict.fromkeys(BOOKS, 0) | one["counts"] for one in tables},
        columns={
            one["table"]["name"]: [column["name"] for column in one["table"]["columns"]]
            for one in tables
            if one.get("adds") or one.get("adopted")
        },
        files=own,
        adopted=any(one.get("adopted") for one in tables),
    )


def _commit_paths(place: Place, folder: str) -> list[str]:
    return list(filter(_COMMIT.fullmatch, place.files(f"{_LEDGER}/{folder}", deep=False)))


def _read(place: Place, paths: list[str]) -> list[Commit]:
    return list(map(_commit, paths, place.read(paths)))


def read_commits(place: Place, folder: str) -> list[Commit]:
    return _read(place, _commit_paths(place, folder))


def find_folder(place: Place, source: str) -> str:
    """The folder of a source; an id goes before a slug, which two sources may share."""
    known: dict[str, tuple[str, str]] = {}
    for folder in place.folders(_LEDGER):
        for newest in _read(place, _commit_paths(place, folder)[-1:]):
            slug = newest.settings["source"]
            known[folder] = newest.settings.get("source_id", slug), slug
    for which in (0, 1):
        matches = [folder for folder, names in known.items() if names[which] == source]
        if len(matches) == 1:
            return matches[0]
    listed = ", ".join(f"{slug} (id {identity})" for identity, slug in known.values())
    raise InvalidSettings(f"source is {source!r}; this lake has: {listed or 'none'}")
