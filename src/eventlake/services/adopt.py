"""Adopt a lake that Segment filled: its tables stay in place, and the next sync adds to them.

Nothing is landed twice and nothing is lost. Which raw logs Segment had loaded is unknown, so those
of the last `dedup_days` days are loaded again and deduplicated by the message ids in the tables.
The ids are read from twice as many days, because an event may repeat one up to `dedup_days`
before it. Older logs count as loaded.
"""

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
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import InvalidSettings
from eventlake.kernels.cast import ARROW_BY_TYPE
from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.dedupe import Ids, hash_ids
from eventlake.kernels.times import as_micros
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, Stage
from eventlake.model.catalog import CatalogTable
from eventlake.model.commit import Commit, CommitKind, Counts, DataFile, IdFile, Input, TableCommit
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import DatePartition, archive_path, partition_of
from eventlake.model.naming import PLURALS, Call, Naming, table_name
from eventlake.model.schema import TableSchema, new_table, standard_columns
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel
from eventlake.pipeline.commit import append_commit
from eventlake.pipeline.finish import clean_up, finish_commit
from eventlake.pipeline.id_files import write_ids
from eventlake.ports import NoProgress
from eventlake.stores import Store

IDS_PER_FILE = 1_000_000


class AdoptionResult(FrozenModel):
    """The result of an adoption."""

    run_id: str
    source: str
    database: str
    tables: tuple[str, ...]
    files: int
    """Number of existing data files."""
    since: str
    """The day from which raw logs are loaded again and deduplicated."""
    ids: int
    """Number of message ids in the id index."""
    logs: int
    """Number of raw logs that count as loaded."""
    warnings: tuple[str, ...] = ()
    message: str = ""
    """The first problem that the next sync has to fix; empty without problems."""


