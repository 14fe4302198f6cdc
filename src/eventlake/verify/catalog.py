"""Compares the catalog with the ledger."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from eventlake.verify.check import Check

_REPAIR = "`eventlake repair` corrects it"


class Registration(NamedTuple):
    """A table of the catalog."""

    location: str
    """Relative to the lake's root."""
    columns: frozenset[str]
    partitions: frozenset[str] | None
    """Such as `day=2026-11-01/hr=07`; None with partition projection."""


Find = Callable[[str, str], Registration | None]
"""Finds a table by database and name."""


def check_catalog(check: Check, find: Find) -> None:
    """Report tables that the catalog lacks, or has with another location, columns or partitions."""
    database = check.settings["database"]
    for table, columns in sorted(_live_tables(check).items()):
        name = check.table_name(table)
        registered = find(database, name)
        if registered is None:
            check.problems.append(f"{database}.{name} is not in the catalog: {_REPAIR}")
        else:
            title = f"the catalog lacks columns of {database}.{name} ({_REPAIR})"
            check.report(title, columns - registered.columns)
            _check_table(check, table, f"{database}.{name}", registered)


def _live_tables(check: Check) -> dict[str, frozenset[str]]:
    """The tables that there are, with their columns."""
    tables: dict[str, frozenset[str]] = {}
    for commit in check.active:
        if commit.replaces and commit.replaces.is_whole:
            tables.clear()
        for one in commit.body.get("tables", ()):
            if one.get("dropped"):
                tables.pop(one["table"]["name"], None)
        tables |= {name: frozenset(columns) for name, columns in commit.columns.items()}
    return tables


def _check_table(check: Check, table: str, name: str, registered: Registration) -> None:
    location = check.table_location(table)
    if registered.location.rstrip("/") != location:
        check.problems.append(
            f"{name} is in the catalog with the location {registered.location}, not {location}: "
            f"{_REPAIR}"
        )
        return
    if registered.partitions is None:
        return
    paths = (path for commit in check.commits for path in commit.files)
    folder = f"{location}/"
    wanted = {
        path.removeprefix(folder).rpartition("/")[0] for path in paths if path.startswith(folder)
    }
    title = f"the catalog lacks partitions of {name} ({_REPAIR})"
    check.report(title, wanted - registered.partitions)
    if not any(commit.adopted for commit in check.commits):  # others may register empty ones
        title = f"the catalog has partitions of {name} that no commit names ({_REPAIR})"
        check.report(title, registered.partitions - wanted)


def check_sources(check: Check) -> None:
    """Report names of the source that are missing in the lake's list of sources."""
    path = check.prefixes.sources
    if not check.files.has(path):
        check.problems.append(f"{path} is gone: {_REPAIR}")
        return
    try:
        claimed = _claimed_names(json.loads(check.files.read([path])[0]), check.folder)
    except (ValueError, KeyError, TypeError, AttributeError):
        check.problems.append(f"{path} is damaged: {_REPAIR}")
        return
    names = {(c.settings["database"], c.settings["table_prefix"]) for c in check.commits}
    title = f"{path} does not list these names of {check.folder} ({_REPAIR})"
    check.report(title, [".".join(filter(None, one)) for one in names - claimed])


def _claimed_names(content: Any, folder: str) -> set[tuple[str, str]]:
    claim = content["by_folder"].get(folder) or {}
    return {(database, prefix) for database, prefix in claim.get("names", ())}
