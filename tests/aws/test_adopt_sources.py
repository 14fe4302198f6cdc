"""Every form of lake that Segment's pages describe is adopted, and two syncs go on in it."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eventlake.errors import AmbiguousTables, InvalidSettings
from eventlake.model.settings import SourceSettings
from eventlake.services.adopt import adopt, plan_adoption
from eventlake.services.read import open_lake
from eventlake.services.repair import repair
from tests import lakes, processes
from tests.aws import engine
from tests.aws.moto import Aws
from tests.aws.sources import SegmentSource, event
from tests.tiers import long

SOURCE = "ios-prod"
STANDARD = {
    "anonymous_id": "",
    **dict.fromkeys(("user_id", "type", "channel", "version", "project_id"), ""),
    **dict.fromkeys(("received_at", "sent_at", "original_timestamp", "timestamp"), ""),
}.keys()
"""The standard columns that tables of every call have, besides that of the message id."""
OF_CALL = {"track": {"event"}, "page": {"name", "category"}, "group": {"group_id"}}


def calls(day: int, hour: int, **own: Any) -> list[dict[str, Any]]:
    """One event of each of five tables."""
    number, at = day * 100 + hour, f"2026-11-{day:02}T{hour:02}:10:00Z"
    return [
        event("track", number, at, "Page Viewed", size=number, **own),
        event("track", number, at, "Order Completed", total=number, **own),
        event("identify", number, at, age=number, **own),
        event("page", number, at, width=number, **own),
        event("group", number, at, seats=number, **own),
    ]


LANDED = [one for day in (1, 9, 10) for hour in (7, 8) for one in calls(day, hour)]
FIRST = calls(10, 9) + calls(10, 8)
"""What Segment had not landed, and what it had: the second half is in `LANDED`."""
SECOND = calls(11, 0, coupon=5)
ALL = [*LANDED, *calls(10, 9), *SECOND]


def prefixed(prefix: str, suffix: str = "") -> Callable[[str], str]:
    return lambda event_type: f"{prefix}{event_type}{suffix}"


VARIANTS: dict[str, dict[str, Any]] = {
    "as on today's pages": {},
    "older lakes": {
        "naming": "native",
        "id_column": "message_id",
        "data": "segment-data-lake/data",
    },
    "below the bucket": {"data": "data"},
    "message_id columns": {"id_column": "message_id"},
    "native tables, id columns": {"naming": "native"},
    "plurals": {"naming": "warehouse", "date_partition": "year/month/day"},
    "plurals with message_id": {"naming": "warehouse", "id_column": "message_id"},
    "a prefix": {"catalog_name": prefixed("ios_"), "date_partition": "day"},
    "a prefix of two words": {"catalog_name": prefixed("ios_prod_")},
    "partitioned": {"catalog_name": prefixed("", "_partitioned")},
    "a prefix, partitioned": {
        "catalog_name": prefixed("ios_", "_partitioned"),
        "date_partition": "year/month/day/hour",
        "data": "segment-data-lake/data",
    },
    "the prefix in the folder too": {
        "catalog_name": prefixed("ios_"),
        "folder_name": prefixed("ios_"),
    },
    "another database": {"database": "segment_lake", "catalog_name": prefixed("ios_")},
}


@pytest.fixture(params=VARIANTS.values(), ids=list(VARIANTS))
def source(request: pytest.FixtureRequest, aws: Aws) -> SegmentSource:
    return make_source(aws, **request.param)


def make_source(
    aws: Any, kind: type[SegmentSource] = SegmentSource, **changes: Any
) -> SegmentSource:
    made = kind(aws, **changes)
    made.archive(LANDED, "old")
    made.land(LANDED)
    return made


def adopted(source: SegmentSource, slug: str = SOURCE, **changes: Any) -> Any:
    given = {"source_id": source.source_id, **changes}
    leave_out = given.pop("leave_out", ())
    return adopt(slug, lake=source.settings, changes=given, leave_out=leave_out)


def sync_twice(source: SegmentSource, slug: str = SOURCE) -> None:
    for number, events in enumerate((FIRST, SECOND)):
        source.archive(events, f"new-{number}")
        assert lakes.sync(source.settings, slug).status == "finished"


def check_settings(source: SegmentSource, settings: SourceSettings) -> None:
    """Everything was worked out from the tables."""
    assert settings.naming == source.naming
    assert settings.columns.id_column == source.id_column
    assert settings.date_partition == source.date_partition
    assert settings.database == source.database
    assert (settings.data_folder or source.default_data) == source.data
    assert settings.table_prefix == source.catalog_name("x").partition("x")[0].rstrip("_")


def check_rows(source: SegmentSource, slug: str = SOURCE) -> None:
    """Glue, `query` and `verify` agree with the events, each in the table that it was in."""
    wanted: dict[str, Counter[str]] = {}
    for one in ALL:
        name = source.catalog_name(source.event_type(one))
        wanted.setdefault(name, Counter())[one["messageId"]] += 1
    lake = open_lake(source.settings)
    for table, ids in wanted.items():
        assert source.ids(table) == ids
        rows = lake.query(f"select {source.id_column} as id from {source.database}.{table}")
        assert Counter(rows["id"].to_pylist()) == ids
    assert lake.verify(slug).problems == ()


def allowed_columns(source: SegmentSource) -> dict[str, set[str]]:
    """By table, the columns that are in the events, and the standard ones of its call."""
    found: dict[str, set[str]] = {}
    for one in ALL:
        own = source.own_values(one).keys()
        columns = found.setdefault(source.catalog_name(source.event_type(one)), set())
        columns |= {*own, *STANDARD, source.id_column, "context_ip"}
        columns |= OF_CALL.get(one["type"], set())
    return found


def check_adoption(source: SegmentSource) -> None:
    """Adopt the source and sync twice: its tables go on, and none is new."""
    before = source.columns()
    found = adopted(source)
    assert {one.table for one in found.tables} == before.keys()
    check_settings(source, found.settings)
    sync_twice(source)
    after = source.columns()
    assert after.keys() == before.keys()
    assert after == allowed_columns(source)
    check_rows(source)
    data = {key.rpartition("/segment_type=")[0] for key in source.object_keys() if "_type=" in key}
    assert data == {f"{source.data}/{source.source_id}"}
    assert [(one.registered, one.problems) for one in repair(source.settings)] == [((), ())]


def test_every_table_goes_on_and_none_is_new(source: SegmentSource) -> None:
    check_adoption(source)


def test_a_new_event_type_is_named_and_placed_like_the_others(aws: Aws) -> None:
    source = make_source(aws, data="segment-data-lake/data", catalog_name=prefixed("ios_"))
    adopted(source)
    source.archive([event("track", 1, "2026-11-10T12:00:00Z", "Signed Up")], "new")
    assert lakes.sync(aws.settings(), SOURCE).status == "finished"
    assert source.ids("ios_signed_up") == Counter(["track-Signed Up-1"])
    assert source.object_keys(f"{source.location('signed_up')}/day=2026-11-10/hr=12/")
    assert open_lake(aws.settings()).verify(SOURCE).problems == ()


def test_sources_that_share_a_database_are_adopted_side_by_side(aws: Aws) -> None:
    shared = {"database": "segment_lake"}
    ios = make_source(aws, source_id="id1", catalog_name=prefixed("ios_"), **shared)
    android = make_source(aws, source_id="id2", catalog_name=prefixed("android_"), **shared)
    assert adopted(ios, "ios").settings.table_prefix == "ios"
    assert adopted(android, "android").settings.table_prefix == "android"
    tables = ios.columns().keys()
    for slug, source in (("ios", ios), ("android", android)):
        sync_twice(source, slug)
        check_rows(source, slug)
    assert ios.columns().keys() == tables


def test_a_table_goes_on_with_all_names_that_segment_put_into_it(aws: Aws) -> None:
    """Segment spelled one name otherwise than EventLake, which gives `i_os_opened`."""
    source = SegmentSource(aws)
    names = ("iOS Opened", "Ios Opened")
    events = [
        event("track", day, f"2026-11-{day:02}T07:00:00Z", names[day % 2], n=day) for day in (3, 4)
    ]
    source.archive(events, "logs")
    source.land(events[1:])
    adopted(source)
    assert lakes.sync(aws.settings(), SOURCE).counts.landed == 1
    assert source.columns().keys() == {"ios_opened"}
    assert source.ids("ios_opened") == Counter(one["messageId"] for one in events)
    lake = open_lake(aws.settings())
    assert len(lake.query(f"select * from {source.database}.ios_opened")) == 2
    assert lake.verify(SOURCE).problems == ()


def test_a_table_is_skipped_by_its_name_in_the_catalog(aws: Aws) -> None:
    source = make_source(aws, catalog_name=prefixed("", "_partitioned"))
    adopted(source, skip_events=["identify_partitioned"])
    source.archive(SECOND, "new")
    result = lakes.sync(aws.settings(), SOURCE)
    assert (result.counts.skipped, result.counts.landed) == (5, 4)
    assert open_lake(aws.settings()).verify(SOURCE).problems == ()


def test_a_table_that_was_dropped_is_missed_and_restored_by_its_own_name(aws: Aws) -> None:
    source = make_source(aws, catalog_name=prefixed("ios_", "_partitioned"))
    adopted(source)
    sync_twice(source)
    table = "ios_identify_partitioned"
    aws.client("glue").delete_table(DatabaseName=source.database, Name=table)
    [problem] = open_lake(aws.settings()).verify(SOURCE).problems
    assert problem.startswith(f"{source.database}.{table} is not in the catalog")
    [repaired] = repair(aws.settings())
    assert repaired.registered == (f"{source.database}.{table}",)
    check_rows(source)


# What the tables do not tell


def test_two_tables_for_the_same_events(aws: Aws) -> None:
    source = make_source(aws)
    copy = replace(source, catalog_name=prefixed("", "_partitioned"))
    copy.register("identify", [], {"id": "string", "received_at": "timestamp", "type": "string"})
    with pytest.raises(AmbiguousTables, match="--leave-out TABLE") as raised:
        adopted(source)
    place = source.location("identify")
    assert raised.value.rows == (
        ("event type", "table", "folder"),
        ("identify", "identify", place),
        ("identify", "identify_partitioned", place),
    )
    with pytest.raises(InvalidSettings, match=r"--leave-out is identifies: name some of group, "):
        adopted(source, leave_out=["identifies"])
    with pytest.raises(InvalidSettings, match=r"is 'group': no other table is for its events"):
        adopted(source, leave_out=["group", "identify_partitioned"])
    assert len(adopted(source, leave_out=["identify_partitioned"]).tables) == 5
    sync_twice(source)
    check_rows(source)


def test_names_of_two_namings_are_decided_by_an_option(aws: Aws) -> None:
    """What exists goes on in its place, whichever is chosen for new tables."""
    source = make_source(aws)
    plural = [event("group", number, f"2026-11-10T0{number}:00:00Z", seats=1) for number in (1, 2)]
    glue = aws.client("glue")
    glue.delete_table(DatabaseName=source.database, Name="group")
    replace(source, naming="warehouse").land(plural)
    with pytest.raises(AmbiguousTables, match="with --naming") as raised:
        adopted(source)
    assert ("groups", "groups", "'warehouse'") in raised.value.rows
    assert ("identify", "identify", "'native' or 'segment'") in raised.value.rows
    found = adopted(source, naming="segment")
    group = next(one for one in found.tables if one.table == "groups")
    assert (group.event_type, group.folder) == ("group", source.location("groups"))
    source.archive(SECOND, "new")
    assert lakes.sync(aws.settings(), SOURCE).status == "finished"
    assert "group" not in source.columns()
    assert source.ids("groups")["group--1100"] == 1
    assert open_lake(aws.settings()).verify(SOURCE).problems == ()


def test_tables_in_two_folders_go_on_in_theirs(aws: Aws) -> None:
    old = SegmentSource(aws, data="segment-data-lake/data")
    source = SegmentSource(aws)
    old.land([one for one in LANDED if one["type"] == "identify"])
    source.land([one for one in LANDED if one["type"] != "identify"])
    before = source.columns().keys()
    with pytest.raises(AmbiguousTables, match="with --data-folder"):
        adopted(source)
    adopted(source, data_folder="segment-data/data")
    sync_twice(source)
    assert source.columns().keys() == before
    assert not source.object_keys(source.location("identify"))
    check_rows(source)


def test_several_databases_are_decided_by_an_option(aws: Aws) -> None:
    for database in ("one", "two"):
        source = make_source(aws, database=database)
    with pytest.raises(AmbiguousTables, match="with --database") as raised:
        adopted(source)
    assert raised.value.rows == (("database", "tables"), ("one", "5"), ("two", "5"))
    assert adopted(source, database="two").settings.database == "two"
    sync_twice(source)
    check_rows(source)


# The command


def test_a_dry_run_shows_the_whole_mapping_and_writes_nothing(aws: Aws) -> None:
    source = make_source(aws, catalog_name=prefixed("ios_", "_partitioned"), id_column="message_id")
    before = source.object_keys()
    options = ("--source", SOURCE, "--source-id", source.source_id, "--lake", f"s3://{aws.bucket}")
    shown = processes.command("adopt", *options, "--dry-run", env=aws.environ)
    assert shown.code == 0, shown.err
    wanted = ["identify", "ios_identify_partitioned", source.location("identify"), "message_id"]
    assert [*wanted, "6", "6", "unknown"] in [line.split() for line in shown.out.splitlines()]
    for line in ("table_prefix = ios", "naming = segment", "column_naming = native"):
        assert line in shown.out.splitlines()
    assert source.object_keys() == before
    plan = plan_adoption(SOURCE, lake=aws.settings(), changes={"source_id": source.source_id})
    ran = processes.command("adopt", *options, "--json", env=aws.environ)
    assert json.loads(ran.out)["tables"] == [one.model_dump() for one in plan.tables]


def test_the_command_shows_what_is_ambiguous_as_a_table(aws: Aws) -> None:
    make_source(aws, database="one")
    source = make_source(aws, database="two")
    options = ("--source", SOURCE, "--source-id", source.source_id, "--lake", f"s3://{aws.bucket}")
    ran = processes.command("adopt", *options, env=aws.environ)
    assert ran.code == 2
    assert ran.err.splitlines()[:3] == ["database  tables", "one       5", "two       5"]
    assert "choose one with --database" in ran.err.splitlines()[3]


# Another engine


@long
def test_another_spark_reads_every_row(aws: Aws) -> None:
    source = make_source(aws, **VARIANTS["a prefix, partitioned"])
    adopted(source)
    sync_twice(source)
    tables = aws.client("glue").get_tables(DatabaseName=source.database)["TableList"]
    read = [
        {
            "name": one["Name"],
            "schema": ", ".join(
                f"`{column['Name']}` {column['Type']}"
                for column in (*one["StorageDescriptor"]["Columns"], *one["PartitionKeys"])
            ),
            "location": one["StorageDescriptor"]["Location"].replace("s3://", "s3a://"),
        }
        for one in tables
    ]
    wanted = {one["Name"]: source.ids(one["Name"]).total() for one in tables}
    assert engine.count_rows(aws, read) == wanted
