"""Make the catalog, and the lake's list of sources, agree with the ledger again."""

from collections.abc import Iterator
from pathlib import Path

from eventlake.claims import rebuild_claims
from eventlake.errors import Damaged, EventLakeError
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, State, sources
from eventlake.model.catalog import CatalogTable
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import DATA, REPORTS
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel
from eventlake.pipeline.plan import recover
from eventlake.pipeline.register import History, catalog_table, reports_table
from eventlake.ports import NoProgress


class Repaired(FrozenModel):
    """What was done for one source."""

    source: str
    registered: tuple[str, ...] = ()
    """Tables that the catalog lacked or had otherwise."""
    dropped: tuple[str, ...] = ()
    """Catalog entries without files that the ledger does not know."""
    problems: tuple[str, ...] = ()
    """What could not be corrected, and why."""


def repair(lake: str | Path | LakeSettings) -> list[Repaired]:
    """Finish what crashed runs left, then correct the catalog entries of every source."""
    parts = open_parts(lake)
    ledgers = [Ledger(parts.store, folder) for folder in sources(parts.store)]
    rebuild_claims(parts.store, (one for ledger in ledgers for one in _settings(ledger)))
    return [_repair_source(parts, ledger) for ledger in ledgers]


def _settings(ledger: Ledger) -> Iterator[SourceSettings]:
    return (commit.settings for _, commit in ledger.since(0))


def _repair_source(lake: Lake, ledger: Ledger) -> Repaired:
    ledger.rebuild()
    _, state = recover(lake, ledger, NoProgress())
    if state.settings is None:
        return Repaired(source=ledger.folder)
    source, problems = state.settings.source, list[str]()
    registered = [
        name for table in _wanted(lake, ledger, state) if (name := _correct(lake, table, problems))
    ]
    dropped = list(_drop_unknown(lake, ledger, state, problems))
    _register_reports(lake, state.settings, problems)
    return Repaired(
        source=source,
        registered=tuple(registered),
        dropped=tuple(dropped),
        problems=tuple(problems),
    )


def _wanted(lake: Lake, ledger: Ledger, state: State) -> Iterator[CatalogTable]:
    """The source's tables as the catalog should have them."""
    history = History(ledger)
    if state.settings and state.tables:
        lake.catalog.database(state.settings.database)
        for schema in state.tables.values():
            partitions = history.partitions(schema.name)
            yield catalog_table(lake, state.settings, schema, partitions)


def _correct(lake: Lake, wanted: CatalogTable, problems: list[str]) -> str:
    """Correct a table's entry; return its name if there was anything to do."""
    name = f"{wanted.database}.{wanted.name}"
    try:
        if _is_right(lake, wanted):
            return ""
        lake.catalog.replace(wanted)
    except EventLakeError as problem:
        problems.append(str(problem))
        return ""
    return name


def _is_right(lake: Lake, wanted: CatalogTable) -> bool:
    try:
        known = lake.catalog.table(wanted.database, wanted.name)
    except Damaged:
        return False
    return known is not None and _agrees(known, wanted)


def _agrees(known: CatalogTable, wanted: CatalogTable) -> bool:
    same_place = (known.location, known.partition_columns) == (
        wanted.location,
        wanted.partition_columns,
    )
    ordered = wanted.with_partitions(()).partitions
    same_partitions = known.projected or known.partitions == ordered
    return same_place and same_partitions and not known.missing_columns(wanted.columns)


def _drop_unknown(lake: Lake, ledger: Ledger, state: State, problems: list[str]) -> Iterator[str]:
    """Drop entries below the source's folder that are none of its tables and have no files."""
    assert state.settings is not None
    own = {one.location for one in _wanted(lake, ledger, state)}
    for table in lake.catalog.tables(state.settings.database):
        if not table.location.startswith(f"{DATA}/{ledger.folder}/") or table.location in own:
            continue
        name = f"{table.database}.{table.name}"
        if next(iter(lake.store.objects(table.location)), None):
            problems.append(
                f"{name} is in the catalog and {table.location} has files, but the ledger does "
                "not know the table: remove both, or load the events again"
            )
            continue
        lake.catalog.drop(table)
        yield name


def _register_reports(lake: Lake, settings: SourceSettings, problems: list[str]) -> None:
    """Register every day of which there are reports."""
    found = lake.store.objects(REPORTS)
    paths = [one.path for one in found if f"/source={settings.folder}/" in one.path]
    days = sorted({path.removeprefix(f"{REPORTS}/day=")[:10] for path in paths})
    table = reports_table(settings, *days)
    try:
        lake.catalog.database(table.database)
        lake.catalog.create(table)
    except EventLakeError as problem:
        problems.append(str(problem))
