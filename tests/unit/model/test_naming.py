"""Names, as the contract gives them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.model.naming import (
    MAX_COLUMN_NAME,
    MAX_TABLE_NAME,
    Call,
    Naming,
    database_name,
    key_name,
    leaf,
    prefix_table,
    snake_case,
    table_name,
)

SEGMENT, WAREHOUSE, NATIVE = Naming
TRACK = Call.TRACK


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("sampleText", "sample_text"),
        ("CStringRef", "cstring_ref"),
        ("samPLE text", "sam_ple_text"),
        ("___$$Base64Encode", "base64_encode"),
        ("2FA Enabled", "2fa_enabled"),
        ("5TEst", "5test"),
        ("p_z9Rg", "p_z9_rg"),
        ("FOO:BAR$BAZ", "foo_bar_baz"),
        ("THE5r", "the5r"),
        ("•¶§foo˙∆", "foo"),
        ("Order Completed", "order_completed"),
        ("already_snake_case", "already_snake_case"),
        ("unit-price", "unit_price"),
        ("a.b", "a_b"),
        ("naïve", "na_ve"),
        ("\uff21\uff22", ""),
        ("\u0130stanbul", "stanbul"),
        ("\u212aelvin", "elvin"),
        ("注文", ""),
        ("", ""),
    ],
)
def test_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@given(st.text(max_size=30))
def test_snake_case_is_settled_after_one_turn(name: str) -> None:
    once = snake_case(name)
    assert snake_case(once) == once
    assert set(once) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")


@pytest.mark.parametrize(
    ("call", "warehouse", "native"),
    [
        (Call.IDENTIFY, "identifies", "identify"),
        (Call.PAGE, "pages", "page"),
        (Call.SCREEN, "screens", "screen"),
        (Call.GROUP, "groups", "group"),
        (Call.ALIAS, "aliases", "alias"),
    ],
)
def test_the_table_of_a_call(call: Call, warehouse: str, native: str) -> None:
    assert table_name(call, "Ignored", SEGMENT) == native
    assert table_name(call, "Ignored", WAREHOUSE) == warehouse
    assert table_name(call, "Ignored", NATIVE) == native


@pytest.mark.parametrize(
    ("event", "segment", "warehouse", "native"),
    [
        ("Order Completed", "order_completed", "order_completed", "track_order_completed"),
        ("orderCompleted", "order_completed", "order_completed", "track_order_completed"),
        ("注文", "event_662dbb2d", "event_662dbb2d", "track_event_662dbb2d"),
        (" ", "event_b858cb28", "event_b858cb28", "track_event_b858cb28"),
        # A name of one of the other calls' tables would mix with them.
        ("Identifies", "identifies", "track_identifies", "track_identifies"),
        ("pages", "pages", "track_pages", "track_pages"),
        ("SCREENS", "screens", "track_screens", "track_screens"),
        ("Groups!", "groups", "track_groups", "track_groups"),
        ("aliases", "aliases", "track_aliases", "track_aliases"),
        ("Identify", "track_identify", "identify", "track_identify"),
        ("PAGE", "track_page", "page", "track_page"),
        ("screen!", "track_screen", "screen", "track_screen"),
        ("$group", "track_group", "group", "track_group"),
        ("alias", "track_alias", "alias", "track_alias"),
        # No call's tables.
        ("identify user", "identify_user", "identify_user", "track_identify_user"),
        ("tracks", "tracks", "tracks", "track_tracks"),
        ("Track Pages", "track_pages", "track_pages", "track_track_pages"),
    ],
)
def test_the_table_of_a_track_event(event: str, segment: str, warehouse: str, native: str) -> None:
    assert table_name(TRACK, event, SEGMENT) == segment
    assert table_name(TRACK, event, WAREHOUSE) == warehouse
    assert table_name(TRACK, event, NATIVE) == native


@pytest.mark.parametrize(
    ("event", "naming", "table"),
    [
        ("a" * 127, WAREHOUSE, "a" * 127),
        ("a" * 128, WAREHOUSE, "a" * 118 + "_ad5b3fdb"),
        ("a" * 121, NATIVE, "track_" + "a" * 121),
        ("a" * 127, NATIVE, "track_" + "a" * 112 + "_822ee20a"),
        ("Very Long " * 20, WAREHOUSE, ("very_long_" * 12)[:118] + "_13a26897"),
    ],
)
def test_a_long_table_name(event: str, naming: Naming, table: str) -> None:
    assert table_name(TRACK, event, naming) == table
    assert len(table) <= MAX_TABLE_NAME


@pytest.mark.parametrize(
    ("table", "prefix", "name"),
    [
        ("orders", "", "orders"),
        ("orders", "shop", "shop_orders"),
        ("b" * 122, "shop", "shop_" + "b" * 122),
        ("b" * 123, "shop", "shop_" + "b" * 113 + "_95424e44"),
    ],
)
def test_the_name_of_a_table_in_the_catalog(table: str, prefix: str, name: str) -> None:
    assert prefix_table(table, prefix) == name


@pytest.mark.parametrize(
    ("key", "name"),
    [("Unit Price", "unit_price"), ("注文", "field_662dbb2d"), ("", "field_da39a3ee")],
)
def test_a_key_as_part_of_a_column(key: str, name: str) -> None:
    assert key_name(key) == name


@pytest.mark.parametrize(
    ("call", "path", "warehouse", "native"),
    [
        (TRACK, ("properties", "Unit Price"), "unit_price", "properties_unit_price"),
        (TRACK, ("properties", "a", "bC"), "a_b_c", "properties_a_b_c"),
        (Call.PAGE, ("properties", "title"), "title", "properties_title"),
        (Call.SCREEN, ("properties", "title"), "title", "properties_title"),
        (Call.IDENTIFY, ("traits", "email"), "email", "traits_email"),
        (Call.GROUP, ("traits", "plan"), "plan", "traits_plan"),
        (Call.ALIAS, ("traits", "plan"), "plan", "traits_plan"),
        # The other object of the two is an ordinary field.
        (TRACK, ("traits", "email"), "traits_email", "traits_email"),
        (Call.IDENTIFY, ("properties", "a"), "properties_a", "properties_a"),
        # An own object that is none is a field of that name.
        (TRACK, ("properties",), "properties", "properties"),
        (Call.ALIAS, ("traits",), "traits", "traits"),
        (TRACK, ("properties", "properties", "a"), "properties_a", "properties_properties_a"),
        (TRACK, ("context", "app", "version"), "context_app_version", "context_app_version"),
        (TRACK, ("integrations", "All"), "integrations_all", "integrations_all"),
        (TRACK, ("_metadata", "bundled"), "metadata_bundled", "metadata_bundled"),
        (TRACK, ("writeKey",), "write_key", "write_key"),
        (TRACK, ("properties", "注文"), "field_662dbb2d", "properties_field_662dbb2d"),
    ],
)
def test_the_column_of_a_path(
    call: Call, path: tuple[str, ...], warehouse: str, native: str
) -> None:
    assert leaf(call, path, SEGMENT).column == warehouse
    assert leaf(call, path, WAREHOUSE).column == warehouse
    assert leaf(call, path, NATIVE).column == native


@pytest.mark.parametrize(
    ("path", "column"),
    [
        (("properties", "k" * 250), "k" * 250),
        (("properties", "k" * 251), "k" * 241 + "_20af0dc4"),
        (("properties", "Ab " * 100), ("ab_" * 81)[:241] + "_5352880c"),
        (("k" * 125, "m" * 124), "k" * 125 + "_" + "m" * 124),
        (("k" * 125, "m" * 125), "k" * 125 + "_" + "m" * 115 + "_c5a98a21"),
    ],
)
def test_a_long_column_name(path: tuple[str, ...], column: str) -> None:
    assert leaf(TRACK, path, WAREHOUSE).column == column
    assert len(column) <= MAX_COLUMN_NAME


@pytest.mark.parametrize(
    ("path", "naming", "exact"),
    [
        (("properties", "unit_price"), WAREHOUSE, True),
        (("properties", "Unit Price"), WAREHOUSE, False),
        (("properties", "a", "b"), WAREHOUSE, True),
        (("properties", "a_b"), WAREHOUSE, True),
        (("properties", "a.b"), WAREHOUSE, False),
        (("properties", "unit_price"), NATIVE, True),
        (("context", "ip"), WAREHOUSE, True),
        (("properties", "context_ip"), WAREHOUSE, True),
        (("_metadata", "x"), WAREHOUSE, False),
        (("properties",), WAREHOUSE, True),
        (("properties", "注文"), WAREHOUSE, False),
        (("properties", "field_662dbb2d"), WAREHOUSE, True),
        (("properties", "k" * 251), WAREHOUSE, False),
    ],
)
def test_whether_a_path_is_exact(path: tuple[str, ...], naming: Naming, exact: bool) -> None:
    assert leaf(TRACK, path, naming).exact is exact


@pytest.mark.parametrize(
    "paths",
    [
        # The first of each wins the column, and so on downwards.
        [("properties", "a", "b"), ("properties", "a_b"), ("properties", "A.b")],
        [("context", "ip"), ("properties", "context_ip"), ("properties", "Context Ip")],
        [("properties", "unit_price"), ("properties", "UnitPrice"), ("properties", "unit price")],
        [("a_b",), ("properties", "a_b"), ("A", "b")],
        [("properties", "\ufffd_a"), ("properties", "\U00010000_a")],
    ],
)
def test_which_path_goes_first(paths: list[tuple[str, ...]]) -> None:
    ranks = [leaf(TRACK, path, WAREHOUSE).rank for path in paths]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


def test_a_dotted_path() -> None:
    assert leaf(TRACK, ("properties", "a.b", "c"), WAREHOUSE).dotted == "properties.a.b.c"


@pytest.mark.parametrize(
    ("slug", "database"),
    [("web", "web"), ("my-shop", "my_shop"), ("My.Shop", "my_shop"), ("a_b-1", "a_b_1")],
)
def test_the_database_of_a_source(slug: str, database: str) -> None:
    assert database_name(slug) == database