def adopt(
    source: str,
    *,
    lake: str | Path | LakeSettings,
    changes: Mapping[str, object] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AdoptionResult:
    """Adopt the tables of a source with one commit; `changes` are the user's settings.

    Raises `InvalidSettings` if EventLake has landed events of the source or its tables are unfit.
    """
    parts = open_parts(lake, clock=clock)
    settings = source_settings(**{"source": source, **(changes or {})}).of_workspace(
        parts.workspace
    )
    ledger = parts.ledger(settings.folder)
    _check_not_landed(ledger, settings)
    tables = _find_tables(parts, settings)
    settings = _settings_of_tables(settings, tables, changes or {})
    check_claims(parts.store, parts.layout, settings)
    _check_tables(parts, settings, tables)
    return _adopt_tables(Adoption(parts, ledger, settings, tables))


def _check_not_landed(ledger: Ledger, settings: SourceSettings) -> None:
    if ledger.read_settings() is not None:
        raise InvalidSettings(
            f"source is {settings.source!r}: EventLake has landed events of it in this lake, so "
            "there is nothing to adopt; use `eventlake sync`"
        )


def _find_tables(parts: Lake, settings: SourceSettings) -> list[CatalogTable]:
    folder = f"{parts.layout.source_path(settings.folder)}/"
    tables = parts.catalog.tables(settings.database)
    own = [table for table in tables if table.location.startswith(folder)]
    if not own:
        raise InvalidSettings(
            f"the database {settings.database!r} has no table below {parts.store.uri(folder)}: set "
            "--source-id to the id in the paths, and --database, or --partition-by-slug"
        )
    return own


# Settings of the tables


def _settings_of_tables(
    settings: SourceSettings, tables: Sequence[CatalogTable], changes: Mapping[str, object]
) -> SourceSettings:
    """Return the settings with the tables' partitioning and naming, unless `changes` differ."""
    detected = {"date_partition": _detect_partition(tables), "naming": _detect_naming(tables)}
    for name, value in detected.items():
        if changes.get(name) not in (None, value, str(value)):
            raise InvalidSettings(
                f"{name} is {str(changes[name])!r}, but the tables of {settings.source} were "
                f"created with {str(value)!r}: omit it"
            )
    return settings.model_copy(update=detected)


def _detect_partition(tables: Sequence[CatalogTable]) -> DatePartition:
    examples = {table.partition_columns: table.name for table in tables}
    supported = {one.columns: one for one in DatePartition}
    if len(examples) > 1 or next(iter(examples)) not in supported:
        listed = "; ".join(f"{name} by {', '.join(columns)}" for columns, name in examples.items())
        raise InvalidSettings(
            f"all tables must have the same partition columns, of a supported kind: {listed}"
        )
    return supported[next(iter(examples))]


def _detect_naming(tables: Sequence[CatalogTable]) -> Naming:
    native = [table.name for table in tables if not _has_column(table, "id")]
    lost = [
        table.name
        for table in tables
        if not _has_column(table, "id") and not _has_column(table, "message_id")
    ]
    if lost or len(native) not in (0, len(tables)):
        raise InvalidSettings(
            f"{', '.join(lost or native)}: no column with the message id; it must be `id` in all "
            "tables, or `message_id` in all tables"
        )
    if native:
        return Naming.NATIVE
    plural = any(
        table.location.endswith(f"={name}") for table in tables for name in PLURALS.values()
    )
    return Naming.WAREHOUSE if plural else Naming.SEGMENT


def _has_column(table: CatalogTable, column: str) -> bool:
    return any(one.name == column for one in table.columns)


def _check_tables(lake: Lake, settings: SourceSettings, tables: Iterable[CatalogTable]) -> None:
    for table in tables:
        expected = lake.layout.table_path(settings.folder, table.name)
        if table.location != expected:
            raise InvalidSettings(
                f"{table.full_name} is at {lake.store.uri(table.location)}, and must be at "
                f"{lake.store.uri(expected)}"
            )


# Adoption


@dataclass(frozen=True)
class Adoption:
    """The tables to adopt, and what they are adopted into."""

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


def _adopt_tables(adoption: Adoption) -> AdoptionResult:
    files = {table.name: _list_data_files(adoption.store, table) for table in adoption.tables}
    paths = [path for sizes in files.values() for path in sizes]
    days = [_partition_day(path) for path in paths]
    _check_types(adoption, files)
    newest = max(days, default=adoption.lake.clock.now().date())
    since = newest - timedelta(days=adoption.settings.dedup_days)
    logs = _find_earlier_logs(adoption, since)
    run_id = f"{adoption.lake.clock.time_ns():019d}"
    ids_since = since - timedelta(days=adoption.settings.dedup_days)
    recent = [path for path in paths if _partition_day(path) >= ids_since]
    with Stage(adoption.ledger, run_id):
        ids = _write_index(adoption, run_id, recent)
        commit = Commit(
            run_id=run_id,
            settings=adoption.settings,
            kind=CommitKind.ADOPT,
            inputs=logs,
            counts=Counts(),
            tables=tuple(
                _table_commit(adoption, table, files[table.name]) for table in adoption.tables
            ),
            ids=ids,
        )
        sequence, commit = append_commit(adoption.ledger, 0, commit)
        finished = finish_commit(adoption.lake, sequence, commit, NoProgress())
    clean_up(adoption.lake, sequence, commit, finished, NoProgress())
    return AdoptionResult(
        run_id=run_id,
        source=adoption.settings.source,
        database=adoption.settings.database,
        tables=tuple(table.name for table in adoption.tables),
        files=sum(map(len, files.values())),
        since=str(since),
        ids=sum(file.rows for file in ids),
        logs=len(logs),
        warnings=adoption.settings.notes,
        message=finished.problems.first[0] if finished.problems.first else "",
    )


def _list_data_files(store: Store, table: CatalogTable) -> dict[str, int]:
    """The sizes of a table's Parquet files, by path in order."""
    sizes = {one.path: one.size for one in store.objects(table.location)}
    return {path: sizes[path] for path in sorted(sizes) if path.endswith(".parquet")}


def _partition_day(path: str) -> date:
    """The day of a data file's partition."""
    values = partition_of(path)
    try:
        text = values["day"] if "year" not in values else "{year}-{month}-{day}".format(**values)
        return date.fromisoformat(text)
    except (KeyError, ValueError) as problem:
        raise InvalidSettings(
            f"{path} is not in a date partition: move it out of the table's folder"
        ) from problem


def _find_earlier_logs(adoption: Adoption, since: date) -> tuple[Input, ...]:
    """Find the raw logs of days before `since` in the archive."""
    folder = archive_path(adoption.settings.folder)
    days = [day for day in adoption.store.names(folder)[0] if _log_day(day, since) < since]
    paths = [archive.lake_address(f"{folder}/{day}") for day in days]
    return archive.find_inputs(paths, archive.lake_input_stores(adoption.store)).inputs


def _log_day(name: str, unknown: date) -> date:
    """The day of an archive folder, named in Unix milliseconds or as a date; else `unknown`."""
    if name.isdecimal():
        return datetime.fromtimestamp(int(name) / 1000, UTC).date()
    try:
        return date.fromisoformat(name)
    except ValueError:
        return unknown


def _table_commit(adoption: Adoption, table: CatalogTable, files: Mapping[str, int]) -> TableCommit:
    """The commit of a table as in the catalog, with missing standard columns added at its end."""
    call = _call_of_table(table.name, adoption.settings)
    standard = new_table(table.name, call, adoption.settings.naming).columns
    added = table.missing_columns(standard)
    schema = TableSchema(name=table.name, call=call, columns=table.columns + added)
    adds = tuple(
        DataFile(
            path=path,
            rows=None,
            bytes=size,
            partition=partition_of(path.removeprefix(f"{table.location}/")),
        )
        for path, size in files.items()
    )
    return TableCommit(table=schema, counts=Counts(), new_columns=added, adopted=True, adds=adds)


def _call_of_table(name: str, settings: SourceSettings) -> Call:
    bare = name.removeprefix(f"{settings.table_prefix}_") if settings.table_prefix else name
    tables = {table_name(call, "", settings.naming): call for call in PLURALS}
    return tables.get(bare, Call.TRACK)


# Types


def _check_types(adoption: Adoption, files: Mapping[str, Mapping[str, int]]) -> None:
    """Raise `InvalidSettings` if a column has a type that EventLake does not write.

    Checks the catalog, and the newest file of each table.
    """
    wrong = [
        f"{table.name}.{name} ({kind})"
        for table in adoption.tables
        for name, kind in _find_foreign_columns(adoption.store, table, list(files[table.name])[-1:])
    ]
    if wrong:
        raise InvalidSettings(
            f"{', '.join(wrong)}: EventLake writes boolean, bigint, decimal(38,6), string and "
            "timestamp; drop these columns in the catalog, and a sync adds them as new columns, "
            "or leave the lake as it is and use another database"
        )


def _find_foreign_columns(
    store: Store, table: CatalogTable, newest: Sequence[str]
) -> Iterator[tuple[str, object]]:
    """Yield columns with a foreign type, in the catalog or in the `newest` files, and the type."""
    yield from table.foreign.items()
    for path in newest:
        with _parquet_errors(path), store.open(path) as file:
            schema = pq.read_schema(file)
        for column in table.columns:
            if column.name not in schema.names:
                continue
            file_type = schema.field(column.name).type
            if not _is_compatible(file_type, column.type):
                yield column.name, f"{file_type} in {path}"


@contextmanager
def _parquet_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).partition("\n")[0]
        raise InvalidSettings(f"{path} cannot be read as Parquet: {reason}") from problem


