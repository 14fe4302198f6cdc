"""Notices over the API and by commands; metrics."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from eventlake.control.endings import end_runs
from eventlake.control.queue import Limits, start_runs
from eventlake.control.results import Outcome, TableResult
from eventlake.control.roles import Scope
from eventlake.control.runs import RunState
from eventlake.control.scheduler import Tick
from tests.clocks import SimulatedClock
from tests.control.receivers import HookServer, hook_server, mail_server
from tests.server.servers import Api, serving
from tests.server.test_commands import Run, run, web
from tests.server.test_up import up, wait_until

__all__ = ["run", "web"]  # fixtures

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


@pytest.fixture
def api(url: str, clock: SimulatedClock, tmp_path: Path) -> Iterator[Api]:
    with serving(url, clock) as api:
        path = str(tmp_path / "lake")
        api.post("/lakes", {"slug": "main", "kind": "local", "settings": {"path": path}})
        api.post("/sources", {"slug": "web", "lake": "main"})
        yield api


def end_sync(api: Api, outcome: Outcome) -> int:
    """Run a sync of the source to an end."""
    run_id: int = api.post("/runs", {"source": "web"})["id"]
    database, now = api.context.database, api.context.clock.now()
    with database.write() as session:
        [started] = start_runs(database, session, "worker", now, Limits())
        end_runs(session, {(run_id, started.attempt): outcome}, now)
    return run_id


FAILED = Outcome(
    state=RunState.FAILED, error_code="EventLake.InvalidSettings", error="no such bucket"
)
LANDED = Outcome(
    state=RunState.FINISHED,
    lake_run="1772442000000000000",
    tables=(
        TableResult(table="", status="finished", rows=90, received=100, duplicates=10),
        TableResult(table="orders", status="finished", rows=90, received=100, duplicates=10),
    ),
)


def test_a_channel_from_its_making_to_its_end(api: Api, hooks: HookServer) -> None:
    settings = {"url": f"{hooks.url}/planted-hook-path"}
    made = api.post("/channels", {"name": "ops", "kind": "webhook", "settings": settings})
    assert made["secret"].startswith("whsec_")
    shown = api.ask("GET", "/channels/ops")
    assert shown.json() == made["channel"]
    rule = api.post("/rules", {"channel": "ops", "events": ["default"], "sources": ["web"]})
    assert api.get("/rules")["items"] == [rule]
    run_id = end_sync(api, FAILED)
    [incident] = api.get("/incidents?open=true")["items"]
    assert (incident["kind"], incident["last_run"]) == ("sync", run_id)
    [waiting] = api.get("/deliveries?state=pending")["items"]
    assert api.ask("POST", f"/deliveries/{waiting['id']}/redeliver").status_code == 409
    api.context.outbox.step()
    api.context.outbox.join(30)
    sent = api.get(f"/deliveries/{waiting['id']}")
    assert (sent["state"], sent["answer"]) == ("delivered", "200 OK")
    again = api.post(f"/deliveries/{waiting['id']}/redeliver")
    assert (again["state"], again["tries"]) == ("pending", 1)
    tested = api.post("/channels/ops/test")
    assert (tested["state"], tested["notice"]["event"]) == ("delivered", "test")
    etag = shown.headers["etag"]
    changed = api.ask("PATCH", "/channels/ops", {"settings": {"url": hooks.url}}, if_match=etag)
    assert changed.json()["version"] == 2
    assert api.ask("PATCH", "/channels/ops", {"settings": {}}, if_match=etag).status_code == 412
    assert api.post("/channels/ops/rotate")["secret"] != made["secret"]
    assert api.ask("DELETE", f"/rules/{rule['id']}").status_code == 204
    assert api.ask("DELETE", "/channels/ops").status_code == 204
    assert api.get("/channels")["items"] == []
    assert len(api.get("/deliveries")["items"]) == 2
    actions = {one["action"] for one in api.get("/audit")["items"]}
    assert {"channel.add", "channel.rotate", "rule.remove", "delivery.redeliver"} <= actions


def test_a_failure_reaches_a_mail_server_within_a_minute(url: str, tmp_path: Path) -> None:
    """A real server, a real worker that cannot read the lake's secret, a real mail server."""
    with mail_server() as mail, up(tmp_path, url) as server:
        kinds = server.ask("GET", "/lakes/kinds").json()["items"]
        secret = next(one for one in kinds if one["kind"] == "azure")["secrets"][0]
        place = {"storage_account": "account", "storage_container": "container"}
        lake = {"slug": "az", "kind": "azure", "settings": {**place, secret: "env:NOT_THERE"}}
        email = {"to": ["ops@example.com"], "host": "127.0.0.1", "port": mail.port}
        channel = {"name": "ops", "kind": "email", "settings": email}
        for path, body in (
            ("/lakes", lake),
            ("/sources", {"slug": "web", "lake": "az"}),
            ("/channels", channel),
            ("/runs", {"source": "web"}),
        ):
            reply = server.ask("POST", path, body)
            assert reply.status_code == 201, reply.text
        assert mail.arrived.wait(150)
        arrived = datetime.now(UTC)
        [run_] = server.ask("GET", "/runs").json()["items"]
        assert arrived - datetime.fromisoformat(run_["ended_at"]) < timedelta(seconds=60)
        text = mail.mails[0].get_content()
        assert "'env:NOT_THERE': the environment has no such variable" in " ".join(text.split())
        assert f"{server.url}/runs/{run_['id']}" in text
        wait_until(lambda: "eventlake_leader 1.0" in httpx.get(f"{server.url}/metrics").text)
        assert server.stop() == 0


