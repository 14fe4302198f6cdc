"""The page of queries without a browser, over two lakes."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from eventlake.control.connections import connect
from eventlake.control.lakes import add_lake
from eventlake.control.roles import Role
from eventlake.control.sources import add_source
from eventlake.server.pages import query
from tests.lakes import load
from tests.server.servers import Api, serving


@pytest.fixture(scope="module")
def api(migrated_sqlite: bytes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with the lakes `archive` and `main`, of which the second has two tables."""
    folder = tmp_path_factory.mktemp("query")
    path = folder / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    _land_events(folder)
    with serving(str(path)) as api:
        now, vault = api.context.clock.now(), api.context.vault
        with api.context.database.write() as session:
            add_lake(session, "archive", "local", {"path": str(folder / "archive")}, vault, now)
            add_lake(session, "main", "local", {"path": str(folder / "main")}, vault, now)
            for source, lake in (("old", "archive"), ("web", "main")):
                add_source(session, source, now, source_id=source, write_key=source)
                connect(session, source, lake, {}, now)
        yield api


def _land_events(folder: Path) -> None:
    at = "2026-03-02T08:00:00Z"
    events = [
        {"type": "track", "event": name, "messageId": name, "userId": "u", "receivedAt": at}
        for name in ("Cart Viewed", "Order Completed")
    ]
    (folder / "1.json").write_text("\n".join(map(json.dumps, events)))
    load([folder / "1.json"], folder / "main")


@pytest.fixture(scope="module")
def ann(api: Api) -> Iterator[httpx.Client]:
    with api.log_in("ann@example.com", Role.OPERATOR) as client:
        yield client


def run(client: httpx.Client, sql: str, chart: str = "") -> str:
    reply = client.post("/query", data={"sql": sql, "lake": "main", "chart": chart})
    assert reply.status_code == 200, reply.text
    shown = html.unescape(reply.text)
    assert f">{sql}</textarea>" in shown
    return shown


def save(client: httpx.Client, name: str, sql: str) -> httpx.Response:
    values = {"sql": sql, "lake": "main", "name": name, "save": "1"}
    reply = client.post("/query", data=values, follow_redirects=True)
    assert f">{sql}</textarea>" in reply.text
    return reply


@pytest.mark.parametrize("kind", ["bar", "line"])
def test_what_is_not_finite_is_text_and_not_in_the_chart(ann: httpx.Client, kind: str) -> None:
    values = "('a', '2.5'), ('b', 'nan'), ('c', '-inf'), ('d', null), ('e', '-1')"
    page = run(ann, f"select name, n::double from (values {values}) as t(name, n)", kind)
    assert ">nan</td>" in page
    assert ">-inf</td>" in page
    assert page.count('class="bar"') == 2
    assert "Rows without a finite number are left out: 3." in page


def test_a_chart_of_some_rows_says_so(ann: httpx.Client) -> None:
    page = run(ann, "select range, range + 1 from range(5000)", "bar")
    assert page.count('class="bar"') == 60
    assert "The chart has the first 60 of 5,000 rows." in page


def test_a_line_of_one_row_is_a_point(ann: httpx.Client) -> None:
    assert run(ann, "select 'a', 1", "line").count("<circle") == 1


def test_a_table_is_queried_in_its_lake(ann: httpx.Client) -> None:
    table = ann.get("/sources/web/schema", params={"table": "order_completed"}).text
    [link] = re.findall(r'href="(/query[^"]+)"', table)
    page = ann.get(html.unescape(link)).text
    assert "<option selected>main</option>" in page
    assert ">select * from web.order_completed limit 100</textarea>" in page


def test_the_tables_of_the_chosen_lake_are_listed(ann: httpx.Client) -> None:
    first = ann.get("/query").text
    assert "Tables of archive" in first
    assert ">web.order_completed</button>" not in first
    other = ann.post("/query", data={"lake": "main", "sql": "select 1", "show": "1"}).text
    assert "Tables of main" in other
    assert ">web.order_completed</button>" in other
    assert ">select 1</textarea>" in other


def test_what_is_not_listed_is_said(ann: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_TABLES", 1)
    page = html.unescape(ann.get("/query", params={"lake": "main"}).text)
    assert page.count("data-insert") == 1
    assert '<a href="/sources/web/schema">web</a>: <small>1 more table</small>' in page
    monkeypatch.setattr(query, "MAX_SOURCES", 0)
    assert "web</a>: <small>see its schema</small>" in ann.get("/query?lake=main").text


def test_a_saved_query_stays_in_the_editor(ann: httpx.Client) -> None:
    first = save(ann, "kept", "select 1")
    assert "Saved." in first.text
    assert "<option selected>main</option>" in first.text
    second = save(ann, "kept", "select 2")
    assert "Saved in place of your earlier query of this name." in second.text
    assert 'value="kept"' in second.text


def test_the_saved_query_of_another_is_not_replaced(api: Api, ann: httpx.Client) -> None:
    save(ann, "of ann", "select 1")
    with api.log_in("bob@example.com", Role.OPERATOR) as bob:
        refused = save(bob, "of ann", "select 2")
        assert refused.status_code == 409
        assert "ann@example.com has saved a query as of ann" in refused.text
        [link] = re.findall(r'href="([^"]+)">of ann<', refused.text)
        assert ">select 1</textarea>" in bob.get(link).text


def test_short_values_stay_on_a_line(ann: httpx.Client) -> None:
    page = run(ann, "select uuid() as id, repeat('a ', 30) as text")
    assert re.search(r'<td class="tight">[0-9a-f-]{36}</td><td class="long">a a ', page)
