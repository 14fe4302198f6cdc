"""Replay: build tables again from the raw logs that were loaded, in one commit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from eventlake import archive
from eventlake.archive import display_address
from eventlake.claims import check_claims
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import Conflict, InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes import open_input_stores, open_parts
from eventlake.ledger import Ledger, State, find_source, resolve_source
from eventlake.model.commit import END_OF_TIME, Input, Plan, Replacement
from eventlake.model.lake import LakeSettings
from eventlake.model.naming import Call, table_name
from eventlake.model.schema import TableSchema
from eventlake.model.settings import FIXED, NewTables, SourceSettings
from eventlake.model.tables import catalog_name
from eventlake.model.tunables import Tunables
from eventlake.model.types import Type, timestamp_like
from eventlake.model.values import FrozenModel
from eventlake.pipeline.commit import detect_changes
from eventlake.pipeline.history import History, read_history
from eventlake.pipeline.plan import make_replay_plan, rename_warnings
from eventlake.pipeline.recover import find_unfinished_runs, recover
from eventlake.pipeline.sync import Run
from eventlake.ports import JobRunner, NoProgress, Progress
from eventlake.reports import read_reports
from eventlake.services.inputs import unknown_source
from eventlake.services.load import (
    LoadResult,
    Where,
    execute,
    make_result,
    open_runner,
    spark_provider,
)
from eventlake.suppression import change_suppression_list

T = TypeVar("T")

MAX_TRIES = 5
"""How often a replay is planned, if other runs change what it replaces."""
MAX_NAMES = 20
"""Lost inputs that an error lists."""
RECENT_RUNS = 20
"""Past runs that the time of a replay is estimated from."""


@dataclass(frozen=True)
class ReplayRequest:
    """What to replay: events received in [since, until), or all, of some tables or all."""

    source: str
    since: str | None = None
    until: str | None = None
    all_time: bool = False
    events: Sequence[str] = ()
    """Events or tables."""
    changes: Mapping[str, object] = field(default_factory=dict)
    """Settings that change; those that are fixed only with all events of all tables."""
    infer: bool = False
    partial: Sequence[str] = ()
    """Patterns of raw logs that may be gone or changed."""
    retyped: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    """New types of columns, by table."""


class ReplayResult(LoadResult):
    """The result of a replay; `counts` has the events of the window that it read again."""

    replaced_rows: int = 0
    """Rows of the replaced files."""
    replaced_files: int = 0
    left_out: tuple[str, ...] = ()
    """Raw logs that are gone or changed: their events are no longer in the tables."""


class TablePlan(FrozenModel):
    """What a replay or a drop would remove of one table."""

    table: str
    rows: int
    files: int
    partitions: int


class ReplayPlan(FrozenModel):
    """What a replay would do."""

    source: str
    lake: str
    since: int | None = None
    """Start of the window, widened to whole partitions, in microseconds; None for all events."""
    until: int | None = None
    files: tuple[str, ...]
    """Raw logs to read again."""
    bytes: int
    tables: tuple[TablePlan, ...]
    left_out: tuple[str, ...] = ()
    estimated_seconds: float | None = None
    """By past runs; None if there are none."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Prepared:
    """A planned replay, with what its messages and its run need."""

    plan: Plan
    history: History
    stores: archive.InputStores
    warnings: tuple[str, ...]


def plan_replay(
    request: ReplayRequest, *, lake: str | Path | LakeSettings | Lake, clock: Clock = SYSTEM_CLOCK
) -> ReplayPlan:
    """Plan a replay without writing anything."""
    parts = open_parts(lake, clock=clock)
    ledger = find_ledger(parts, request.source)
    state = find_unfinished_runs(ledger, clock.now()).state
    prepared = _prepare(parts, ledger, state, request)
    plan, window = prepared.plan, prepared.plan.replaces
    size = sum(one.size for one in plan.inputs)
    is_bounded = window is not None and window.is_bounded
    return ReplayPlan(
        source=plan.settings.source,
        lake=parts.store.root,
        since=window.since if window and is_bounded else None,
        until=window.until if window and is_bounded else None,
        files=tuple(display_address(one.uri) for one in plan.inputs),
        bytes=size,
        tables=plan_tables(plan),
        left_out=_left_out(plan),
        estimated_seconds=_estimate_seconds(parts, ledger.folder, prepared.history, size),
        warnings=prepared.warnings,
    )