def test_an_operator_tests_and_a_viewer_only_reads(api: Api, hooks: HookServer) -> None:
    body = {"name": "ops", "kind": "slack", "settings": {"url": f"{hooks.url}/planted-slack-path"}}
    api.post("/channels", body)
    tokens = {scope: api.make_token(scope) for scope in Scope}
    asked = {
        scope: [
            api.ask(method, path, given, authorization=f"Bearer {token}").status_code
            for method, path, given in (
                ("GET", "/channels/ops", None),
                ("POST", "/channels/ops/test", None),
                ("POST", "/channels", {**body, "name": f"by-{scope.value}"}),
            )
        ]
        for scope, token in tokens.items()
    }
    assert asked == {
        Scope.READ: [200, 403, 403],
        Scope.WRITE: [200, 200, 403],
        Scope.ADMIN: [200, 200, 201],
    }


def test_health_freshness_and_days(api: Api) -> None:
    end_sync(api, LANDED)
    daily = api.get("/sources/web/daily?days=1&table=*")
    assert {one["table"]: one["rows"] for one in daily["rows"]} == {"": 90, "orders": 90}
    assert [(one["state"], one["runs"]) for one in daily["runs"]] == [("finished", 1)]
    assert len(api.get("/sources/web/daily")["rows"]) == 1
    shown = api.get("/sources/web/freshness")
    assert (shown["state"], shown["last_success"] is not None) == ("never", True)
    limits = {"late_after_seconds": 3600, "silent_after_seconds": 7200}
    assert api.ask("PUT", "/sources/web/freshness", limits).json()["limits"] == limits
    api.ask("PATCH", "/settings", {"preferences": {"keep_runs_days": 90}})
    settings = api.get("/settings")
    assert (settings["preferences"]["keep_runs_days"], settings["heartbeat_url"]) == (90, None)
    assert api.ask("PATCH", "/settings", {"preferences": {"keep_runs_days": 1}}).status_code == 422
    refused = api.ask("PATCH", "/settings", {"heartbeat_url": "http://169.254.169.254/"})
    assert (refused.status_code, "link-local" in refused.text) == (422, True)


# Metrics


def measure(api: Api, hooks: HookServer) -> str:
    """Have something of everything happen; return the metrics after it."""
    settings = {"url": f"{hooks.url}/hook"}
    api.post("/channels", {"name": "ops", "kind": "webhook", "settings": settings})
    end_sync(api, LANDED)
    end_sync(api, FAILED)
    api.post("/runs", {"source": "web"})
    api.post("/channels/ops/test")
    api.context.metrics.count_tick(Tick(2, 1, None, (0.2, 0.7)))
    api.context.metrics.is_leader = lambda: True
    return httpx.get(f"{api.url}/metrics").text


