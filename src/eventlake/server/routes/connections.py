"""Connections: which lake a source's events land in, and with which settings."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from eventlake.control.audit import Change
from eventlake.control.connections import (
    Connection,
    change_connection,
    connect,
    get_connection,
    list_connections,
)
from eventlake.control.database import Session
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import (
    After,
    Limit,
    Name,
    OnceOnly,
    Page,
    Settings,
    Version,
    Word,
    make_page,
    set_version,
)

router = APIRouter(prefix="/connections", tags=["connections"])


class NewConnection(FrozenModel):
    """A source to connect to a lake."""

    source: Word
    lake: Word
    settings: Settings = Field(default_factory=dict)


class ConnectionChange(FrozenModel):
    """Settings to change; null sets a default again."""

    settings: Settings


@router.get("")
def show_connections(
    _: Viewer, context: Context, after: After = None, limit: Limit = 100
) -> Page[Connection]:
    """List the connections by the source's slug."""
    with context.database.read() as session:
        return make_page(list_connections(session), lambda one: one.source, after, limit)


@router.post("", status_code=201, response_model=Connection)
def create_connection(
    body: NewConnection,
    caller: Admin,
    context: Context,
    once: OnceOnly,
    copy_from: Annotated[
        str, Query(pattern=r"^[!-~]{0,254}$", description="A source whose settings are copied.")
    ] = "",
) -> Response:
    """Connect a source to a lake. Its syncs begin when it is enabled."""

    def act(session: Session) -> Connection:
        now = context.clock.now()
        made = connect(session, body.source, body.lake, body.settings, now, copy_from=copy_from)
        change = Change("connection.add", f"connection:{made.source}", after=made)
        caller.record(session, change)
        return made

    return once.act(context, caller, act)


@router.get("/{source}")
def show_connection(source: Name, _: Viewer, context: Context, response: Response) -> Connection:
    """Show the connection of a source. Its ETag is needed to change it."""
    with context.database.read() as session:
        found = get_connection(session, source)
    set_version(response, found.version)
    return found


@router.patch("/{source}")
def update_connection(
    source: Name,
    body: ConnectionChange,
    caller: Admin,
    version: Version,
    context: Context,
    response: Response,
) -> Connection:
    """Change settings of a connection."""
    with context.database.write() as session:
        before = get_connection(session, source)
        after = change_connection(session, source, body.settings, version)
        change = Change("connection.change", f"connection:{after.source}", before, after)
        caller.record(session, change)
    set_version(response, after.version)
    return after
