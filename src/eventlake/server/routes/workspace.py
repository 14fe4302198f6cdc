"""The workspace and the caller."""

from fastapi import APIRouter

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


@router.get("/workspace")
def show_workspace(_: Viewer, context: Context) -> Workspace:
    """Show the workspace. Its id is the external id for the roles of lakes."""
    with context.database.read() as session:
        return get_workspace(session)


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
