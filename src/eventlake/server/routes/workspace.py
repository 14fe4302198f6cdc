"""The workspace and the caller."""

from fastapi import APIRouter

from eventlake.control.preferences import read_server_url
from eventlake.control.replicas import Replica, list_replicas
from eventlake.control.roles import Role
from eventlake.control.workspace import Workspace, get_workspace
from eventlake.model.values import FrozenModel
from eventlake.server.access import Viewer
from eventlake.server.context import Context
from eventlake.server.requests import Page

router = APIRouter(tags=["workspace"])


class Me(FrozenModel):
    """Who calls."""

    name: str
    role: Role


class ShownWorkspace(Workspace):
    """The workspace, and the URL of its server."""

    url: str
    """Where people reach the server that started last; empty before the first start."""


@router.get("/workspace")
def show_workspace(_: Viewer, context: Context) -> ShownWorkspace:
    """Show the workspace. Its id is the external id for the roles of lakes."""
    with context.database.read() as session:
        found = get_workspace(session)
        return ShownWorkspace(id=found.id, name=found.name, url=read_server_url(session))


@router.get("/replicas")
def show_replicas(_: Viewer, context: Context) -> Page[Replica]:
    """List the servers on the database: who is alive, since when, and which of them leads."""
    with context.database.read() as session:
        found = list_replicas(context.database, session)
    return Page(items=tuple(found), next=None)


@router.get("/me")
def show_caller(caller: Viewer) -> Me:
    """Show who calls, and with which role."""
    return Me(name=caller.actor.name, role=caller.role)
