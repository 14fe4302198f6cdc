"""Adopt a lake that Segment filled: its tables stay in place, and the next sync adds to them.

Nothing is landed twice and nothing is lost. Which raw logs Segment had loaded is unknown, so those
of the last `dedup_days` days are loaded again and deduplicated by the message ids in the tables.
The ids are read from twice as many days, because an event may repeat one up to `dedup_days`
before it. Older logs count as loaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

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
from eventlake.model.adoption import FoundTable, check_left_out, map_tables, settings_of_tables
from eventlake.model.commit import Commit, CommitKind, Counts, DataFile, IdFile, Input, TableCommit
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import archive_path, partition_of
from eventlake.model.schema import TableSchema
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel
from eventlake.pipeline.commit import append_commit
from eventlake.pipeline.finish import clean_up, finish_commit
from eventlake.pipeline.id_files import write_ids
from eventlake.ports import NoProgress
from eventlake.services.adopt_tables import check_types, find_tables, parquet_errors, partition_day
from eventlake.stores import Store

IDS_PER_FILE = 1_000_000


class AdoptedTable(FrozenModel):
    """A table to adopt, and the events that it goes on with."""

    event_type: str
    """The name that the naming gives the table of these events."""
    table: str
    """Its name in the catalog."""
    folder: str
    id_column: str
    """`id` with unprefixed columns of properties and traits, or `message_id` with prefixed ones."""
    partitions: int
    files: int
    rows: int | None = None
    """None: the files are not opened."""


class AdoptionPlan(FrozenModel):
    """What an adoption finds."""

    source: str
    settings: SourceSettings
    """The settings of later syncs, as they follow from the tables."""
    tables: tuple[AdoptedTable, ...]
    files: int
    """Number of existing data files."""
    since: str
    """The day from which raw logs are loaded again and deduplicated."""
    logs: int
    """Number of raw logs that count as loaded."""
    warnings: tuple[str, ...] = ()


class AdoptionResult(AdoptionPlan):
    """The result of an adoption."""

    run_id: str
    ids: int
    """Number of message ids in the id index."""
    message: str = ""
    """The first problem that the next sync has to fix; empty without problems."""


def plan_adoption(
    source: str,
    *,
    lake: str | Path | LakeSettings,
    changes: Mapping[str, object] | None = None,
    leave_out: Sequence[str] = (),
    clock: Clock = SYSTEM_CLOCK,
) -> AdoptionPlan:
    """What `adopt` would do; writes nothing and raises the same errors."""
    return _prepare(open_parts(lake, clock=clock), source, changes or {}, leave_out).plan


def adopt(
    source: str,
    *,
    lake: str | Path | LakeSettings,
    changes: Mapping[str, object] | None = None,
    leave_out: Sequence[str] = (),
    clock: Clock = SYSTEM_CLOCK,
) -> AdoptionResult:
    """Adopt the tables of a source with one commit.

    `changes` are the user's settings, `leave_out` names tables that are not adopted. Raises
    `InvalidSettings` if EventLake has landed events of the source or its tables are unfit, and
    `AmbiguousTables` if a setting is missing that decides between them.
    """
    return _adopt_tables(_prepare(open_parts(lake, clock=clock), source, changes or {}, leave_out))


def _prepare(
    lake: Lake, source: str, changes: Mapping[str, object], leave_out: Sequence[str]
) -> "Adoption":
    if lake.format.name != "parquet":
        raise InvalidSettings(
            f"format is {lake.format.name!r}: only tables of plain Parquet files can be adopted; "
            "load their raw logs instead"
        )
    settings = source_settings(**{"source": source, **changes}).of_workspace(lake.workspace)
    ledger = lake.ledger(settings.folder)
    if ledger.read_settings() is not None:
        raise InvalidSettings(
            f"source is {settings.source!r}: EventLake has landed events of it in this lake, so "
            "there is nothing to adopt; use `eventlake sync`"
        )
    found = find_tables(lake, settings, str(changes.get("database") or ""))
    kept = [table for table in found if table.entry.name not in leave_out]
    left_out = [table for table in found if table.entry.name in leave_out]
    if not kept or len(left_out) < len(set(leave_out)):
        names = ", ".join(sorted(table.entry.name for table in found))
        raise InvalidSettings(f"--leave-out is {', '.join(leave_out)}: name some of {names}")
    check_types(kept)
    settings = settings_of_tables(settings, kept, changes, lake.layout)
    tables = map_tables(lake.layout, settings, kept)
    check_left_out(settings, (schema for schema, _ in tables), left_out)
    check_claims(lake.store, lake.layout, settings)
    return Adoption(lake, ledger, settings, tables)


@dataclass(frozen=True)
class Adoption:
    """The tables to adopt with their schemas, and what they are adopted into."""

    lake: Lake
    ledger: Ledger
    settings: SourceSettings
    tables: Sequence[tuple[TableSchema, FoundTable]]

    @property
    def store(self) -> Store:
        return self.lake.store

    @cached_property
    def days(self) -> dict[str, date]:
        """The day of each data file's partition, by path."""
        return {path: partition_day(path) for _, table in self.tables for path in table.files}

    @cached_property
    def since(self) -> date:
        """The day from which raw logs are loaded again."""
        newest = max(self.days.values(), default=self.lake.clock.now().date())
        return newest - timedelta(days=self.settings.dedup_days)

    @cached_property
    def logs(self) -> tuple[Input, ...]:
        """The raw logs that count as loaded."""
        return _find_earlier_logs(self, self.since)

    @cached_property
    def plan(self) -> AdoptionPlan:
        return AdoptionPlan(
            source=self.settings.source,
            settings=self.settings,
            tables=tuple(self._describe(*one) for one in self.tables),
            files=len(self.days),
            since=str(self.since),
            logs=len(self.logs),
            warnings=self.settings.notes,
        )

    def _describe(self, schema: TableSchema, table: FoundTable) -> AdoptedTable:
        return AdoptedTable(
            event_type=schema.name,
            table=table.entry.name,
            folder=table.entry.location,
            id_column=self.settings.columns.id_column,
            partitions=len({path.rpartition("/")[0] for path in table.files}),
            files=len(table.files),
        )


