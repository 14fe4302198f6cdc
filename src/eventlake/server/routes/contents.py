"""The contents of lakes: the schema of a source's tables, and queries."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import StringConstraints

from eventlake.control.audit import Change
from eventlake.control.database import Session
from eventlake.control.history import SchemaChange, find_first_seen, list_schema_changes
from eventlake.control.queries import SavedQuery, list_queries, remove_query, save_query
from eventlake.control.roles import Role
from eventlake.errors import EventLakeError
from eventlake.model.contents import (
    ArchiveDays,
    DetailQuery,
    QueryRequest,
    QueryResult,
    TableDetail,
    TablePage,
    TableQuery,
)
from eventlake.model.values import FrozenModel
from eventlake.server.access import Caller, Operator, Viewer
from eventlake.server.context import Context, ServerContext
from eventlake.server.readers import find_lake, find_place, run_query
from eventlake.server.requests import (
    After,
    AfterNumber,
    Limit,
    Name,
    Number,
    OnceOnly,
    Page,
    Text,
    Word,
    make_page,
)

router = APIRouter(tags=["contents"])
MAX_SQL = 100_000
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}

Sql = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SQL, pattern=r"^[^\x00]*$")]
TableName = Annotated[str, Query(min_length=1, max_length=300, description="The table's name.")]


class SourceTable(FrozenModel):
    """A table with its columns, and since when the workspace knows each."""

    table: TableDetail
    first_seen: dict[str, datetime]
    """By column, the end of the run that added it; columns of an older run are missing."""


class NewQuery(FrozenModel):
    """A query over the tables of a lake."""

    sql: Sql
    lake: Word = "main"
    format: Literal["json", "csv", "parquet"] = "json"


class NewSavedQuery(FrozenModel):
    """A query to keep under a name: your own of this name is replaced, another's is refused."""

    name: Text
    sql: Sql
    lake: Word = "main"


class AskedQuery(FrozenModel):
    """A query in the audit log."""

    sql: str
    format: str
    outcome: str


@router.get("/sources/{source}/schema")
def show_schema(
    source: Name,
    _: Viewer,
    context: Context,
    search: Annotated[str, Query(max_length=300, description="Part of the name.")] = "",
    after: Annotated[str, Query(max_length=300, description="`next` of the page before.")] = "",
    limit: Limit = 100,
) -> TablePage:
    """List the tables of a source by name, with rows, size and newest event."""
    with context.database.read() as session:
        place = find_place(session, source, context.vault)
    query = TableQuery(search=search, after=after, limit=limit)
    return context.readers.ask(place, "tables", query, TablePage)


@router.get("/sources/{source}/schema/table")
def show_table(source: Name, caller: Viewer, context: Context, name: TableName) -> SourceTable:
    """Show a table with its columns. Sample values need the role operator."""
    with context.database.read() as session:
        place = find_place(session, source, context.vault)
        first_seen = find_first_seen(session, source, name)
    query = DetailQuery(table=name, with_samples=caller.role.may(Role.OPERATOR))
    found = context.readers.ask(place, "table", query, TableDetail)
    return SourceTable(table=found, first_seen=first_seen)


@router.get("/sources/{source}/schema/changes")
def show_changes(
    source: Name,
    _: Viewer,
    context: Context,
    name: Annotated[str, Query(max_length=300, description="Of one table.")] = "",
    after: AfterNumber = None,
    limit: Limit = 100,
) -> Page[SchemaChange]:
    """List the changes of the schema of a source's tables, newest first."""
    with context.database.read() as session:
        found = list_schema_changes(session, source, name, before=after, limit=limit + 1)
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))


@router.get("/sources/{source}/archive")
def show_archive(source: Name, _: Viewer, context: Context) -> ArchiveDays:
    """List the days of a source's archive, with the number and size of its raw logs."""
    with context.database.read() as session:
        place = find_place(session, source, context.vault)
    return context.readers.ask(place, "archive", None, ArchiveDays)


@router.post("/query", response_model=QueryResult)
def ask(body: NewQuery, caller: Operator, context: Context) -> Response:
    """Run a query with DuckDB: at most 30 seconds, 1 GB and 10,000 rows. It is in the audit log.

    The result is JSON, or a file of CSV or Parquet.
    """
    output = run_audited(body, caller, context)
    if body.format == "json":
        return Response(output, media_type="application/json")
    name = f'attachment; filename="result.{body.format}"'
    return Response(
        output, media_type=MEDIA_TYPES[body.format], headers={"content-disposition": name}
    )


def run_audited(body: NewQuery, caller: Caller, context: ServerContext) -> bytes:
    """Run a query, and add it to the audit log with how it ended."""
    with context.database.read() as session:
        place = find_lake(session, body.lake, context.vault)
    outcome = "finished"
    try:
        limits = context.query_limits
        return run_query(place, QueryRequest(sql=body.sql, format=body.format, limits=limits))
    except EventLakeError as problem:
        outcome = problem.code
        raise
    finally:
        asked = AskedQuery(sql=body.sql, format=body.format, outcome=outcome)
        with context.database.write() as session:
            caller.record(session, Change("query", f"lake:{place.lake.slug}", after=asked))


@router.get("/queries")
def show_queries(
    _: Operator, context: Context, after: After = None, limit: Limit = 100
) -> Page[SavedQuery]:
    """List the saved queries by id."""
    with context.database.read() as session:
        return make_page(list_queries(session), lambda one: f"{one.id:012d}", after, limit)


@router.post("/queries", status_code=201, response_model=SavedQuery)
def keep_query(body: NewSavedQuery, caller: Operator, context: Context, once: OnceOnly) -> Response:
    """Save a query under a name."""

    def act(session: Session) -> SavedQuery:
        now = context.clock.now()
        saved = save_query(session, body.name, body.lake, body.sql, caller.actor.name, now)
        caller.record(session, Change("query.save", f"query:{saved.id}", after=saved))
        return saved

    return once.act(context, caller, act)


@router.delete("/queries/{query}", status_code=204)
def delete_query(query: Number, caller: Operator, context: Context) -> None:
    """Remove a saved query."""
    with context.database.write() as session:
        removed = remove_query(session, query)
        caller.record(session, Change("query.remove", f"query:{query}", removed))
