"""Repair the catalog and the list of sources from the ledger."""

from collections.abc import Iterator
from pathlib import Path

from eventlake.claims import rebuild_claims
from eventlake.errors import Damaged, EventLakeError
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, State, list_source_folders
from eventlake.model.catalog import CatalogTable
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import DATA
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel
from eventlake.pipeline.plan import recover
from eventlake.pipeline.register import PartitionHistory, catalog_table, reports_table
from eventlake.ports import NoProgress
from eventlake.reports import restore_copies


class RepairResult(FrozenModel):
    """The result of repairing one source."""

    source: str
    registered: tuple[str, ...] = ()
    """Tables whose catalog entry was missing or different."""
    dropped: tuple[str, ...] = ()
    """Dropped catalog entries that are neither in the ledger nor have files."""
    problems: tuple[str, ...] = ()
    """Errors of what could not be repaired."""


def repair(lake: str | Path | LakeSettings) -> list[RepairResult]:
    """Finish crashed runs, then correct snapshots, claims and catalog entries of every source."""
    parts = open_parts(lake)
    ledgers = [Ledger(parts.store, folder) for folder in list_source_folders(parts.store)]
    rebuild_claims(parts.store, (one for ledger in ledgers for one in _settings_history(ledger)))
    return [_repair_source(parts, ledger) for ledger in ledgers]


def _settings_history(ledger: Ledger) -> Iterator[SourceSettings]:
    return (commit.settings for _, commit in ledger.commits_after(0))


def _repair_source(lake: Lake, ledger: Ledger) -> RepairResult:
    ledger.rebuild_snapshot()
    _, state = recover(lake, ledger, NoProgress())
    if state.settings is None:
        return RepairResult(source=ledger.folder)
    source, problems = state.settings.source, list[str]()
    registered = [
        name
        for table in _expected_tables(lake, ledger, state)
        if (name := _correct_table(lake, table, problems))
    ]
    dropped = list(_drop_unknown(lake, ledger, state, problems))
    _register_reports(lake, state.settings, problems)
    return RepairResult(
        source=source,
        registered=tuple(registered),
        dropped=tuple(dropped),
        problems=tuple(problems),
    )


def _expected_tables(lake: Lake, ledger: Ledger, state: State) -> Iterator[CatalogTable]:
    """The catalog entries that the source's tables should have; creates its database."""
    history = PartitionHistory(ledger)
    if state.settings and state.tables:
        lake.catalog.database(state.settings.database)
        for schema in state.tables.values():
            partitions = history.partitions(schema.name)
            yield catalog_table(lake, state.settings, schema, partitions)


def _correct_table(lake: Lake, expected: CatalogTable, problems: list[str]) -> str:
    """Correct a catalog entry; return the table's name, or "" if correct or added to `problems`."""
    name = f"{expected.database}.{expected.name}"
    try:
        if _is_correct(lake, expected):
            return ""
        lake.catalog.replace(expected)
    except EventLakeError as problem:
        problems.append(str(problem))
        return ""
    return name


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


def _drop_unknown(lake: Lake, ledger: Ledger, state: State, problems: list[str]) -> Iterator[str]:
    """Drop catalog entries below the source's folder that have neither a ledger entry nor files.

    Yields their names; entries with files are added to `problems`.
    """
    assert state.settings is not None
    own = {one.location for one in _expected_tables(lake, ledger, state)}
    for table in lake.catalog.tables(state.settings.database):
        if not table.location.startswith(f"{DATA}/{ledger.folder}/") or table.location in own:
            continue
        name = f"{table.database}.{table.name}"
        if next(iter(lake.store.objects(table.location)), None):
            problems.append(
                f"{name} is in the catalog and {table.location} has files, but the ledger has no "
                "such table: remove both, or load the events again"
            )
            continue
        lake.catalog.drop(table)
        yield name


def _register_reports(lake: Lake, settings: SourceSettings, problems: list[str]) -> None:
    """Register all partitions of the source's reports; errors are added to `problems`."""
    try:
        table = reports_table(settings, *restore_copies(lake.store, settings.folder))
        lake.catalog.database(table.database)
        lake.catalog.create(table)
    except EventLakeError as problem:
        problems.append(str(problem))
