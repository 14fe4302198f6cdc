"""Who may do what: roles route by route, other sites, names of the server, the first admin."""

import re
from collections.abc import Iterator

import httpx
import pytest

from eventlake.control.roles import Role, Scope
from eventlake.errors import InvalidSettings
from eventlake.server.access import NeedsNobody
from eventlake.server.app import Operation, build_api, list_operations
from eventlake.server.context import Address, SetupCode
from tests.clocks import SimulatedClock
from tests.server.servers import PASSWORD, Api, serving

OPEN_ROUTES = {
    "POST /api/v1/session",
    "POST /api/v1/setup",
    "GET /ready",
    "GET /metrics",
    "GET /login/oidc",
    "GET /login/oidc/callback",
}
ADMIN_ROUTES = re.compile(
    r"(?!GET )\S+ /api/v1/(sources(/{source}(/keys)?)?|lakes(/{lake})?|connections\S*"
    r"|schedules/{source}|apply|channels(/{channel}(/rotate)?)?|rules(/{rule})?|settings(/reseal)?"
    r"|sources/{source}/freshness)$|\S+ /api/v1/(users|tokens|audit|suppressions|erasures)"
    r"|POST /api/v1/lakes/check$"
)
OPERATOR_ROUTES = re.compile(
    r"POST .*/(enable|disable|check|cancel|runs|test|redeliver)$"
    r"|POST .*/(retry|start|resume|redrive|replays|pins|query)$"
    r"|GET /api/v1/quarantine$|\S+ /api/v1/queries"
)


@pytest.fixture
def api(migrated_sqlite: bytes, tmp_path: object, clock: SimulatedClock) -> Iterator[Api]:
    path = tmp_path / "eventlake.db"  # type: ignore[operator]
    path.write_bytes(migrated_sqlite)
    with serving(str(path), clock) as api:
        yield api


def list_named(api: Api) -> dict[str, Operation]:
    found = list_operations(build_api(api.context))
    return {f"{one.method} {one.path}": one for one in found}


def test_every_route_names_its_role(api: Api) -> None:
    operations = list_named(api)
    roles = {name: one.role for name, one in operations.items()}
    assert {name for name, role in roles.items() if not role} == OPEN_ROUTES
    for name, operation in operations.items():
        calls = [one.call for one in operation.route.dependant.dependencies]
        assert roles[name] or any(isinstance(call, NeedsNobody) for call in calls), name
        if ADMIN_ROUTES.match(name):
            assert roles[name] == "admin", name
        elif OPERATOR_ROUTES.match(name):
            assert roles[name] == "operator", name
        elif roles[name]:
            assert roles[name] == "viewer", name
            is_harmless = name.startswith("GET ") or name.endswith("/preview")
            own = ("DELETE /api/v1/session", "PUT /api/v1/session/password")
            assert is_harmless or name in own, name


def test_each_role_may_call_its_routes_and_no_other(api: Api) -> None:
    tokens = {scope.role: api.make_token(scope) for scope in Scope}
    walked = 0
    for name, operation in list_named(api).items():
        if not (needed := operation.role):
            continue
        method = operation.method
        path = re.sub(r"{\w+}", "999", operation.path.removeprefix("/api/v1"))
        body = {} if method in ("POST", "PUT", "PATCH") else None
        assert api.ask(method, path, body).status_code == 401, name
        for role, token in tokens.items():
            status = api.ask(method, path, body, authorization=f"Bearer {token}").status_code
            assert (status == 403) == (not role.may(Role(needed))), (name, role, status)
            assert status not in (401, 500), (name, role, status)
            walked += 1
    assert walked > 80


def test_the_documentation_names_the_roles(api: Api) -> None:
    described = api.get("/openapi.json")
    assert described["paths"]["/api/v1/runs"]["post"]["x-role"] == "operator"
    assert "x-role" not in described["paths"]["/api/v1/session"]["post"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "", "[", "x@127.0.0.1"]
)
def test_another_name_of_the_server_is_refused(api: Api, host: str) -> None:
    """A page whose name was made to resolve to this machine could read everything."""
    reply = api.ask("GET", "/sources", host=host)
    assert reply.status_code in (400, 421)
    assert "items" not in reply.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:80"])
def test_its_own_names_are_accepted(api: Api, host: str) -> None:
    assert api.ask("GET", "/sources", host=host).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {
            "sec_fetch_site": "cross-site",
            "sec_fetch_mode": "navigate",
            "sec_fetch_dest": "document",
        },
    ],
)
def test_requests_of_other_sites_are_refused(api: Api, headers: dict[str, str]) -> None:
    for method, path, body in (("POST", "/sources", {"slug": "web"}), ("GET", "/sources", None)):
        reply = api.ask(method, path, body, **headers)
        assert (reply.status_code, reply.json()["code"]) == (403, "EventLake.CrossSite")
        assert "access-control-allow-origin" not in reply.headers
    assert api.get("/sources")["items"] == []


