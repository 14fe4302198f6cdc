"""The forms of redrives and retypes: what is refused stays on the page with what was entered."""

import gzip
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import lakes
from tests.clocks import SimulatedClock
from tests.server.servers import Api, with_source

QUARANTINE, TABLE = "/sources/web/quarantine", "/sources/web/schema?table=hello"


@pytest.fixture
def api(migrated_sqlite: bytes, clock: SimulatedClock, tmp_path: Path) -> Iterator[Api]:
    """A server with a table and two quarantined lines."""
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    event = {"type": "track", "event": "Hello", "receivedAt": "2026-03-01T08:00:00Z"}
    valid = json.dumps({**event, "messageId": "m1", "properties": {"total": 3}})
    logs = tmp_path / "1.json.gz"
    logs.write_bytes(gzip.compress("\n".join([valid, json.dumps(event), "no json"]).encode()))
    lakes.load([logs], tmp_path / "lake")
    with with_source(str(path), clock, tmp_path) as api:
        yield api


def send(api: Api, path: str, **form: str) -> httpx.Response:
    return httpx.post(api.url + path, data=form, timeout=60)


def read_alert(reply: httpx.Response) -> str:
    found = re.search(r'<div class="note bad" role="alert"><p>(.*?)</p>', reply.text, re.DOTALL)
    assert found, reply.text
    return html.unescape(re.sub(r"<[^>]+>", "", found[1]))


def test_a_wrong_time_is_explained_once_and_the_form_is_kept(api: Api) -> None:
    form = {"reason": "not_json", "since": "yesterday", "fields": "type=track", "dry_run": "1"}
    reply = send(api, QUARANTINE, **form)
    assert reply.status_code == 422
    assert read_alert(reply) == (
        "Not done. since is 'yesterday': write 2026-10-01 or 2026-10-01T07:00:00Z"
    )
    assert "<option selected>not_json</option>" in reply.text
    assert 'value="yesterday"' in reply.text
    assert ">type=track</textarea>" in reply.text
    assert "2 lines by reason and day" in reply.text


@pytest.mark.parametrize("word", ["receivedAt", "=x", "a..b=1"])
def test_a_field_without_name_or_value_is_refused_when_entered(api: Api, word: str) -> None:
    said = f"a field to set is '{word}': write field=value"
    reply = send(api, QUARANTINE, fields=f"type=track\n{word}")
    assert (reply.status_code, said in read_alert(reply)) == (422, True)
    body = {"source": "web", "fields": [word]}
    asked = api.ask("POST", "/quarantine/redrive", body)
    assert (asked.status_code, said in asked.json()["detail"]) == (422, True)
    assert api.get("/runs")["items"] == []


def test_a_redrive_that_meets_another_links_to_it(api: Api) -> None:
    run = send(api, QUARANTINE).headers["location"].partition("?")[0]
    reply = send(api, QUARANTINE, since="2026-03-01")
    assert (reply.status_code, f'<a href="{run}">' in reply.text) == (409, True)
    assert 'value="2026-03-01"' in reply.text


def test_a_retype_that_meets_another_keeps_the_form_and_links_to_it(api: Api) -> None:
    form = {"table": "hello", "column": "total", "type": "string", "replay": "1"}
    run = send(api, TABLE, **form).headers["location"].partition("?")[0]
    reply = send(api, TABLE, **form)
    assert (reply.status_code, f'<a href="{run}">' in reply.text) == (409, True)
    assert "<option selected>total</option>" in reply.text
    assert "<option selected>string</option>" in reply.text
    assert re.search(r'name="replay" value="1" checked', reply.text)


def test_a_run_that_meets_another_elsewhere_links_to_it(api: Api) -> None:
    plan = api.post("/runs", {"source": "web", "kind": "compact", "dry_run": True})
    run = send(api, QUARANTINE).headers["location"].partition("?")[0]
    reply = send(api, f"/runs/{plan['id']}/confirm")
    assert (reply.status_code, f'<a href="{run}">' in reply.text) == (409, True)


def test_columns_of_fixed_types_are_not_offered(api: Api) -> None:
    text = httpx.get(api.url + TABLE, timeout=60).text
    [offered] = re.findall(r'<select id="column" name="column">(.*?)</select>', text)
    assert re.findall(r"<option>(\w+)</option>", offered) == ["total"]
    assert "<code>received_at</code>" in text
