"""Planted secrets are found in no answer, log or dump of the database."""

from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from eventlake.control.people_tables import users
from eventlake.control.roles import Role, Scope
from eventlake.server.app import build_api, list_operations
from eventlake.server.context import SetupCode
from tests.clocks import SimulatedClock
from tests.server.servers import PASSWORD, Api, serving


def dump(api: Api) -> str:
    """All rows of all tables, as text."""
    with api.context.database.read() as session:
        tables = users.metadata.sorted_tables
        return "\n".join(str(row) for one in tables for row in session.execute(sa.select(one)))


def read_everything(api: Api) -> str:
    """The answers of all GET routes, with the names that the test has added."""
    texts = []
    for operation in list_operations(build_api(api.context)):
        path = operation.path.replace("{lake}", "az").replace("{source}", "web")
        if operation.method == "GET" and path.startswith("/api/v1") and "{" not in path:
            texts.append(api.ask("GET", path.removeprefix("/api/v1")).text)
    assert len(texts) > 10
    return "\n".join(texts)


def plant_in_lakes(api: Api) -> list[str]:
    """Set every secret of a lake, refused and repeated ones too; return the secrets."""
    names = next(one for one in api.get("/lakes/kinds")["items"] if one["kind"] == "azure")
    planted = {name: f"planted-{number}-{name}" for number, name in enumerate(names["secrets"])}
    place = {"storage_account": "account", "storage_container": "container"}
    body = {"slug": "az", "kind": "azure", "settings": {**place, **planted}}
    for _ in range(2):
        api.post("/lakes", body, idempotency_key="once")
    changed = {name: f"new-{secret}" for name, secret in planted.items()}
    assert api.ask("PATCH", "/lakes/az", {"settings": changed}, if_match='"1"').status_code == 200
    wrong = {name: [f"wrong-{secret}"] for name, secret in planted.items()}
    refused = api.ask("PATCH", "/lakes/az", {"settings": wrong}, if_match='"2"')
    misplaced = api.ask("POST", "/lakes", {**body, "slug": "x", "settings": planted})
    unknown = api.ask("POST", "/lakes", {**body, "slug": "y", "secret": "planted-extra"})
    for reply in (refused, misplaced, unknown):
        assert (reply.status_code, "planted-" in reply.text) == (422, False), reply.text
    lists = [secret for (secret,) in wrong.values()]
    return [*planted.values(), *changed.values(), *lists, "planted-extra"]


def plant_in_files(api: Api) -> tuple[list[str], str]:
    """Apply files with secrets where they do not belong; return the secrets, and the plans."""
    names = next(one for one in api.get("/lakes/kinds")["items"] if one["kind"] == "azure")
    place = {"storage_account": "account", "storage_container": "other"}
    secrets, plans = list[str](), list[str]()
    for name in names["secrets"]:
        for section in ("secrets", "settings"):
            secret = f"planted-file-{section}-{name}"
            lake: dict[str, Any] = {"kind": "azure", "settings": dict(place), "secrets": {}}
            lake[section][name] = secret
            for dry in ("true", "false"):
                reply = api.ask("POST", f"/apply?dry_run={dry}", {"lakes": {"az2": lake}})
                plans.append(reply.text)
            secrets.append(secret)
    exported = {**api.get("/export"), "password": "planted-file-field"}
    plans.append(api.ask("POST", "/apply", exported).text)
    assert "does not belong in a file" in plans[0]
    return [*secrets, "planted-file-field"], "\n".join(plans)


def plant_in_people(api: Api, clock: SimulatedClock) -> list[str]:
    """Log in, fail to log in, add a token; return passwords, session, token and code."""
    api.context.setup = SetupCode(clock.now())
    api.add_user("ada@example.com", Role.ADMIN)
    credentials = {"email": "ada@example.com", "password": PASSWORD}
    session = api.ask("POST", "/session", credentials).headers["set-cookie"]
    api.ask("POST", "/session", {**credentials, "password": "planted-wrong-password"})
    api.ask("POST", "/users", {"email": "no", "password": "planted-user-password"})
    api.use_token(Scope.ADMIN)
    token = api.post("/tokens", {"name": "ci"})["secret"]
    sent = api.headers["authorization"].removeprefix("Bearer ")
    code = api.context.setup.code
    cookie = session.partition("=")[2].partition(";")[0]
    return [PASSWORD, "planted-wrong-password", "planted-user-password", token, sent, cookie, code]


def plant_in_requests(api: Api) -> tuple[list[str], str]:
    """Secrets where requests do not expect them; return them, and the replies."""
    secrets = {
        name: f"planted-request-{name}" for name in ("header", "query", "path", "cookie", "key")
    }
    replies = [
        api.ask("GET", "/sources", authorization=f"Bearer el_{secrets['header']}"),
        api.ask("GET", "/sources", authorization=f"Basic {secrets['header']}"),
        api.ask("GET", f"/runs?limit={secrets['query']}"),
        api.ask("GET", f"/nothing/{secrets['path']}"),
        api.ask("DELETE", f"/sources/none/keys?key={secrets['key']}"),
        api.ask("GET", "/me", cookie=f"eventlake={secrets['cookie']}"),
        api.ask("POST", "/setup", {"code": "planted-request-code", "email": "a", "password": ""}),
    ]
    text = "\n".join(reply.text for reply in replies)
    return [*secrets.values(), "planted-request-code"], text


def test_planted_secrets_are_not_found(
    url: str, clock: SimulatedClock, capfd: pytest.CaptureFixture[Any]
) -> None:
    with serving(url, clock) as api:
        in_files, plans = plant_in_files(api)
        secrets = [*plant_in_lakes(api), *in_files, *plant_in_people(api, clock)]
        in_requests, replies = plant_in_requests(api)
        secrets += in_requests
        assert all(len(secret) > 8 for secret in secrets)
        assert len(set(secrets)) >= 30
        places = {"plans": plans, "replies": replies}
        places |= {"answers": read_everything(api), "database": dump(api)}
        places["metrics"] = httpx.get(f"{api.url}/metrics").text
        assert '"az"' in places["answers"]
        assert "ada@example.com" in places["database"]
    places["log"] = str(capfd.readouterr())
    found = [
        (secret, name) for secret in secrets for name, text in places.items() if secret in text
    ]
    assert found == []
