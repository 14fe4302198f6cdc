"""The API of runs, replays, corrections and privacy, on both databases."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlake.control.results import TableResult
from eventlake.control.roles import Scope
from eventlake.control.runs import get_run
from eventlake.control.tables import metadata
from tests import lakes
from tests.clocks import SimulatedClock
from tests.server.servers import Api, end_active, with_source

REPLAY = {"source": "web", "since": "2026-02-01", "until": "2026-02-04"}


@pytest.fixture
def api(migrated_sqlite: bytes, clock: SimulatedClock, tmp_path: Path) -> Iterator[Api]:
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    with with_source(str(path), clock, tmp_path) as api:
        yield api


@pytest.fixture
def any_api(url: str, clock: SimulatedClock, tmp_path: Path) -> Iterator[Api]:
    """On SQLite and on PostgreSQL."""
    with with_source(url, clock, tmp_path) as api:
        yield api


def test_a_replay_from_its_plan_to_its_end(any_api: Api) -> None:
    api = any_api
    planned = api.post("/replays", {**REPLAY, "dry_run": True}, idempotency_key="a")
    assert (planned["state"], planned["chunks"], planned["plan"]) == ("planned", 3, None)
    assert api.post("/replays", {**REPLAY, "dry_run": True}, idempotency_key="a") == planned
    assert end_active(api, plan={"bytes": 7}) == [planned["plan_run"]]
    path = f"/replays/{planned['id']}"
    assert api.get(path)["plan"] == {"bytes": 7}
    started = api.post(f"{path}/start", idempotency_key="b")
    assert api.post(f"{path}/start", idempotency_key="b") == started
    assert started["state"] == "running"
    assert api.ask("POST", f"{path}/start").status_code == 409
    assert api.ask("POST", "/replays", REPLAY).status_code == 409
    assert end_active(api) == [started["active_run"]]
    cancelled = api.post(f"{path}/cancel")
    assert (cancelled["state"], cancelled["chunks_done"]) == ("cancelled", 1)
    resumed = api.post(f"{path}/resume")
    assert api.get(f"/runs/{resumed['active_run']}")["chunk"] == 1
    assert [one["id"] for one in api.get("/replays?source=web")["items"]] == [planned["id"]]
    assert api.ask("GET", "/replays/99").status_code == 404
    actions = [
        entry["action"] for entry in api.get(f"/audit?object=replay:{planned['id']}")["items"]
    ]
    assert actions == ["replay.resume", "replay.cancel", "replay.start", "replay.add"]


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/runs", {"kind": "compact", "parameters": {"older_than": "1d"}}, "compact"),
        ("/runs", {"kind": "verify"}, "verify"),
        ("/pins", {"table": "hello", "types": {"n": "string"}, "replay": True}, "retype"),
        ("/quarantine/redrive", {"reasons": ["no_message_id"], "fields": ["a=b"]}, "redrive"),
    ],
)
def test_a_run_of_a_kind_is_started_once(
    api: Api, path: str, body: dict[str, Any], kind: str
) -> None:
    asked = {"source": "web", **body}
    run = api.post(path, asked, idempotency_key="k")
    assert (run["kind"], run["state"]) == (kind, "queued")
    assert api.post(path, asked, idempotency_key="k") == run
    again = api.ask("POST", path, asked)
    assert (again.status_code, f"run {run['id']}" in again.text) == (409, True)
    assert api.post(f"{path}?queue=true", asked)["state"] == "waiting"
    if kind != "verify":
        dry = api.post(path, {**asked, "dry_run": True})
        assert (dry["dry_run"], dry["lane"]) == (True, "plan")


def test_wrong_parameters_are_refused(api: Api) -> None:
    for path, body in [
        ("/runs", {"kind": "compact", "parameters": {"older_than": "soon"}}),
        ("/runs", {"kind": "forget"}),
        ("/runs", {"kind": "replay", "parameters": {"all_time": True}}),
        ("/replays", {"since": "2026-02-02", "until": "2026-02-01"}),
        ("/pins", {"table": "hello", "types": {"n": "blob"}}),
        ("/quarantine/redrive", {"since": "yesterday"}),
        ("/quarantine/redrive", {"reasons": ["nope"]}),
        ("/runs", {"kind": "redrive", "parameters": {"reasons": ["nope"]}}),
    ]:
        reply = api.ask("POST", path, {"source": "web", **body})
        assert (reply.status_code, reply.json()["code"]) == (422, "EventLake.InvalidSettings"), path


def test_a_failed_run_is_retried(api: Api) -> None:
    body = {"kind": "compact", "parameters": {"older_than": "3h"}, "source": "web"}
    run = api.post("/runs", body)
    end_active(api, "failed", error_code="EventLake.InvalidSettings", error="no")
    again = api.post(f"/runs/{run['id']}/retry", idempotency_key="r")
    assert again["id"] != run["id"]
    assert (again["kind"], again["parameters"], again["retry_of"]) == (
        "compact",
        {"older_than": "3h"},
        run["id"],
    )
    assert api.post(f"/runs/{run['id']}/retry", idempotency_key="r") == again
    end_active(api, "failed", error_code="EventLake.Unavailable")
    waits = api.get(f"/runs/{again['id']}")
    assert (waits["state"], waits["not_before"] is None) == ("queued", False)
    now = api.post(f"/runs/{again['id']}/retry")
    assert (now["id"], now["not_before"]) == (again["id"], None)
    end_active(api)
    reply = api.ask("POST", f"/runs/{again['id']}/retry")
    assert (reply.status_code, "only what went wrong" in reply.text) == (409, True)


def test_the_report_of_a_run(api: Api) -> None:
    run = api.post("/runs", {"source": "web"})
    assert api.get(f"/runs/{run['id']}/report") == {"run": run["id"], "items": []}
    counted = TableResult(table="", status="finished", rows=5)
    table = counted.model_copy(update={"table": "hello"})
    end_active(api, lake_run="1772323200000000000", tables=(counted, table))
    items = api.get(f"/runs/{run['id']}/report")["items"]
    assert [(one["table"], one["rows"]) for one in items] == [("", 5), ("hello", 5)]
    assert api.ask("GET", "/runs/99/report").status_code == 404


def test_events_follow_a_run_to_its_end(api: Api) -> None:
    run = api.post("/runs", {"source": "web"})
    names, states = [], []
    address = f"{api.url}/api/v1/runs/{run['id']}/events"
    with httpx.stream("GET", address, timeout=30) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        for line in reply.iter_lines():
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            if line.startswith("data: "):
                states.append(json.loads(line.removeprefix("data: "))["state"])
                if len(states) == 1:
                    end_active(api)
    assert (names, states) == (["run", "end"], ["queued", "finished"])
    assert api.ask("GET", "/runs/99/events").status_code == 404


def test_only_an_admin_replays_with_other_settings(api: Api) -> None:
    body = {"source": "web", "all_time": True, "settings": {"date_partition": "day"}}
    operator = {"authorization": f"Bearer {api.make_token(Scope.WRITE)}"}
    admin = {"authorization": f"Bearer {api.make_token(Scope.ADMIN)}"}
    assert api.ask("POST", "/replays", body, **operator).status_code == 403
    for wrong in ({"date_partition": "year"}, {"source_id": "x"}, {"none": 1}):
        reply = api.ask("POST", "/replays", {**body, "settings": wrong}, **admin)
        assert (reply.status_code, next(iter(wrong)) in reply.text) == (422, True), reply.text
    planned = api.post("/replays", {**body, "dry_run": True}, **admin)
    assert planned["parameters"]["settings"] == {"date_partition": "day"}
    path = f"/replays/{planned['id']}"
    assert api.ask("POST", f"{path}/start", **operator).status_code == 403
    api.post(f"{path}/start", **admin)
    end_active(api, lake_run="1772442000000000000")
    connection = api.get("/connections/web", **admin)
    assert (connection["settings"], connection["version"]) == ({"date_partition": "day"}, 2)


def test_corrected_lines_are_shown_to_nobody(api: Api) -> None:
    asked = {"source": "web", "corrected": '[{"raw": "planted-value"}]'}
    run = api.post("/quarantine/redrive", asked, idempotency_key="k")
    with api.context.database.read() as session:
        assert "planted-value" in get_run(session, run["id"]).parameters["corrected"]
    shown = [api.ask("GET", path).text for path in ("/runs", f"/runs/{run['id']}", "/audit")]
    again = api.post("/quarantine/redrive", asked, idempotency_key="k")
    cancelled = api.post(f"/runs/{run['id']}/cancel")
    assert "planted-value" not in f"{run}{shown}{again}{cancelled}"
    with api.context.database.read() as session:
        found = [session.execute(one.select()).all() for one in metadata.sorted_tables]
    assert "planted-value" not in str([tuple(row) for rows in found for row in rows])


def test_a_viewer_sees_no_values(api: Api) -> None:
    body = {"source": "web", "fields": ["userId=somebody"]}
    run = api.post("/quarantine/redrive", body)
    found = {"problems": ["m1 of somebody is missing"], "ok": False}
    end_active(api, "failed", error_code="EventLake.InvalidSettings", result=found)
    tokens = {scope: api.make_token(scope) for scope in Scope}
    for scope, sees in ((Scope.READ, False), (Scope.WRITE, True)):
        headers = {"authorization": f"Bearer {tokens[scope]}"}
        for path in (f"/runs/{run['id']}", "/runs", f"/runs/{run['id']}/events"):
            assert ("somebody" in api.ask("GET", path, **headers).text) is sees, (path, scope)
    reader = {"authorization": f"Bearer {tokens[Scope.READ]}"}
    assert api.ask("GET", "/quarantine?source=web", **reader).status_code == 403


def test_the_quarantine_is_read_page_by_page(api: Api, tmp_path: Path) -> None:
    good = {"type": "track", "event": "Hello", "receivedAt": "2026-03-01T08:00:00Z"}
    for number in range(2):
        lines = ["no json", *(json.dumps({**good, "userId": f"u{n}"}) for n in range(3))]
        valid = json.dumps({**good, "messageId": f"m{number}"})
        path = tmp_path / f"{number}.json.gz"
        path.write_bytes(gzip.compress("\n".join([*lines, valid]).encode()))
        lakes.load([path], tmp_path / "lake")
    items, after = [], ""
    while True:
        page = api.get(f"/quarantine?source=web&limit=5{after}")
        items += page["items"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert [one["line"] for one in items] == [1, 2, 3, 4] * 2
    assert items[0]["run_id"] > items[-1]["run_id"]
    assert (items[0]["reason"], items[0]["raw"]) == ("not_json", "no json")
    invalid = api.get("/quarantine?source=web&reason=not_json")["items"]
    assert [one["raw"] for one in invalid] == ["no json"] * 2
    reasons = api.get("/quarantine/reasons?source=web")["items"]
    assert {one["reason"]: one["lines"] for one in reasons} == {"no_message_id": 6, "not_json": 2}
    assert api.ask("GET", "/quarantine?source=none").status_code == 404
    for broken in ("xx", ":1", "xx:", "xx:y"):
        reply = api.ask("GET", f"/quarantine?source=web&after={broken}")
        assert (reply.status_code, "`next` of the page before" in reply.text) == (422, True), broken


def test_users_are_suppressed_and_no_more(api: Api) -> None:
    many = [f"user-{number:04}" for number in range(5000)]
    counts = api.post("/suppressions", {"users": many}, idempotency_key="s")
    assert counts == {"lake": "main", "added": 5000, "removed": 0, "unchanged": 0, "listed": 5000}
    assert api.post("/suppressions", {"users": many}, idempotency_key="s") == counts
    assert api.ask("POST", "/suppressions", {"users": [*many, "more"]}).status_code == 422
    first = api.get("/suppressions?limit=2")
    assert (first["items"], first["next"]) == (["user-0000", "user-0001"], "user-0001")
    assert api.get("/suppressions?after=user-4998")["items"] == ["user-4999"]
    assert api.post("/suppressions/remove", {"users": ["user-0000"]})["listed"] == 4999
    again = api.ask("POST", "/suppressions/remove", {"users": ["user-0000"]})
    assert (again.status_code, "not on the suppression list" in again.text) == (422, True)
    assert "user-" not in dump(api)


def test_an_erasure_and_its_receipt(any_api: Api, tmp_path: Path) -> None:
    api = any_api
    body = {"users": ["somebody@example.com"], "also_anonymous": True}
    erasure = api.post("/erasures", body, idempotency_key="e")
    assert api.post("/erasures", body, idempotency_key="e") == erasure
    assert (erasure["state"], len(erasure["runs"]), erasure["lake"]) == ("running", 1, "main")
    receipt = {"source": "web", "run_id": "1", "time": "", "ids": ["ab"], "rows_removed": 2}
    path = tmp_path / "lake" / "receipt.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**receipt, "files": []}))
    end_active(api, result={"removed": 2, "receipts": ["receipt.json"]})
    done = api.get(f"/erasures/{erasure['id']}")
    assert (done["state"], done["removed"]) == ("finished", 2)
    reply = api.ask("GET", f"/erasures/{erasure['id']}/receipt")
    assert "attachment" in reply.headers["content-disposition"]
    assert [one["rows_removed"] for one in reply.json()["receipts"]] == [2]
    assert api.ask("POST", f"/erasures/{erasure['id']}/cancel").status_code == 409
    dry = api.post("/erasures", {"users": ["a", "b"], "dry_run": True})
    assert end_active(api, plan={"removed": 3}) == dry["runs"]
    planned = api.get("/erasures")["items"][0]
    assert (planned["state"], planned["removed"]) == ("planned", 3)
    waiting = api.post("/erasures", {"users": ["c"]})
    assert api.post(f"/erasures/{waiting['id']}/cancel")["state"] == "cancelled"
    assert "somebody" not in dump(api)


def test_only_an_admin_cancels_an_erasure(api: Api) -> None:
    erasure = api.post("/erasures", {"users": ["a"]})
    (run,) = erasure["runs"]
    operator = {"authorization": f"Bearer {api.make_token(Scope.WRITE)}"}
    for action in ("cancel", "retry"):
        assert api.ask("POST", f"/runs/{run}/{action}", **operator).status_code == 403
    api.use_token(Scope.ADMIN)
    assert api.post(f"/runs/{run}/cancel")["state"] == "cancelled"
    assert api.post(f"/runs/{run}/retry")["erasure_id"] == erasure["id"]
    assert api.get(f"/erasures/{erasure['id']}")["state"] == "running"


def dump(api: Api) -> str:
    """All rows of the database."""
    with api.context.database.read() as session:
        found = [session.execute(table.select()).all() for table in metadata.sorted_tables]
    return repr(found)
