"""Planted secrets are found in no answer, log, plan, report, message, metric or database dump."""

import os
from base64 import b64encode
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
import sqlalchemy as sa

from eventlake.control.people_tables import users
from eventlake.control.roles import Role, Scope
from eventlake.server.app import build_api, list_operations
from eventlake.server.context import SetupCode
from tests.control.receivers import HOST, HookServer, MailServer, hook_server, mail_server
from tests.control.workspaces import SOURCE_ID, Workspace, event
from tests.server.servers import PASSWORD, Api, serving

ACCOUNT_KEY = b64encode(b"planted-account-key" * 2).decode()
"""The key of a storage account must be Base64."""


def dump(api: Api) -> str:
    """All rows of all tables, as text."""
    with api.context.database.read() as session:
        tables = users.metadata.sorted_tables
        found = [session.execute(sa.select(one)).all() for one in tables]
        # As text, a row itself would be cut.
        return "\n".join(str(tuple(row)) for rows in found for row in rows)


def read_everything(api: Api) -> str:
    """The answers of all GET routes, with the names that the test has added."""
    texts = []
    for operation in list_operations(build_api(api.context)):
        path = operation.path.replace("{lake}", "az").replace("{source}", "web")
        path = path.replace("{channel}", "hook").replace("{delivery}", "1").replace("{run}", "1")
        is_stream = path.endswith("/events")
        if (
            not is_stream
            and operation.method == "GET"
            and path.startswith("/api/v1")
            and "{" not in path
        ):
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


def plant_in_people(api: Api) -> list[str]:
    """Log in, fail to log in, add a token; return passwords, session, token and code."""
    api.context.setup = SetupCode(api.context.clock.now())
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


def plant_in_channels(api: Api, mail: MailServer, hooks: HookServer) -> tuple[list[str], str]:
    """Add channels and a heartbeat, refused ones too; return their secrets, and the replies."""
    paths = [f"planted-{one}-path" for one in ("slack", "hook", "gone", "user", "heartbeat")]
    email = {"to": ["ops@example.com"], "host": HOST, "port": mail.port, "user": "me"}
    made = [
        ("mail", "email", {**email, "password": "planted-smtp-password"}),
        ("slack", "slack", {"url": f"{hooks.url}/{paths[0]}"}),
        ("hook", "webhook", {"url": f"{hooks.url}/{paths[1]}?token={paths[1]}"}),
        ("gone", "slack", {"url": f"http://{HOST}:9/{paths[2]}"}),
        ("wrong", "slack", {"url": f"https://user:{paths[3]}@example.com/"}),
        ("wrong", "webhook", {"url": "https://example.com", "secret": "planted-hook-secret"}),
    ]
    replies = [
        api.ask("POST", "/channels", {"name": name, "kind": kind, "settings": settings})
        for name, kind, settings in made
    ]
    assert [reply.status_code for reply in replies] == [201] * 4 + [422] * 2
    secret = replies[2].json()["secret"]
    rotated = api.post("/channels/hook/rotate")["secret"]
    beat = api.ask("PATCH", "/settings", {"heartbeat_url": f"{hooks.url}/{paths[4]}"})
    texts = [reply.text.replace(secret, "shown once") for reply in (*replies, beat)]
    planted = [*paths, "planted-smtp-password", "planted-hook-secret", secret, rotated]
    return planted, "\n".join(texts)


def run_syncs(api: Api, folder: Path, hooks: HookServer) -> str:
    """Run a sync and its plan, and one that the store of a lake refuses; return the reports.

    The refused one has the planted secrets of its lake in its environment.
    """
    change = {"endpoint": f"{hooks.url}/account", "account_key": ACCOUNT_KEY}
    assert api.ask("PATCH", "/lakes/az", {"settings": change}, if_match='"2"').status_code == 200
    settings = {"path": str(folder / "lake")}
    api.post("/lakes", {"slug": "main", "kind": "local", "settings": settings})
    api.post("/sources", {"slug": "refused", "lake": "az"})
    api.post("/sources", {"slug": "web", "source_id": SOURCE_ID, "lake": "main"})
    workspace = Workspace("", folder, api.context.database, api.context.vault)
    workspace.archive("a", *(event(number) for number in range(5)), "{")
    ended = []
    for body in ({"source": "web", "dry_run": True}, {"source": "web"}, {"source": "refused"}):
        api.post("/runs", body)
        ended += workspace.work()
    assert [run.state for run in ended] == ["finished", "finished", "failed"]
    assert ended[0].plan
    assert ended[2].error_code == "EventLake.InsufficientPermissions", ended[2].error
    written = [
        path.read_text() for path in (folder / "lake").rglob("*report*/**/*") if path.is_file()
    ]
    assert written
    return "\n".join([*written, *(api.ask("GET", f"/runs/{run.id}/report").text for run in ended)])


def send_notices(api: Api, mail: MailServer, hooks: HookServer) -> str:
    """Send what is waiting and tests; return the mails and the bodies of requests."""
    api.context.outbox.step()
    api.context.outbox.join(60)
    for name in ("mail", "slack", "hook", "gone"):
        api.post(f"/channels/{name}/test")
    posted = [request.body.decode() for request in hooks.requests if request.method == "POST"]
    sent = "\n".join([*(str(one) for one in mail.mails), *posted])
    assert mail.logins[0] == ("me", "planted-smtp-password")
    assert sum("refused: sync failed" in str(one["subject"]) for one in mail.mails) == 1
    return sent


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
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[Any]
) -> None:
    with (
        serving(url) as api,
        mail_server(with_login=True) as mail,
        hook_server() as hooks,
        patch.dict(os.environ),
    ):
        in_files, plans = plant_in_files(api)
        secrets = [*plant_in_lakes(api), *in_files, *plant_in_people(api)]
        in_requests, replies = plant_in_requests(api)
        in_channels, answers = plant_in_channels(api, mail, hooks)
        secrets += [*in_requests, *in_channels, ACCOUNT_KEY]
        assert all(len(secret) > 8 for secret in secrets)
        assert len(set(secrets)) >= 30
        places = {"plans": plans, "replies": replies, "channels": answers}
        hooks.status = 403
        places["reports"] = run_syncs(api, tmp_path, hooks)
        hooks.status = 200
        places["messages"] = send_notices(api, mail, hooks)
        places |= {"answers": read_everything(api), "database": dump(api)}
        places["metrics"] = httpx.get(f"{api.url}/metrics").text
        assert '"az"' in places["answers"]
        assert "ada@example.com" in places["database"]
        assert "cannot connect to 127.0.0.1 port 9" in places["database"]
    places["log"] = str(capfd.readouterr())
    found = [
        (secret, name) for secret in secrets for name, text in places.items() if secret in text
    ]
    assert found == []
