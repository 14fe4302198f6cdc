"""Adopt a lake that Segment filled: its tables stay where they are, and the next sync goes on.

Nothing may be doubled, nothing lost. Which raw logs Segment had loaded nobody knows for sure; so
those of the last days are loaded again, and the message ids in the tables tell what has landed.
An event of these days may be the repetition of one up to a window before them: so the ids that are
read go back twice as far. Older logs count as loaded.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from eventlake import archive
from eventlake.claims import check_claims
from eventlake.errors import InvalidSettings
from eventlake.kernels.cast import ARROW_BY_TYPE
from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.dedupe import Ids, hash_ids
from eventlake.kernels.times import as_micros
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, Stage
from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import Commit, Counts, DataFile, IdFile, Input, TableCommit
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import (
    DATA,
    LOGS,
    DatePartition,
    ids_path,
    partition_of,
    stage_path,
    table_path,
)
from eventlake.model.naming import PLURALS, Call, Naming
from eventlake.model.schema import TableSchema, new_table, standard_columns
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel
from eventlake.pipeline.commit import append
from eventlake.pipeline.dedupe import write_ids
from eventlake.pipeline.finish import clean, finish
from eventlake.ports import NoProgress
from eventlake.stores import Store

IDS_PER_FILE = 1_000_000


class Adopted(FrozenModel):
    """What was taken over."""

    run_id: str
    source: str
    database: str
    tables: tuple[str, ...]
    files: int
    """Data files that were there."""
    since: str
    """The day from which logs are loaded again, for what is not in the tables."""
    ids: int
    """Message ids that are known."""
    logs: int
    """Raw logs that count as loaded."""
    message: str = ""
    """What is left for the next sync, and why."""


def adopt(
    source: str, *, lake: str | Path | LakeSettings, changes: Mapping[str, object] | None = None
) -> Adopted:
    """Take over the tables of a source; `changes` are the settings that the user gives."""
    parts = open_parts(lake)
    given = source_settings(**{"source": source, **(changes or {})}).of_workspace(parts.workspace)
    ledger = Ledger(parts.store, given.folder)
    _check_untouched(ledger, given)
    tables = _find_tables(parts, given)
    settings = _as_found(given, tables, changes or {})
    check_claims(parts.store, settings)
    _check_tables(parts.store, settings, tables)
    return _take_over(Taking(parts, ledger, settings, tables))


def _check_untouched(ledger: Ledger, settings: SourceSettings) -> None:
    if ledger.settings() is not None:
        raise InvalidSettings(
            f"source is {settings.source!r}: EventLake has landed events of it in this lake, and "
            "there is nothing to adopt; `eventlake sync` goes on with it"
        )


def _find_tables(parts: Lake, settings: SourceSettings) -> list[CatalogTable]:
    place = f"{DATA}/{settings.folder}/"
    known = parts.catalog.tables(settings.database)
    found = [table for table in known if table.location.startswith(place)]
    if not found:
        raise InvalidSettings(
            f"the database {settings.database!r} has no table below {parts.store.uri(place)}: give "
            "the --source-id that the paths have, and the --database, or --partition-by-slug"
        )
    return found


# What the tables say of the settings


def _as_found(
    given: SourceSettings, tables: Sequence[CatalogTable], changes: Mapping[str, object]
) -> SourceSettings:
    """The settings as the tables were made; what the user says himself must agree with them."""
    found = {"date_partition": _partition_of(tables), "naming": _naming_of(tables)}
    for name, value in found.items():
        if changes.get(name) not in (None, value, str(value)):
            raise InvalidSettings(
                f"{name} is {str(changes[name])!r}, and the tables of {given.source} were made "
                f"with {str(value)!r}: leave it out"
            )
    return given.model_copy(update=found)


def _partition_of(tables: Sequence[CatalogTable]) -> DatePartition:
    by = {table.partition_columns: table.name for table in tables}
    known = {one.columns: one for one in DatePartition}
    if len(by) > 1 or next(iter(by)) not in known:
        told = "; ".join(f"{name} by {', '.join(columns)}" for columns, name in by.items())
        raise InvalidSettings(
            f"the tables are not partitioned in one way that EventLake knows: {told}"
        )
    return known[next(iter(by))]


def _naming_of(tables: Sequence[CatalogTable]) -> Naming:
    native = [table.name for table in tables if not _has(table, "id")]
    lost = [
        table.name for table in tables if not _has(table, "id") and not _has(table, "message_id")
    ]
    if lost or len(native) not in (0, len(tables)):
        raise InvalidSettings(
            f"{', '.join(lost or native)}: there is no column with the message id, `id` in all "
            "tables or `message_id` in all tables"
        )
    return Naming.NATIVE if native else Naming.WAREHOUSE


def _has(table: CatalogTable, column: str) -> bool:
    return any(one.name == column for one in table.columns)


def _check_tables(store: Store, settings: SourceSettings, tables: Iterable[CatalogTable]) -> None:
    for table in tables:
        wanted = table_path(settings.folder, table.name)
        if table.location != wanted:
            raise InvalidSettings(
                f"{table.database}.{table.name} lies at {store.uri(table.location)}, and should "
                f"at {store.uri(wanted)}"
            )


# Taking over


@dataclass(frozen=True)
class Taking:
    """An adoption on its way."""

    lake: Lake
    ledger: Ledger
    settings: SourceSettings
    tables: Sequence[CatalogTable]

    @property
    def store(self) -> Store:
        return self.lake.store

    @property
    def identity(self) -> str:
        return standard_columns(Call.TRACK, self.settings.naming)[0].column


def _take_over(taking: Taking) -> Adopted:
    files = {table.name: _data_files(taking.store, table) for table in taking.tables}
    days = [_day(path) for paths in files.values() for path in paths]
    _check_types(taking, files)
    newest = max(days, default=datetime.now(UTC).date())
    since = newest - timedelta(days=taking.settings.dedup_days)
    logs = _earlier_logs(taking, since)
    run_id = f"{time.time_ns():019d}"
    known = since - timedelta(days=taking.settings.dedup_days)
    recent = [path for paths in files.values() for path in paths if _day(path) >= known]
    with Stage(taking.store, taking.ledger.folder, run_id):
        ids = _index(taking, run_id, recent)
        commit = Commit(
            run_id=run_id,
            settings=taking.settings,
            inputs=logs,
            counts=Counts(),
            tables=tuple(_table(taking, table, files[table.name]) for table in taking.tables),
            ids=ids,
        )
        sequence, commit = append(taking.ledger, 0, commit)
        finished = finish(taking.lake, sequence, commit, NoProgress())
    clean(taking.lake, sequence, commit, finished, NoProgress())
    return Adopted(
        run_id=run_id,
        source=taking.settings.source,
        database=taking.settings.database,
        tables=tuple(table.name for table in taking.tables),
        files=sum(map(len, files.values())),
        since=str(since),
        ids=sum(file.rows for file in ids),
        logs=len(logs),
        message=finished.problems.first[0] if finished.problems.first else "",
    )


def _data_files(store: Store, table: CatalogTable) -> dict[str, int]:
    """A table's files and their sizes, by path in order."""
    found = {one.path: one.size for one in store.objects(table.location)}
    return {path: found[path] for path in sorted(found) if path.endswith(".parquet")}


