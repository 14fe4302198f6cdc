"""The pages over a real socket, without a browser: who may open and send which."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from eventlake.control.connections import connect
from eventlake.control.lakes import add_lake
from eventlake.control.roles import Role, Scope
from eventlake.control.sessions import start_session
from eventlake.control.sources import add_source
from eventlake.control.users import add_user, find_user
from eventlake.server.pages.app import build_pages
from eventlake.server.pages.base import PageFor
from tests.clocks import SimulatedClock
from tests.server.servers import PASSWORD, Api, serving

OPEN = {
    "GET /login",
    "POST /login",
    "GET /setup",
    "POST /setup",
    "POST /theme",
    "GET /docs",
    "GET /docs/",
    "GET /docs/{name}",
    "GET /docs/images/{name}",
    "GET /static/{name}",
}


OWN = {"POST /logout", "POST /account/password", "POST /account/logout"}
"""What everybody may send, of their own account."""


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
            assert name in OWN
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
        if needed is None or path in ("/logout", "/account/logout"):
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


@pytest.mark.parametrize("days", ["-5", "0", "1.5", "3651", "99999999999", "²", "ever"])
def test_a_token_is_not_added_for_wrong_days(api: Api, days: str) -> None:
    form = {"name": "ci", "scope": "write", "days": days}
    reply = httpx.post(f"{api.url}/admin/tokens", data=form, timeout=30)
    assert reply.status_code == 422
    assert "write a whole number from 1 to 3650" in reply.text
    assert 'value="ci"' in reply.text
    assert "<option selected>write</option>" in reply.text
    assert api.get("/tokens")["items"] == []


@pytest.mark.parametrize(("days", "left"), [("3650", 3650), ("1", 1), ("", None)])
def test_a_token_is_valid_for_days(api: Api, days: str, left: int | None) -> None:
    form = {"name": "ci", "scope": "admin", "days": days}
    reply = httpx.post(f"{api.url}/admin/tokens", data=form, timeout=30)
    api.headers = {"authorization": f"Bearer {find_secret(reply)}"}
    [token] = api.get("/tokens")["items"]
    now = api.context.clock.now()
    until = token["expires_at"] and datetime.fromisoformat(token["expires_at"]) - now
    assert until == (left and timedelta(days=left))


def test_a_form_that_is_sent_again_adds_no_second_token(api: Api) -> None:
    api.use_token(Scope.ADMIN)
    with httpx.Client(base_url=api.url, headers=api.headers, timeout=30) as client:
        [number] = re.findall(r'name="form" value="(\w+)"', client.get("/admin/tokens").text)
        form = {"name": "ci", "scope": "read", "days": "90", "form": number}
        secret = find_secret(client.post("/admin/tokens", data=form))
        again = client.post("/admin/tokens", data=form, follow_redirects=True)
        assert (again.status_code, "added before" in again.text) == (200, True)
        find_secret(client.post("/admin/tokens", data={**form, "name": "cd"}))
    names = sorted(one["name"] for one in api.get("/tokens")["items"])
    assert names == ["admin", "cd", "ci"]
    with api.context.database.read() as session:
        stored = session.exec_driver_sql("select * from answers").all()
    assert stored
    assert secret not in str(stored)


def find_secret(reply: httpx.Response) -> str:
    """The secret of a new token on the page."""
    [found] = re.findall(r"el_\w+_[\w-]+", reply.text)
    return str(found)


@pytest.mark.parametrize("role", Role)
def test_everybody_can_change_their_own_password(api: Api, role: Role) -> None:
    with logged_in(api, role) as client, logged_in(api, role) as other:
        assert f"{role}@example.com" in client.get("/account").text
        form = {"current": PASSWORD, "password": "another long password"}
        reply = client.post("/account/password", data=form)
        assert reply.headers["location"] == "/account?done=password-changed"
        assert (
            "Your other sessions have ended." in client.get("/account?done=password-changed").text
        )
        assert other.get("/account").status_code == 303
        form = {"email": f"{role}@example.com", "password": "another long password"}
        assert other.post("/login", data=form).status_code == 303
    admin = {"authorization": f"Bearer {api.make_token(Scope.ADMIN)}"}
    entries = api.get(f"/audit?object=user:{role}@example.com", **admin)["items"]
    [changed] = [one for one in entries if one["action"] == "user.password"]
    assert changed["actor"] == f"user:{role}@example.com"
    assert "another long" not in str(entries)


@pytest.mark.parametrize(
    ("current", "new", "said"),
    [
        ("wrong", "another long password", "the current password is wrong"),
        (PASSWORD, "short", "the password must have 10 to 1024 characters"),
    ],
)
def test_a_password_that_is_refused_stays(api: Api, current: str, new: str, said: str) -> None:
    with logged_in(api, Role.VIEWER) as client:
        reply = client.post("/account/password", data={"current": current, "password": new})
        assert (reply.status_code, said in reply.text) == (422, True)
        assert client.get("/account").status_code == 200
        form = {"email": "viewer@example.com", "password": PASSWORD}
        assert client.post("/login", data=form).headers["location"] == "/"


def test_current_passwords_are_not_guessed(api: Api) -> None:
    with logged_in(api, Role.VIEWER) as client:
        form = {"current": "wrong", "password": "another long password"}
        found = [client.post("/account/password", data=form).status_code for _ in range(6)]
    assert found == [422] * 5 + [429]


def test_logging_out_everywhere_ends_all_sessions(api: Api) -> None:
    with logged_in(api, Role.VIEWER) as client, logged_in(api, Role.VIEWER) as other:
        reply = client.post("/account/logout")
        assert reply.headers["location"] == "/login?done=logged-out-everywhere"
        assert [one.get("/account").status_code for one in (client, other)] == [303, 303]


def test_a_caller_without_a_user_has_no_password(api: Api) -> None:
    assert "You are not logged in as a person." in httpx.get(f"{api.url}/account").text
    body = {"current": PASSWORD, "password": "another long password"}
    reply = api.ask("PUT", "/session/password", body)
    assert (reply.status_code, "only a user has a password" in reply.text) == (422, True)


def logged_in(api: Api, role: Role) -> httpx.Client:
    """A browser with a new session of a user with a role."""
    email = f"{role}@example.com"
    with api.context.database.write() as session:
        now = api.context.clock.now()
        user = find_user(session, email) or add_user(session, email, PASSWORD, role, now)
        cookie = start_session(session, user.id, now)
    return httpx.Client(base_url=api.url, cookies={"eventlake": cookie}, timeout=30)


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


def add_web(api: Api, tmp_path: Path) -> None:
    lake = {"slug": "main", "kind": "local", "settings": {"path": str(tmp_path / "lake")}}
    api.post("/lakes", lake)
    spare = {"path": str(tmp_path / "spare")}
    api.post("/lakes", {**lake, "slug": "spare", "settings": spare})
    api.post("/sources", {"slug": "web", "lake": "main"})


def read_fields(page: str) -> dict[str, str]:
    """The texts and numbers of a page's forms."""
    inputs = re.findall(r"<input [^>]*>", page)
    fields = {}
    for one in inputs:
        name, value = re.search(r'name="([^"]*)"', one), re.search(r'value="([^"]*)"', one)
        if name and 'type="checkbox"' not in one:
            fields[name[1]] = value[1] if value else ""
    return fields


