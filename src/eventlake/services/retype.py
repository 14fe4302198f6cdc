"""Retype: give a column another type, for new rows or with a replay for all."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, State, list_ledgers
from eventlake.ledger.files import LiveFile
from eventlake.model.commit import Commit, CommitKind, Counts, Plan, TableCommit
from eventlake.model.lake import LakeSettings
from eventlake.model.schema import TableSchema, find_fixed_columns
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import catalog_name
from eventlake.model.types import NumberText, Type, cast
from eventlake.model.values import FrozenModel
from eventlake.pipeline.commit import detect_changes
from eventlake.pipeline.recover import recover
from eventlake.pipeline.sync import Run, sync
from eventlake.ports import NoProgress, Progress
from eventlake.runners.local import LocalSpark
from eventlake.services.replay import ReplayRequest, retry_on_conflict
from eventlake.stores import Store
from eventlake.stores.damage import reading_parquet

TYPES = {"decimal": Type.DECIMAL, **{str(kind): kind for kind in Type}}
"""The types by the names that a user may give."""


class RetypedColumn(FrozenModel):
    """A column that gets another type."""

    name: str
    before: Type
    after: Type
    values: int
    """Values that the column has."""
    misfits: int
    """Those that do not fit the new type: a replay puts them into `_rescued_data`."""


class RetypePlan(FrozenModel):
    """What a retype changes, and what a replay would rewrite."""

    source: str
    table: str
    """As `database.table`."""
    columns: tuple[RetypedColumn, ...]
    rows: int
    """Rows that a replay rewrites."""
    partitions: tuple[dict[str, str], ...]
    """Partitions with rows of the old type."""


class RetypeResult(RetypePlan):
    """The result of a retype without a replay."""

    status: str
    message: str = ""
    run_id: str = ""


@dataclass(frozen=True)
class _Target:
    """A table to retype, in the state that its ledger has."""

    ledger: Ledger
    state: State
    settings: SourceSettings
    table: TableSchema

    @property
    def full_name(self) -> str:
        name = catalog_name(self.settings, self.table)
        return f"{self.settings.database}.{name}"


def plan_retype(
    table: str, types: Mapping[str, str], *, lake: str | Path | LakeSettings | Lake
) -> RetypePlan:
    """Plan a retype of columns of a table, named `database.table`, without writing anything."""
    parts = open_parts(lake)

    def attempt() -> RetypePlan:
        target = _find_table(parts, table)
        parsed = _parse_types(target, types)
        with detect_changes(target.ledger, target.state.sequence):
            return _plan(parts.store, target, parsed)

    return retry_on_conflict(attempt)


def retype_request(
    table: str, types: Mapping[str, str], *, lake: str | Path | LakeSettings | Lake
) -> ReplayRequest:
    """The replay that retypes columns and rewrites all rows of the table in one commit."""
    target = _find_table(open_parts(lake), table)
    parsed = _parse_types(target, types)
    return ReplayRequest(
        target.settings.source_id,
        all_time=True,
        events=(target.table.name,),
        retyped={target.table.name: parsed},
    )


def retype(
    table: str,
    types: Mapping[str, str],
    *,
    lake: str | Path | LakeSettings | Lake,
    progress: Progress | None = None,
    on_planned: Callable[[str], object] = str,
    clock: Clock = SYSTEM_CLOCK,
) -> RetypeResult:
    """Give columns of a table other types for all rows that land from now on.

    `on_planned` is called with the id of each run before it begins.
    """
    progress = progress or NoProgress()
    parts = open_parts(lake, clock=clock)
    if parts.format.versioned:
        raise InvalidSettings(
            f"a column of a {parts.format.name.capitalize()} table has one type in all files: use "
            "--replay, which rewrites all rows of the table"
        )

    def attempt() -> RetypeResult:
        progress.step("plan", 0, 1, 0)
        # First finish crashed runs: the plan reads their files.
        dead, state, _ = recover(parts, _find_table(parts, table).ledger, progress)
        target = _find_table(parts, table)
        parsed = _parse_types(target, types)
        with detect_changes(target.ledger, target.state.sequence):
            plan = _plan(parts.store, target, parsed)
        run_plan = Plan(
            run_id=f"{clock.time_ns():019d}",
            settings=target.settings,
            base=state.sequence,
            inputs=(),
            tables=state.tables,
            retyped={target.table.name: parsed},
        )
        on_planned(run_plan.run_id)
        run = Run(parts, target.ledger, LocalSpark(), run_plan, progress, dead=dead)
        commit, finished = sync(run, partial(_make_commit, target.table.name))
        problem = finished.problems.first
        return RetypeResult(
            **dict(plan),
            status="partial" if problem else "finished",
            message=problem[0] if problem else "",
            run_id=commit.run_id,
        )

    return retry_on_conflict(attempt)


def _make_commit(name: str, run: Run) -> Commit:
    before, after = run.plan.tables[name], run.plan.starting_table(name)
    assert after
    changed = tuple(one for one in after.columns if one not in before.columns)
    return Commit(
        run_id=run.plan.run_id,
        settings=run.plan.settings,
        kind=CommitKind.RETYPE,
        inputs=(),
        counts=Counts(),
        tables=(TableCommit(table=after, counts=Counts(), retyped=changed),),
        abandons=run.dead,
        pins=run.plan.retyped,
    )


def _find_table(parts: Lake, name: str) -> _Target:
    known = []
    for ledger in list_ledgers(parts.store, parts.layout):
        state = ledger.read_state()
        for table in state.tables.values() if state.settings else ():
            assert state.settings
            target = _Target(ledger, state, state.settings, table)
            if target.full_name == name:
                return target
            known.append(target.full_name)
    listed = ", ".join(sorted(known)[:10]) or "none"
    raise InvalidSettings(f"there is no table {name!r}; the lake has {listed}")


def _parse_types(target: _Target, types: Mapping[str, str]) -> dict[str, Type]:
    """Validate columns and types; raises `InvalidSettings` with what is allowed."""
    if not types:
        raise InvalidSettings("no column to retype: write column=type")
    fixed = find_fixed_columns(target.table.call, target.settings.columns)
    known, parsed = target.table.types, {}
    for column, kind in types.items():
        if column not in known:
            listed = ", ".join(sorted(known.keys() - fixed)[:20]) or "none"
            raise InvalidSettings(
                f"{target.full_name} has no column {column!r}; those with a type to set: {listed}"
            )
        if column in fixed:
            raise InvalidSettings(f"{column} has the type {known[column]} in every table")
        if kind.lower() not in TYPES:
            raise InvalidSettings(
                f"the type of {column} is {kind!r}: choose boolean, bigint, decimal, string or "
                "timestamp"
            )
        parsed[column] = TYPES[kind.lower()]
    return parsed


def _plan(store: Store, target: _Target, types: Mapping[str, Type]) -> RetypePlan:
    files = target.ledger.list_live_files().get(target.table.name, [])
    before = target.table.types
    changed = {name: kind for name, kind in types.items() if before[name] is not kind}
    partitions = {tuple(file.partition.items()) for file in files} if changed else set()
    counts = dict(_count_misfits(store, files, changed))
    return RetypePlan(
        source=target.settings.source,
        table=target.full_name,
        columns=tuple(
            RetypedColumn(
                name=name,
                before=before[name],
                after=kind,
                values=counts.get(name, (0, 0))[0],
                misfits=counts.get(name, (0, 0))[1],
            )
            for name, kind in types.items()
        ),
        rows=sum(file.rows or 0 for file in files) if changed else 0,
        partitions=tuple(dict(one) for one in sorted(partitions)),
    )


def _count_misfits(
    store: Store, files: list[LiveFile], types: Mapping[str, Type]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """For each column, the number of its values, and of those that do not fit its new type."""
    for name, kind in types.items():
        values = misfits = 0
        for file in files:
            for entry in _count_values(store, file.path, name):
                values += entry["counts"]
                if cast(_as_json(entry["values"]), kind).rescue:
                    misfits += entry["counts"]
        yield name, (values, misfits)


def _count_values(store: Store, path: str, column: str) -> list[dict[str, Any]]:
    """The distinct values of a column in a file with their counts, without null."""
    with reading_parquet(store, path), pq.ParquetFile(store.open(path)) as file:
        if column not in file.schema_arrow.names:
            return []
        values: pa.ChunkedArray = file.read(columns=[column])[column]
    counts: list[dict[str, Any]] = values.drop_null().value_counts().to_pylist()
    return counts


def _as_json(value: Any) -> str | NumberText | bool:
    """A value of a table as it would be in an event."""
    if isinstance(value, str | bool):
        return value
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return NumberText(value)
