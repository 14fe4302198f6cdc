"""The page that shows the workspace as one file, and changes it to another."""

import json

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from eventlake.control.apply import Plan
from eventlake.control.declaration import Declaration
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import AdminPage, Form, Renderer, ViewerPage, go
from eventlake.server.routes import declaration as routes

router = APIRouter()


@router.get("/admin/code")
def show_code(page: ViewerPage) -> HTMLResponse:
    """Show the workspace as JSON."""
    return _render(page, _export(page))


@router.post("/admin/code")
def send_code(page: AdminPage, form: Form) -> Response:
    """Show what would change, or change it."""
    text = form.get("text", "")
    try:
        declared = _parse(text)
        is_dry = not form.get("apply")
        plan = routes.apply_workspace(declared, page.caller, page.context, is_dry)
    except EventLakeError as problem:
        return _render(page, text, problem=problem)
    return _render(page, text, plan) if is_dry else go("/admin/code", "saved")


def _parse(text: str) -> Declaration:
    try:
        return validate_settings(Declaration, json.loads(text))
    except (ValueError, RecursionError) as problem:
        raise InvalidSettings(f"this is not JSON: {problem}") from problem


def _export(page: Renderer) -> str:
    found = routes.export_workspace(page.caller, page.context)
    return found.model_dump_json(indent=2, exclude_defaults=True)


def _render(
    page: Renderer,
    text: str,
    plan: Plan | None = None,
    problem: EventLakeError | None = None,
) -> HTMLResponse:
    return page.render("admin_code.html", problem, text=text, plan=plan)
