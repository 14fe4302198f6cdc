"""The oracle against the examples written in the contract, and against the standard JSON reader."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests import adversary, oracle
from tests.oracle import (
    Oracle,
    Settings,
    cast,
    number,
    observed,
    plain,
    reason_against,
    snake,
    timestamp,
)

NOON = "2026-11-01T12:00:00Z"


def line(**fields: Any) -> bytes:
    event = {"type": "track", "event": "Order Completed", "messageId": "m1", "receivedAt": NOON}
    return json.dumps(event | fields).encode()


def landed(*raw: bytes, **settings: Any) -> Oracle:
    lake = Oracle(Settings(**settings))
    lake.load({"a": list(raw)})
    return lake


def orders(*raw: bytes, **settings: Any) -> oracle.TableState:
    return landed(*raw, **settings).tables["order_completed"]


def inferred(table: oracle.TableState) -> dict[str, str]:
    return dict(list(table.columns.items())[12:])


@pytest.mark.parametrize(
    ("name", "expected"),
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
    ],
)
def test_snake_case(name: str, expected: str) -> None:
    assert snake(name) == expected


@pytest.mark.parametrize(
    ("event", "settings", "table"),
    [
        ("Order Completed", {}, "order_completed"),
        ("Order Completed", {"naming": "native"}, "track_order_completed"),
        ("注文", {}, "event_" + oracle.hash8("注文")),
        ("Identify", {}, "track_identify"),
        ("Identify", {"table_prefix": "web"}, "track_identify"),
        ("Identify", {"naming": "warehouse"}, "identify"),
        ("Identifies", {"naming": "warehouse"}, "track_identifies"),
        ("a" * 127, {}, "a" * 127),
        ("a" * 128, {}, "a" * 118 + "_" + oracle.hash8("a" * 128)),
    ],
)
def test_tables(event: str, settings: dict[str, str], table: str) -> None:
    assert list(landed(line(event=event), **settings).tables) == [table]


def test_standard_columns() -> None:
    table = landed(b'{"type":"page","messageId":"m","receivedAt":"2026-11-01T00:00:00"}').tables
    assert list(table["page"].columns) == [
        *("id", "anonymous_id", "user_id", "name", "category", "type", "channel", "version"),
        *("project_id", "received_at", "sent_at", "original_timestamp", "timestamp"),
    ]


@pytest.mark.parametrize(
    ("value", "to", "expected"),
    [
        ("1.10", "string", ("1.1", True)),
        ("1e3", "string", ("1000", True)),
        ("5.0", "string", ("5", True)),
        ("-0.0", "string", ("0", True)),
        ("1e-3", "string", ("0.001", True)),
        ("true", "string", ("true", True)),
        ('[1.0, "é"]', "string", ('[1.0,"é"]', True)),
        ("123456789012345678.123456", "decimal", (Decimal("123456789012345678.123456"), True)),
        ("0.0000005", "decimal", (Decimal("0.000001"), True)),
        ("-0.1234565", "decimal", (Decimal("-0.123457"), True)),
        ('"+5.70"', "decimal", (Decimal("5.7"), True)),
        ("1e32", "decimal", (None, False)),
        ("9" * 32 + ".9999995", "decimal", (None, False)),
        ("true", "decimal", (None, False)),
        ("1e3", "bigint", (1000, True)),
        ("5.7", "bigint", (5, False)),
        ("-5.7", "bigint", (-5, False)),
        ('"-9223372036854775808"', "bigint", (-(2**63), True)),
        ("9223372036854775808", "bigint", (None, False)),
        ('"5.7"', "bigint", (None, False)),
        ('"5\\n"', "bigint", (None, False)),
        ('"TrUe"', "boolean", (True, True)),
        ("1.0", "boolean", (True, True)),
        ("-0", "boolean", (False, True)),
        ('"1"', "boolean", (None, False)),
        ("2", "boolean", (None, False)),
        ('"2026-11-01"', "timestamp", (datetime(2026, 11, 1, tzinfo=UTC), True)),
        ('"2026-11-01 05:30:00+0530"', "timestamp", (datetime(2026, 11, 1, tzinfo=UTC), True)),
        ('"soon"', "timestamp", (None, False)),
        ("1793518200", "timestamp", (None, False)),
    ],
)
def test_casts(value: str, to: str, expected: tuple[Any, bool]) -> None:
    parsed, _ = oracle.parse(value.encode())
    assert cast(parsed, "decimal(38,6)" if to == "decimal" else to) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("true", "boolean"),
        ("-0", "bigint"),
        ("9223372036854775807", "bigint"),
        ("9223372036854775808", "decimal(38,6)"),
        ("1.0", "decimal(38,6)"),
        ("1e3", "decimal(38,6)"),
        ("9" * 32, "decimal(38,6)"),
        ("1e32", "string"),
        ('"2026-11-01T00:00:00.1234567-0800"', "timestamp"),
        ('"2026-11-01"', "string"),
        ('"2026-02-29T00:00:00Z"', "string"),
        ('"0001-01-01T00:00:00+00:01"', "string"),
        ('""', "string"),
        ("[]", "string"),
    ],
)
def test_observed_types(value: str, expected: str) -> None:
    assert observed(oracle.parse(value.encode())[0]) == expected


def test_digits_after_microseconds_are_cut() -> None:
    assert timestamp("1969-12-31T23:59:59.9999999Z") == datetime(
        1969, 12, 31, 23, 59, 59, 999999, UTC
    )


def test_very_long_plain_forms_keep_their_spelling() -> None:
    assert plain(number("1e9999")) == "1" + "0" * 9999
    assert plain(number("1e10000")) == "1e10000"
    assert plain(number("1e-9999")) == "1e-9999"
    assert plain(number("0e" + "9" * 5000)) == "0"
    assert plain(number("1e" + "9" * 5000)) == "1e" + "9" * 5000


def test_types_join_over_all_events_that_were_read() -> None:
    table = orders(
        line(properties={"n": 1, "m": 1, "t": NOON}),
        line(properties={"n": 1.5, "m": True, "t": "x"}),
    )
    assert inferred(table) == {"m": "string", "n": "decimal(38,6)", "t": "string"}
    assert [row["n"] for row in table.rows] == [Decimal(1)]


def test_the_rescue_example() -> None:
    (row,) = orders(line(userId="u", properties={"user_id": 5, "id": "m1"})).rows
    assert (row["user_id"], row["id"]) == ("u", "m1")
    assert row["_rescued_data"] == '{"properties.user_id":5}'


def test_a_date_that_is_none_is_rescued() -> None:
    (row,) = orders(line(sentAt="soon", userId=5, day=1)).rows
    assert "sent_at" not in row
    assert row["user_id"] == "5"
    assert (row["day"], row["hr"]) == ("2026-11-01", "12")
    assert row["_rescued_data"] == '{"day":1,"sentAt":"soon"}'


def test_the_exact_path_wins_then_the_first_by_code_point() -> None:
    sent = {"Unit Price": 1, "unit_price": 2, "a": {"b": 3}, "a_b": 4, "context_ip": 5}
    (row,) = orders(line(context={"ip": 6}, properties=sent)).rows
    assert (row["unit_price"], row["a_b"], row["context_ip"]) == (2, 3, 6)
    assert json.loads(row["_rescued_data"]) == {
        "properties.Unit Price": 1,
        "properties.a_b": 4,
        "properties.context_ip": 5,
    }


def test_columns_beyond_the_budget_are_rescued() -> None:
    table = orders(line(properties={"Aa": 1, "b": 2, "c": 3}), max_columns=14)
    assert list(inferred(table)) == ["_rescued_data", "b", "c"]
    assert table.rows[0]["_rescued_data"] == '{"properties.Aa":1}'


def test_a_column_keeps_its_type() -> None:
    lake = landed(line(properties={"n": 1}))
    later = lake.load({"b": [line(messageId="m2", properties={"n": 5.7})]})
    assert later.rescued == 1
    assert lake.tables["order_completed"].rows[1]["n"] == 5
    assert later.new_columns == {"order_completed": {"_rescued_data": "string"}}


@pytest.mark.parametrize(
    ("apart", "kept"),
    [(timedelta(days=7), 1), (timedelta(days=7, microseconds=1), 2), (timedelta(days=-8), 2)],
)
def test_duplicates_within_seven_days(apart: timedelta, kept: int) -> None:
    lake = landed(line())
    other = (datetime(2026, 11, 1, 12) + apart).isoformat()
    lake.load({"b": [line(receivedAt=other)]})
    assert len(lake.tables["order_completed"].rows) == kept


def test_the_first_received_is_kept() -> None:
    early = line(receivedAt="2026-11-01T11:00:00Z", channel="early")
    assert [row["channel"] for row in orders(line(channel="late"), early).rows] == ["early"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{" + b" " * 1_048_576, "too_large"),
        (b'{"a":NaN}', "not_json"),
        (b'{"a":"\\ud800","a":1}', "not_json"),
        (b"\xef\xbb\xbf" + line(), "not_json"),
        (b"[" * 20_000, "not_json"),
        (b"[" * 101 + b"]" * 101, "not_object"),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "too_deep"),
        (b'{"a":' + b"[" * 99 + b"]" * 99 + b"}", "bad_type"),
        (line(type="Track", messageId=""), "bad_type"),
        (line(messageId=5, event=""), "no_message_id"),
        (line(event="", receivedAt=""), "no_event_name"),
        (line(receivedAt="2026-11-01"), "no_received_at"),
        (b" \t" + line() + b"\r", None),
    ],
)
def test_quarantine(raw: bytes, reason: str | None) -> None:
    assert reason_against(raw) == reason


def test_the_books_balance_on_adversarial_lines() -> None:
    lake = Oracle(Settings(suppressed=frozenset({"u2"}), skip_events=("signed_up", "注文")))
    made = adversary.lines(1, 200)
    assert made == adversary.lines(1, 200)
    assert not any(b"\n" in raw for raw in made)
    for half in (made[:100], made[100:]):
        books = lake.load({"a": half})
        out = books.landed + books.duplicates + books.suppressed + books.quarantined + books.skipped
        assert books.received == out == sum(bool(raw.strip(b" \t\r")) for raw in half)
        assert all((books.suppressed, books.skipped, books.duplicates, books.rescued))
    types = {to for table in lake.tables.values() for to in table.columns.values()}
    assert types == {"boolean", "bigint", "decimal(38,6)", "string", "timestamp"}


def test_the_parser_agrees_with_the_standard_one() -> None:
    for raw in adversary.lines(2, 300):
        if len(raw) < 20_000 and raw.strip() and reason_against(raw) != "not_json":
            expected = json.loads(raw, parse_int=number, parse_float=number)
            assert oracle.parse(raw)[0] == expected
