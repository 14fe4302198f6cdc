"""The HTTP application: `/api/v1`, `/ready`, `/metrics`, and the pages at all other paths."""

from importlib.metadata import version
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.types import ASGIApp, Receive, Scope, Send

from eventlake.model.values import FrozenModel
from eventlake.server.access import Needs
from eventlake.server.context import ServerContext
from eventlake.server.guard import Guard
from eventlake.server.pages.app import build_pages
from eventlake.server.problems import MEDIA_TYPE, add_handlers
from eventlake.server.routes import (
    connections,
    contents,
    corrections,
    declaration,
    health,
    lakes,
    login,
    notices,
    oidc,
    people,
    privacy,
    probes,
    replays,
    runs,
    schedules,
    settings,
    sources,
    workspace,
)

PREFIX = "/api/v1"
PROBES = ("/ready", "/metrics")
OIDC = "/login/oidc"
MODULES = (
    *(workspace, declaration, sources, lakes, connections, schedules, runs, replays, corrections),
    *(privacy, contents, health, notices, settings, people, login),
)


class Problem(FrozenModel):
    """An error, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: tuple[dict[str, str], ...] = ()


def build_app(context: ServerContext) -> ASGIApp:
    """The API and the pages, guarded against requests of other sites."""
    return Guard(ApiOrPage(build_api(context), build_pages(context)), context)


class ApiOrPage:
    """Has the API answer its own paths, and the pages all others."""

    def __init__(self, api: ASGIApp, pages: ASGIApp) -> None:
        self._api, self._pages = api, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["path"].startswith(("/api/", OIDC)) or scope["path"] in PROBES
        await (self._api if is_api else self._pages)(scope, receive, send)


def build_probes(context: ServerContext) -> ASGIApp:
    """The application of a server without the API: only what load balancers and Prometheus ask."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.state.context = context
    add_handlers(app)
    app.include_router(probes.router)
    return Guard(app, context)


def build_api(context: ServerContext) -> FastAPI:
    """The application with all routes."""
    app = FastAPI(
        title="EventLake",
        version=version("eventlake"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its scripts come from other sites
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.context = context
    add_handlers(app)
    reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
    problem = {"description": "Refused", "content": {MEDIA_TYPE: reference}}
    api = APIRouter(prefix=PREFIX, responses={"4XX": problem})
    for module in MODULES:
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(probes.router)
    app.include_router(oidc.router)
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]
    return app


class Operation(NamedTuple):
    """A method of a path, and what answers it."""

    method: str
    path: str
    route: APIRoute

    @property
    def role(self) -> str:
        """The role that it needs; empty if anybody may call it."""
        calls = (one.call for one in self.route.dependant.dependencies)
        return next((call.role.value for call in calls if isinstance(call, Needs)), "")


def list_operations(app: FastAPI) -> list[Operation]:
    """All operations of the application, also those that the description leaves out."""
    return [
        Operation(method, str(one.path), one.original_route)
        for one in iter_route_contexts(app.routes)
        if isinstance(one.original_route, APIRoute)
        for method in sorted(one.original_route.methods or ())
    ]


def _describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the role that each operation needs as `x-role`."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        schema["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": "eventlake"},
        }
        for operation in list_operations(app):
            if operation.role:
                described = schema["paths"][operation.path][operation.method.lower()]
                described["x-role"] = operation.role
                described["security"] = [{"token": []}, {"session": []}]
        app.openapi_schema = schema
    return app.openapi_schema