def test_its_own_pages_are_accepted(api: Api) -> None:
    own = [{"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "none"}, {"origin": api.url}]
    for number, headers in enumerate(own):
        assert api.ask("POST", "/sources", {"slug": f"s{number}"}, **headers).status_code == 201


def test_a_preflight_of_another_site_is_not_answered(api: Api) -> None:
    reply = api.ask(
        "OPTIONS",
        "/sources",
        origin="https://evil.example",
        access_control_request_method="POST",
    )
    assert reply.status_code == 403
    assert "access-control-allow-origin" not in reply.headers


def test_a_form_of_another_site_cannot_send_json(api: Api) -> None:
    """Old browsers send forms without an Origin: their types of content are not accepted."""
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        reply = api.ask("POST", "/sources", {"slug": "web"}, content_type=kind)
        assert reply.status_code == 422


def test_replies_have_security_headers(api: Api) -> None:
    for path in ("/sources", "/none"):
        headers = api.ask("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-request-id"]


def test_anybody_on_the_machine_is_admin_until_somebody_is_added(api: Api) -> None:
    assert api.get("/me") == {"name": "local", "role": "admin"}
    api.make_token(Scope.READ)
    assert api.ask("GET", "/me").status_code == 401


def test_nobody_is_admin_without_a_login_behind_a_public_name(
    migrated_sqlite: bytes, tmp_path: object, clock: SimulatedClock
) -> None:
    path = tmp_path / "eventlake.db"  # type: ignore[operator]
    path.write_bytes(migrated_sqlite)
    address = Address("127.0.0.1", "https://lake.example.com")
    with serving(str(path), clock, address) as api:
        assert api.ask("GET", "/me", host="lake.example.com").status_code == 401
        api.add_user("ada@example.com", Role.ADMIN)
        login = api.ask("POST", "/session", {"email": "ada@example.com", "password": PASSWORD})
        cookie = login.headers["set-cookie"]
        assert cookie.startswith("__Host-eventlake=")
        assert "Secure" in cookie
        assert "strict-transport-security" in login.headers


def test_the_link_makes_one_admin(api: Api, clock: SimulatedClock) -> None:
    setup = api.context.setup = SetupCode(clock.now())
    body = {"code": setup.code, "email": "ada@example.com", "password": PASSWORD}
    assert api.ask("POST", "/setup", {**body, "code": "wrong"}).status_code == 403
    made = api.ask("POST", "/setup", body)
    assert (made.status_code, made.json()["role"]) == (201, "admin")
    cookie = made.headers["set-cookie"].partition(";")[0]
    assert api.get("/me", cookie=cookie)["name"] == "user:ada@example.com"
    second = api.ask("POST", "/setup", {**body, "email": "eve@example.com"})
    assert second.status_code == 403


def test_the_link_ends_after_15_minutes(api: Api, clock: SimulatedClock) -> None:
    setup = api.context.setup = SetupCode(clock.now())
    clock.sleep(15 * 60)
    body = {"code": setup.code, "email": "ada@example.com", "password": PASSWORD}
    assert api.ask("POST", "/setup", body).status_code == 403


def test_the_page_of_the_link_makes_the_admin(api: Api, clock: SimulatedClock) -> None:
    setup = api.context.setup = SetupCode(clock.now())
    page = httpx.get(f"{api.url}/setup", params={"code": f'{setup.code}"><script>'})
    assert (page.status_code, "<script>" in page.text) == (200, False)
    form = {"code": setup.code, "email": "ada@example.com", "password": "short"}
    refused = httpx.post(f"{api.url}/setup", data=form)
    assert (refused.status_code, "10 to 1024" in refused.text) == (422, True)
    done = httpx.post(f"{api.url}/setup", data={**form, "password": PASSWORD})
    assert (done.status_code, done.headers["location"]) == (303, "/")
    cookie = done.headers["set-cookie"].partition(";")[0]
    assert api.get("/me", cookie=cookie)["role"] == "admin"


@pytest.mark.parametrize("url", ["lake.example.com", "ftp://x", "https://"])
def test_a_wrong_public_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match="give a URL"):
        Address("127.0.0.1", url)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_which_addresses_are_local(host: str, is_local: bool) -> None:
    assert Address(host).is_local is is_local