@pytest.mark.parametrize(
    ("path", "field", "mine", "theirs"),
    [
        ("/sources/web/settings", "set.dedup_days", "5", "set.max_columns"),
        ("/sources/web/schedule", "every_seconds", "600", "every_seconds"),
        ("/lakes/spare", "set.path", "/tmp/another", "set.path"),
    ],
)
def test_a_stale_form_cannot_be_saved_twice(
    api: Api, tmp_path: Path, path: str, field: str, mine: str, theirs: str
) -> None:
    add_web(api, tmp_path)
    address = api.url + path
    old = read_fields(httpx.get(address).text)
    assert field in old, old
    first = httpx.post(address, data={**old, field: mine})
    assert first.status_code == 303, first.text
    refused = httpx.post(address, data={**old, theirs: "/700" if theirs == "set.path" else "700"})
    assert refused.status_code == 412
    assert "somebody else has changed it" in refused.text
    shown = read_fields(refused.text)
    assert shown[field] == mine
    assert httpx.post(address, data=shown).status_code == 303
    assert read_fields(httpx.get(address).text)[field] == mine


@pytest.mark.parametrize("path", ["/sources/web/settings", "/sources/web/schedule", "/lakes/spare"])
def test_a_version_that_is_none_is_refused(api: Api, tmp_path: Path, path: str) -> None:
    add_web(api, tmp_path)
    for version in ("x", "²", "-1", "9" * 5000):
        reply = httpx.post(api.url + path, data={"version": version})
        assert reply.status_code == 422, (version, reply.text)
        assert "load the page again" in reply.text


