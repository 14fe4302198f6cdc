"""The fields that the collector adds to an event, and those that it does not change."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.collect.check import EventHead
from eventlake.collect.stamp import (
    NO_SHARED_FIELDS,
    Arrival,
    SharedFields,
    format_timestamp,
    parse_timestamp,
    stamp_event,
)
from eventlake.model.types import timestamp

RECEIVED = parse_timestamp("2026-11-15T10:00:00.000Z") or 0
ARRIVAL = Arrival(RECEIVED, "web-id")


def stamped(
    event: Any, shared: SharedFields = NO_SHARED_FIELDS, arrival: Arrival = ARRIVAL
) -> dict[str, Any]:
    raw = event if isinstance(event, bytes) else json.dumps({"type": "page", **event}).encode()
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    result = stamp_event(dict(fields), msgspec.json.decode(raw, type=EventHead), shared, arrival)
    return json.loads(msgspec.json.encode(result))


def test_every_event_gets_receipt_time_project_and_id() -> None:
    result = stamped({})
    assert result["receivedAt"] == "2026-11-15T10:00:00.000Z"
    assert result["timestamp"] == result["receivedAt"]
    assert result["projectId"] == "web-id"
    assert len(result["messageId"]) == 36
    assert "originalTimestamp" not in result


def test_message_ids_are_kept_and_generated_ones_differ() -> None:
    assert stamped({"messageId": "mine"})["messageId"] == "mine"
    assert stamped({"messageId": ""})["messageId"] != stamped({"messageId": None})["messageId"]


def test_the_write_key_is_removed() -> None:
    assert "writeKey" not in stamped({"writeKey": "secret"})


@pytest.mark.parametrize(
    ("times", "original", "when"),
    [
        ({"timestamp": "2020-01-01T00:00:00.000Z"}, "2020-01-01T00:00:00.000Z", "same"),
        (
            {"timestamp": "2020-01-01T00:00:00.000Z", "sentAt": "2020-01-01T00:00:05.000Z"},
            "2020-01-01T00:00:00.000Z",
            "2026-11-15T09:59:55.000Z",
        ),
        (
            {"timestamp": "2020-01-01T02:00:00+02:00", "sentAt": "2020-01-01T00:00:00.000250Z"},
            "2020-01-01T02:00:00+02:00",
            "2026-11-15T09:59:59.999750Z",
        ),
        (
            {"originalTimestamp": "2020-01-01T00:00:00.000Z", "sentAt": "2020-01-01T00:00:01.000Z"},
            "2020-01-01T00:00:00.000Z",
            "2026-11-15T09:59:59.000Z",
        ),
        ({"timestamp": "yesterday"}, "yesterday", "2026-11-15T10:00:00.000Z"),
        ({"timestamp": 1.50}, 1.5, "2026-11-15T10:00:00.000Z"),
        (
            {"timestamp": "2020-01-01T00:00:00.000Z", "sentAt": "soon"},
            "2020-01-01T00:00:00.000Z",
            "same",
        ),
    ],
)
def test_the_clients_clock_skew_is_corrected(
    times: dict[str, Any], original: Any, when: str
) -> None:
    result = stamped(times)
    assert result["originalTimestamp"] == original
    assert result["timestamp"] == (original if when == "same" else when)
    assert result.get("sentAt") == times.get("sentAt")


def test_a_time_beyond_year_9999_is_clamped() -> None:
    result = stamped(
        {"timestamp": "9999-12-31T23:59:59.000Z", "sentAt": "0001-01-01T00:00:00.000Z"}
    )
    assert result["timestamp"].startswith("9999-12-31T23:59:59.999")


def test_fields_of_a_batch_are_defaults_of_its_events() -> None:
    shared = SharedFields(
        {"ip": "1.1.1.1", "locale": "de"}, {"All": False}, "2026-11-15T10:00:00.000Z"
    )
    result = stamped({"context": {"ip": "2.2.2.2"}}, shared)
    assert result["context"] == {"ip": "2.2.2.2", "locale": "de"}
    assert result["integrations"] == {"All": False}
    assert result["sentAt"] == "2026-11-15T10:00:00.000Z"
    assert stamped({"sentAt": "x"}, shared)["sentAt"] == "x"


def test_a_browsers_address_is_added_unless_the_event_has_one() -> None:
    browser = Arrival(RECEIVED, "web", "203.0.113.7")
    assert stamped({}, arrival=browser)["context"] == {"ip": "203.0.113.7"}
    assert stamped({"context": {"ip": "9.9.9.9"}}, arrival=browser)["context"]["ip"] == "9.9.9.9"
    assert "context" not in stamped({})


def test_numbers_keep_every_digit() -> None:
    raw = b'{"type":"page","properties":{"a":123456789012345678.123456,"b":1.10,"c":1e400}}'
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    result = stamp_event(
        dict(fields), msgspec.json.decode(raw, type=EventHead), NO_SHARED_FIELDS, ARRIVAL
    )
    assert b'{"a":123456789012345678.123456,"b":1.10,"c":1e400}' in msgspec.json.encode(result)


def test_the_day_folder_is_the_day_of_receipt_in_milliseconds() -> None:
    assert Arrival(RECEIVED, "web").day == 1794700800000


@given(st.datetimes())
def test_the_fast_path_parses_like_the_general_rule(at: Any) -> None:
    for text in (at.isoformat(timespec="milliseconds") + "Z", at.isoformat()):
        assert parse_timestamp(text) == timestamp(text)


@given(st.text("0123456789-:TZW.", min_size=24, max_size=24))
def test_random_text_parses_like_the_general_rule(text: str) -> None:
    assert parse_timestamp(text) == timestamp(text)


@pytest.mark.parametrize(
    "text", ["2026-W01-1T10:00:00.000Z", "2026-11-15T10:00:00,123Z", "2026-11-15T100000.12345Z"]
)
def test_other_iso_formats_are_not_accepted(text: str) -> None:
    assert parse_timestamp(text) is None
    assert timestamp(text) is None


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_a_formatted_timestamp_parses_to_the_same_value(micros: int) -> None:
    assert timestamp(format_timestamp(micros)) == micros
