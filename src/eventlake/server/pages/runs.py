"""The pages of runs: the list of all, and one with its stages, books and errors."""

from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.connections import list_connections
from eventlake.control.history import RunFilter, get_summary, list_history
from eventlake.control.results import TableResult, list_results
from eventlake.control.run_kinds import LANES, Kind
from eventlake.control.runs import Run, RunState, find_confirmation
from eventlake.control.supervisor import LOG
from eventlake.errors import NotFound
from eventlake.model.settings import validate_settings
from eventlake.runners.local import log_folder
from eventlake.server.pages.base import OperatorPage, Renderer, ViewerPage, go, once, read_id
from eventlake.server.pages.charts import draw_stages
from eventlake.server.pages.run_texts import explain_error, find_started_attempt, list_options
from eventlake.server.pages.sources import After, Word
from eventlake.server.requests import Number
from eventlake.server.routes import runs as routes

router = APIRouter()
PAGE_RUNS = 50
PAGE_TABLES = 100
CONFIRMED = (Kind.REDRIVE, Kind.RETYPE, Kind.COMPACT)
"""The kinds whose dry run can be carried out from its page."""


@router.get("/runs")
def show_runs(
    page: ViewerPage, state: Word = "", kind: Word = "", after: After = None
) -> HTMLResponse:
    """Show the runs of all sources."""
    wanted = RunFilter(state=state, kind=kind)
    with page.context.database.read() as session:
        found = list_history(session, "", wanted, before=after, limit=PAGE_RUNS + 1)
    return page.render(
        "runs.html",
        history=found[:PAGE_RUNS],
        wanted=wanted,
        states=[one.value for one in RunState],
        kinds=list(LANES),
        older=found[PAGE_RUNS - 1].run.id if len(found) > PAGE_RUNS else None,
        paged=after is not None,
    )


@router.get("/runs/{run}")
def show_run(
    page: ViewerPage, run: Number, tables: Annotated[int, Query(ge=1, le=100_000)] = PAGE_TABLES
) -> HTMLResponse:
    """Show a run."""
    with page.context.database.read() as session:
        summary = get_summary(session, run)
        if summary is None:
            raise NotFound(f"run is {run}: the workspace has no such run")
        found = sorted((one for one in list_results(session, run) if one.table), key=_importance)
        lakes = {one.source: one.lake for one in list_connections(session)}
        can_confirm = _can_confirm(summary.run)
        done_by = find_confirmation(session, summary.run) if can_confirm else None
    one = routes.show_to(page.caller, summary.run)
    return page.render(
        "run.html",
        summary=summary,
        run=one,
        tables=found[:tables],
        more_tables=len(found) if len(found) > tables else None,
        stages=draw_stages(str(one.progress.get("stage", ""))),
        timings=_list_timings(one),
        rate=_find_rate(one, summary.counts.rows if summary.counts else 0, page),
        cause=explain_error(one),
        lake=lakes.get(summary.source, ""),
        options=list_options(one),
        started_attempt=find_started_attempt(one),
        has_result=any(value not in (None, "", [], {}) for value in (one.result or {}).values()),
        can_confirm=can_confirm,
        done_by=done_by,
        log=log_folder() / LOG,
    )


@router.post("/runs/{run}/cancel")
def send_cancel(page: OperatorPage, run: Number) -> Response:
    """Cancel a run."""
    routes.stop_run(run, page.caller, page.context)
    return go(f"/runs/{run}", "cancelled")


@router.post("/runs/{run}/retry")
def send_retry(page: OperatorPage, run: Number) -> Response:
    """Run again what failed, was cancelled or is partial."""
    reply = routes.repeat_run(run, page.caller, page.context, once(page.request))
    return go(f"/runs/{read_id(reply)}", "started")


@router.post("/runs/{run}/confirm")
def send_confirmation(page: OperatorPage, run: Number) -> Response:
    """Do what a dry run has planned."""
    with page.context.database.read() as session:
        summary = get_summary(session, run)
    if summary is None:
        raise NotFound(f"run is {run}: the workspace has no such run")
    plan = summary.run
    values = {"source": summary.source, "kind": plan.kind, "parameters": plan.parameters}
    body = validate_settings(routes.NewRun, values)
    reply = routes.start_run(body, page.caller, page.context, once(page.request))
    return go(f"/runs/{read_id(reply)}", "started")


def _can_confirm(run: Run) -> bool:
    return run.dry_run and run.kind in CONFIRMED and run.plan is not None


def _importance(one: TableResult) -> tuple[bool, int, str]:
    """Tables with an error first, then the largest."""
    return (not one.error_code, -one.rows, one.table)


class Timing(NamedTuple):
    """A stage of a run, and how long it took."""

    stage: str
    at: datetime
    took: timedelta | None


def _list_timings(run: Run) -> list[Timing]:
    ends = [*(one.at for one in run.stages[1:]), run.ended_at]
    return [
        Timing(one.stage, one.at, end - one.at if end else None)
        for one, end in zip(run.stages, ends, strict=False)
    ]


def _find_rate(run: Run, landed: int, page: Renderer) -> float | None:
    """Rows a second: of a run that has ended, or so far."""
    if run.started_at is None:
        return None
    seconds = ((run.ended_at or page.context.clock.now()) - run.started_at).total_seconds()
    rows = landed if run.ended_at else int(run.progress.get("rows", 0))
    return round(rows / seconds) if rows and seconds > 0 else None
