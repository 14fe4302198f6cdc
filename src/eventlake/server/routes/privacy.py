"""Suppressed and forgotten users."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field, StringConstraints

from eventlake.control.audit import Change
from eventlake.control.database import Session
from eventlake.control.erasures import (
    MAX_USERS,
    Erasure,
    ErasureRequest,
    add_erasure,
    cancel_erasure,
    get_erasure,
    list_erasures,
)
from eventlake.control.lake_access import LakeAccess, open_access
from eventlake.lakes import open_store
from eventlake.model.erasure import Receipt
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin
from eventlake.server.context import Context, ServerContext
from eventlake.server.problems import MEDIA_TYPE
from eventlake.server.requests import AfterNumber, Limit, Number, OnceOnly, Page, Word
from eventlake.services.suppress import (
    SuppressionChange,
    list_suppressed_users,
    suppress_users,
    unsuppress_users,
)

_TOO_LARGE: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The request has over 512,000 bytes",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    }
}
"""The collector's HTTP server refuses such requests, in its own form."""
router = APIRouter(tags=["privacy"], responses=_TOO_LARGE)
UserId = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Users = Annotated[tuple[UserId, ...], Field(min_length=1, max_length=MAX_USERS)]
OfLake = Annotated[
    str, Query(pattern=r"^[!-~]{0,254}$", description="The lake; by default the only one.")
]
AfterUser = Annotated[str, Query(max_length=1024, description="`next` of the page before.")]


class SuppressionRequest(FrozenModel):
    """Users to suppress, or to suppress no more."""

    users: Users
    """Ids, exactly as in events."""
    lake: Word = ""
    """By default the only lake of the workspace."""


class SuppressionCounts(FrozenModel):
    """How many users a request added to the list or removed from it."""

    lake: str
    added: int = 0
    removed: int = 0
    unchanged: int = 0
    listed: int
    """Users on the list now."""


class SuppressedPage(FrozenModel):
    """A part of a lake's suppression list."""

    lake: str
    items: tuple[str, ...]
    """Ids."""
    next: str | None
    hashed: int
    """Forgotten users, of whom the lake has only a hash."""


class NewErasure(FrozenModel):
    """Users to forget: in all sources of a lake, or in one."""

    users: Users
    lake: Word = ""
    source: Word = ""
    also_anonymous: bool = False
    """Also forget the ids that `identify` and `alias` calls tie to the users."""
    dry_run: bool = False
    """Only look for their events."""


class Receipts(FrozenModel):
    """The receipts of an erasure, one for each source that had events of the users."""

    erasure: int
    receipts: tuple[Receipt, ...]


@router.get("/suppressions")
def show_suppressions(
    _: Admin, context: Context, lake: OfLake = "", after: AfterUser = "", limit: Limit = 100
) -> SuppressedPage:
    """List the suppressed users of a lake."""
    access = _open(context, lake)
    found = list_suppressed_users(access.lake.model, make=True, secrets=access.secrets)
    rest = [user for user in found.users if user > after]
    shown = tuple(rest[:limit])
    following = shown[-1] if len(rest) > limit else None
    return SuppressedPage(lake=access.lake.slug, items=shown, next=following, hashed=found.hashed)


@router.post("/suppressions", response_model=SuppressionCounts)
def suppress(body: SuppressionRequest, caller: Admin, context: Context, once: OnceOnly) -> Response:
    """Suppress users: collectors refuse their events within a second, and no run lands them."""
    access = _open(context, body.lake)

    def act(session: Session) -> SuppressionCounts:
        lake = access.lake
        counts = _count(access, suppress_users(body.users, lake=lake.model, secrets=access.secrets))
        caller.record(session, Change("suppression.add", f"lake:{lake.slug}", after=counts))
        return counts

    reply = once.act(context, caller, act, 200)
    context.on_suppression_change()
    return reply


@router.post("/suppressions/remove", response_model=SuppressionCounts)
def unsuppress(
    body: SuppressionRequest, caller: Admin, context: Context, once: OnceOnly
) -> Response:
    """Accept the events of suppressed users again; a replay brings back what was left out."""
    access = _open(context, body.lake)

    def act(session: Session) -> SuppressionCounts:
        lake = access.lake
        change = unsuppress_users(body.users, lake=lake.model, secrets=access.secrets)
        counts = _count(access, change)
        caller.record(session, Change("suppression.remove", f"lake:{lake.slug}", after=counts))
        return counts

    reply = once.act(context, caller, act, 200)
    context.on_suppression_change()
    return reply


@router.get("/erasures")
def show_erasures(
    _: Admin, context: Context, after: AfterNumber = None, limit: Limit = 100
) -> Page[Erasure]:
    """List erasures, newest first."""
    with context.database.read() as session:
        found = list_erasures(session, before=after, limit=limit + 1)
    is_last = len(found) <= limit
    return Page(items=tuple(found[:limit]), next=None if is_last else str(found[limit - 1].id))


@router.post("/erasures", status_code=201, response_model=Erasure)
def create_erasure(body: NewErasure, caller: Admin, context: Context, once: OnceOnly) -> Response:
    """Forget users: remove all their events for good, by a run for each source.

    With `dry_run`, the runs only look for their events.
    """

    def act(session: Session) -> Erasure:
        request, now = ErasureRequest.model_validate(body.model_dump()), context.clock.now()
        erasure = add_erasure(session, request, context.vault, caller.actor.name, now)
        caller.record(session, Change("erasure.add", f"erasure:{erasure.id}", after=erasure))
        return erasure

    return once.act(context, caller, act)


@router.get("/erasures/{erasure}")
def show_erasure(erasure: Number, _: Admin, context: Context) -> Erasure:
    """Show an erasure."""
    with context.database.read() as session:
        return get_erasure(session, erasure)


@router.post("/erasures/{erasure}/cancel")
def stop_erasure(erasure: Number, caller: Admin, context: Context) -> Erasure:
    """Cancel the runs of an erasure that have not committed."""
    with context.database.write() as session:
        before = get_erasure(session, erasure)
        now, reason = context.clock.now(), f"by {caller.actor.name}"
        after = cancel_erasure(session, erasure, now, reason)
        caller.record(session, Change("erasure.cancel", f"erasure:{erasure}", before, after))
    return after


@router.get("/erasures/{erasure}/receipt")
def download_receipt(erasure: Number, _: Admin, context: Context, response: Response) -> Receipts:
    """Download the receipts of an erasure, as the lake has them."""
    with context.database.read() as session:
        found = get_erasure(session, erasure)
        access = open_access(session, found.lake, context.vault)
    store = open_store(access.lake.model, make=True, secrets=access.secrets)
    receipts = tuple(Receipt.from_json(store.read(path)) for path in found.receipts)
    name = f"erasure-{erasure}.json"
    response.headers["content-disposition"] = f'attachment; filename="{name}"'
    return Receipts(erasure=erasure, receipts=receipts)


def _open(context: ServerContext, lake: str) -> LakeAccess:
    with context.database.read() as session:
        return open_access(session, lake, context.vault)


def _count(access: LakeAccess, change: SuppressionChange) -> SuppressionCounts:
    """The numbers of a change: neither the audit log nor a stored answer has ids of users."""
    return SuppressionCounts(
        lake=access.lake.slug,
        added=len(change.added),
        removed=len(change.removed),
        unchanged=len(change.unchanged),
        listed=change.listed,
    )
