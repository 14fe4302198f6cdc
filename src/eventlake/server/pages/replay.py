"""The pages of replays: what the archive has, the plan, the chunks, past ones."""

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from eventlake.control.replays import Replay
from eventlake.control.run_kinds import Chunking
from eventlake.errors import EventLakeError
from eventlake.model.contents import ArchiveDays
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import (
    Form,
    OperatorPage,
    Renderer,
    ViewerPage,
    go,
    once,
    read_id,
)
from eventlake.server.pages.sources import read_source, render_source
from eventlake.server.requests import Name, Number
from eventlake.server.routes import contents, replays

router = APIRouter()
PAGE_REPLAYS = 50
SHOWN_DAYS = 60
FIELDS = ("since", "until", "events", "chunk")


@router.get("/sources/{source}/replay")
def show_replays(page: ViewerPage, source: Name) -> HTMLResponse:
    """Show the archive's days, the form and the replays of a source."""
    return _render(page, source, {})


@router.post("/sources/{source}/replay")
def send_replay(page: OperatorPage, source: Name, form: Form) -> Response:
    """Plan a replay, and show the plan."""
    values = {
        "source": source,
        "since": form.get("since", "").strip(),
        "until": form.get("until", "").strip(),
        "all_time": bool(form.get("all_time")),
        "events": [one.strip() for one in form.get("events", "").splitlines() if one.strip()],
        "chunk": form.get("chunk") or Chunking.DAY,
        "dry_run": True,
    }
    try:
        body = validate_settings(replays.NewReplay, values)
        reply = replays.create_replay(body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        return _render(page, source, form, problem)
    return go(f"/replays/{read_id(reply)}")


@router.get("/replays/{replay}")
def show_replay(page: ViewerPage, replay: Number) -> HTMLResponse:
    """Show a replay with its plan and its chunks."""
    found = replays.show_replay(replay, page.caller, page.context)
    with page.context.database.read() as session:
        view = read_source(session, page, found.source)
    return render_source(page, view, "replay.html", "Replay", replay=found)


@router.post("/replays/{replay}/start")
def send_start(page: OperatorPage, replay: Number) -> Response:
    """Start a replay that was planned."""
    replays.begin_replay(replay, page.caller, page.context, once(page.request))
    return go(f"/replays/{replay}", "started")


@router.post("/replays/{replay}/cancel")
def send_cancel(page: OperatorPage, replay: Number) -> Response:
    """Cancel a replay."""
    replays.stop_replay(replay, page.caller, page.context)
    return go(f"/replays/{replay}", "cancelled")


@router.post("/replays/{replay}/resume")
def send_resume(page: OperatorPage, replay: Number) -> Response:
    """Continue a replay that was cancelled or failed."""
    replays.continue_replay(replay, page.caller, page.context, once(page.request))
    return go(f"/replays/{replay}", "started")


def _render(
    page: Renderer, source: str, form: dict[str, str], problem: EventLakeError | None = None
) -> HTMLResponse:
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    days, found = ArchiveDays(), tuple[Replay, ...]()
    if view.connection:
        try:
            days = contents.show_archive(source, page.caller, page.context)
        except EventLakeError as error:
            problem = problem or error
        past = replays.show_replays(page.caller, page.context, source, None, PAGE_REPLAYS)
        found = past.items
    return render_source(
        page,
        view,
        "replays.html",
        "Replay",
        days=days.items[-SHOWN_DAYS:],
        more_days=max(0, len(days.items) - SHOWN_DAYS),
        replays=found,
        chunkings=[one.value for one in Chunking],
        form={name: form.get(name, "") for name in FIELDS},
        problem=problem,
    )
