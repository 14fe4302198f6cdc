"""Glue's names and types of tables: changed by settings, or by a person."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from eventlake.errors import InvalidSettings
from eventlake.model.settings import source_settings
from eventlake.services.check import check
from eventlake.services.load import LoadResult
from eventlake.services.read import open_lake
from tests import lakes
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Refuses


def load(folder: Path, aws: Aws, hour: int, price: Any = 1, **settings: str) -> LoadResult:
    """Load one event of an hour."""
    path = folder / f"{hour}.json"
    line = {
        "type": "track",
        "event": "Paid",
        "messageId": f"m{hour}",
        "receivedAt": f"2026-11-01T{hour:02}:00:00Z",
        "properties": {"price": price},
    }
    path.write_text(json.dumps(line) + "\n")
    wanted = source_settings(**{"source": "web", **settings})
    return lakes.load([path], aws.settings(), settings=wanted)


def hours(aws: Aws, name: str) -> list[str]:
    """The hours that Glue has of a table."""
    database, table = name.split(".")
    found = aws.client("glue").get_partitions(DatabaseName=database, TableName=table)
    assert {one["StorageDescriptor"]["Location"][:54] for one in found["Partitions"]} == {
        "s3://the-lake/segment-data/data/web/segment_type=paid/"
    }
    return sorted(one["Values"][1] for one in found["Partitions"])


def queried_hours(aws: Aws, name: str) -> list[str]:
    found = open_lake(aws.settings()).query(f"select hr from {name} order by hr")
    return list(found.column("hr").to_pylist())


def set_type(aws: Aws, name: str, column: str, kind: str) -> None:
    """A person changes a column's type."""
    database, table = name.split(".")
    client = aws.client("glue")
    known = client.get_table(DatabaseName=database, Name=table)["Table"]
    for one in known["StorageDescriptor"]["Columns"]:
        one["Type"] = kind if one["Name"] == column else one["Type"]
    names = client.meta.service_model.shape_for("TableInput").members
    kept = {name: value for name, value in known.items() if name in names}
    client.update_table(DatabaseName=database, TableInput=kept)


NAMES = [
    ("web.paid", {}),
    ("web2.paid", {"database": "web2"}),
    ("web2.eu_paid", {"database": "web2", "table_prefix": "eu"}),
    ("web.paid", {"database": "web", "table_prefix": ""}),
]


def test_renames_keep_all_history_and_leave_the_old_tables(aws: Aws, tmp_path: Path) -> None:
    """Two renames in a row, and back to the first name."""
    for hour, (name, settings) in enumerate(NAMES):
        result = load(tmp_path, aws, hour, **settings)
        assert result.status == "finished"
        assert any("stay in the catalog" in one for one in result.warnings) == (hour > 0)
        expected = [f"{number:02}" for number in range(hour + 1)]
        assert hours(aws, name) == queried_hours(aws, name) == expected
        assert open_lake(aws.settings()).verify("web").ok
        [only] = open_lake(aws.settings()).tables()
        assert f"{only.database}.{only.name}" == name
    assert hours(aws, "web2.paid") == ["00", "01"]
    assert hours(aws, "web2.eu_paid") == ["00", "01", "02"]


def test_a_type_changed_in_glue_is_a_retype(aws: Aws, proxy: Proxy, tmp_path: Path) -> None:
    load(tmp_path, aws, 1, 5)
    set_type(aws, "web.paid", "price", "decimal(38,6)")
    before = len(proxy.asked("GetTables"))
    result = load(tmp_path, aws, 2, 1.5)
    assert len(proxy.asked("GetTables")) == before + 1
    assert "web.paid.price was changed from bigint to decimal(38,6)" in result.warnings[0]
    found = open_lake(aws.settings()).query("select price from web.paid order by price")
    assert found.column("price").to_pylist() == [Decimal("1.5"), Decimal(5)]
    set_type(aws, "web.paid", "price", "double")
    with pytest.raises(InvalidSettings, match=r"web\.paid\.price has the type double"):
        load(tmp_path, aws, 3, 1.5)


def test_a_name_from_before_a_retype_gets_the_new_type(aws: Aws, tmp_path: Path) -> None:
    """The type that the first table still has is not a person's change."""
    load(tmp_path, aws, 1, 5)
    load(tmp_path, aws, 2, 5, database="web2")
    set_type(aws, "web2.paid", "price", "string")
    load(tmp_path, aws, 3, "x", database="web2")
    for hour in (4, 5):
        load(tmp_path, aws, hour, "y", database="web")
    assert hours(aws, "web.paid") == ["01", "02", "03", "04", "05"]
    found = open_lake(aws.settings()).query("select price from web.paid order by received_at")
    assert found.column("price").to_pylist() == ["5", "5", "x", "y", "y"]


def test_a_full_catalog_is_made_up_for_later(aws: Aws, proxy: Proxy, tmp_path: Path) -> None:
    """No stage is kept meanwhile."""
    full = Refuses("CreateTable", 400, "ResourceNumberLimitExceededException")
    with proxy.ruled(full):
        results = [load(tmp_path, aws, hour) for hour in range(3)]
    assert {one.status for one in results} == {"partial"}
    [found] = [one for one in check(aws.settings()) if one.name == "tables of web"]
    assert "data of paid" in found.detail
    assert "data of __segment_datalake.sync_reports" in found.detail
    listed = aws.client("s3").list_objects_v2(Bucket=aws.bucket, Prefix="segment-stage/")
    assert listed["KeyCount"] == 0
    assert load(tmp_path, aws, 3).status == "finished"
    assert hours(aws, "web.paid") == ["00", "01", "02", "03"]
