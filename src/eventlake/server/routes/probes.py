"""What load balancers and Prometheus ask, without a login."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from eventlake.control.workspace import get_workspace
from eventlake.model.values import FrozenModel
from eventlake.server.access import Anybody
from eventlake.server.context import Context

router = APIRouter(include_in_schema=False)


class Ready(FrozenModel):
    """The server can work."""

    status: str = "ready"


@router.get("/ready")
def show_ready(_: Anybody, context: Context) -> Ready:
    """Answer 200 if the database answers, else 503."""
    with context.database.read() as session:
        get_workspace(session)
    return Ready()


@router.get("/metrics", response_class=PlainTextResponse)
async def show_metrics(_: Anybody, context: Context) -> str:
    """The metrics of the server and of the collector, as Prometheus reads them."""
    own = await run_in_threadpool(context.metrics.render)
    return own + context.render_metrics()  # in the event loop, which changes them
