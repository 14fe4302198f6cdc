"""The application with all pages."""

from fastapi import FastAPI, Response

from eventlake.server.context import ServerContext
from eventlake.server.pages import (
    account,
    admin,
    code,
    documents,
    home,
    lakes,
    login,
    notices,
    privacy,
    quarantine,
    query,
    replay,
    runs,
    schema,
    source_settings,
    sources,
)
from eventlake.server.pages.base import FILES, OpenPage, add_handlers

MODULES = (
    *(home, login, sources, source_settings, schema, quarantine, replay),
    *(runs, query, lakes, privacy, admin, notices, code, documents, account),
)
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


def build_pages(context: ServerContext) -> FastAPI:
    """The application that answers all paths but those of the API."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.context = context
    add_handlers(app)
    for module in MODULES:
        app.include_router(module.router)
    app.add_api_route("/static/{name}", show_file)
    return app


def show_file(name: str, _: OpenPage) -> Response:
    """A static file; its address changes with its content."""
    if name not in FILES:
        return Response(status_code=404)
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(FILES[name], media_type=kind, headers={"cache-control": _FOR_EVER})
