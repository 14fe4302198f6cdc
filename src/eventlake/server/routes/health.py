"""The state of each source at a glance."""

from fastapi import APIRouter

from eventlake.control.health import SourceHealth, list_health
from eventlake.server.access import Viewer
from eventlake.server.context import Context
from eventlake.server.requests import After, Limit, Page, make_page

router = APIRouter(tags=["health"])


@router.get("/health")
def show_health(
    _: Viewer, context: Context, after: After = None, limit: Limit = 100
) -> Page[SourceHealth]:
    """List the state of each source, by slug."""
    with context.database.read() as session:
        return make_page(list_health(session), lambda one: one.source, after, limit)
