"""Types of columns that people set, and the quarantine with its redrive."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import StringConstraints

from eventlake.control.results import Pin, list_pins
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunRequest
from eventlake.model.quarantine import QuarantinePage, QuarantineQuery, QuarantineSummary
from eventlake.model.values import FrozenModel
from eventlake.server.access import Operator, Viewer
from eventlake.server.context import Context
from eventlake.server.readers import find_place
from eventlake.server.requests import After, AfterNumber, Limit, OnceOnly, Page, Text, Word
from eventlake.server.routes.runs import OfSource, Queue, start

router = APIRouter(tags=["corrections"])
Lines = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Source = Annotated[str, Query(pattern=r"^[!-~]{1,254}$", description="The source.")]


class NewPin(FrozenModel):
    """Columns of a table that get other types, which stay."""

    source: Word
    table: Text
    """As `table` or `database.table`."""
    types: dict[Text, Word]
    """The new type of each column: boolean, bigint, decimal, string or timestamp."""
    replay: bool = False
    """Rewrite all rows of the table, too."""
    dry_run: bool = False


class NewRedrive(FrozenModel):
    """Quarantined lines to load again."""

    source: Word
    reasons: tuple[Word, ...] = ()
    since: Text = ""
    """Only lines that a run of this time or later has quarantined."""
    fields: tuple[Text, ...] = ()
    """Fields to set, as `field=value`."""
    corrected: Lines | None = None
    """Corrected lines as a text, in the form of `eventlake quarantine --json`, instead of the
    others. They are deleted when the run has ended."""
    dry_run: bool = False


@router.get("/pins")
def show_pins(
    _: Viewer,
    context: Context,
    source: OfSource = "",
    after: AfterNumber = None,
    limit: Limit = 100,
) -> Page[Pin]:
    """List the types that people have set in this workspace, newest first."""
    with context.database.read() as session:
        found = list_pins(session, source, before=after, limit=limit + 1)
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))


@router.post("/pins", status_code=201, response_model=Run)
def retype_columns(
    body: NewPin, caller: Operator, context: Context, once: OnceOnly, queue: Queue = False
) -> Response:
    """Start a run that gives columns other types, or with `dry_run` one that makes the plan."""
    parameters = body.model_dump(include={"table", "types", "replay"})
    request = RunRequest(
        source=body.source, kind=Kind.RETYPE, parameters=parameters, dry_run=body.dry_run
    )
    return once.act(
        context, caller, lambda session: start(context, caller, request, session, queue)
    )


@router.get("/quarantine")
def show_quarantine(
    _: Operator,
    context: Context,
    source: Source,
    reason: Annotated[str, Query(pattern=r"^[!-~]{0,64}$")] = "",
    after: After = None,
    limit: Limit = 100,
) -> QuarantinePage:
    """List the quarantined lines of a source, those of the newest runs first."""
    with context.database.read() as session:
        place = find_place(session, source, context.vault)
    query = QuarantineQuery(reason=reason, after=after or "", limit=limit)
    return context.readers.ask(place, "quarantine", query, QuarantinePage)


@router.get("/quarantine/reasons")
def show_reasons(_: Viewer, context: Context, source: Source) -> QuarantineSummary:
    """Count the quarantined lines of a source, by day and reason."""
    with context.database.read() as session:
        place = find_place(session, source, context.vault)
    return context.readers.ask(place, "quarantine_reasons", None, QuarantineSummary)


@router.post("/quarantine/redrive", status_code=201, response_model=Run)
def redrive_lines(
    body: NewRedrive, caller: Operator, context: Context, once: OnceOnly, queue: Queue = False
) -> Response:
    """Start a run that loads quarantined lines again, or with `dry_run` one that makes the plan."""
    parameters = body.model_dump(include={"reasons", "since", "fields", "corrected"})
    request = RunRequest(
        source=body.source, kind=Kind.REDRIVE, parameters=parameters, dry_run=body.dry_run
    )
    return once.act(
        context, caller, lambda session: start(context, caller, request, session, queue)
    )
