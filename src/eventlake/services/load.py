"""Load raw logs into a lake: plan, run in this process or as a job, return the result."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from eventlake import archive
from eventlake.claims import check_claims, have_same_claims
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import EventLakeError, Internal
from eventlake.lake import Lake
from eventlake.lakes import open_input_stores, open_job_runner, open_parts
from eventlake.ledger import Refusal, State, describe_refusals, resolve_source
from eventlake.model.commit import Commit, Counts, TableCommit
from eventlake.model.durations import parse_duration
from eventlake.model.lake import LakeSettings
from eventlake.model.settings import SettingChange, SourceSettings, list_changes
from eventlake.model.tables import catalog_name
from eventlake.model.tunables import Tunables
from eventlake.model.values import FrozenModel
from eventlake.pipeline.finish import FinishResult
from eventlake.pipeline.plan import check_settings, make_plan, rename_warnings
from eventlake.pipeline.recover import UnfinishedRuns, find_unfinished_runs, recover
from eventlake.pipeline.retyped import CatalogTypes, find_retyped
from eventlake.pipeline.submit import submit_run
from eventlake.pipeline.sync import Run
from eventlake.pipeline.sync import sync as run_sync
from eventlake.ports import JobRunner, NoProgress, Progress, SparkProvider
from eventlake.runners.local import LocalSpark, log_path
from eventlake.services.compaction import Compactor, compact_all
from eventlake.services.follow import follow_detached_jobs
from eventlake.services.inputs import (
    check_source,
    copy_into_lake,
    copy_streams,
    list_archive_days,
    mention_archived_streams,
    no_logs_warnings,
)
from eventlake.stores import Store
from eventlake.suppression import change_suppression_list


class LoadResult(FrozenModel):
    """The result of a load or sync."""

    run_id: str = ""
    status: str
    message: str = ""
    source: str
    lake: str
    counts: Counts = Counts()
    tables: tuple[TableCommit, ...] = ()
    files: int = 0
    already_loaded: int = 0
    passed_over: tuple[str, ...] = ()
    compacted_files: int = 0
    """Small files that were merged after the load."""
    timings: dict[str, float] = Field(default_factory=dict)
    report: str = ""
    setting_changes: tuple[SettingChange, ...] = ()
    """Settings that are others from now on than at the source's last load."""
    warnings: tuple[str, ...] = ()


class LoadPlan(FrozenModel):
    """What a load or sync would do."""

    source: str
    lake: str
    files: tuple[str, ...]
    """The files that would be read."""
    bytes: int
    already_loaded: int
    pipes: tuple[str, ...] = ()
    """Pipes that would be copied into the archive."""
    passed_over: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    """The source's existing tables, as `database.table`."""
    runs_to_finish: int = 0
    """Runs that crashed after their commit and would be finished first."""
    stages_to_remove: int = 0
    """Runs that crashed before their commit and whose stage would be removed."""
    setting_changes: tuple[SettingChange, ...] = ()
    warnings: tuple[str, ...] = ()


GivenSettings = SourceSettings | Mapping[str, object]
"""The source and the settings to use from now on; the others are those of its last load."""


def plan_load(
    paths: Sequence[str | Path] | None,
    *,
    lake: str | Path | LakeSettings,
    settings: GivenSettings,
    clock: Clock = SYSTEM_CLOCK,
) -> LoadPlan:
    """Plan a load without writing anything; `paths` is None for the source's archive."""
    parts = open_parts(lake, make=paths is not None, clock=clock)
    settings, _, listing = _find_inputs(parts, settings, paths)
    unfinished = UnfinishedRuns(State(), {}, ())
    if parts.store.is_there:
        unfinished = find_unfinished_runs(parts.ledger(settings.folder), clock.now())
        check_claims(parts.store, parts.layout, settings)
    state = unfinished.state
    check_settings(state, settings)
    in_catalog = find_retyped(parts, parts.ledger(settings.folder), state)
    new_inputs = [one for one in listing.inputs if not state.has_loaded(one)]
    return LoadPlan(
        source=settings.source,
        lake=parts.store.root,
        files=tuple(one.uri for one in new_inputs),
        bytes=sum(one.size for one in new_inputs),
        already_loaded=len(listing.inputs) - len(new_inputs),
        pipes=tuple(listing.streams),
        passed_over=listing.passed_over,
        tables=tuple(
            f"{settings.database}.{catalog_name(settings, state.tables[name])}"
            for name in sorted(state.tables)
        ),
        runs_to_finish=len(unfinished.to_finish),
        stages_to_remove=len(unfinished.uncommitted),
        setting_changes=list_changes(state.settings, settings),
        warnings=(
            *settings.notes,
            *rename_warnings(state, settings),
            *in_catalog.warnings,
            *no_logs_warnings(listing),
        ),
    )


