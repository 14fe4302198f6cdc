"""Land raw logs in a lake: plan, run here or on a cluster, return what happened."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic import Field

from eventlake import archive
from eventlake.claims import check_claims
from eventlake.collect.source import archive_folder, resolve_settings
from eventlake.errors import EventLakeError, Internal
from eventlake.lakes import open_job_runner, open_parts
from eventlake.ledger import Ledger, State
from eventlake.model.commit import Commit, Counts, TableCommit
from eventlake.model.naming import catalog_name
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel
from eventlake.pipeline.finish import Finished
from eventlake.pipeline.plan import (
    Leftovers,
    check_settings,
    find_leftovers,
    make_plan,
    recover,
    warnings,
)
from eventlake.pipeline.submit import submit
from eventlake.pipeline.sync import Run
from eventlake.pipeline.sync import sync as run_sync
from eventlake.ports import JobRunner, NoProgress, Progress, SparkProvider
from eventlake.runners.local import LocalSpark, log_path
from eventlake.services.inputs import (
    archived_days,
    check_source,
    holders_of,
    in_lake,
    naming_streams,
    with_streams,
    without_logs,
)


class LoadResult(FrozenModel):
    """What a load did."""

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
    timings: dict[str, float] = Field(default_factory=dict)
    report: str = ""
    warnings: tuple[str, ...] = ()


class LoadPlan(FrozenModel):
    """What a load would do."""

    source: str
    lake: str
    files: tuple[str, ...]
    """The files that would be read."""
    bytes: int
    already_loaded: int
    pipes: tuple[str, ...] = ()
    """What would be read once, into the archive first."""
    passed_over: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    """The tables that the source has, as `database.table`."""
    runs_to_finish: int = 0
    """Runs that crashed after their commit and would be finished first."""
    stages_to_remove: int = 0
    """Runs that crashed before their commit and whose stage would be removed."""
    warnings: tuple[str, ...] = ()


def plan_load(
    paths: Sequence[str | Path], *, lake: str | Path, settings: SourceSettings
) -> LoadPlan:
    """Find out what a load would do, and write nothing."""
    parts = open_parts(lake, make=True)
    settings = settings.of_workspace(parts.workspace)
    found = archive.find(paths, holders_of(paths, parts.store))
    leftovers = Leftovers(State(), {}, ())
    if parts.store.is_there:
        leftovers = find_leftovers(Ledger(parts.store, settings.folder))
        check_claims(parts.store, settings)
    state = leftovers.state
    check_settings(state, settings)
    fresh = [one for one in found.inputs if not state.has_loaded(one)]
    return LoadPlan(
        source=settings.source,
        lake=parts.store.root,
        files=tuple(one.uri for one in fresh),
        bytes=sum(one.size for one in fresh),
        already_loaded=len(found.inputs) - len(fresh),
        pipes=tuple(found.streams),
        passed_over=found.passed_over,
        tables=tuple(
            f"{settings.database}.{catalog_name(name, settings.table_prefix)}"
            for name in sorted(state.tables)
        ),
        runs_to_finish=len(leftovers.to_finish),
        stages_to_remove=len(leftovers.uncommitted),
        warnings=warnings(state, settings) + without_logs(found),
    )


def plan_sync(
    source: str, *, lake: str | Path, changes: Mapping[str, object] | None = None
) -> LoadPlan:
    """Find out what a sync would do, and write nothing."""
    store = open_parts(lake).store
    settings = resolve_settings(store, source, **changes or {})
    check_source(store, settings)
    days = archived_days(store, archive_folder(settings))
    return plan_load(days, lake=lake, settings=settings)


def load(  # noqa: PLR0913 - each is a thing of its own that a user may say
    paths: Sequence[str | Path],
    *,
    lake: str | Path,
    settings: SourceSettings,
    master: str = "local[*]",
    keep_raw: bool = False,
    suppressed: Iterable[str] = (),
    temporary_cluster: bool = False,
    progress: Progress | None = None,
    spark: SparkProvider | None = None,
) -> LoadResult:
    """Land the events of raw logs that were not loaded before: here, or on the lake's cluster.

    `spark` provides the session of a run that is here; without it, one is started on `master`.
    """
    progress = progress or NoProgress()
    parts = open_parts(lake, make=True)
    cluster = open_job_runner(lake, parts.store, temporary=temporary_cluster)
    settings = settings.of_workspace(parts.workspace)
    ledger = Ledger(parts.store, settings.folder)
    progress.step("plan", 0, 1, 0)
    holders = holders_of(paths, parts.store)
    found = archive.find(paths, holders)
    dead, state = recover(parts, ledger, progress)
    check_claims(parts.store, settings)
    check_settings(state, settings)
    found = with_streams(found, parts.store, settings.folder, progress)
    fresh = tuple(one for one in found.inputs if not state.has_loaded(one))
    if keep_raw:
        fresh = archive.keep(fresh, parts.store, settings.folder, holders)
    elif cluster:
        fresh = in_lake(fresh, parts.store, settings.folder, holders)
    # A sync may have landed a copy whose load was killed, without knowing the original.
    fresh = tuple(one for one in fresh if not state.has_loaded(one))
    said: dict[str, Any] = {
        "source": settings.source,
        "lake": parts.store.root,
        "files": len(fresh),
        "already_loaded": len(found.inputs) - len(fresh),
        "passed_over": found.passed_over,
        "warnings": warnings(state, settings) + without_logs(found),
    }
    if not fresh:
        return _nothing_to_load(found, said)
    plan = make_plan(state, settings, fresh)
    spark = spark or LocalSpark(master)
    run = Run(parts, ledger, spark, plan, progress, frozenset(suppressed), dead, holders)
    with naming_streams(found, settings.source):
        commit, finished = _here(run) if cluster is None else _there(run, cluster)
    return _result(commit, finished, said, run.timings)


def sync(  # noqa: PLR0913 - as above
    source: str,
    *,
    lake: str | Path,
    changes: Mapping[str, object] | None = None,
    master: str = "local[*]",
    suppressed: Iterable[str] = (),
    temporary_cluster: bool = False,
    progress: Progress | None = None,
    spark: SparkProvider | None = None,
) -> LoadResult:
    """Land what the source's archive has got since the last time.

    Settings are those of the last load with `changes` on top; a first one begins from the defaults.
    """
    store = open_parts(lake).store
    settings = resolve_settings(store, source, **changes or {})
    check_source(store, settings)
    return load(
        archived_days(store, archive_folder(settings)),
        lake=lake,
        settings=settings,
        master=master,
        suppressed=suppressed,
        temporary_cluster=temporary_cluster,
        progress=progress,
        spark=spark,
    )


def _nothing_to_load(found: archive.Found, said: dict[str, Any]) -> LoadResult:
    """A success when all that was asked for is loaded; a failure when there was no log at all."""
    files = len(found.inputs)
    if files:
        loaded = f"{files} file{'s were' if files != 1 else ' was'} loaded before"
        return LoadResult(status="nothing", message=f"nothing to load: {loaded}", **said)
    if not found.without_logs:
        return LoadResult(status="nothing", message="nothing to load: no raw logs found", **said)
    (problem,) = without_logs(found)
    return LoadResult(status="failed", message=problem, **{**said, "warnings": ()})


def _here(run: Run) -> tuple[Commit, Finished]:
    began = perf_counter()
    run.progress.step("start", 0, 1, 0)
    run.runner.session()
    started = perf_counter()
    done = _guarded(run)
    run.timings |= {"spark_start": started - began, "total": perf_counter() - started}
    return done


def _there(run: Run, cluster: AbstractContextManager[JobRunner]) -> tuple[Commit, Finished]:
    began = perf_counter()
    run.progress.step("upload", 0, 1, 0)
    with cluster as ready:
        done = submit(run, ready)
    run.timings["total"] = perf_counter() - began
    return done


def _guarded(run: Run) -> tuple[Commit, Finished]:
    try:
        return run_sync(run)
    except EventLakeError as problem:
        if isinstance(problem, Internal):
            raise Internal(f"{problem}; Spark's log is {log_path()}") from problem
        raise


def _result(
    commit: Commit, finished: Finished, said: dict[str, Any], timings: dict[str, float]
) -> LoadResult:
    problem = finished.problems.first
    return LoadResult(
        run_id=commit.run_id,
        status="partial" if problem else "finished",
        message=problem[0] if problem else "",
        counts=commit.counts,
        tables=commit.tables,
        timings={stage: round(seconds, 3) for stage, seconds in timings.items()},
        report=finished.report,
        **said | {"warnings": (*said["warnings"], *finished.notes)},
    )