def _day(path: str) -> date:
    """The day of a data file's partition."""
    values = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    try:
        text = values["day"] if "year" not in values else "{year}-{month}-{day}".format(**values)
        return date.fromisoformat(text)
    except (KeyError, ValueError) as problem:
        raise InvalidSettings(
            f"{path} lies in no partition by date: move it out of the table's folder"
        ) from problem


def _earlier_logs(taking: Taking, since: date) -> tuple[Input, ...]:
    """The raw logs of the days before, as a sync of the archive would find them."""
    folder = f"{LOGS}/{taking.settings.folder}"
    days = [day for day in taking.store.names(folder)[0] if _log_day(day, since) < since]
    paths = [archive.lake_address(f"{folder}/{day}") for day in days]
    return archive.find(paths, archive.lake_holders(taking.store)).inputs


def _log_day(name: str, unknown: date) -> date:
    """The day that a folder of the archive is for: Unix milliseconds, or a date."""
    if name.isdecimal():
        return datetime.fromtimestamp(int(name) / 1000, UTC).date()
    try:
        return date.fromisoformat(name)
    except ValueError:
        return unknown


def _table(taking: Taking, table: CatalogTable, files: Mapping[str, int]) -> TableCommit:
    """The table as the catalog has it; standard columns that it lacks come at its end."""
    call = _call(table.name, taking.settings)
    standard = new_table(table.name, call, taking.settings.naming).columns
    added = table.missing_columns(standard)
    schema = TableSchema(name=table.name, call=call, columns=table.columns + added)
    adds = tuple(
        DataFile(path=path, rows=None, bytes=size, partition=partition_of(path))
        for path, size in files.items()
    )
    return TableCommit(table=schema, counts=Counts(), new_columns=added, adopted=True, adds=adds)


