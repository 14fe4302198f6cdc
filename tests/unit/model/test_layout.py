"""Places in the lake (the contract)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.model.layout import (
    DEFAULT_LAYOUT,
    DatePartition,
    Layout,
    data_path,
    partition_of,
    partition_path,
    run_day,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RUN = "1793518200123456789"
"""Planned at 2026-11-01 07:30:00.123456789."""


def micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


SEVEN = datetime(2026, 11, 1, 7, 59, 59, 999999)


@pytest.mark.parametrize(
    ("by", "moment", "path"),
    [
        ("day/hour", SEVEN, "day=2026-11-01/hr=07"),
        ("year/month/day/hour", SEVEN, "year=2026/month=11/day=01/hr=07"),
        ("year/month/day", SEVEN, "year=2026/month=11/day=01"),
        ("day", SEVEN, "day=2026-11-01"),
        ("day/hour", datetime(2026, 1, 2), "day=2026-01-02/hr=00"),
        ("day/hour", datetime(1969, 12, 31, 23, 59, 59, 999999), "day=1969-12-31/hr=23"),
        ("year/month/day/hour", datetime(1900, 3, 1), "year=1900/month=03/day=01/hr=00"),
        ("day/hour", datetime(1, 1, 1), "day=0001-01-01/hr=00"),
        ("year/month/day", datetime(999, 12, 31, 23), "year=0999/month=12/day=31"),
        ("day", datetime(45, 6, 7), "day=0045-06-07"),
        ("day/hour", datetime(9999, 12, 31, 23, 59, 59, 999999), "day=9999-12-31/hr=23"),
    ],
)
def test_the_partition_of_a_moment(by: str, moment: datetime, path: str) -> None:
    values = DatePartition(by).values(micros(moment))
    assert partition_path(values) == path
    assert tuple(values) == DatePartition(by).columns


@pytest.mark.parametrize(
    ("by", "columns", "hours"),
    [
        ("day/hour", ("day", "hr"), 1),
        ("year/month/day/hour", ("year", "month", "day", "hr"), 1),
        ("year/month/day", ("year", "month", "day"), 24),
        ("day", ("day",), 24),
    ],
)
def test_what_a_partition_is(by: str, columns: tuple[str, ...], hours: int) -> None:
    assert DatePartition(by).columns == columns
    assert DatePartition(by).span == hours * 3_600_000_000


@given(st.sampled_from(DatePartition), st.datetimes())
def test_a_partition_is_as_long_as_its_span(by: DatePartition, moment: datetime) -> None:
    start = micros(moment) // by.span * by.span
    assert by.values(start) == by.values(micros(moment)) == by.values(start + by.span - 1)
    if start > micros(datetime(1, 1, 2)):
        assert by.values(start - 1) != by.values(start)


def test_where_things_lie() -> None:
    layout = DEFAULT_LAYOUT
    table = "segment-data/data/src1/segment_type=order_completed"
    partition = {"day": "2026-11-01", "hr": "07"}
    assert data_path(table, partition, RUN, 3) == (
        f"segment-data/data/src1/segment_type=order_completed/day=2026-11-01/hr=07/{RUN}-3.parquet"
    )
    assert layout.stage_path(RUN) == f"segment-stage/{RUN}"
    assert layout.report_path("src1", RUN) == (
        f"segment-data/reports/day=2026-11-01/source=src1/run_id={RUN}/report.json"
    )
    assert layout.quarantine_path("src1", RUN) == (
        f"segment-data/quarantine/src1/day=2026-11-01/{RUN}.parquet"
    )
    assert layout.ids_path("src1", RUN, 0) == f"segment-data/ledger/src1/ids/{RUN}-0.parquet"
    assert (layout.roots, layout.stage) == (("segment-data",), "segment-stage")
    assert (layout.catalog, layout.sources) == ("segment-data/catalog", "segment-data/sources.json")


def test_where_things_lie_in_another_lake() -> None:
    azure = Layout(data="staging")
    assert azure.ledger_path("src1") == "segment-data/ledger/src1"
    assert azure.roots == ("staging", "segment-data")
    older = Layout(reports="segment-data-lake/reports")
    assert older.report_path("src1", RUN).startswith("segment-data-lake/reports/day=2026-11-01/")


@pytest.mark.parametrize("reports", ["segment-data/reports", "a.b/(c)"])
def test_the_day_and_the_source_of_a_report(reports: str) -> None:
    layout = Layout(reports=reports)
    path = layout.report_path("src1", RUN)
    assert layout.parse_report_path(path) == ("2026-11-01", "src1")
    for other in (f"x/{path}", f"{path}.gz", path.replace("source=", "of="), "a-b/x"):
        assert layout.parse_report_path(other) is None


def test_the_partition_of_a_path_below_its_table() -> None:
    assert partition_of("day=2026-11-01/hr=07/x=1.parquet") == {"day": "2026-11-01", "hr": "07"}
    assert partition_of("x.parquet") == {}


def test_the_day_of_a_run() -> None:
    assert run_day("1793577599999999999") == "2026-11-01"
    assert run_day("1793577600000000000") == "2026-11-02"