def test_a_preview_of_a_stale_schedule_cannot_be_saved(api: Api, tmp_path: Path) -> None:
    add_web(api, tmp_path)
    address = f"{api.url}/sources/web/schedule"
    old = read_fields(httpx.get(address).text)
    assert httpx.post(address, data={**old, "every_seconds": "600"}).status_code == 303
    preview = httpx.post(address, data={**old, "every_seconds": "900", "preview": "1"})
    assert httpx.post(address, data=read_fields(preview.text)).status_code == 412


def test_a_sync_can_be_started_beside_a_replay(api: Api, tmp_path: Path) -> None:
    add_web(api, tmp_path)
    replay = api.post("/runs", {"source": "web", "kind": "redrive"})["id"]
    page = httpx.get(f"{api.url}/sources/web").text
    assert ("Sync now" in page, "Syncing" in page) == (True, False)
    started = httpx.post(f"{api.url}/sources/web/sync")
    assert started.headers["location"] != f"/runs/{replay}"
    assert "Syncing" in httpx.get(f"{api.url}/sources/web").text


def test_a_form_without_a_session_leads_back_to_its_page(api: Api) -> None:
    api.add_user("admin@example.com", Role.ADMIN)
    came_from = {"referer": f"{api.url}/query?lake=main"}
    reply = httpx.post(f"{api.url}/query", data={"sql": "select 1"}, headers=came_from)
    assert reply.headers["location"] == "/login?next=%2Fquery%3Flake%3Dmain&done=logged-out-early"
    page = httpx.get(api.url + reply.headers["location"]).text
    assert "your session has ended" in page
    assert 'value="/query?lake=main"' in page
    for nonsense in ("http://[", "http://x:y/"):
        reply = httpx.post(f"{api.url}/query", headers={"referer": nonsense})
        assert reply.status_code == 303, nonsense
        assert httpx.post(f"{api.url}/theme", headers={"referer": nonsense}).status_code == 303


@pytest.fixture
def admin(api: Api, tmp_path: Path) -> Iterator[httpx.Client]:
    """An admin of the lakes `archive` and `main`, which have a source each."""
    now, vault = api.context.clock.now(), api.context.vault
    with api.context.database.write() as session:
        for lake, source in (("archive", "old"), ("main", "web")):
            add_lake(session, lake, "local", {"path": str(tmp_path / lake)}, vault, now)
            add_source(session, source, now, source_id=source, write_key=source)
            connect(session, source, lake, {}, now)
    with api.log_in("admin@example.com", Role.ADMIN) as client:
        yield client


def test_users_are_forgotten_in_no_lake_that_was_not_chosen(admin: httpx.Client) -> None:
    page = admin.get("/privacy").text
    assert "Choose a lake" in page
    assert 'name="users"' not in page
    page = admin.get("/privacy", params={"lake": "main"}).text
    assert "Forget users of main" in page
    assert "<option>web</option>" in page
    assert "<option>old</option>" not in page


def test_a_form_of_privacy_that_is_refused_keeps_what_was_entered(admin: httpx.Client) -> None:
    entered = {"lake": "main", "users": "u1\nu2", "source": "web", "also_anonymous": "1"}
    refused = admin.post("/privacy/forget", data={**entered, "confirm": "forgt"})
    assert refused.status_code == 422
    assert "type forget to confirm" in refused.text
    assert ">u1\nu2</textarea>" in refused.text
    assert "<option selected>web</option>" in refused.text
    assert 'value="1" checked>' in refused.text
    refused = admin.post("/privacy/suppress", data={"lake": "main", "users": "x" * 2000})
    assert refused.status_code == 422
    assert f">{'x' * 2000}</textarea>" in refused.text
