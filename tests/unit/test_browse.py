"""Looking into a lake: tables a page at a time, columns, the archive."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from eventlake.errors import NotFound
from eventlake.lakes import open_parts
from eventlake.model.contents import DetailQuery, TableDetail, TableQuery
from eventlake.model.quarantine import QuarantineQuery
from eventlake.services.browse import Browser
from tests.lakes import load


def event(name: str, number: int, **properties: Any) -> str:
    at = f"2026-03-02T08:00:{number:02}.000Z"
    body = {"type": "track", "event": name, "messageId": f"{name}-{number}", "receivedAt": at}
    return json.dumps(body | {"userId": "u", "properties": properties})


class Place:
    """A folder with a lake, to which lines are added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0

    def add(self, *lines: str) -> None:
        self.number += 1
        path = self.folder / f"{self.number}.json"
        path.write_text("\n".join(lines))
        load([path], self.folder / "lake")

    def browse(self) -> Browser:
        return Browser(open_parts(self.folder / "lake"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.add(
        event("Order", 1, total=1, note="long " * 30),
        event("Order", 2, total=2, paid=True),
        event("View", 3),
        event("Order Sent", 4),
        "not json",
    )
    return place


def describe(browser: Browser, table: str, *, samples: bool = True) -> TableDetail:
    return browser.describe_table("web", DetailQuery(table=table, with_samples=samples))


def test_tables_are_listed_a_page_at_a_time(place: Place) -> None:
    browser = place.browse()
    first = browser.list_tables("web", TableQuery(limit=2))
    assert ([one.table for one in first.items], first.next, first.total) == (
        ["order", "order_sent"],
        "order_sent",
        3,
    )
    rest = browser.list_tables("web", TableQuery(limit=2, after="order_sent"))
    assert ([one.table for one in rest.items], rest.next) == (["view"], None)
    found = browser.list_tables("web", TableQuery(search="ORDER"))
    assert [(one.table, one.rows) for one in found.items] == [("order", 2), ("order_sent", 1)]
    assert found.items[0].newest == "2026-03-02T08:00:02.000000Z"


def test_a_new_commit_is_seen(place: Place) -> None:
    browser = place.browse()
    assert browser.list_tables("web", TableQuery()).total == 3
    place.add(event("Cart", 9))
    assert browser.list_tables("web", TableQuery()).total == 4


def test_columns_have_shares_types_and_samples(place: Place) -> None:
    found = describe(place.browse(), "order")
    columns = {one.name: one for one in found.columns}
    assert found.looked_at_rows == 2
    assert (columns["total"].type, columns["total"].null_share) == ("bigint", 0)
    assert (columns["paid"].null_share, columns["paid"].samples) == (0.5, ("true",))
    assert columns["total"].samples == ("1", "2")
    assert len(columns["note"].samples[0]) == 80
    assert {one.engine for one in found.sql} == {"Athena", "Spark", "DuckDB"}
    hidden = describe(place.browse(), "order", samples=False)
    assert not [one for one in hidden.columns if one.samples]


def test_rescued_values_are_counted_by_column(place: Place) -> None:
    place.add(event("Order", 5, total="many"))
    found = describe(place.browse(), "order")
    assert {one.name: one.rescued for one in found.columns if one.rescued} == {"total": 1}
    assert found.rescued_share == pytest.approx(1 / 3)


def test_a_table_or_source_that_is_not_there(place: Place) -> None:
    with pytest.raises(NotFound, match="the source has no such table"):
        describe(place.browse(), "zebra")
    assert place.browse().list_tables("ios", TableQuery()).total == 0


def test_the_days_of_the_archive(place: Place) -> None:
    archive = place.folder / "lake/segment-logs/web"
    for name in ("2026-03-01/a.gz", "2026-03-01/b.gz", "2026-02-28/c.gz", ".hidden/d", "e"):
        (archive / name).parent.mkdir(parents=True, exist_ok=True)
        (archive / name).write_bytes(gzip.compress(b"{}"))
    found = place.browse().list_archive("web").items
    assert [(one.day, one.files) for one in found] == [("2026-02-28", 1), ("2026-03-01", 2)]
    assert found[0].bytes == len(gzip.compress(b"{}"))


def test_the_quarantine_is_listed_and_counted(place: Place) -> None:
    browser = place.browse()
    [line] = browser.list_quarantined("web", QuarantineQuery()).items
    assert "not json" in line.model_dump_json()
    assert "1" in browser.summarize_quarantine("web").model_dump_json()
