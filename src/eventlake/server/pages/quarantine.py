"""The pages of the quarantine: reasons by day, lines with the fault marked, and the redrive."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.roles import Role
from eventlake.errors import EventLakeError
from eventlake.model.quarantine import QuarantinedLine, QuarantinePage, QuarantineSummary
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
from eventlake.server.requests import Name
from eventlake.server.routes import corrections

router = APIRouter()
PAGE_LINES = 50
_POSITION = re.compile(r"(?:char|byte|position) (\d+)")

Reason = Annotated[str, Query(pattern=r"^[!-~]{0,64}$")]
After = Annotated[str, Query(pattern=r"^[!-~]{0,254}$")]


class LinesShown(NamedTuple):
    """Which lines the page lists, and the number of the one that is shown whole."""

    reason: str = ""
    after: str = ""
    number: int = -1


class Piece(NamedTuple):
    """A part of a line, and whether the fault is in it."""

    text: str
    is_fault: bool


@router.get("/sources/{source}/quarantine")
def show_quarantine(
    page: ViewerPage,
    source: Name,
    reason: Reason = "",
    after: After = "",
    show: Annotated[int, Query(ge=-1, le=500)] = -1,
) -> HTMLResponse:
    """Show the reasons by day, and lines to operators; `show` is the number of one on the page."""
    return _render(page, source, LinesShown(reason, after, show), {"reason": reason})


@router.post("/sources/{source}/quarantine")
def send_redrive(page: OperatorPage, source: Name, form: Form) -> Response:
    """Start a redrive, or a dry run of one; on an error, show the form again."""
    values = {
        "source": source,
        "reasons": [form["reason"]] if form.get("reason") else [],
        "since": form.get("since", "").strip(),
        "fields": [one.strip() for one in form.get("fields", "").splitlines() if one.strip()],
        "dry_run": bool(form.get("dry_run")),
    }
    try:
        body = validate_settings(corrections.NewRedrive, values)
        reply = corrections.redrive_lines(body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        return _render(page, source, LinesShown(), form, problem)
    return go(f"/runs/{read_id(reply)}", "started")


def _render(
    page: Renderer,
    source: str,
    shown: LinesShown,
    form: Mapping[str, str],
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    found, summary = QuarantinePage(items=()), QuarantineSummary(items=())
    if view.connection:
        try:
            summary = corrections.show_reasons(page.caller, page.context, source)
            if page.caller.role.may(Role.OPERATOR):
                found = corrections.show_quarantine(
                    page.caller,
                    page.context,
                    source,
                    shown.reason,
                    shown.after or None,
                    PAGE_LINES,
                )
        except EventLakeError as error:
            problem = problem or error
    chosen = found.items[shown.number] if 0 <= shown.number < len(found.items) else None
    return render_source(
        page,
        view,
        "quarantine.html",
        "Quarantine",
        summary=summary.items,
        reasons=sorted({one.reason for one in summary.items}),
        total=sum(one.lines for one in summary.items),
        lines=found.items,
        older=found.next,
        reason=shown.reason,
        paged=bool(shown.after),
        chosen=chosen,
        pieces=mark_fault(chosen) if chosen else [],
        form={name: form.get(name, "") for name in ("reason", "since", "fields")},
        problem=problem,
    )


def mark_fault(line: QuarantinedLine) -> list[Piece]:
    """A line, indented if it is JSON, with the field that the detail names marked."""
    try:
        text = json.dumps(json.loads(line.raw), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return _mark_position(line)
    words = [word.strip("'\"`:,.()") for word in line.detail.split()]
    for word in filter(None, words):
        for part in (f'"{word}":', f'"{word}"'):
            if part in text:
                return _cut(text, _start_of_line(text, text.index(part)))
    return _cut(text, 0)


def _start_of_line(text: str, at: int) -> int:
    start = text.rfind("\n", 0, at) + 1
    return start + len(text[start:]) - len(text[start:].lstrip())


def _cut(text: str, at: int) -> list[Piece]:
    """The text with the rest of the line at a position marked."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return [Piece(text[:at], False), Piece(text[at:end], True), Piece(text[end:], False)]


def _mark_position(line: QuarantinedLine) -> list[Piece]:
    """A line that is not JSON: marked from the position that the detail names, else as a whole."""
    found = _POSITION.search(line.detail)
    at = min(int(found[1]), len(line.raw) - 1) if found else 0
    return [Piece(line.raw[: max(0, at)], False), Piece(line.raw[max(0, at) :], True)]