def plan_sync(
    source: str,
    *,
    lake: str | Path | LakeSettings,
    changes: Mapping[str, object] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> LoadPlan:
    """Plan a sync without writing anything."""
    return plan_load(None, lake=lake, settings={**(changes or {}), "source": source}, clock=clock)


def _find_inputs(
    parts: Lake, given: GivenSettings, paths: Sequence[str | Path] | None
) -> tuple[SourceSettings, archive.InputStores, archive.InputListing]:
    """Return the source's complete settings, the stores of its inputs and the inputs.

    The inputs are found below `paths`, or in the source's archive if that is None.
    """
    if paths is not None:  # first, because a closed standard input is seen only until a file opens
        stores = open_input_stores(paths, parts.store)
        listing = archive.find_inputs(paths, stores, parts.layout)
    notes: tuple[str, ...] = ()
    if isinstance(given, SourceSettings):
        notes = given.notes
        given = {**given.given, "source": given.source}
    changes = {name: value for name, value in given.items() if name != "source"}
    settings = resolve_source(parts.store, parts.layout, str(given["source"]), **changes)
    settings = settings.of_workspace(parts.workspace).with_notes(notes)
    if paths is None:
        stores = archive.lake_input_stores(parts.store)
        days = list_archive_days(parts.store, settings)
        if not days:
            check_source(parts, settings)
        listing = archive.find_inputs(days, stores, parts.layout)
    return settings, stores, listing


Where = str | SparkProvider | JobRunner
"""Where a run is: in this process on a Spark master or session, or wherever a runner has it."""


def load(  # noqa: PLR0913 - each is an option of the command
    paths: Sequence[str | Path] | None,
    *,
    lake: str | Path | LakeSettings | Lake,
    settings: GivenSettings,
    where: Where = "local[*]",
    keep_raw: bool = False,
    suppressed: Iterable[str] = (),
    temporary_cluster: bool = False,
    progress: Progress | None = None,
    on_planned: Callable[[str], object] = str,
    tunables: Tunables = Tunables(),  # noqa: B008 - it is frozen
    clock: Clock = SYSTEM_CLOCK,
) -> LoadResult:
    """Land the events of raw logs that were not loaded before, and finish crashed runs first.

    Runs on the lake's cluster if it has one and `where` is not another runner. `paths` is None for
    the source's archive. The `suppressed` users are added to the lake's suppression list.
    `on_planned` is called with the run's id before the run begins; there is none without new files.
    """
    from eventlake.services.forget import finish_requests  # noqa: PLC0415 - it imports this

    progress = progress or NoProgress()
    parts = open_parts(lake, make=paths is not None, clock=clock)
    runner = open_runner(lake, parts.store, where, temporary_cluster)
    progress.step("plan", 0, 1, 0)
    given = settings
    settings, stores, listing = _find_inputs(parts, given, paths)
    ledger = parts.ledger(settings.folder)
    if runner is not None:
        spark = spark_provider(where, parts)
        resume = partial(Run, parts, ledger, spark, progress=progress)
        follow_detached_jobs(ledger, resume, lambda: open_runner(lake, parts.store, where, False))
    dead, state, refusals = recover(parts, ledger, progress)
    if finish_requests(parts, progress):  # raw logs have other names now
        settings, stores, listing = _find_inputs(parts, given, paths)
        dead, state, refusals = recover(parts, ledger, progress)
    if not (state.settings and have_same_claims(state.settings, settings)):
        check_claims(parts.store, parts.layout, settings)
    check_settings(state, settings)
    has_new = bool(listing.streams) or not all(map(state.has_loaded, listing.inputs))
    in_catalog = find_retyped(parts, ledger, state) if has_new else CatalogTypes({})
    if users := frozenset(suppressed):
        change_suppression_list(parts.store, lambda listed: listed.add(users))
    listing = copy_streams(listing, parts, settings.folder, progress)
    new_inputs = tuple(one for one in listing.inputs if not state.has_loaded(one))
    if keep_raw:
        new_inputs = archive.copy_inputs(new_inputs, parts.store, settings.folder, stores)
    elif runner and not (isinstance(where, JobRunner) and where.reads_local_files):
        new_inputs = copy_into_lake(new_inputs, parts.store, settings.folder, stores)
    # A sync may have loaded the archived copy of an input whose own load was killed.
    new_inputs = tuple(one for one in new_inputs if not state.has_loaded(one))
    files = {"files": len(new_inputs), "already_loaded": len(listing.inputs) - len(new_inputs)}
    summary = _summarize_inputs(parts, refusals, state, settings, listing) | files
    if not new_inputs:
        return _nothing_to_load(listing, summary)
    summary["warnings"] += in_catalog.warnings
    now = parts.clock.time_ns()
    plan = make_plan(state, settings, new_inputs, now, tunables, in_catalog.retyped)
    on_planned(plan.run_id)
    spark = spark_provider(where, parts)
    run = Run(parts, ledger, spark, plan, progress, dead, stores, tunables)
    with mention_archived_streams(listing, settings.source):
        commit, finished = execute(run, runner)
    result = make_result(commit, finished, summary, run.timings)

    def compact_here(one: Run) -> tuple[Commit, FinishResult]:
        return execute(one, open_runner(lake, parts.store, where, temporary_cluster))

    return _compact_after(run, compact_here, result)


def _compact_after(
    run: Run, compact_here: Callable[[Run], tuple[Commit, FinishResult]], result: LoadResult
) -> LoadResult:
    """Compact the source if its settings say so; an error becomes a warning of the load's result.

    The next load tries again.
    """
    if not run.plan.settings.compact_after:
        return result
    older_than = parse_duration(run.plan.settings.compact_after)
    compactor = Compactor(
        run.lake, run.ledger, older_than, run.runner, compact_here, run.progress, run.tunables
    )
    try:
        compacted = compact_all(compactor.compact_once)
    except EventLakeError as problem:
        warning = f"the compaction after the load failed, and the next load tries again: {problem}"
        return result.model_copy(update={"warnings": (*result.warnings, warning)})
    notes = (compacted.message,) if compacted.status == "partial" else ()
    changes = {"compacted_files": compacted.files, "warnings": (*result.warnings, *notes)}
    return result.model_copy(update=changes)


def _summarize_inputs(
    parts: Lake,
    refusals: Mapping[str, Refusal],
    state: State,
    settings: SourceSettings,
    listing: archive.InputListing,
) -> dict[str, Any]:
    """The fields of a `LoadResult` that are known before the run, but for its numbers of files."""
    return {
        "source": settings.source,
        "lake": parts.store.root,
        "passed_over": listing.passed_over,
        "setting_changes": list_changes(state.settings, settings),
        "warnings": (
            *settings.notes,
            *rename_warnings(state, settings),
            *describe_refusals(refusals),
            *no_logs_warnings(listing),
        ),
    }


def sync(  # noqa: PLR0913 - as above
    source: str,
    *,
    lake: str | Path | LakeSettings | Lake,
    changes: Mapping[str, object] | None = None,
    where: Where = "local[*]",
    suppressed: Iterable[str] = (),
    temporary_cluster: bool = False,
    progress: Progress | None = None,
    on_planned: Callable[[str], object] = str,
    clock: Clock = SYSTEM_CLOCK,
) -> LoadResult:
    """Load the files of the source's archive that were not loaded before.

    Settings are those of the last load with `changes` applied, or the defaults at first.
    """
    return load(
        None,
        lake=lake,
        settings={**(changes or {}), "source": source},
        where=where,
        suppressed=suppressed,
        temporary_cluster=temporary_cluster,
        progress=progress,
        on_planned=on_planned,
        clock=clock,
    )


def execute(
    run: Run, runner: AbstractContextManager[JobRunner] | None
) -> tuple[Commit, FinishResult]:
    """Execute a planned run with a runner, or in this process if that is None."""
    return run_in_process(run) if runner is None else _run_as_job(run, runner)


def open_runner(
    lake: str | Path | LakeSettings | Lake, store: Store, where: Where, temporary_cluster: bool
) -> AbstractContextManager[JobRunner] | None:
    """A context with the runner of the run; None if it is in this process."""
    if isinstance(where, JobRunner):
        return nullcontext(where)
    if isinstance(lake, Lake):
        return None
    return open_job_runner(lake, store, temporary=temporary_cluster)


def spark_provider(where: Where, lake: Lake) -> SparkProvider:
    """The provider of this process's session; a job on a runner does not use it."""
    if isinstance(where, JobRunner):
        return LocalSpark()
    return LocalSpark(where, lake.spark_settings) if isinstance(where, str) else where


def _nothing_to_load(listing: archive.InputListing, summary: dict[str, Any]) -> LoadResult:
    """The result without new inputs: a failure if paths were given and none has raw logs."""
    files = len(listing.inputs)
    if changes := summary.pop("setting_changes"):
        names = ", ".join(change.name for change in changes)
        kept = f"nothing was loaded, so the source keeps its settings without the new {names}"
        summary["warnings"] = (kept, *no_logs_warnings(listing))
    if files:
        loaded = f"{files} file{'s were' if files != 1 else ' was'} loaded before"
        return LoadResult(status="nothing", message=f"nothing to load: {loaded}", **summary)
    if not listing.without_logs:
        return LoadResult(status="nothing", message="nothing to load: no raw logs found", **summary)
    (problem,) = no_logs_warnings(listing)
    return LoadResult(status="failed", message=problem, **{**summary, "warnings": ()})


def run_in_process(
    run: Run, prepare: Callable[[Run], Commit] | None = None
) -> tuple[Commit, FinishResult]:
    """Start Spark and sync, as `pipeline.sync`; an internal error gets the path of Spark's log."""
    clock = run.lake.clock
    began = clock.monotonic()
    run.progress.step("start", 0, 1, 0)
    run.runner.session()
    started = clock.monotonic()
    try:
        result = run_sync(run, prepare)
    except Internal as problem:
        raise Internal(f"{problem}; Spark's log is {log_path()}") from problem
    run.timings |= {"spark_start": started - began, "total": clock.monotonic() - started}
    return result


def _run_as_job(run: Run, runner: AbstractContextManager[JobRunner]) -> tuple[Commit, FinishResult]:
    clock = run.lake.clock
    began = clock.monotonic()
    run.progress.step("submit", 0, 1, 0)
    with runner as ready:
        result = submit_run(run, ready)
    run.timings["total"] = clock.monotonic() - began
    return result


def make_result(
    commit: Commit, finished: FinishResult, summary: dict[str, Any], timings: dict[str, float]
) -> LoadResult:
    """The result of a run that committed."""
    problem = finished.problems.first
    return LoadResult(
        run_id=commit.run_id,
        status="partial" if problem else "finished",
        message=problem[0] if problem else "",
        counts=commit.counts,
        tables=commit.tables,
        timings={step: round(seconds, 3) for step, seconds in timings.items()},
        report=finished.report,
        **summary | {"warnings": (*summary["warnings"], *finished.notes)},
    )
