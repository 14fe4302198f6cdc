"""What the collector adds to an event, and what it leaves alone."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.collect.check import Head
from eventlake.collect.stamp import ALONE, Arrival, Shared, iso, moment, stamp
from eventlake.model.types import timestamp

RECEIVED = moment("2026-11-15T10:00:00.000Z") or 0
ARRIVAL = Arrival(RECEIVED, "web-id")


def stamped(event: Any, shared: Shared = ALONE, arrival: Arrival = ARRIVAL) -> dict[str, Any]:
    raw = event if isinstance(event, bytes) else json.dumps({"type": "page", **event}).encode()
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    made = stamp(dict(fields), msgspec.json.decode(raw, type=Head), shared, arrival)
    return json.loads(msgspec.json.encode(made))


def test_every_event_gets_its_receipt_its_project_and_an_id() -> None:
    made = stamped({})
    assert made["receivedAt"] == "2026-11-15T10:00:00.000Z"
    assert made["timestamp"] == made["receivedAt"]
    assert made["projectId"] == "web-id"
    assert len(made["messageId"]) == 36
    assert "originalTimestamp" not in made


def test_ids_that_came_stay_and_made_ones_differ() -> None:
    assert stamped({"messageId": "mine"})["messageId"] == "mine"
    assert stamped({"messageId": ""})["messageId"] != stamped({"messageId": None})["messageId"]


def test_the_write_key_is_not_kept() -> None:
    assert "writeKey" not in stamped({"writeKey": "secret"})


@pytest.mark.parametrize(
    ("given_times", "original", "when"),
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
def test_the_clients_clock_is_corrected(
    given_times: dict[str, Any], original: Any, when: str
) -> None:
    made = stamped(given_times)
    assert made["originalTimestamp"] == original
    assert made["timestamp"] == (original if when == "same" else when)
    assert made.get("sentAt") == given_times.get("sentAt")


def test_a_clock_beyond_the_calendar_ends_at_its_end() -> None:
    made = stamped({"timestamp": "9999-12-31T23:59:59.000Z", "sentAt": "0001-01-01T00:00:00.000Z"})
    assert made["timestamp"].startswith("9999-12-31T23:59:59.999")


def test_a_batch_speaks_for_its_events_unless_they_speak_themselves() -> None:
    shared = Shared({"ip": "1.1.1.1", "locale": "de"}, {"All": False}, "2026-11-15T10:00:00.000Z")
    made = stamped({"context": {"ip": "2.2.2.2"}}, shared)
    assert made["context"] == {"ip": "2.2.2.2", "locale": "de"}
    assert made["integrations"] == {"All": False}
    assert made["sentAt"] == "2026-11-15T10:00:00.000Z"
    assert stamped({"sentAt": "x"}, shared)["sentAt"] == "x"


def test_a_browser_gets_its_address_unless_it_has_one() -> None:
    browser = Arrival(RECEIVED, "web", "203.0.113.7")
    assert stamped({}, arrival=browser)["context"] == {"ip": "203.0.113.7"}
    assert stamped({"context": {"ip": "9.9.9.9"}}, arrival=browser)["context"]["ip"] == "9.9.9.9"
    assert "context" not in stamped({})


def test_numbers_keep_every_digit() -> None:
    raw = b'{"type":"page","properties":{"a":123456789012345678.123456,"b":1.10,"c":1e400}}'
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    made = stamp(dict(fields), msgspec.json.decode(raw, type=Head), ALONE, ARRIVAL)
    assert b'{"a":123456789012345678.123456,"b":1.10,"c":1e400}' in msgspec.json.encode(made)


def test_the_day_is_that_of_receipt_in_milliseconds() -> None:
    assert Arrival(RECEIVED, "web").day == 1794700800000


@given(st.datetimes())
def test_the_short_way_to_a_moment_is_the_long_way(at: Any) -> None:
    for text in (at.isoformat(timespec="milliseconds") + "Z", at.isoformat()):
        assert moment(text) == timestamp(text)


@given(st.text("0123456789-:TZW.", min_size=24, max_size=24))
def test_what_is_no_moment_is_none(text: str) -> None:
    assert moment(text) == timestamp(text)


@pytest.mark.parametrize(
    "text", ["2026-W01-1T10:00:00.000Z", "2026-11-15T10:00:00,123Z", "2026-11-15T100000.12345Z"]
)
def test_other_forms_of_iso_are_none_either(text: str) -> None:
    assert moment(text) is None
    assert timestamp(text) is None


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_a_moment_is_written_so_that_it_reads_the_same(micros: int) -> None:
    assert timestamp(iso(micros)) == micros
