"""Repair the catalog and the list of sources from the ledger."""

from collections.abc import Collection, Iterator
from pathlib import Path

from eventlake.claims import rebuild_claims
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import Damaged, EventLakeError
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, list_ledgers
from eventlake.model.catalog import CatalogTable
from eventlake.model.lake import LakeSettings
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import catalog_name, source_path
from eventlake.model.values import FrozenModel
from eventlake.pipeline.finish import list_complete_changes
from eventlake.pipeline.recover import recover
from eventlake.pipeline.register import complete_tables, reports_table
from eventlake.ports import NoProgress
from eventlake.reports import restore_copies


class RepairResult(FrozenModel):
    """The result of repairing one source."""

    source: str
    registered: tuple[str, ...] = ()
    """Tables whose catalog entry was missing or different, or whose log had other files."""
    dropped: tuple[str, ...] = ()
    """Dropped catalog entries that are neither in the ledger nor have files."""
    problems: tuple[str, ...] = ()
    """Errors of what could not be repaired."""


def repair(lake: str | Path | LakeSettings, clock: Clock = SYSTEM_CLOCK) -> list[RepairResult]:
    """Finish crashed runs, then correct snapshots, claims and catalog entries of every source."""
    parts = open_parts(lake, clock=clock)
    ledgers = list_ledgers(parts.store, parts.layout)
    history = (settings for ledger in ledgers for settings in _settings_history(ledger))
    rebuild_claims(parts.store, parts.layout, history)
    return [_repair_source(parts, ledger) for ledger in ledgers]


def _settings_history(ledger: Ledger) -> Iterator[SourceSettings]:
    return (commit.settings for _, commit in ledger.commits_after(0))


def _repair_source(lake: Lake, ledger: Ledger) -> RepairResult:
    ledger.rebuild_snapshot()
    state = recover(lake, ledger, NoProgress()).state
    if state.settings is None:
        return RepairResult(source=ledger.folder)
    source, problems = state.settings.source, list[str]()
    expected = complete_tables(lake, ledger, state.settings, state.tables.values()).values()
    registered = [name for table in expected if (name := _correct_table(lake, table, problems))]
    registered += _restore_tables(lake, ledger, problems)
    known = {table.location for table in expected}
    dropped = list(_drop_unknown(lake, state.settings, known, problems))
    _register_reports(lake, state.settings, problems)
    return RepairResult(
        source=source,
        registered=tuple(dict.fromkeys(registered)),
        dropped=tuple(dropped),
        problems=tuple(problems),
    )


def _correct_table(lake: Lake, expected: CatalogTable, problems: list[str]) -> str:
    """Correct a catalog entry; return the table's name, or "" if correct or added to `problems`."""
    try:
        if _is_correct(lake, expected):
            return ""
        lake.catalog.replace(expected)
    except EventLakeError as problem:
        problems.append(str(problem))
        return ""
    return expected.full_name


def _restore_tables(lake: Lake, ledger: Ledger, problems: list[str]) -> Iterator[str]:
    """Correct the tables whose own log has other files than the ledger; yield their names."""
    if not lake.format.versioned:
        return
    for change in list_complete_changes(lake, ledger):
        try:
            is_restored = lake.format.restore(change)
        except EventLakeError as problem:
            problems.append(str(problem))
            continue
        if is_restored:
            settings = ledger.read_settings()
            assert settings
            yield f"{settings.database}.{catalog_name(settings, change.table)}"


def _is_correct(lake: Lake, expected: CatalogTable) -> bool:
    try:
        entry = lake.catalog.table(expected.database, expected.name)
    except Damaged:
        return False
    return entry is not None and _matches(entry, expected)


def _matches(entry: CatalogTable, expected: CatalogTable) -> bool:
    same_place = (entry.location, entry.partition_columns) == (
        expected.location,
        expected.partition_columns,
    )
    ordered = expected.with_partitions(()).partitions
    same_partitions = entry.projected or entry.partitions == ordered
    return same_place and same_partitions and not entry.missing_columns(expected.columns)


def _drop_unknown(
    lake: Lake, settings: SourceSettings, known: Collection[str], problems: list[str]
) -> Iterator[str]:
    """Drop catalog entries below the source's folder, not at a known location and without files.

    Yields their names; entries with files are added to `problems`.
    """
    own = f"{source_path(lake.layout, settings)}/"
    for table in lake.catalog.tables(settings.database):
        if not table.location.startswith(own) or table.location in known:
            continue
        if next(iter(lake.store.objects(table.location)), None):
            problems.append(
                f"{table.full_name} is in the catalog and {table.location} has files, but the "
                "ledger has no such table: remove both, or load the events again"
            )
            continue
        lake.catalog.drop(table)
        yield table.full_name


def _register_reports(lake: Lake, settings: SourceSettings, problems: list[str]) -> None:
    """Register all partitions of the source's reports; errors are added to `problems`."""
    try:
        days = restore_copies(lake.store, lake.layout, settings.folder)
    except EventLakeError as problem:
        problems.append(str(problem))
        return
    errors = lake.catalog.ensure([reports_table(lake, settings, *days)], NoProgress())
    problems += map(str, errors.values())
