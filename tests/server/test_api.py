"""The API: objects, errors, versions, pages, idempotency keys, on both databases."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlake.control.roles import Role, Scope
from eventlake.model.values import FrozenModel
from eventlake.server.requests import make_page
from tests.clocks import SimulatedClock
from tests.server.servers import PASSWORD, Api, serving


class Named(FrozenModel):
    name: str


@pytest.fixture
def api(url: str, clock: SimulatedClock) -> Iterator[Api]:
    with serving(url, clock) as api:
        yield api


@pytest.fixture
def lake(api: Api, tmp_path: Path) -> str:
    settings = {"path": str(tmp_path / "lake")}
    api.post("/lakes", {"slug": "main", "kind": "local", "settings": settings})
    return "main"


@pytest.fixture
def web(api: Api, lake: str) -> Any:
    return api.post("/sources", {"slug": "web", "lake": lake})


def test_a_source_from_its_creation_to_its_end(api: Api, lake: str) -> None:
    made = api.post("/sources", {"slug": "web"})
    assert (made["slug"], made["enabled"], len(made["write_keys"])) == ("web", True, 1)
    assert api.get("/sources/web") == api.get(f"/sources/{made['id']}") == made
    more = api.post("/sources/web/keys", {"write_key": "second"})
    assert more["write_keys"] == [*made["write_keys"], "second"]
    one = api.ask("DELETE", f"/sources/web/keys?key={made['write_keys'][0]}").json()
    assert one["write_keys"] == ["second"]
    assert api.ask("PATCH", "/sources/web", {"enabled": False}).json()["enabled"] is False
    assert api.ask("DELETE", "/sources/web").status_code == 204
    assert api.ask("GET", "/sources/web").status_code == 404
    actions = [entry["action"] for entry in api.get("/audit?object=source:web")["items"]]
    assert actions == [
        "source.remove",
        "source.change",
        "source.key.revoke",
        "source.key.add",
        "source.add",
    ]


def test_lists_are_paged(api: Api) -> None:
    for slug in ("c", "a", "e", "b", "d"):
        api.post("/sources", {"slug": slug})
    first = api.get("/sources?limit=2")
    second = api.get(f"/sources?limit=2&after={first['next']}")
    third = api.get(f"/sources?limit=2&after={second['next']}")
    pages = [[one["slug"] for one in page["items"]] for page in (first, second, third)]
    assert (pages, third["next"]) == ([["a", "b"], ["c", "d"], ["e"]], None)
    entries = api.get("/audit?limit=3")
    rest = api.get(f"/audit?limit=3&after={entries['next']}")
    ids = [one["id"] for page in (entries, rest) for one in page["items"]]
    assert (ids, rest["next"]) == ([5, 4, 3, 2, 1], None)


def test_settings_change_only_with_their_version(api: Api, web: Any) -> None:
    shown = api.ask("GET", "/connections/web")
    assert (shown.json()["version"], shown.headers["etag"]) == (1, '"1"')
    change = {"settings": {"date_partition": "day"}}
    missing = api.ask("PATCH", "/connections/web", change)
    assert (missing.status_code, missing.json()["code"]) == (428, "EventLake.PreconditionRequired")
    done = api.ask("PATCH", "/connections/web", change, if_match='"1"')
    assert (done.status_code, done.headers["etag"]) == (200, '"2"')
    assert done.json()["resolved"]["date_partition"] == "day"
    again = api.ask("PATCH", "/connections/web", change, if_match='"1"')
    assert (again.status_code, again.json()["code"]) == (412, "EventLake.Conflict")
    wrong = api.ask("PATCH", "/connections/web", change, if_match="*")
    assert wrong.status_code == 412


def test_secrets_of_lakes_are_never_shown(api: Api) -> None:
    secret = "planted-secret-0123456789"
    kinds = {one["kind"]: one for one in api.get("/lakes/kinds")["items"]}
    assert kinds["local"]["settings"]["properties"]["path"]
    (name, *_) = kinds["azure"]["secrets"]
    settings = {"storage_account": "account", "storage_container": "container", name: secret}
    body = {"slug": "az", "kind": "azure", "settings": settings}
    made = api.ask("POST", "/lakes", body, idempotency_key="k")
    assert made.status_code == 201, made.text
    assert made.json()["secrets"] == {name: "set"}
    changed = api.ask("PATCH", "/lakes/az", {"settings": {name: secret + "2"}}, if_match='"1"')
    assert changed.status_code == 200, changed.text
    refused = api.ask("PATCH", "/lakes/az", {"settings": {name: [secret]}}, if_match='"2"')
    assert refused.status_code == 422
    texts = [made.text, changed.text, refused.text, api.ask("GET", "/lakes/az").text]
    texts.append(api.ask("GET", "/audit").text)
    assert not any(secret in text for text in texts)


def test_connections_are_copied(api: Api, web: Any, lake: str) -> None:
    api.ask("PATCH", "/connections/web", {"settings": {"date_partition": "day"}}, if_match='"1"')
    api.post("/sources", {"slug": "ios"})
    made = api.post("/connections?copy_from=web", {"source": "ios", "lake": lake})
    assert made["settings"] == {"date_partition": "day"}
    assert [one["source"] for one in api.get("/connections")["items"]] == ["ios", "web"]


def test_schedules_are_changed_previewed_and_enabled(
    api: Api, web: Any, clock: SimulatedClock
) -> None:
    assert api.get("/schedules/web")["schedule"]["every_seconds"] == 7200
    rule = {"cron": "0 6 * * *", "zone": "Europe/Berlin"}
    slots = api.post("/schedules/web/preview?n=2", rule)["slots"]
    assert slots == ["2026-03-03T05:00:00Z", "2026-03-04T05:00:00Z"]
    assert api.ask("PUT", "/schedules/web", rule, if_match='"1"').status_code == 200
    assert api.post("/sources/web/enable")["next_slot"] == slots[0]
    assert api.post("/sources/web/disable")["next_slot"] is None
    wrong = api.ask("PUT", "/schedules/web", {"cron": "61 * * * *"}, if_match='"3"').json()
    assert (wrong["status"], wrong["errors"][0]["pointer"]) == (422, "body/cron")


def test_a_run_is_started_once_for_a_key(api: Api, web: Any) -> None:
    first = api.ask("POST", "/runs", {"source": "web"}, idempotency_key="dag-1")
    again = api.ask("POST", "/runs", {"source": "web"}, idempotency_key="dag-1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    other = api.ask("POST", "/runs?queue=1", {"source": "web"}, idempotency_key="dag-1")
    assert (other.status_code, other.json()["code"]) == (422, "EventLake.InvalidSettings")
    assert len(api.get("/runs")["items"]) == 1


def test_runs_are_started_listed_and_cancelled(api: Api, web: Any) -> None:
    run = api.post("/runs", {"source": "web"})
    assert (run["state"], run["trigger"], run["actor"]) == ("queued", "manual", "local")
    refused = api.ask("POST", "/runs", {"source": "web"})
    assert (refused.status_code, refused.json()["code"]) == (409, "EventLake.Conflict")
    assert f"run {run['id']}" in refused.json()["detail"]
    waiting = api.post("/runs?queue=true", {"source": "web"})
    assert waiting["state"] == "waiting"
    cancelled = api.post(f"/runs/{run['id']}/cancel")
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "by local")
    assert api.get(f"/runs/{run['id']}?wait=10") == cancelled
    assert api.get(f"/runs/{waiting['id']}")["state"] == "queued"
    first = api.get("/runs?source=web&limit=1")
    rest = api.get(f"/runs?source=web&limit=1&after={first['next']}")
    assert [one["id"] for one in (*first["items"], *rest["items"])] == [waiting["id"], run["id"]]
    assert api.ask("POST", f"/runs/{run['id']}/cancel").status_code == 409
    assert api.ask("GET", "/runs/999").status_code == 404


def test_users_and_tokens(api: Api) -> None:
    admin = {"email": "ada@example.com", "password": PASSWORD, "role": "admin"}
    assert "password" not in api.post("/users", admin)
    assert api.ask("GET", "/users").status_code == 401  # nobody is anonymous any more
    api.use_token(Scope.ADMIN)
    viewer = api.post("/users", {**admin, "email": "vi@example.com", "role": "viewer"})
    changed = api.ask("PATCH", f"/users/{viewer['id']}", {"role": "operator"}).json()
    assert changed["role"] == "operator"
    assert [one["email"] for one in api.get("/users")["items"]] == [
        "ada@example.com",
        "vi@example.com",
    ]
    assert api.ask("DELETE", "/users/vi@example.com").status_code == 204
    assert api.ask("DELETE", "/users/ada@example.com").status_code == 422  # the last admin
    made = api.post("/tokens", {"name": "ci", "scope": "write"})
    secret = made["secret"]
    assert api.get("/me", authorization=f"Bearer {secret}") == {
        "name": "token:ci",
        "role": "operator",
    }
    assert secret not in api.ask("GET", "/tokens").text
    assert secret not in api.ask("GET", "/audit").text
    assert api.ask("DELETE", f"/tokens/{made['token']['id']}").status_code == 204
    assert api.ask("GET", "/me", authorization=f"Bearer {secret}").status_code == 401


def test_a_session_from_login_to_logout(api: Api, clock: SimulatedClock) -> None:
    api.add_user("ada@example.com", Role.OPERATOR)
    login = api.ask("POST", "/session", {"email": "ada@example.com", "password": PASSWORD})
    cookie = login.headers["set-cookie"]
    assert cookie.startswith("eventlake=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    session = cookie.partition(";")[0]
    assert api.get("/me", cookie=session) == {"name": "user:ada@example.com", "role": "operator"}
    assert api.ask("GET", "/users", cookie=session).status_code == 403
    again = api.ask(
        "POST", "/session", {"email": "ada@example.com", "password": PASSWORD}, cookie=session
    )
    renewed = again.headers["set-cookie"].partition(";")[0]
    assert api.ask("GET", "/me", cookie=session).status_code == 401  # the old id is gone
    assert api.ask("DELETE", "/session", cookie=renewed).status_code == 204
    assert api.ask("GET", "/me", cookie=renewed).status_code == 401


def test_login_is_limited_by_address(api: Api, clock: SimulatedClock) -> None:
    def log_in(address: str) -> int:
        body = {"email": "nobody@example.com", "password": "wrong"}
        return api.ask("POST", "/session", body, x_forwarded_for=address).status_code

    assert [log_in("192.0.2.1") for _ in range(6)] == [401] * 5 + [429]
    assert log_in("192.0.2.2") == 401
    clock.advance(timedelta(seconds=61))
    assert log_in("192.0.2.1") == 401


BAD_REQUESTS = [
    ("POST", "/sources", {"slug": "a b"}, 422),
    ("POST", "/sources", {"slug": "a", "colour": "red"}, 422),
    ("POST", "/sources", {"slug": ""}, 422),
    ("POST", "/sources", [1], 422),
    ("POST", "/sources", None, 422),
    ("POST", "/lakes", {"slug": "x", "kind": "moon", "settings": {}}, 422),
    ("POST", "/lakes", {"slug": "x", "kind": "local", "settings": {}}, 422),
    ("POST", "/lakes", {"slug": "x", "kind": "local", "settings": {"path": "a\0b"}}, 422),
    ("POST", "/lakes", {"slug": "x", "kind": "local", "settings": {"path": "\ud800"}}, 422),
    ("POST", "/lakes", {"slug": "x", "kind": "local", "settings": {"path": float("nan")}}, 422),
    ("POST", "/lakes", {"slug": "x", "kind": "local", "settings": {"\0": 1}}, 422),
    ("POST", "/connections", {"source": "none", "lake": "none"}, 404),
    ("GET", "/sources/none", None, 404),
    ("GET", "/sources/%00", None, 422),
    ("GET", "/sources?limit=0", None, 422),
    ("GET", "/runs/99999999999999999999", None, 422),
    ("GET", "/nothing", None, 404),
    ("PUT", "/sources", None, 405),
    ("POST", "/tokens", {"name": "x", "expires_at": "2026-01-01T00:00:00"}, 422),
    ("POST", "/users", {"email": "x", "password": PASSWORD}, 422),
]


def test_bad_requests_get_problems(api: Api) -> None:
    for method, path, body, status in BAD_REQUESTS:
        reply = api.ask(method, path, body)
        assert reply.headers["content-type"] == "application/problem+json", (path, reply.text)
        problem = reply.json()
        assert (reply.status_code, problem["status"]) == (status, status), (path, body, reply.text)
        assert problem["code"].startswith("EventLake."), problem
        assert problem["detail"], problem
        assert "Traceback" not in reply.text


def test_probes_answer_without_a_login(api: Api) -> None:
    api.add_user("ada@example.com", Role.ADMIN)
    reply = api.ask("GET", "/../../ready")
    assert (reply.status_code, reply.json()) == (200, {"status": "ready"})
    assert "eventlake_collect_troubles_total 0" in api.ask("GET", "/../../metrics").text


def test_a_lake_is_checked_in_a_process_of_its_own(api: Api, lake: str, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    checked = api.post(f"/lakes/{lake}/check")
    assert {one["name"] for one in checked["checks"]} >= {"settings", "access"}
    assert all(one["ok"] for one in checked["checks"] if one["name"] != "java")


RAW_BODIES = [
    b"{",
    b"\xff",
    b"[" * 100_000,
    b'{"slug": "x", "kind": "local", "settings": {"path": ' + b"9" * 5000 + b"}}",
    b'{"slug": "x", "kind": "local", "settings": {"path": 1e400}}',
    *(
        b'{"slug": "x", "kind": "local", "settings": {"path": ' + b"[" * n + b"]" * n + b"}}"
        for n in (100, 500, 900, 980, 5000)
    ),
]


def test_bodies_that_are_no_json_get_problems(api: Api, capfd: Any) -> None:
    for body in RAW_BODIES:
        headers = {"content-type": "application/json"}
        reply = httpx.post(f"{api.url}/api/v1/lakes", content=body, headers=headers, timeout=30)
        assert reply.status_code in (400, 422), (body[:99], reply.text)
        assert reply.json()["code"]
    assert "Traceback" not in capfd.readouterr().err


def test_a_bug_is_told_to_the_log_and_not_to_the_client(api: Api, capfd: Any) -> None:
    api.context.vault = None  # type: ignore[assignment]
    (name, *_) = api.get("/lakes/kinds")["items"][2]["secrets"]
    settings = {"storage_account": "account", "storage_container": "container", name: "hush"}
    reply = api.ask("POST", "/lakes", {"slug": "az", "kind": "azure", "settings": settings})
    assert (reply.status_code, reply.json()["code"]) == (500, "EventLake.Internal")
    log = capfd.readouterr().err
    assert f"request {reply.headers['x-request-id']} failed\nTraceback" in log
    assert "Traceback" not in reply.text
    assert "hush" not in log + reply.text


def test_many_clients_at_once_are_answered(api: Api, web: Any) -> None:
    def ask(number: int) -> int:
        if number % 4:
            return api.ask("GET", "/sources").status_code
        return api.ask("POST", "/sources", {"slug": f"s{number}"}).status_code

    with ThreadPoolExecutor(40) as pool:
        statuses = Counter(pool.map(ask, range(120)))
    assert statuses == {200: 90, 201: 30}


def test_health_shows_each_source_and_its_last_run(api: Api, web: Any) -> None:
    api.post("/sources", {"slug": "alone"})
    run = api.post("/runs", {"source": "web"})
    api.post(f"/runs/{run['id']}/cancel")
    last = api.post("/runs", {"source": "web"})
    enabled = api.post("/sources/web/enable")
    nothing = dict.fromkeys(("next_sync", "last_run", "last_state", "last_start", "last_error"))
    nothing |= {"freshness": None, "newest": None, "failures": 0}
    alone = {"source": "alone", "lake": None, "accepts_events": False, "syncs": False}
    page = api.get("/health")
    assert page["items"][0] == {**alone, **nothing}
    assert page["items"][1] == {
        **nothing,
        "source": "web",
        "lake": "main",
        "accepts_events": True,
        "syncs": True,
        "next_sync": enabled["next_slot"],
        "last_run": last["id"],
        "last_state": "queued",
    }


def test_pages_are_in_the_order_of_the_keys_whatever_the_database_says() -> None:
    items = [Named(name=name) for name in ("b", "a-b", "B", "ab", "a")]
    names, after = [], None
    while True:
        page = make_page(items, lambda one: one.name, after, 2)
        names += [one.name for one in page.items]
        if page.next is None:
            break
        after = page.next
    assert names == ["B", "a", "a-b", "ab", "b"]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/suppressions", {"users": "abc"}, 'users: it should be a list, such as ["a", "b"]'),
        (
            "/sources",
            {"slug": "Web Shop"},
            "slug: it should have no spaces, and only ASCII letters",
        ),
        (
            "/sources",
            {"slgu": "web"},
            "slug: it is missing; slgu: it is not a setting; did you mean",
        ),
        ("/sources", ["web"], "body: it should have names and values"),
        ("/apply", {"source": {}}, "source: it is not a setting; did you mean sources?"),
    ],
)
def test_wrong_fields_are_named_in_plain_words(
    api: Api, path: str, body: Any, sentence: str
) -> None:
    reply = api.ask("POST", path, body)
    assert (reply.status_code, reply.json()["detail"][: len(sentence)]) == (422, sentence)


def test_a_body_that_is_not_sent_as_json(api: Api) -> None:
    form = "application/x-www-form-urlencoded"
    reply = api.ask("POST", "/runs", {"source": "web"}, content_type=form)
    assert (reply.status_code, reply.json()["detail"]) == (
        422,
        "send Content-Type: application/json",
    )
    with httpx.Client(headers={**api.headers, "content-type": "application/json"}) as client:
        reply = client.post(f"{api.url}/api/v1/runs", content=b"{")
    assert reply.json()["detail"].startswith("body: it is not valid JSON")