def read_samples(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name and the values of their labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in sorted(sample.labels))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_metrics_say_what_happened(api: Api, hooks: HookServer, clock: SimulatedClock) -> None:
    text = measure(api, hooks)
    found = read_samples(text)
    runs = {("sync", "web", "failed"): 1.0, ("sync", "web", "finished"): 1.0}
    assert found["eventlake_runs_total"] == runs
    assert found["eventlake_run_duration_seconds_count"] == {("sync", "web"): 2.0}
    rows = found["eventlake_rows_total"]
    assert (rows["landed", "web"], rows["duplicate", "web"]) == (90.0, 10.0)
    now = clock.now().timestamp()
    assert found["eventlake_last_success_timestamp_seconds"] == {("web",): now}
    assert found["eventlake_failures_in_a_row"] == {("web",): 1.0}
    assert found["eventlake_queue_runs"] == {("sync",): 1.0}
    assert found["eventlake_deliveries_total"] == {("webhook", "delivered"): 1.0}
    assert found["eventlake_deliveries_waiting"] == {(): 1.0}
    assert found["eventlake_slots_total"] == {("queued",): 2.0, ("skipped",): 1.0}
    assert found["eventlake_schedule_lateness_seconds_count"] == {(): 2.0}
    assert (found["eventlake_leader"], found["eventlake_database_up"]) == ({(): 1}, {(): 1})
    asked = found["eventlake_http_request_duration_seconds_count"]
    assert asked["/api/v1/channels/{channel}/test", "200"] == 1.0
    check_names(text)


def check_names(metrics: str) -> None:
    """What the alerts, the dashboard and the documentation name is there, and the reverse."""
    families = dict(re.findall(r"^# TYPE (\w+) (\w+)$", metrics, re.MULTILINE))
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
    known = {name + end for name, kind in families.items() for end in suffixes.get(kind, ("",))}
    alerts = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yml").read_text())
    rules = alerts["groups"][0]["rules"]
    assert all(rule["annotations"]["summary"] for rule in rules)
    dashboard = json.loads((ROOT / "deploy/monitoring/dashboard.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in (*(rule["expr"] for rule in rules), *shown):
        used = set(re.findall(r"\beventlake_\w+", expression))
        assert used, expression
        assert used <= known, expression
    own = {name for name in families if not name.startswith("eventlake_collect_")}
    documented = set(re.findall(r"`(eventlake_\w+)", (ROOT / "docs/notices.md").read_text()))
    assert documented == own


# Commands


def test_commands_of_notices(run: Run, web: Any, hooks: HookServer) -> None:
    with mail_server() as mail:
        settings = [f"host=127.0.0.1 port={mail.port} security=none".split()]
        words = [word for one in settings[0] for word in ("--set", one)]
        code, made = run("notify", "add", "email", "ops@example.com", "dev@example.com", *words)
        assert (code, made["channel"]["settings"]["to"][1]) == (0, "dev@example.com")
        url = f"{hooks.url}/planted-hook-path"
        text = run("notify", "add", "webhook", url, "--event", "*", as_json=False)[1]
        assert "secret, shown only now: whsec_" in text
        options = ("--name", "chat", "--source", "web")
        assert run("notify", "add", "slack", f"{hooks.url}/planted-slack-path", *options)[0] == 0
        assert run("notify", "add", "slack", hooks.url, "--event", "nope")[0] == 2
        shown = run("notify", "list", as_json=False)[1]
        assert "planted" not in shown
        assert "problems and recoveries" in shown
        assert "default of web" in shown
        code, sent = run("notify", "test")
        assert (code, {one["state"] for one in sent}) == (0, {"delivered"})
        assert len(mail.mails) == 1
        code, again = run("notify", "redeliver", str(sent[0]["id"]))
        assert (code, again["state"]) == (0, "pending")
        hooks.status = 500
        assert run("notify", "test", "chat")[0] == 1
        hooks.status = 200
        assert "500 Internal Server Error" in run("notify", "deliveries", as_json=False)[1]
        assert len(run("notify", "deliveries", "--channel", "chat")[1]) == 2
        assert run("notify", "rotate", "webhook")[1]["secret"].startswith("whsec_")
        code, done = run("notify", "rotate", "webhook", "--finish")
        assert (code, sorted(done["channel"]["secrets"])) == (0, ["secret", "url"])
        assert run("notify", "remove", "chat")[0] == 0
        assert [one["name"] for one in run("notify", "list")[1]] == ["email", "webhook"]