def _is_compatible(file_type: pa.DataType, column_type: Type) -> bool:
    if column_type is Type.TIMESTAMP:
        return bool(pa.types.is_timestamp(file_type))  # older Spark versions wrote nanoseconds
    return bool(file_type in (ARROW_BY_TYPE[column_type], pa.null()))


# The index


def _write_index(adoption: Adoption, run_id: str, paths: Sequence[str]) -> tuple[IdFile, ...]:
    files, layout = [], adoption.lake.layout
    for number, ids in enumerate(_read_ids(adoption, paths)):
        staged = f"{layout.stage_path(run_id)}/kept/{number:06d}.parquet"
        write_ids(adoption.store, staged, ids)
        adoption.store.fsync(staged)
        final = layout.ids_path(adoption.settings.folder, run_id, number)
        first, last = int(ids.received.min()), int(ids.received.max())
        files.append(IdFile(path=final, rows=len(ids.high), first=first, last=last, staged=staged))
    return tuple(files)


def _read_ids(adoption: Adoption, paths: Sequence[str]) -> Iterator[Ids]:
    """Read the message ids of data files, about `IDS_PER_FILE` at a time."""
    pending: list[Ids] = []
    for batch in _read_rows(adoption, paths):
        high, low = hash_ids(batch.column(0).to_pylist())
        pending.append(Ids(high, low, as_micros(batch.column(1))))
        if sum(len(ids.high) for ids in pending) >= IDS_PER_FILE:
            yield _join_ids(pending)
            pending = []
    if pending:
        yield _join_ids(pending)


def _join_ids(parts: Sequence[Ids]) -> Ids:
    return Ids(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _read_rows(adoption: Adoption, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read message ids and receipt times; rows without either cannot be duplicates."""
    if not paths:
        return
    filesystem, root = adoption.store.filesystem()
    schema = pa.schema(
        [(adoption.identity, pa.string()), (RECEIVED_AT, ARROW_BY_TYPE[Type.TIMESTAMP])]
    )
    for path in paths:
        with _parquet_errors(path):
            dataset = ds.dataset(f"{root}/{path}", filesystem=filesystem, format="parquet")
            for batch in dataset.to_batches(columns=schema.names):
                is_complete = pc.and_(batch.column(0).is_valid(), batch.column(1).is_valid())
                rows = batch.filter(is_complete)
                if len(rows):
                    columns = [rows.column(n).cast(schema.types[n], safe=False) for n in (0, 1)]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
