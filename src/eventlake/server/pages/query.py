"""The page of queries: SQL over a lake, a grid and a chart of the result, files, saved queries."""

from collections.abc import Sequence
from math import nan
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from eventlake.control.connections import list_connections
from eventlake.control.lakes import list_lakes
from eventlake.control.queries import list_queries
from eventlake.control.roles import Role
from eventlake.errors import EventLakeError
from eventlake.model.contents import QueryResult
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
from eventlake.server.pages.charts import BarChart, can_draw, draw_bars
from eventlake.server.pages.formats import number
from eventlake.server.requests import Number
from eventlake.server.routes import contents

router = APIRouter()
MAX_SHOWN = 1000
MAX_BARS = 60
MAX_TABLES = 1000
MAX_SOURCES = 20
"""Tables that are listed, and sources that are read for them: each costs a request to the lake."""


class Drawn(NamedTuple):
    """The chart of a result if there can be one, and what the reader should know about it."""

    chart: BarChart | None
    note: str


class Unlisted(NamedTuple):
    """A source of which not all tables are listed."""

    source: str
    reason: str


class Shown(NamedTuple):
    """A query with its result, as the page shows it."""

    lake: str = ""
    sql: str = ""
    name: str = ""
    """Under which it is saved."""
    chart: str = ""
    result: QueryResult | None = None
    problem: EventLakeError | None = None


@router.get("/query")
def show_query(
    page: ViewerPage,
    saved: Annotated[int, Query(ge=0, le=2**53)] = 0,
    sql: Annotated[str, Query(max_length=10_000)] = "",
    lake: Annotated[str, Query(pattern=r"^[!-~]{0,254}$")] = "",
) -> HTMLResponse:
    """Show the editor, with a saved query if one is chosen."""
    if saved and page.caller.role.may(Role.OPERATOR):
        with page.context.database.read() as session:
            for one in list_queries(session):
                if one.id == saved:
                    return _render(page, Shown(one.lake, one.sql, one.name))
    return _render(page, Shown(lake, sql))


@router.post("/query")
def send_query(page: OperatorPage, form: Form) -> Response:
    """Run a query, and show the result or send it as a file; or save it, or show another lake."""
    values = {"sql": form.get("sql", ""), "lake": form.get("lake", "")}
    shown = Shown(values["lake"], values["sql"], form.get("name", ""), form.get("chart", ""))
    if form.get("show"):
        return _render(page, shown)
    try:
        if form.get("save"):
            return _save(page, {**values, "name": shown.name})
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


def _save(page: Renderer, values: dict[str, str]) -> Response:
    body = validate_settings(contents.NewSavedQuery, values)
    with page.context.database.read() as session:
        known = {one.name for one in list_queries(session)}
    reply = contents.keep_query(body, page.caller, page.context, once(page.request))
    done = "replaced" if body.name.strip() in known else "saved"
    return go(f"/query?saved={read_id(reply)}", done)


def _render(page: Renderer, shown: Shown) -> HTMLResponse:
    if not page.caller.role.may(Role.OPERATOR):
        return page.render("query.html", is_allowed=False)
    with page.context.database.read() as session:
        lakes = [one.slug for one in list_lakes(session)]
        lake = shown.lake if shown.lake in lakes else next(iter(lakes), "")
        sources = [one.source for one in list_connections(session) if one.lake == lake]
        saved = list_queries(session)
    tables, unlisted = _list_tables(page, sources)
    result = shown.result
    return page.render(
        "query.html",
        shown.problem,
        is_allowed=True,
        lakes=lakes,
        lake=lake,
        sql=shown.sql,
        name=shown.name,
        chart_kind=shown.chart,
        drawn=_draw(result, shown.chart) if result and shown.chart else None,
        result=result,
        rows=result.rows[:MAX_SHOWN] if result else (),
        saved=saved,
        tables=tables,
        unlisted=unlisted,
    )


def _list_tables(page: Renderer, sources: Sequence[str]) -> tuple[list[str], list[Unlisted]]:
    """The full names of the tables of a lake's sources, and what could not be listed."""
    names: list[str] = []
    unlisted = []
    for source in sources[:MAX_SOURCES]:
        room = max(1, MAX_TABLES - len(names))
        try:
            part = contents.show_schema(source, page.caller, page.context, "", "", room)
        except EventLakeError as problem:
            unlisted.append(Unlisted(source, str(problem)))
            continue
        names += [f"{one.database}.{one.table}" for one in part.items]
        more = part.total - len(part.items)
        if more:
            unlisted.append(Unlisted(source, f"{number(more)} more table{'s' if more > 1 else ''}"))
    unlisted += [Unlisted(source, "see its schema") for source in sources[MAX_SOURCES:]]
    return names, unlisted


def _draw(result: QueryResult, kind: str) -> Drawn:
    """The last column of numbers by the first column, as bars or as a line."""
    numbers = [at for at in range(1, len(result.columns)) if _are_numbers(result, at)]
    if kind not in ("bar", "line") or not numbers or not result.rows:
        return Drawn(None, "No chart: it takes a first column for the labels, a column of numbers.")
    rows = result.rows[:MAX_BARS]
    values = [(row[0] or "", _read_number(row[numbers[-1]]), "") for row in rows]
    drawn = [one for one in values if can_draw(one[1])]
    chart = draw_bars(drawn)
    notes = []
    if chart is None:
        notes.append("No chart: there is no number but 0.")
    if len(rows) < len(result.rows):
        notes.append(f"The chart has the first {len(rows)} of {number(len(result.rows))} rows.")
    if len(drawn) < len(rows):
        notes.append(f"Rows without a finite number are left out: {len(rows) - len(drawn)}.")
    return Drawn(chart, " ".join(notes))


def _read_number(value: str | None) -> float:
    """The number of a cell; null is NaN, because a bar of 0 would say something else."""
    return nan if value is None else float(value)


def _are_numbers(result: QueryResult, at: int) -> bool:
    kind = result.columns[at].type
    return kind.startswith(("int", "uint", "double", "float", "decimal"))