def plan_tables(plan: Plan) -> tuple[TablePlan, ...]:
    """What a plan replaces or drops of each table."""
    return tuple(
        TablePlan(
            table=name,
            rows=sum(file.rows or 0 for file in files),
            files=len(files),
            partitions=len({tuple(file.partition.items()) for file in files}),
        )
        for name, files in sorted(plan.removes.items())
    )


def replay(  # noqa: PLR0913 - each is an option of the command
    request: ReplayRequest,
    *,
    lake: str | Path | LakeSettings | Lake,
    where: Where = "local[*]",
    suppressed: Iterable[str] = (),
    temporary_cluster: bool = False,
    progress: Progress | None = None,
    on_planned: Callable[[str], object] = str,
    tunables: Tunables = Tunables(),  # noqa: B008 - it is frozen
    clock: Clock = SYSTEM_CLOCK,
) -> ReplayResult:
    """Build tables again from the raw logs that were loaded, and replace their rows in one commit.

    If another run changes what it replaces, the replay is planned and run again. The `suppressed`
    users are added to the lake's suppression list. `on_planned` is called with the id of each run
    before it begins.
    """
    progress = progress or NoProgress()
    parts = open_parts(lake, clock=clock)
    ledger = find_ledger(parts, request.source)
    spark = spark_provider(where, parts)
    if users := frozenset(suppressed):
        change_suppression_list(parts.store, lambda listed: listed.add(users))

    def attempt() -> ReplayResult:
        progress.step("plan", 0, 1, 0)
        dead, state, _ = recover(parts, ledger, progress)
        with detect_changes(ledger, state.sequence):
            prepared = _prepare(parts, ledger, state, request)
        plan = prepared.plan
        if not plan.inputs and not plan.removes:
            return _nothing_to_replay(parts, prepared)
        on_planned(plan.run_id)
        run = Run(parts, ledger, spark, plan, progress, dead, prepared.stores, tunables)
        runner = open_runner(lake, parts.store, where, temporary_cluster)
        if runner and not (isinstance(where, JobRunner) and where.reads_local_files):
            _check_reachable(plan)
        commit, finished = execute(run, runner)
        result = make_result(commit, finished, _summary(parts, prepared), run.timings)
        return ReplayResult(**dict(result), **_replaced(plan))

    return retry_on_conflict(attempt)


def retry_on_conflict(attempt: Callable[[], T]) -> T:
    """Return the result of `attempt`, which is called again while it raises `Conflict`."""
    for _ in range(MAX_TRIES - 1):
        with suppress(Conflict):
            return attempt()
    return attempt()


def find_ledger(parts: Lake, source: str) -> Ledger:
    """The ledger of a source; raises `InvalidSettings` if the lake has no such source."""
    last = find_source(parts.store, parts.layout, source)
    if last is None:
        raise unknown_source(parts, source)
    return parts.ledger(last.folder)