def _call(name: str, settings: SourceSettings) -> Call:
    bare = name.removeprefix(f"{settings.table_prefix}_") if settings.table_prefix else name
    if settings.naming is Naming.NATIVE:
        return next((call for call in PLURALS if call.value == bare), Call.TRACK)
    return next((call for call, plural in PLURALS.items() if plural == bare), Call.TRACK)


# Types


def _check_types(taking: Taking, files: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse tables whose files hold other types than what would be added to them."""
    wrong = [
        f"{table.name}.{name} ({kind})"
        for table in taking.tables
        for name, kind in _foreign(taking.store, table, list(files[table.name])[-1:])
    ]
    if wrong:
        raise InvalidSettings(
            f"{', '.join(wrong)}: EventLake lands boolean, bigint, decimal(38,6), string and "
            "timestamp; drop these columns in the catalog, and what comes for them will be a new "
            "column, or leave the lake as it is and begin another database"
        )


def _foreign(
    store: Store, table: CatalogTable, newest: Sequence[str]
) -> Iterator[tuple[str, object]]:
    """Columns of a table that have none of the five types, in the catalog or in a file."""
    yield from table.foreign.items()
    for path in newest:
        with _reading(path), store.open(path) as file:
            held = pq.read_schema(file)
        for column in table.columns:
            if column.name in held.names and not _fits(held.field(column.name).type, column.type):
                yield column.name, f"{held.field(column.name).type} in {path}"


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).partition("\n")[0]
        raise InvalidSettings(f"{path} cannot be read as Parquet: {reason}") from problem


def _fits(held: pa.DataType, wanted: Type) -> bool:
    if wanted is Type.TIMESTAMP:
        return bool(pa.types.is_timestamp(held))  # Spark's older ones have nanoseconds
    return bool(held in (ARROW_BY_TYPE[wanted], pa.null()))


# The index


def _index(taking: Taking, run_id: str, paths: Sequence[str]) -> tuple[IdFile, ...]:
    files = []
    for number, ids in enumerate(_ids(taking, paths)):
        staged = f"{stage_path(run_id)}/kept/{number:06d}.parquet"
        write_ids(taking.store, staged, ids)
        taking.store.fsync(staged)
        final = ids_path(taking.settings.folder, run_id, number)
        first, last = int(ids.received.min()), int(ids.received.max())
        files.append(IdFile(path=final, rows=len(ids.high), first=first, last=last, staged=staged))
    return tuple(files)


def _ids(taking: Taking, paths: Sequence[str]) -> Iterator[Ids]:
    """The message ids of data files, many at a time."""
    waiting: list[Ids] = []
    for batch in _rows(taking, paths):
        high, low = hash_ids(batch.column(0).to_pylist())
        waiting.append(Ids(high, low, as_micros(batch.column(1))))
        if sum(len(ids.high) for ids in waiting) >= IDS_PER_FILE:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(parts: Sequence[Ids]) -> Ids:
    return Ids(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _rows(taking: Taking, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Message ids and moments of receipt; a row without either cannot meet another."""
    if not paths:
        return
    filesystem, root = taking.store.filesystem()
    wanted = pa.schema(
        [(taking.identity, pa.string()), (RECEIVED_AT, ARROW_BY_TYPE[Type.TIMESTAMP])]
    )
    for path in paths:
        with _reading(path):
            held = ds.dataset(f"{root}/{path}", filesystem=filesystem, format="parquet")
            for batch in held.to_batches(columns=wanted.names):
                there = pc.and_(batch.column(0).is_valid(), batch.column(1).is_valid())
                whole = batch.filter(there)
                if len(whole):
                    columns = [whole.column(n).cast(wanted.types[n], safe=False) for n in (0, 1)]
                    yield pa.RecordBatch.from_arrays(columns, schema=wanted)
