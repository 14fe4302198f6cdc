"""A lake that Segment filled is adopted in place: nothing is doubled, nothing lost."""

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from eventlake.errors import InvalidSettings
from eventlake.services.adopt import adopt
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, replay
from tests import lakes
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.aws.rules import Denied
from tests.aws.segments import COLUMNS, DATABASE, SOURCE_ID, SegmentLake, event

OLD = [event(number, f"2026-10-{number:02}T10:00:00Z") for number in range(1, 11)]
RECENT = [event(number, f"2026-11-{number - 100:02}T10:00:00Z") for number in range(101, 111)]
LANDED = [*OLD, *RECENT]
"""Up to 10 November, 10 o'clock."""
LATE = [event(200, "2026-11-10T11:30:00Z", coupon="x"), event(201, "2026-11-11T00:10:00Z")]
"""In the archive, and not yet landed when Segment's lake was closed."""
AGAIN = [
    event(110, "2026-11-10T12:00:00Z"),
    event(104, "2026-11-11T00:00:00Z"),  # a week, less ten hours, after it landed
    event(102, "2026-11-04T10:00:00Z"),  # Segment has dropped this one as a duplicate
]
COPIES = [event(101, "2026-11-11T00:30:00Z")]
"""Sent again more than a week after: a new event, as always."""

CHANGES = {"source_id": SOURCE_ID}


@pytest.fixture
def lake(aws: Aws) -> SegmentLake:
    made = SegmentLake(aws)
    made.archive([*LANDED, *LATE, *AGAIN, *COPIES])
    made.land(LANDED)
    return made


def adopted(lake: SegmentLake, **changes: Any) -> Any:
    return adopt("ios-prod", lake=lake.aws.settings(), changes={**CHANGES, **changes})


def synced(lake: SegmentLake) -> Any:
    return lakes.sync(lake.aws.settings(), "ios-prod")


def test_the_next_sync_appends_what_is_missing_and_nothing_else(lake: SegmentLake) -> None:
    found = adopted(lake)
    [table] = found.tables
    assert (table.event_type, table.table, table.files) == ("order_completed", lake.table, 20)
    assert (found.files, found.since) == (20, "2026-11-03")
    assert found.ids == 10
    result = synced(lake)
    assert result.status == "finished"
    wanted = Counter(one["messageId"] for one in [*LANDED, *LATE, *COPIES])
    assert Counter(one["id"] for one in lake.rows()) == wanted
    assert synced(lake).status == "nothing"


def test_what_was_there_stays_where_it_was(lake: SegmentLake) -> None:
    before = lake.keys()
    adopted(lake)
    synced(lake)
    assert set(before) <= set(lake.keys())
    glue = lake.aws.client("glue")
    table = glue.get_table(DatabaseName=DATABASE, Name=lake.table)["Table"]
    names = [column["Name"] for column in table["StorageDescriptor"]["Columns"]]
    assert names[: len(COLUMNS)] == list(COLUMNS)
    assert {"coupon", "sent_at", "project_id"} <= set(names[len(COLUMNS) :])
    assert table["Parameters"]["made_by"] == "segment"


def test_standard_columns_that_the_table_lacks_are_there_with_the_adoption(
    lake: SegmentLake,
) -> None:
    """A sync registers what is new to it, and these are not: nobody would see them in its files."""
    adopted(lake)
    glue = lake.aws.client("glue")
    wanted = {"sent_at", "original_timestamp", "channel", "version", "project_id"}
    table = glue.get_table(DatabaseName=DATABASE, Name=lake.table)["Table"]
    partitions = glue.get_partitions(DatabaseName=DATABASE, TableName=lake.table)["Partitions"]
    for found in (table, *partitions):
        names = [column["Name"] for column in found["StorageDescriptor"]["Columns"]]
        assert names[: len(COLUMNS)] == list(COLUMNS)
        assert set(names[len(COLUMNS) :]) == wanted


def test_an_adoption_that_may_not_change_the_catalog_says_so(
    lake: SegmentLake, proxy: Proxy
) -> None:
    with proxy.ruled(Denied("glue:UpdateTable")):
        found = adopted(lake)
    assert "grant glue:UpdateTable" in found.message
    assert synced(lake).status == "finished"
    table = lake.aws.client("glue").get_table(DatabaseName=DATABASE, Name=lake.table)["Table"]
    assert "project_id" in [one["Name"] for one in table["StorageDescriptor"]["Columns"]]


