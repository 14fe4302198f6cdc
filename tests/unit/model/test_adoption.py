"""What tables of another program tell about the settings that they go on with."""

from typing import Any

import pytest

from eventlake.errors import AmbiguousTables, InvalidSettings
from eventlake.model.adoption import FoundTable, map_tables, settings_of_tables
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import DEFAULT_LAYOUT, DatePartition
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import Column, TableSchema
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.model.tables import renamed_tables
from eventlake.model.types import Type

DATA = "segment-data/data"


def found(
    event_type: str,
    *events: str,
    call: str = "",
    name: str = "",
    data: str = DATA,
    columns: tuple[str, ...] = ("id",),
    by: tuple[str, ...] = ("day", "hr"),
) -> FoundTable:
    """A table with rows of these track events, or of a call, or without rows."""
    call = "track" if events else call
    entry = CatalogTable(
        database="lake",
        name=name or event_type,
        source="",
        location=f"{data}/src1/segment_type={event_type}",
        columns=tuple(Column(name=one, type=Type.STRING) for one in columns),
        partition_columns=by,
    )
    return FoundTable(entry, {}, frozenset([call] if call else []), frozenset(events))


def settings_of(*tables: FoundTable, **changes: Any) -> SourceSettings:
    given = source_settings(source="web", source_id="src1", **changes)
    return settings_of_tables(given, tables, changes, DEFAULT_LAYOUT)


def mapped(*tables: FoundTable, **changes: Any) -> dict[str, TableSchema]:
    schemas = map_tables(DEFAULT_LAYOUT, settings_of(*tables, **changes), tables)
    return {schema.name: schema for schema, _ in schemas}


IDENTIFY = found("identify", call="identify")
ORDER = found("order_completed", "Order Completed")


@pytest.mark.parametrize(
    ("tables", "naming"),
    [
        ([IDENTIFY, ORDER], Naming.SEGMENT),
        ([ORDER], Naming.SEGMENT),
        ([found("identifies", call="identify"), ORDER], Naming.WAREHOUSE),
        ([found("identifies", call="identify")], Naming.WAREHOUSE),
        ([IDENTIFY, found("track_checkout", "Checkout")], Naming.NATIVE),
        ([IDENTIFY, found("track_checkout", "Track Checkout")], Naming.SEGMENT),
        # Without rows, by their names alone.
        ([found("identify"), found("track_checkout")], Naming.NATIVE),
        ([found("identify"), found("checkout")], Naming.SEGMENT),
        ([found("pages"), found("checkout")], Naming.WAREHOUSE),
        # Tracks that are called like other calls' tables.
        ([IDENTIFY, found("track_identify", "Identify"), ORDER], Naming.SEGMENT),
        ([found("identify", "Identify"), found("identifies", call="identify")], Naming.WAREHOUSE),
    ],
)
def test_the_naming_is_the_one_that_explains_the_folders(
    tables: list[FoundTable], naming: Naming
) -> None:
    assert settings_of(*tables).naming is naming


@pytest.mark.parametrize(
    ("naming", "table", "column_naming"),
    [
        (Naming.SEGMENT, found("checkout", "Checkout", columns=("message_id",)), Naming.NATIVE),
        (Naming.NATIVE, found("track_checkout", "Checkout"), Naming.SEGMENT),
        (Naming.NATIVE, found("track_checkout", "Checkout", columns=("message_id",)), None),
        (Naming.SEGMENT, found("checkout", "Checkout"), None),
        (Naming.SEGMENT, found("checkout", "Checkout", columns=("id", "message_id")), None),
        (
            Naming.SEGMENT,
            found("checkout", "Checkout", columns=("id", "message_id", "properties_total")),
            Naming.NATIVE,
        ),
    ],
)
def test_columns_are_named_independently(
    naming: Naming, table: FoundTable, column_naming: Naming | None
) -> None:
    settings = settings_of(table)
    assert (settings.naming, settings.column_naming) == (naming, column_naming)


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (["identify", "order_completed"], ""),
        (["ios_identify", "ios_order_completed"], "ios"),
        (["ios_prod_identify", "ios_prod_order_completed"], "ios_prod"),
        (["identify_partitioned", "order_completed_partitioned"], ""),
        (["ios_identify_partitioned", "ios_order_completed"], "ios"),
        (["people", "ios_order_completed"], "ios"),
    ],
)
def test_the_prefix_is_what_all_names_begin_with(names: list[str], prefix: str) -> None:
    identify, order = names
    tables = (
        found("identify", call="identify", name=identify),
        found("order_completed", "Order Completed", name=order),
    )
    assert settings_of(*tables).table_prefix == prefix
    by_rule = {f"{prefix}_{one}".strip("_") for one in ("identify", "order_completed")}
    own = {schema.catalog_name for schema in mapped(*tables).values()} - {""}
    assert own == set(names) - by_rule