def _prepare(parts: Lake, ledger: Ledger, state: State, request: ReplayRequest) -> _Prepared:
    settings = resolve_source(parts.store, parts.layout, request.source, **request.changes)
    settings = settings.of_workspace(parts.workspace).with_folder(ledger.folder)
    _check_changes(request, state, settings)
    if parts.format.versioned and state.settings:
        _check_partitions(state.settings, settings, parts.format.name.capitalize())
    check_claims(parts.store, parts.layout, settings)
    history = read_history(ledger, state.sequence)
    window = _parse_window(request, settings)
    replaces = Replacement(
        base=state.sequence,
        since=window[0],
        until=window[1],
        tables=find_tables(request.events, settings, history.tables, state.tables),
    )
    needed = [one for one in history.inputs.values() if replaces.overlaps(one)]
    stores = open_input_stores((one.uri for one in needed), parts.store)
    lost = archive.find_lost(needed, stores)
    _check_lost(lost, request.partial)
    replaces = replaces.model_copy(update={"left_out": lost})
    time_ns = parts.clock.time_ns()
    plan = make_replay_plan(state, history, settings, replaces, time_ns, infer=request.infer)
    plan = plan.model_copy(update={"retyped": {t: dict(c) for t, c in request.retyped.items()}})
    warnings = rename_warnings(state, settings) + _warnings(request, plan, history)
    return _Prepared(plan, history, stores, warnings)


def _check_changes(request: ReplayRequest, state: State, settings: SourceSettings) -> None:
    """Raise `InvalidSettings` for a change of fixed settings that the replay cannot make."""
    before = state.settings or settings
    changed = [name for name in FIXED if getattr(before, name) != getattr(settings, name)]
    if changed and (not request.all_time or request.events):
        raise InvalidSettings(
            f"{changed[0]} changes, so all tables must be built again: use --all, without "
            "--from, --to and --event"
        )
    if "naming" in changed and settings.new_tables is NewTables.SKIP:
        raise InvalidSettings(
            "naming changes, so all tables would be new, and new_tables is skip: set new_tables to "
            "land"
        )


def _check_partitions(before: SourceSettings, settings: SourceSettings, name: str) -> None:
    """Raise `InvalidSettings` if versioned tables would move or get other partition columns."""
    for setting in ("partition_by_slug", "data_folder"):
        if getattr(before, setting) != getattr(settings, setting):
            raise InvalidSettings(
                f"{setting} changes, and {name} tables cannot move to another folder: load the raw "
                "logs into another lake with this setting"
            )
    if before.date_partition != settings.date_partition:
        raise InvalidSettings(
            f"date_partition is {str(settings.date_partition)!r}, and the partition columns of "
            f"{name} tables cannot change: `eventlake drop {settings.source}`, then load "
            f"the raw logs again with --date-partition {settings.date_partition}"
        )


def _parse_window(request: ReplayRequest, settings: SourceSettings) -> tuple[int, int]:
    """The bounds of the window, widened to whole partitions."""
    if request.all_time:
        if request.since or request.until:
            raise InvalidSettings("--all is all events: leave --from and --to out")
        return -END_OF_TIME, END_OF_TIME
    if not request.since or not request.until:
        raise InvalidSettings("the time to replay is not set: give --from and --to, or --all")
    since, until = parse_time("--from", request.since), parse_time("--to", request.until)
    if since >= until:
        raise InvalidSettings(f"--to is {request.until}: it must be later than --from")
    span = settings.date_partition.span
    return since // span * span, -(-until // span) * span


def parse_time(option: str, text: str) -> int:
    """Parse the time of an option to microseconds; raises `InvalidSettings`."""
    moment = timestamp_like(text)
    if moment is None:
        raise InvalidSettings(f"{option} is {text!r}: write 2026-10-01 or 2026-10-01T07:00:00Z")
    return moment


def find_tables(
    names: Iterable[str],
    settings: SourceSettings,
    known: Iterable[str],
    schemas: Mapping[str, TableSchema],
) -> tuple[str, ...]:
    """The tables of events or tables that a user names; raises `InvalidSettings` for others."""
    tables = {name: name for name in known}
    catalog = {catalog_name(settings, one): name for name, one in schemas.items()}
    result = []
    for name in names:
        track = table_name(Call.TRACK, name, settings.naming)
        table = tables.get(name) or catalog.get(name) or tables.get(track)
        if table is None:
            listed = ", ".join(sorted(tables)[:MAX_NAMES]) or "none"
            raise InvalidSettings(
                f"{settings.source} has no event or table {name!r}; it has {listed}"
            )
        result.append(table)
    return tuple(sorted(set(result)))


