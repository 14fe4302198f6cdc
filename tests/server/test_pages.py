"""The pages over a real socket, without a browser: who may open and send which."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from eventlake.control.roles import Role
from eventlake.control.sessions import start_session
from eventlake.server.pages.app import build_pages
from eventlake.server.pages.base import PageFor
from tests.clocks import SimulatedClock
from tests.server.servers import Api, serving

OPEN = {
    "GET /login",
    "POST /login",
    "GET /setup",
    "POST /setup",
    "POST /theme",
    "GET /docs/{name}",
    "GET /docs/images/{name}",
    "GET /static/{name}",
}


@pytest.fixture
def api(migrated_sqlite: bytes, tmp_path: Path, clock: SimulatedClock) -> Iterator[Api]:
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    with serving(str(path), clock) as api:
        yield api


def list_pages(api: Api) -> dict[str, Role | None]:
    """By method and path, the role that each page needs."""
    found: dict[str, Role | None] = {}
    for one in iter_route_contexts(build_pages(api.context).routes):
        route = one.original_route
        if isinstance(route, APIRoute):
            calls = [each.call for each in route.dependant.dependencies]
            [needed] = [call.role for call in calls if isinstance(call, PageFor)]
            found.update({f"{method} {one.path}": needed for method in route.methods or ()})
    return found


def test_every_page_names_its_role(api: Api) -> None:
    pages = list_pages(api)
    assert {name for name, role in pages.items() if role is None} == OPEN
    for name, role in pages.items():
        if name.startswith("POST ") and role is Role.VIEWER:
            assert name == "POST /logout"
    assert len(pages) > 60


def test_each_role_may_open_its_pages_and_no_other(api: Api) -> None:
    sessions = {}
    for role in Role:
        api.add_user(f"{role}@example.com", role)
        with api.context.database.write() as session:
            user = session.exec_driver_sql(
                "select id from users where email = ?", (f"{role}@example.com",)
            ).scalar_one()
            sessions[role] = start_session(session, user, api.context.clock.now())
    for name, needed in list_pages(api).items():
        method, path = name.split()
        path = re.sub(r"{\w+}", "999", path)
        if needed is None or path == "/logout":
            continue
        with httpx.Client(base_url=api.url, timeout=30) as client:
            refused = client.request(method, path, data={} if method == "POST" else None)
        assert refused.status_code == 303, name
        assert refused.headers["location"].startswith("/login"), name
        for role, cookie in sessions.items():
            with httpx.Client(
                base_url=api.url, cookies={"eventlake": cookie}, timeout=60
            ) as client:
                reply = client.request(method, path, data={} if method == "POST" else None)
            assert (reply.status_code == 403) == (not role.may(needed)), (name, role)
            assert reply.status_code != 500, (name, role, reply.text)
            assert reply.headers["content-type"].startswith("text/html") or not reply.content


def test_hostile_forms_are_answered_with_a_page(api: Api) -> None:
    bodies = (b"", b"%", b"slug=%00", b"a=" + b"%ff" * 1000, b"&" * 2000, b"slug=\xff\xfe")
    for name in list_pages(api):
        method, path = name.split()
        if method != "POST":
            continue
        path = re.sub(r"{\w+}", "1", path)
        for body in bodies:
            kind = {"content-type": "application/x-www-form-urlencoded"}
            reply = httpx.post(api.url + path, content=body, headers=kind, timeout=60)
            assert reply.status_code < 500 or reply.status_code == 503, (name, body, reply.text)