def test_a_prefix_that_is_in_the_folder_too() -> None:
    tables = found("ios_identify", call="identify"), found("ios_order_done", "Order Done")
    assert settings_of(*tables).table_prefix == "ios"
    schemas = mapped(*tables)
    assert schemas.keys() == {"identify", "order_done"}
    assert schemas["identify"].location == f"{DATA}/src1/segment_type=ios_identify"
    assert schemas["identify"].catalog_name == ""


def test_events_go_to_the_table_that_has_them_however_its_name_is_spelled() -> None:
    schemas = mapped(found("ios_opened", "iOS Opened"), IDENTIFY)
    assert schemas["i_os_opened"].location == f"{DATA}/src1/segment_type=ios_opened"
    assert schemas["i_os_opened"].catalog_name == "ios_opened"
    assert schemas["identify"].location == ""
    assert renamed_tables(schemas.values()) == {"ios_opened": "i_os_opened"}


def test_a_track_does_not_go_to_another_calls_table_that_is_named_so() -> None:
    schemas = mapped(IDENTIFY, ORDER, found("pages", call="page"), naming="segment")
    assert renamed_tables(schemas.values()) == {"pages": "track_pages"}


def test_only_tables_of_tracks_get_the_column_of_their_event() -> None:
    schemas = mapped(IDENTIFY, ORDER, found("pages", name="pages"), naming="segment")
    assert {name: schema.call for name, schema in schemas.items()} == {
        "identify": Call.IDENTIFY,
        "order_completed": Call.TRACK,
        "page": Call.PAGE,
    }
    having = [name for name, schema in schemas.items() if "event" in schema.types]
    assert having == ["order_completed"]


def test_where_new_tables_go() -> None:
    old = found("identify", call="identify", data="segment-data-lake/data")
    assert settings_of(old).data_folder == "segment-data-lake/data"
    assert mapped(old)["identify"].location == ""
    assert settings_of(IDENTIFY).data_folder == ""
    with pytest.raises(AmbiguousTables, match="choose that of new tables with --data-folder"):
        settings_of(old, ORDER)
    both = mapped(old, ORDER, data_folder=DATA)
    assert both["identify"].location == "segment-data-lake/data/src1/segment_type=identify"
    assert both["order_completed"].location == ""


@pytest.mark.parametrize("by", DatePartition)
def test_the_date_partition(by: DatePartition) -> None:
    assert settings_of(found("identify", by=by.columns)).date_partition is by


@pytest.mark.parametrize(
    ("tables", "changes", "message"),
    [
        ([ORDER], {"naming": "native"}, r"naming is 'native', .* with 'segment' or 'warehouse'"),
        ([ORDER], {"table_prefix": "x"}, r"table_prefix is 'x', .* with '': omit it"),
        ([ORDER], {"data_folder": "x"}, r"data_folder is 'x', .* with 'segment-data/data'"),
        ([ORDER], {"column_naming": "native"}, r"column_naming is 'native', .* with 'segment'"),
        ([ORDER], {"date_partition": "day"}, r"date_partition is 'day', .* with 'day/hour'"),
        (
            [ORDER, found("a", columns=("message_id",)), found("b", columns=("x",))],
            {},
            "a has message_id, b has neither, order_completed has id",
        ),
        (
            [ORDER, found("a", by=("day",))],
            {},
            "same partition columns.*: order_completed by day, hr; a by day",
        ),
        ([found("a", by=("ds",))], {}, "of a supported kind: a by ds"),
    ],
)
def test_what_does_not_fit_is_refused(
    tables: list[FoundTable], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSettings, match=message):
        settings_of(*tables, **changes)


def test_differing_prefixes_are_shown_and_decided() -> None:
    tables = IDENTIFY, found("order_completed", "Order Completed", name="ios_order_completed")
    with pytest.raises(AmbiguousTables, match=r"differ in table_prefix: .* --table-prefix") as told:
        settings_of(*tables)
    assert told.value.rows == (
        ("table", "table_prefix"),
        ("identify", "''"),
        ("ios_order_completed", "'ios'"),
    )
    schemas = mapped(*tables, table_prefix="ios")
    assert {one.name: one.catalog_name for one in schemas.values()} == {
        "identify": "identify",
        "order_completed": "",
    }
