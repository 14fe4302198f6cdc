"""The page of queries: SQL over a lake, a grid and a chart of the result, files, saved queries."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.connections import list_connections
from eventlake.control.lakes import list_lakes
from eventlake.control.queries import list_queries
from eventlake.control.roles import Role
from eventlake.errors import EventLakeError
from eventlake.model.contents import QueryResult, TableSummary
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import Form, OperatorPage, Renderer, ViewerPage, go, once
from eventlake.server.pages.charts import BarChart, draw_bars
from eventlake.server.requests import Number
from eventlake.server.routes import contents

router = APIRouter()
MAX_SHOWN = 1000
MAX_BARS = 60
SIDE_TABLES = 50


class Shown(NamedTuple):
    """A query with its result, as the page shows it."""

    lake: str = ""
    sql: str = ""
    chart: str = ""
    result: QueryResult | None = None
    problem: EventLakeError | None = None


@router.get("/query")
def show_query(
    page: ViewerPage,
    saved: Annotated[int, Query(ge=0, le=2**53)] = 0,
    sql: Annotated[str, Query(max_length=10_000)] = "",
) -> HTMLResponse:
    """Show the editor, with a saved query if one is chosen."""
    if saved and page.caller.role.may(Role.OPERATOR):
        with page.context.database.read() as session:
            for one in list_queries(session):
                if one.id == saved:
                    return _render(page, Shown(one.lake, one.sql))
    return _render(page, Shown(sql=sql))


@router.post("/query")
def send_query(page: OperatorPage, form: Form) -> Response:
    """Run a query, and show the result or send it as a file; or save the query."""
    values = {"sql": form.get("sql", ""), "lake": form.get("lake", "")}
    shown = Shown(values["lake"], values["sql"], form.get("chart", ""))
    try:
        if form.get("save"):
            named = {**values, "name": form.get("name", "")}
            body = validate_settings(contents.NewSavedQuery, named)
            contents.keep_query(body, page.caller, page.context, once(page.request))
            return go("/query", "saved")
        wanted = {**values, "format": form.get("format") or "json"}
        query = validate_settings(contents.NewQuery, wanted)
        reply = contents.ask(query, page.caller, page.context)
    except EventLakeError as problem:
        return _render(page, shown._replace(problem=problem))
    if query.format != "json":
        return reply
    return _render(page, shown._replace(result=QueryResult.from_json(bytes(reply.body))))


@router.post("/query/{query}/remove")
def send_removal(page: OperatorPage, query: Number) -> Response:
    """Remove a saved query."""
    contents.delete_query(query, page.caller, page.context)
    return go("/query", "removed")


def _render(page: Renderer, shown: Shown) -> HTMLResponse:
    if not page.caller.role.may(Role.OPERATOR):
        return page.render("query.html", is_allowed=False)
    with page.context.database.read() as session:
        lakes, saved = list_lakes(session), list_queries(session)
        sources = [one.source for one in list_connections(session)]
    result = shown.result
    return page.render(
        "query.html",
        shown.problem,
        is_allowed=True,
        lakes=[one.slug for one in lakes],
        lake=shown.lake,
        sql=shown.sql,
        chart_kind=shown.chart,
        chart=_draw(result, shown.chart) if result and shown.chart else None,
        result=result,
        rows=result.rows[:MAX_SHOWN] if result else (),
        saved=saved,
        tables=_list_tables(page, sources),
    )


def _list_tables(page: Renderer, sources: list[str]) -> list[TableSummary]:
    """Tables whose names can be inserted; those of sources that cannot be read are left out."""
    found: list[TableSummary] = []
    for source in sources[:10]:
        try:
            part = contents.show_schema(source, page.caller, page.context, "", "", SIDE_TABLES)
            found += part.items
        except EventLakeError:
            continue
    return found


def _draw(result: QueryResult, kind: str) -> BarChart | None:
    """The last column of numbers by the first column, as bars or as a line."""
    if kind not in ("bar", "line") or len(result.columns) < 2 or not result.rows:
        return None
    numbers = [at for at in range(1, len(result.columns)) if _are_numbers(result, at)]
    if not numbers:
        return None
    rows = result.rows[:MAX_BARS]
    values = [(row[0] or "", float(row[numbers[-1]] or 0), "") for row in rows]
    return draw_bars(values, max(1, len(values) // 8))


def _are_numbers(result: QueryResult, at: int) -> bool:
    kind = result.columns[at].type
    return kind.startswith(("int", "uint", "double", "float", "decimal"))