def test_new_rows_have_the_types_that_the_table_has(lake: SegmentLake) -> None:
    adopted(lake)
    synced(lake)
    [late] = [one for one in lake.rows() if one["id"] == "m200"]
    assert late["total"] == Decimal("200.500000")
    assert (late["quantity"], late["coupon"], late["context_ip"]) == (200, "x", "10.0.0.1")


def test_the_adopted_lake_is_queried_as_a_whole_and_verified(lake: SegmentLake) -> None:
    adopted(lake)
    synced(lake)
    opened = open_lake(lake.aws.settings())
    asked = f"select count(*) as n from {DATABASE}.{lake.table}"
    assert opened.query(asked).to_pylist() == [{"n": len(LANDED) + len(LATE) + len(COPIES)}]
    assert opened.verify("ios-prod").problems == ()
    assert [line["status"] for line in opened.reports("ios-prod") if line["type"] == "source"] == [
        "finished",
        "finished",
    ]


def test_a_lake_is_adopted_once(lake: SegmentLake) -> None:
    adopted(lake)
    with pytest.raises(InvalidSettings, match="there is nothing to adopt; use `eventlake sync`"):
        adopted(lake)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"source_id": "other"},
            "the catalog has no table at s3://the-lake/…/data/other/.* of the ids 9sd8fs7d",
        ),
        ({"database": "nowhere"}, "the database 'nowhere' has no table at"),
        (
            {"date_partition": "day"},
            "date_partition is 'day', but the tables of ios-prod were created",
        ),
        ({"naming": "native"}, "naming is 'native', but the tables of ios-prod were created with"),
    ],
)
def test_what_does_not_fit_is_told_and_nothing_is_touched(
    lake: SegmentLake, changes: dict[str, Any], message: str
) -> None:
    before = lake.keys()
    with pytest.raises(InvalidSettings, match=message):
        adopted(lake, **changes)
    assert lake.keys() == before


def test_types_that_are_none_of_ours_are_named(aws: Aws) -> None:
    lake = SegmentLake(aws)
    lake.land(LANDED, {**COLUMNS, "price": "double"})
    with pytest.raises(InvalidSettings, match=r"order_completed.price \(double\)"):
        adopted(lake)


def test_a_lake_without_an_archive(aws: Aws) -> None:
    lake = SegmentLake(aws)
    lake.land(LANDED)
    assert adopted(lake).logs == 0
    assert synced(lake).status == "nothing"


def test_a_file_that_lies_in_no_day_is_named(lake: SegmentLake) -> None:
    lake.put(f"{lake.place}/day=__HIVE_DEFAULT_PARTITION__/hr=00/x.parquet", b"")
    with pytest.raises(InvalidSettings, match=r"__/hr=00/x.parquet is not in a date"):
        adopted(lake)


def test_a_file_that_is_no_parquet_is_named_and_nothing_is_committed(lake: SegmentLake) -> None:
    lake.put(f"{lake.place}/day=2026-11-09/hr=00/x.parquet", b"not Parquet")
    with pytest.raises(InvalidSettings, match=r"hr=00/x.parquet cannot be read as Parquet"):
        adopted(lake)
    assert not any("/ledger/" in key for key in lake.keys())  # noqa: SIM118 - a method of ours


def test_a_replay_leaves_adopted_files_alone(lake: SegmentLake) -> None:
    adopted(lake)
    synced(lake)
    before = lake.rows()
    window = ReplayRequest("ios-prod", "2026-11-01", "2026-11-12")
    result = replay(window, lake=lake.aws.settings(), where=lakes.InlineRunner())
    assert result.warnings == ("20 files that another program wrote stay as they are",)
    assert result.counts.landed == result.replaced_rows == len(before) - len(LANDED)
    order = Counter(map(str, before))
    assert Counter(map(str, lake.rows())) == order
    assert open_lake(lake.aws.settings()).verify("ios-prod").problems == ()
    everything = ReplayRequest("ios-prod", all_time=True)
    with pytest.raises(InvalidSettings, match="20 files that another program wrote"):
        replay(everything, lake=lake.aws.settings(), where=lakes.InlineRunner())
