"""The catalog compared with the ledger: every table registered, where it is and with all it has."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from eventlake.verify.check import Check
from eventlake.verify.events import catalog_name

_REPAIR = "`eventlake repair` corrects it"
_SOURCES = "segment-data/sources.json"


class Registration(NamedTuple):
    """A table as the catalog has it."""

    location: str
    """Below the lake's root."""
    columns: frozenset[str]
    partitions: frozenset[str] | None
    """Such as `day=2026-11-01/hr=07`; None where engines work them out themselves."""


Find = Callable[[str, str], Registration | None]
"""Looks a table up by database and name."""


def check_catalog(check: Check, find: Find) -> None:
    """Report every table that the catalog lacks, has elsewhere, or knows only in part."""
    database, prefix = check.settings["database"], check.settings["table_prefix"]
    for table in sorted({table for commit in check.commits for table in commit.columns}):
        name = catalog_name(table, prefix)
        known = find(database, name)
        if known is None:
            check.problems.append(f"{database}.{name} is not in the catalog: {_REPAIR}")
        else:
            _check_table(check, table, f"{database}.{name}", known)


def _check_table(check: Check, table: str, name: str, known: Registration) -> None:
    location = f"segment-data/data/{check.folder}/segment_type={table}"
    if known.location.rstrip("/") != location:
        check.problems.append(
            f"{name} is in the catalog with the location {known.location}, not {location}: "
            f"{_REPAIR}"
        )
        return
    columns = {column for commit in check.commits for column in commit.columns.get(table, ())}
    lacks = f"the catalog lacks columns of {name} ({_REPAIR})"
    check.report(lacks, columns - known.columns)
    if known.partitions is None:
        return
    paths = (path for commit in check.commits for path in commit.files)
    own = f"{location}/"
    wanted = {path.removeprefix(own).rpartition("/")[0] for path in paths if path.startswith(own)}
    lacks = f"the catalog lacks partitions of {name} ({_REPAIR})"
    check.report(lacks, wanted - known.partitions)
    if not any(commit.adopted for commit in check.commits):  # others may register empty ones
        extra = f"the catalog has partitions of {name} that no commit names ({_REPAIR})"
        check.report(extra, known.partitions - wanted)


def check_sources(check: Check) -> None:
    """Report a source whose folder or catalog names are not claimed in the lake's list."""
    if not check.place.has(_SOURCES):
        check.problems.append(f"{_SOURCES} is gone: {_REPAIR}")
        return
    try:
        claim = _claim(json.loads(check.place.read([_SOURCES])[0]), check.folder)
    except (ValueError, KeyError, TypeError, AttributeError):
        check.problems.append(f"{_SOURCES} is damaged: {_REPAIR}")
        return
    names = {(c.settings["database"], c.settings["table_prefix"]) for c in check.commits}
    lacks = f"{_SOURCES} does not list these names of {check.folder} ({_REPAIR})"
    check.report(lacks, [".".join(filter(None, one)) for one in names - claim])


def _claim(content: Any, folder: str) -> set[tuple[str, str]]:
    claim = content["by_folder"].get(folder) or {}
    return {(database, prefix) for database, prefix in claim.get("names", ())}
