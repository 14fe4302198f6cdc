"""Drop: remove the tables of a source, or some of them, with their files, in one commit."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, State
from eventlake.model.commit import (
    Commit,
    CommitKind,
    Counts,
    DataFile,
    IdFile,
    Plan,
    Replacement,
    Rewrite,
    TableCommit,
)
from eventlake.model.tables import table_path
from eventlake.model.values import FrozenModel
from eventlake.pipeline.history import History, read_history
from eventlake.pipeline.recover import find_unfinished_runs, recover
from eventlake.pipeline.removed_ids import removed_id_files, removed_ids_task
from eventlake.pipeline.results import DedupeResult
from eventlake.pipeline.sync import Run, removed_ids_job, sync
from eventlake.ports import NoProgress, Progress
from eventlake.runners.local import LocalSpark
from eventlake.services.replay import (
    TablePlan,
    find_ledger,
    find_tables,
    plan_tables,
    retry_on_conflict,
)


class DropResult(FrozenModel):
    """What was dropped, or would be."""

    source: str
    lake: str
    status: str
    message: str = ""
    run_id: str = ""
    tables: tuple[TablePlan, ...]
    is_whole: bool
    """Whether all tables are dropped, so that all raw logs count as not loaded."""
    bytes: int
    adopted_files: int
    """Files that another program wrote: no raw log can bring them back."""


def plan_drop(
    source: str,
    *,
    lake: str | Path | Lake,
    tables: Sequence[str] = (),
    clock: Clock = SYSTEM_CLOCK,
) -> DropResult:
    """Plan a drop without writing anything."""
    parts = open_parts(lake, clock=clock)
    ledger = find_ledger(parts, source)
    state = find_unfinished_runs(ledger, clock.now()).state
    plan, history = _make_plan(parts, ledger, state, tables)
    return _make_result(parts, plan, history, status="planned")


def drop(
    source: str,
    *,
    lake: str | Path | Lake,
    tables: Sequence[str] = (),
    progress: Progress | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> DropResult:
    """Drop tables with their files and catalog entries in one commit.

    Without `tables`, all of the source are dropped with the quarantine, and its raw logs can be
    loaded again. Otherwise the raw logs stay loaded, and a replay can build the tables again.
    """
    progress = progress or NoProgress()
    parts = open_parts(lake, clock=clock)
    ledger = find_ledger(parts, source)

    def attempt() -> DropResult:
        dead, state, _ = recover(parts, ledger, progress)
        plan, history = _make_plan(parts, ledger, state, tables)
        if not plan.removes and not state.inputs and not state.tables:
            return _make_result(parts, plan, history, status="nothing")
        run = Run(parts, ledger, LocalSpark(), plan, progress, dead=dead)
        commit, finished = sync(run, _prepare_commit)
        problem = finished.problems.first
        status, message = ("partial", problem[0]) if problem else ("finished", "")
        result = _make_result(parts, plan, history, status=status)
        return result.model_copy(update={"message": message, "run_id": commit.run_id})

    return retry_on_conflict(attempt)


def _make_plan(
    parts: Lake, ledger: Ledger, state: State, names: Sequence[str]
) -> tuple[Plan, History]:
    assert state.settings  # the ledger has commits
    history = read_history(ledger, state.sequence)
    tables = find_tables(names, state.settings, state.tables, state.tables)
    removes: dict[str, tuple[DataFile, ...]] = {
        name: tuple(history.files[name].values()) for name in tables or sorted(state.tables)
    }
    plan = Plan(
        run_id=f"{parts.clock.time_ns():019d}",
        settings=state.settings,
        base=state.sequence,
        inputs=(),
        tables=state.tables,
        replaces=Replacement(base=state.sequence, tables=tables),
        removes=removes,
    )
    return plan, history


def _prepare_commit(run: Run) -> Commit:
    """Write the ids of the dropped rows into the stage; return the commit to append."""
    plan = run.plan
    assert plan.replaces
    return Commit(
        run_id=plan.run_id,
        settings=plan.settings,
        kind=CommitKind.DROP,
        inputs=(),
        counts=Counts(),
        tables=tuple(
            TableCommit(table=plan.tables[name], counts=Counts(), dropped=True, removes=files)
            for name, files in plan.removes.items()
        ),
        removed_ids=() if plan.replaces.is_whole else _write_removed_ids(run),
        deletes=_list_kept_files(run),
        rewrites=_remove_quarantine(run) if plan.replaces.is_whole else (),
        abandons=run.dead,
        replaces=plan.replaces,
    )


def _list_kept_files(run: Run) -> tuple[str, ...]:
    """The files of the dropped tables that earlier runs replaced and kept."""
    layout, plan = run.lake.layout, run.plan
    tables = (plan.tables[name] for name in plan.removes)
    folders = tuple(f"{table_path(layout, plan.settings, one)}/" for one in tables)
    return tuple(path for path in run.ledger.read_state().kept_files if path.startswith(folders))


def _remove_quarantine(run: Run) -> tuple[Rewrite, ...]:
    return tuple(Rewrite(path=path) for path in run.ledger.list_quarantine())


def _write_removed_ids(run: Run) -> tuple[IdFile, ...]:
    """Write the ids of the dropped rows in this process: starting Spark would take longer."""
    job = removed_ids_job(run)
    answers = [removed_ids_task(job, number) for number in range(len(job.tasks))]
    results = [msgspec.json.decode(answer, type=DedupeResult) for answer in answers]
    settings = run.plan.settings
    return removed_id_files(run.lake.layout, settings.folder, run.plan.run_id, results)


def _make_result(parts: Lake, plan: Plan, history: History, status: str) -> DropResult:
    files = [file for of_table in plan.removes.values() for file in of_table]
    return DropResult(
        source=plan.settings.source,
        lake=parts.store.root,
        status=status,
        tables=plan_tables(plan),
        is_whole=plan.replaces is not None and plan.replaces.is_whole,
        bytes=sum(file.bytes for file in files),
        adopted_files=sum(file.path in history.adopted for file in files),
    )
