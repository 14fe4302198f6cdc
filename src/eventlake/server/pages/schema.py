"""The pages of a source's tables: sizes, columns, changes, SQL to copy."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.connections import Connection, get_connection
from eventlake.errors import EventLakeError
from eventlake.model.contents import TablePage
from eventlake.model.naming import Call, table_name
from eventlake.model.settings import validate_settings
from eventlake.model.types import Type
from eventlake.server.pages.base import (
    AdminPage,
    Form,
    OperatorPage,
    Renderer,
    ViewerPage,
    go,
    once,
    read_id,
)
from eventlake.server.pages.sources import SourceView, read_source, render_source
from eventlake.server.requests import Name
from eventlake.server.routes import connections, contents, corrections

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
        return _show_table(page, source, table, {})
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
        skipped=view.connection.resolved.skip_events if view.connection else (),
        off=_list_skipped(view, [one.table for one in found.items]),
        older=found.next,
        search=search,
        paged=bool(after),
        changes=changes.items,
        problem=problem,
    )


@router.post("/sources/{source}/schema")
def send_retype(page: OperatorPage, source: Name, form: Form) -> Response:
    """Plan another type of a column, and show the plan; on an error, show the form again."""
    values = {
        "source": source,
        "table": form.get("table", ""),
        "types": {form.get("column", ""): form.get("type", "")},
        "replay": bool(form.get("replay")),
        "dry_run": True,
    }
    try:
        body = validate_settings(corrections.NewPin, values)
        reply = corrections.retype_columns(body, page.caller, page.context, once(page.request))
    except EventLakeError as problem:
        return _show_table(page, source, form.get("table", ""), form, problem)
    return go(f"/runs/{read_id(reply)}", "started")


@router.post("/sources/{source}/skip")
def send_skip(page: AdminPage, source: Name, form: Form) -> Response:
    """Have events of a table skipped, or land again: change `skip_events` of the source."""
    table, is_off = form.get("table", ""), bool(form.get("skip"))
    with page.context.database.read() as session:
        connection = get_connection(session, source)
    skipped = connection.resolved.skip_events
    names = [one for one in skipped if not _is_of(one, table, connection)]
    changes = {"skip_events": [*names, table] if is_off else names}
    body = validate_settings(connections.ConnectionChange, {"settings": changes})
    connections.update_connection(
        source, body, page.caller, connection.version, page.context, Response()
    )
    path = f"/sources/{quote(source)}/schema?{urlencode({'table': table})}"
    return go(path, "skipped" if is_off else "landing")


def _show_table(
    page: Renderer,
    source: str,
    table: str,
    form: Mapping[str, str],
    problem: EventLakeError | None = None,
) -> HTMLResponse:
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
        retypable=[one.name for one in found.table.columns if not one.is_fixed],
        form={name: form.get(name, "") for name in ("column", "type", "replay")},
        problem=problem,
        is_skipped=found.table.summary.table in _list_skipped(view, [found.table.summary.table]),
    )


def _list_skipped(view: SourceView, tables: Sequence[str]) -> frozenset[str]:
    """Those of the tables that are switched off."""
    connection = view.connection
    if connection is None:
        return frozenset()
    skipped = connection.resolved.skip_events
    return frozenset(
        table for table in tables if any(_is_of(one, table, connection) for one in skipped)
    )


def _is_of(name: str, table: str, connection: Connection) -> bool:
    """Whether a name in `skip_events` is a table or an event of it."""
    return table in (name, table_name(Call.TRACK, name, connection.resolved.naming))