def _adopt_tables(adoption: Adoption) -> AdoptionResult:
    plan = adoption.plan
    run_id = f"{adoption.lake.clock.time_ns():019d}"
    ids_since = adoption.since - timedelta(days=adoption.settings.dedup_days)
    recent = [path for path, day in adoption.days.items() if day >= ids_since]
    with Stage(adoption.ledger, run_id):
        ids = _write_index(adoption, run_id, recent)
        commit = Commit(
            run_id=run_id,
            settings=adoption.settings,
            kind=CommitKind.ADOPT,
            inputs=adoption.logs,
            counts=Counts(),
            tables=tuple(_table_commit(*one) for one in adoption.tables),
            ids=ids,
        )
        sequence, commit = append_commit(adoption.ledger, 0, commit)
        finished = finish_commit(adoption.lake, sequence, commit, NoProgress())
    clean_up(adoption.lake, sequence, commit, finished, NoProgress())
    return AdoptionResult(
        **dict(plan),
        run_id=run_id,
        ids=sum(file.rows for file in ids),
        message=finished.problems.first[0] if finished.problems.first else "",
    )


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


def _table_commit(schema: TableSchema, table: FoundTable) -> TableCommit:
    location = table.entry.location
    adds = tuple(
        DataFile(
            path=path,
            rows=None,
            bytes=size,
            partition=partition_of(path.removeprefix(f"{location}/")),
        )
        for path, size in table.files.items()
    )
    added = table.entry.missing_columns(schema.columns)
    return TableCommit(table=schema, counts=Counts(), new_columns=added, adopted=True, adds=adds)


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
    identity = adoption.settings.columns.id_column
    schema = pa.schema([(identity, pa.string()), (RECEIVED_AT, ARROW_BY_TYPE[Type.TIMESTAMP])])
    for path in paths:
        with parquet_errors(path):
            dataset = ds.dataset(f"{root}/{path}", filesystem=filesystem, format="parquet")
            for batch in dataset.to_batches(columns=schema.names):
                is_complete = pc.and_(batch.column(0).is_valid(), batch.column(1).is_valid())
                rows = batch.filter(is_complete)
                if len(rows):
                    columns = [rows.column(n).cast(schema.types[n], safe=False) for n in (0, 1)]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
