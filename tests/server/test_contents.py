"""Queries within their limits, and the processes that read lakes."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
import pytest

from eventlake.control.audit import list_audit
from eventlake.control.connections import connect
from eventlake.control.database import migrate, open_database
from eventlake.control.lakes import add_lake
from eventlake.control.roles import Scope
from eventlake.control.sources import add_source
from eventlake.errors import NotFound
from eventlake.model.contents import DetailQuery, QueryLimits, TableDetail, TablePage, TableQuery
from eventlake.server.readers import Readers, find_lake, find_place
from tests.lakes import load
from tests.server.servers import Api, serving

ENDLESS = "select count(*) from range(100000000) a, range(100000000) b"
LARGE = "select list(a.range || 'xxxxxxxxxxxxxxxxxxxxxxxxxx') as x from range(30000000) a"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with a lake that has a table of three rows."""
    folder = tmp_path_factory.mktemp("contents")
    events = [
        {"type": "track", "event": "Order", "messageId": f"m{number}", "userId": "u"}
        | {"receivedAt": "2026-03-02T08:00:00Z", "properties": {"total": number}}
        for number in range(3)
    ]
    (folder / "1.json").write_text("\n".join(map(json.dumps, events)))
    load([folder / "1.json"], folder / "lake")
    path = str(folder / "eventlake.db")
    database = open_database(path)
    migrate(database)
    database.close()
    with serving(path) as api:
        now, vault = api.context.clock.now(), api.context.vault
        with api.context.database.write() as session:
            add_lake(session, "main", "local", {"path": str(folder / "lake")}, vault, now)
            add_lake(session, "other", "local", {"path": str(folder / "other")}, vault, now)
            add_source(session, "web", now, source_id="web", write_key="key")
            connect(session, "web", "main", {}, now)
        api.use_token(Scope.ADMIN)
        yield api
        api.context.readers.close()


@dataclass
class Reply:
    status: int
    body: Any

    @property
    def detail(self) -> str:
        return str(self.body["detail"])


def ask(api: Api, sql: str, **limits: Any) -> Reply:
    """Ask within other limits than the usual ones."""
    api.context.query_limits = QueryLimits(**limits)
    reply = api.ask("POST", "/query", {"sql": sql, "lake": "main"})
    return Reply(reply.status_code, reply.json())


def last_audited(api: Api) -> Any:
    with api.context.database.read() as session:
        [entry] = list_audit(session, before_id=None, limit=1)
    assert entry.action == "query"
    return entry.after


def test_the_limits_are_those_of_the_documentation() -> None:
    assert QueryLimits() == QueryLimits(seconds=30, memory="1GB", max_rows=10_000)


def test_a_query_that_takes_too_long_is_stopped(api: Api) -> None:
    found = ask(api, ENDLESS, seconds=3)
    assert "the query took longer than 3 seconds: read fewer partitions" in found.detail
    assert found.body["code"] == "EventLake.LimitExceeded"
    assert last_audited(api)["outcome"] == "EventLake.LimitExceeded"


def test_a_query_that_needs_too_much_memory_is_refused(api: Api) -> None:
    found = ask(api, LARGE, memory="50MB")
    assert "the query needs more memory than 50MB" in found.detail
    assert found.body["code"] == "EventLake.LimitExceeded"


def test_a_result_has_no_more_rows_than_allowed(api: Api) -> None:
    found = ask(api, "select * from range(6)", max_rows=5)
    assert (len(found.body["rows"]), found.body["is_cut"]) == (5, True)
    found = ask(api, "select * from range(5)", max_rows=5)
    assert (len(found.body["rows"]), found.body["is_cut"]) == (5, False)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/hostname')",
        "set memory_limit = '9GB'",
    ],
)
def test_a_query_reads_nothing_but_the_lake_and_sets_nothing(api: Api, sql: str) -> None:
    found = ask(api, sql)
    assert found.status == 422
    assert last_audited(api) == {
        "sql": sql,
        "format": "json",
        "outcome": "EventLake.InvalidSettings",
    }


def test_a_query_that_ends_is_audited(api: Api) -> None:
    sql = 'select total from web."order" order by total'
    assert ask(api, sql).body["rows"] == [["0"], ["1"], ["2"]]
    assert last_audited(api) == {"sql": sql, "format": "json", "outcome": "finished"}


def test_values_are_printed_as_duckdb_prints_them(api: Api) -> None:
    sql = r"""select interval '1 month 2 days' as span, '\x00a'::blob as bytes,
        {'a': null, 'span': interval 1 day} as nested, 'nan'::double as number"""
    printed = ["1 month 2 days", r"\x00a", "{'a': NULL, 'span': 1 day}", "nan"]
    assert ask(api, sql).body["rows"] == [printed]
    reply = api.ask("POST", "/query", {"sql": sql, "lake": "main", "format": "csv"})
    assert next(csv.reader(reply.text.splitlines()[1:])) == printed
    reply = api.ask("POST", "/query", {"sql": sql, "lake": "main", "format": "parquet"})
    stored = pq.read_table(io.BytesIO(reply.content)).to_pylist()
    assert list(stored[0].values())[:3] == [printed[0], b"\x00a", printed[2]]


def test_a_saved_query_is_replaced_and_removed(api: Api) -> None:
    api.post("/queries", {"name": "mine", "lake": "main", "sql": "select 1"})
    made = api.post("/queries", {"name": "mine", "lake": "main", "sql": "select 2"})
    assert [one["sql"] for one in api.get("/queries")["items"]] == ["select 2"]
    assert api.ask("DELETE", f"/queries/{made['id']}").status_code == 204
    assert api.ask("DELETE", f"/queries/{made['id']}").status_code == 404


# The processes that stay


def list_tables(api: Api, readers: Readers) -> TablePage:
    with api.context.database.read() as session:
        place = find_place(session, "web", api.context.vault)
    return readers.ask(place, "tables", TableQuery(), TablePage)


@pytest.fixture
def readers() -> Iterator[Readers]:
    readers = Readers()
    yield readers
    readers.close()


def test_a_reader_that_died_is_started_again(api: Api, readers: Readers) -> None:
    [before] = list_tables(api, readers).items
    [reader] = readers._by_lake.values()
    reader.child.kill()
    reader.child.wait()
    assert list_tables(api, readers).items == (before,)
    [other] = readers._by_lake.values()
    assert other is not reader
    readers.close()
    assert other.child.poll() is not None


def test_errors_of_a_reader_are_those_of_the_lake(api: Api, readers: Readers) -> None:
    with api.context.database.read() as session:
        place = find_place(session, "web", api.context.vault)
    with pytest.raises(NotFound, match="table is 'zebra': the source has no such table"):
        readers.ask(place, "table", DetailQuery(table="zebra"), TableDetail)


def test_the_reader_that_was_idle_longest_ends_for_another_lake(api: Api, readers: Readers) -> None:
    list_tables(api, readers)
    [first] = readers._by_lake.values()
    readers.max_readers = 1
    with api.context.database.read() as session:
        other = find_lake(session, "other", api.context.vault)._replace(folder="web")
    assert readers.ask(other, "tables", TableQuery(), TablePage).total == 0
    assert len(readers._by_lake) == 1
    assert first.child.poll() is not None