def _check_lost(lost: Sequence[Input], accepted: Sequence[str]) -> None:
    """Raise `InvalidSettings` if raw logs are gone or changed that no pattern accepts."""
    names = [display_address(one.uri) for one in lost]
    refused = [n for n in names if not any(fnmatchcase(n, pattern) for pattern in accepted)]
    if refused:
        more = len(refused) - MAX_NAMES
        listed = ", ".join(refused[:MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        raise InvalidSettings(
            f"{len(refused)} raw logs with events of this time are gone or have changed since "
            f"they were loaded: {listed}; restore them, or drop their rows from the tables with "
            "--partial and their names or a pattern; nothing was replaced"
        )


def _warnings(request: ReplayRequest, plan: Plan, history: History) -> tuple[str, ...]:
    warnings = []
    adopted = sum(path in history.adopted for files in history.files.values() for path in files)
    if adopted and plan.replaces and plan.replaces.is_whole and plan.settings:
        raise InvalidSettings(
            f"{plan.settings.source} has {adopted:,} files that another program wrote, which "
            "cannot be built again from raw logs: give --from and --to; these files then stay"
        )
    if adopted:
        warnings.append(f"{adopted:,} files that another program wrote stay as they are")
    if kept := sorted(plan.removes.keys() - set(plan.infer)) if request.infer else ():
        warnings.append(
            f"files outside of the window keep the types of {', '.join(kept[:MAX_NAMES])}: use "
            "--all to infer them anew"
        )
    return tuple(warnings)


def _check_reachable(plan: Plan) -> None:
    """Raise `InvalidSettings` for files of this machine, which a cluster cannot read."""
    local = [one.uri for one in plan.inputs if one.uri.startswith("file:")]
    if local:
        raise InvalidSettings(
            f"{len(local):,} raw logs were loaded from this machine, such as {local[0]}, and the "
            "lake's cluster cannot read them: replay with lake settings without a cluster"
        )


def _left_out(plan: Plan) -> tuple[str, ...]:
    lost = plan.replaces.left_out if plan.replaces else ()
    return tuple(display_address(one.uri) for one in lost)


def _summary(parts: Lake, prepared: _Prepared) -> dict[str, Any]:
    return {
        "source": prepared.plan.settings.source,
        "lake": parts.store.root,
        "files": len(prepared.plan.inputs),
        "warnings": prepared.warnings,
    }


def _replaced(plan: Plan) -> dict[str, Any]:
    files = [file for of_table in plan.removes.values() for file in of_table]
    return {
        "replaced_rows": sum(file.rows or 0 for file in files),
        "replaced_files": len(files),
        "left_out": _left_out(plan),
    }


def _nothing_to_replay(parts: Lake, prepared: _Prepared) -> ReplayResult:
    message = "nothing to replay: no event was received in this time"
    return ReplayResult(status="nothing", message=message, **_summary(parts, prepared))


def _estimate_seconds(parts: Lake, folder: str, history: History, size: int) -> float | None:
    """Estimate the duration of a run over `size` bytes from the last finished ones."""
    lines = read_reports(parts.store, parts.layout, folder)
    runs = [line for line in lines if line["type"] == "source" and line["status"] == "finished"]
    seconds = read_bytes = 0.0
    for line in runs[-RECENT_RUNS:]:
        began, ended = (timestamp_like(line[name]) for name in ("start_time", "finish_time"))
        loaded = history.loaded_bytes.get(line["run_id"])
        if loaded and began is not None and ended is not None:
            seconds += (ended - began) / 1e6
            read_bytes += loaded
    return round(size * seconds / read_bytes, 1) if read_bytes else None
