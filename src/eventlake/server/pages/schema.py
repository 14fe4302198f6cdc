"""The pages of a source's tables: sizes, columns, changes, SQL to copy."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.errors import EventLakeError
from eventlake.model.contents import TablePage
from eventlake.model.settings import validate_settings
from eventlake.model.types import Type
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
from eventlake.server.routes import contents, corrections

router = APIRouter()
PAGE_TABLES = 100
PAGE_CHANGES = 50

Part = Annotated[str, Query(max_length=300)]


@router.get("/sources/{source}/schema")
def show_schema(
    page: ViewerPage, source: Name, table: Part = "", search: Part = "", after: Part = ""
) -> HTMLResponse:
    """Show the tables of a source, or one of them."""
    if table:
        return _show_table(page, source, table)
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    found, problem = TablePage(), None
    if view.connection:
        try:
            found = contents.show_schema(
                source, page.caller, page.context, search.strip(), after, PAGE_TABLES
            )
        except EventLakeError as error:
            problem = error
    changes = contents.show_changes(source, page.caller, page.context, "", None, PAGE_CHANGES)
    return render_source(
        page,
        view,
        "schema.html",
        "Schema",
        tables=found.items,
        total=found.total,
        older=found.next,
        search=search,
        paged=bool(after),
        changes=changes.items,
        problem=problem,
    )


@router.post("/sources/{source}/retype")
def send_retype(page: OperatorPage, source: Name, form: Form) -> Response:
    """Plan another type of a column, and show the plan."""
    values = {
        "source": source,
        "table": form.get("table", ""),
        "types": {form.get("column", ""): form.get("type", "")},
        "replay": bool(form.get("replay")),
        "dry_run": True,
    }
    body = validate_settings(corrections.NewPin, values)
    reply = corrections.retype_columns(body, page.caller, page.context, once(page.request))
    return go(f"/runs/{read_id(reply)}", "started")


def _show_table(page: Renderer, source: str, table: str) -> HTMLResponse:
    with page.context.database.read() as session:
        view = read_source(session, page, source)
    found = contents.show_table(source, page.caller, page.context, table)
    changes = contents.show_changes(source, page.caller, page.context, table, None, PAGE_CHANGES)
    return render_source(
        page,
        view,
        "table.html",
        "Schema",
        table=found.table,
        first_seen=found.first_seen,
        changes=changes.items,
        types=[one.value for one in Type],
    )
