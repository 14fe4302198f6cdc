"""A type that a person changes in the catalog counts as a retype."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from eventlake.errors import InvalidSettings
from eventlake.ledger import add_refusals
from eventlake.model.types import Type
from eventlake.pipeline.retyped import find_retyped
from eventlake.services.load import LoadResult, plan_load
from eventlake.services.read import open_lake
from tests import lakes

ENTRY = "segment-data/catalog/web/paid.json"


def events(folder: Path, hour: int, price: Any, event: str = "Paid") -> Path:
    path = folder / f"{hour}.json"
    line = {
        "type": "track",
        "event": event,
        "messageId": f"m{hour}",
        "receivedAt": f"2026-11-01T{hour:02}:00:00Z",
        "properties": {"price": price},
    }
    path.write_text(json.dumps(line) + "\n")
    return path


def load(folder: Path, hour: int, price: Any, event: str = "Paid") -> LoadResult:
    return lakes.load([events(folder, hour, price, event)], folder / "lake")


def change_type(lake: Path, column: str, kind: str) -> None:
    entry = json.loads((lake / ENTRY).read_bytes())
    for one in entry["columns"]:
        one["type"] = kind if one["name"] == column else one["type"]
    (lake / ENTRY).write_text(json.dumps(entry))


def prices(lake: Path) -> list[Any]:
    found = open_lake(lake).query("select price from web.paid order by received_at")
    return list(found.column("price").to_pylist())


def test_new_rows_follow_a_type_that_was_changed_in_the_catalog(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    load(tmp_path, 1, 5)
    change_type(lake, "price", "decimal(38,6)")
    result = load(tmp_path, 2, 1.5)
    assert result.status == "finished"
    [warning] = result.warnings
    assert "web.paid.price was changed from bigint to decimal(38,6) in the catalog" in warning
    assert "older partitions need a replay" in warning
    assert "Spark" in warning
    run, table = [
        line for line in open_lake(lake).reports("web") if line["run_id"] == result.run_id
    ]
    assert "warning" not in run
    assert table["warning"] == "price is now decimal(38,6): older partitions need a replay"
    sql = f"select warning from __segment_datalake.sync_reports where run_id = '{result.run_id}'"
    assert table["warning"] in open_lake(lake).query(sql).column("warning").to_pylist()
    assert prices(lake) == [Decimal(5), Decimal("1.5")]
    assert open_lake(lake).verify("web").ok
    assert load(tmp_path, 3, 2).warnings == (), "said once"
    assert prices(lake)[2:] == [Decimal(2)]


def test_old_rows_that_do_not_fit_the_new_type_are_null(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for hour, price in enumerate(("abc", "7")):
        load(tmp_path, hour, price)
    change_type(lake, "price", "bigint")
    load(tmp_path, 2, 8)
    assert prices(lake) == [None, 7, 8]


def test_a_table_without_new_rows_is_retyped_too(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    load(tmp_path, 1, 5)
    change_type(lake, "price", "string")
    assert load(tmp_path, 2, 1, event="Other").warnings
    assert prices(lake) == ["5"]
    assert lakes.assert_complete(lake).rows == 2


@pytest.mark.parametrize(
    ("column", "kind", "advice"),
    [
        ("price", "double", "EventLake writes boolean, bigint, decimal(38,6), string, timestamp"),
        ("received_at", "string", "the types of standard columns are fixed"),
    ],
)
def test_a_type_that_cannot_be_followed_is_refused(
    tmp_path: Path, column: str, kind: str, advice: str
) -> None:
    lake = tmp_path / "lake"
    load(tmp_path, 1, 5)
    change_type(lake, column, kind)
    before = sorted(lake.rglob("*"))
    with pytest.raises(InvalidSettings, match=rf"web\.paid\.{column} has the type {kind}") as error:
        load(tmp_path, 2, 6)
    assert advice in str(error.value)
    with pytest.raises(InvalidSettings, match=kind):
        plan_load([tmp_path / "2.json"], lake=lake, settings=lakes.SETTINGS)
    assert sorted(lake.rglob("*")) == before, "nothing is staged"
    change_type(lake, column, {"price": "bigint", "received_at": "timestamp"}[column])
    assert load(tmp_path, 2, 6).status == "finished"


def test_a_table_with_refused_changes_is_not_retyped(tmp_path: Path) -> None:
    """The catalog may have the old type because it refused the new one."""
    lake = tmp_path / "lake"
    load(tmp_path, 1, 5)
    change_type(lake, "price", "string")
    parts = open_lake(lake).parts
    ledger = parts.ledger("web")
    state = ledger.read_state()
    assert find_retyped(parts, ledger, state).retyped == {"paid": {"price": Type.STRING}}
    add_refusals(ledger, "1" * 19, {"paid": InvalidSettings("denied")})
    assert find_retyped(parts, ledger, state) == ({}, ())


def test_a_catalog_that_cannot_be_read_does_not_stop_a_run(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    load(tmp_path, 1, 5)
    (lake / ENTRY).write_text("{")
    result = load(tmp_path, 2, 6)
    assert result.status == "partial"
    [warning] = result.warnings
    assert warning.startswith("types in the catalog were not checked: ")
    assert prices(lake) == [5, 6]
