"""Routing: valid events to their tables, other lines to the quarantine with a reason."""

import json
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.route import (
    EVENT_BYTES,
    MAX_LINE_BYTES,
    EventBuffer,
    ExcludedCounts,
    InvalidLine,
    RejectedLine,
    Router,
    Routing,
    Rules,
    split_deep,
    validate_line,
)
from eventlake.model.naming import Call, Naming
from tests import adversary, oracle

NOON = "2026-11-01T12:00:00Z"
MICROS = 1_793_534_400_000_000
EVENT = {"type": "track", "event": "Order Completed", "messageId": "m1", "receivedAt": NOON}


def line(**changed: Any) -> bytes:
    """An event with some fields changed; None leaves one out."""
    fields = {key: value for key, value in (EVENT | changed).items() if value is not None}
    return json.dumps(fields).encode()


def reason(raw: bytes) -> str | None:
    try:
        validate_line(raw)
    except InvalidLine as refused:
        return refused.reason if refused.detail else "no detail"
    return None


def route(*lines: bytes, place: int = 1, **rules: Any) -> Router:
    router = Router(Rules(**rules))
    router.route_lines(list(lines), place, valid_utf8=False)
    return router


def ids(router: Router, table: str = "order_completed") -> list[str]:
    return [identity for _, identity, _, _ in router.buffers[table].events]


def deep(levels: int) -> dict[str, Any]:
    inner: Any = 1
    for _ in range(levels - 1):
        inner = [inner]
    return {"deep": inner}


# Reasons


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (line(), None),
        (line(type="page", event=None), None),
        (line(type="page", event=5), None),
        (line(**deep(100)), None),
        (line(pad="x" * (MAX_LINE_BYTES - len(line(pad="")))), None),
        (line(pad="x" * (MAX_LINE_BYTES - len(line(pad="")) + 1)), "too_large"),
        (b"x" * (MAX_LINE_BYTES + 1), "too_large"),
        (b"not json", "not_json"),
        (line()[:-1], "not_json"),
        (line()[:-1] + b',"a":NaN}', "not_json"),
        (line()[:-1] + b',"a":"\xff"}', "not_json"),
        (line()[:-1] + b',"a":"\\ud800"}', "not_json"),
        (line() + line(), "not_json"),
        (b"[" * 20_000, "not_json"),
        (b"[]", "not_object"),
        (b"[" + line() + b"]", "not_object"),
        (b"5", "not_object"),
        (b'"x"', "not_object"),
        (b"null", "not_object"),
        (b"true", "not_object"),
        (b"[" * 150 + b"]" * 150, "not_object"),
        (b" \t[" + b"[" * 150 + b"]" * 151, "not_object"),
        (line(**deep(101)), "too_deep"),
        (line(**deep(900)), "too_deep"),
        (line(type=None), "bad_type"),
        (line(type="Track"), "bad_type"),
        (line(type=""), "bad_type"),
        (line(type=5), "bad_type"),
        (line(type=["track"]), "bad_type"),
        (line(messageId=None), "no_message_id"),
        (line(messageId=""), "no_message_id"),
        (line(messageId=5), "no_message_id"),
        (line(messageId=True), "no_message_id"),
        (line(event=None), "no_event_name"),
        (line(event=""), "no_event_name"),
        (line(event=5), "no_event_name"),
        (line(event={}), "no_event_name"),
        (line(receivedAt=None), "no_received_at"),
        (line(receivedAt=""), "no_received_at"),
        (line(receivedAt=1793518200), "no_received_at"),
        (line(receivedAt="2026-11-01"), "no_received_at"),
        (line(receivedAt="2026-02-30T00:00:00Z"), "no_received_at"),
        (line(receivedAt="2026-11-01 07:30:00Z"), "no_received_at"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_an_invalid_line_is_rejected_with_its_reason(raw: bytes, expected: str | None) -> None:
    assert reason(raw) == expected
    rejected = route(raw).rejected
    assert [one.reason for one in rejected] == ([expected] if expected not in LATE | {None} else [])


LATE = {"too_deep"}
"""Found by the parser, not by routing; `split_deep` rejects these."""

# Each spoils a line in one way; the reasons in the order in which the first counts.
SPOILERS: dict[str, Any] = {
    "too_large": lambda raw: raw[:-1] + b" " * MAX_LINE_BYTES + raw[-1:],
    "not_json": lambda raw: raw[:-1] + b',"x":NaN}',
    "not_object": lambda raw: b"[" + raw + b"]",
    "too_deep": lambda raw: raw[:-1] + b',"q":' + b"[" * 100 + b"]" * 100 + b"}",
}
FIELDS: dict[str, dict[str, Any]] = {
    "bad_type": {"type": "Track"},
    "no_message_id": {"messageId": ""},
    "no_event_name": {"event": ""},
    "no_received_at": {"receivedAt": "soon"},
}
ORDER = [*SPOILERS, *FIELDS]


@given(st.sets(st.sampled_from(ORDER), min_size=1))
def test_the_first_reason_that_applies_counts(reasons: set[str]) -> None:
    changed = {
        key: value for name in reasons & FIELDS.keys() for key, value in FIELDS[name].items()
    }
    raw = line(**changed)
    for name in reversed(SPOILERS):
        raw = SPOILERS[name](raw) if name in reasons else raw
    expected = min(reasons, key=ORDER.index)
    assert reason(raw) == expected
    if expected not in LATE:
        (rejected,) = route(raw).rejected
        assert (rejected.reason, rejected.raw) == (expected, raw)


def test_every_line_is_judged_as_the_oracle_judges_it() -> None:
    lines = [raw for raw in adversary.lines(11, 80) if len(raw) < 20_000]
    for raw in lines:
        if raw.strip(b" \t\r"):
            assert reason(raw) == oracle.reason_against(raw), raw[:300]


# Destinations


def test_each_event_goes_to_the_buffer_of_its_table() -> None:
    router = route(
        line(messageId="a"),
        line(messageId="b", event="orderCompleted"),
        line(messageId="c", type="page", event=None),
        line(messageId="d", type="page", event="ignored"),
        line(messageId="e", receivedAt="1970-01-01T01:00:00+01:00"),
        place=7,
    )
    assert {table: ids(router, table) for table in router.buffers} == {
        "order_completed": ["a", "b", "e"],
        "page": ["c", "d"],
    }
    orders = router.buffers["order_completed"]
    assert orders.call is Call.TRACK
    assert [received for _, _, received, _ in orders.events] == [MICROS, MICROS, 0]
    assert [place for _, _, _, place in orders.events] == [7, 8, 11]
    assert orders.bytes == sum(len(line) + EVENT_BYTES for line, _, _, _ in orders.events)
    assert router.buffers["page"].call is Call.PAGE


def test_the_naming_decides_the_table_and_the_prefix_does_not() -> None:
    router = route(line(), line(type="alias"), naming=Naming.NATIVE, prefix="eu")
    assert router.buffers.keys() == {"track_order_completed", "alias"}


def test_blank_lines_are_ignored_but_numbered() -> None:
    router = route(b"", b" \t\r", line(), b"", b"x")
    assert [place for _, _, _, place in router.buffers["order_completed"].events] == [3]
    assert router.rejected == [RejectedLine("not_json", router.rejected[0].detail, b"x", 5)]


def test_a_line_with_a_carriage_return_is_an_event() -> None:
    assert route(line() + b"\r").buffers.keys() == {"order_completed"}


@pytest.mark.parametrize("valid_utf8", [True, False])
def test_a_valid_block_need_not_be_checked_line_by_line(valid_utf8: bool) -> None:
    router = Router(Rules())
    router.route_lines([line(event="é注文x")], 1, valid_utf8)
    assert router.buffers.keys() == {"x"}


def test_escaped_and_duplicate_keys_are_accepted() -> None:
    raw = line().replace(b'"type"', b'"\\u0074ype"').replace(b"m1", b"\\u006d1")
    assert ids(route(raw)) == ["m1"]
    twice = line()[:-1] + b',"messageId":"m2"}'
    assert ids(route(twice)) == ["m2"]


def test_the_last_of_two_types_counts() -> None:
    twice = b'{"type":5,' + line()[1:]
    assert route(twice).buffers.keys() == {"order_completed"}


# Excluded events


@pytest.mark.parametrize(
    ("user", "suppressed"),
    [
        ("u1", True),
        ("u2", False),
        ("", False),
        (None, False),
        (5, True),
        (True, False),
        (["u1"], False),
        ({"id": "u1"}, False),
    ],
)
def test_events_of_suppressed_users_are_counted(user: Any, suppressed: bool) -> None:
    router = route(line(userId=user), suppressed={"u1", "5", "true"})
    expected = {"order_completed": ExcludedCounts(Call.TRACK, suppressed=1)} if suppressed else {}
    assert router.excluded == expected
    assert (
        bool(router.buffers.get("order_completed", EventBuffer(Call.TRACK)).events)
        is not suppressed
    )
    assert router.rejected == []


@pytest.mark.parametrize("spelling", ["5", "5.0", "5e0", "50e-1"])
def test_a_numeric_user_is_known_by_the_string_it_becomes(spelling: str) -> None:
    raw = line()[:-1] + f',"userId":{spelling}}}'.encode()
    assert validate_line(raw).userId == "5"
    assert route(raw, suppressed={"5"}).excluded == {
        "order_completed": ExcludedCounts(Call.TRACK, 1)
    }
    assert route(raw, suppressed={"5.0"}).excluded == {}


@pytest.mark.parametrize(
    ("skip", "skipped"),
    [
        ({"Order Completed"}, ["a"]),
        ({"order_completed"}, ["a", "b"]),
        ({"page"}, ["c"]),
        ({"pages"}, []),
        ({"ORDER COMPLETED"}, []),
        # A page may have a field `event`; its name does not count.
        ({"On A Page"}, []),
    ],
)
def test_events_and_tables_are_skipped_by_name(skip: Collection[str], skipped: list[str]) -> None:
    router = route(
        line(messageId="a"),
        line(messageId="b", event="orderCompleted"),
        line(messageId="c", type="page", event="On A Page"),
        skip=skip,
    )
    landing = [identity for table in router.buffers for identity in ids(router, table)]
    assert sorted(landing) == sorted({"a", "b", "c"} - set(skipped))
    assert sum(counts.skipped for counts in router.excluded.values()) == len(skipped)


@pytest.mark.parametrize("name", ["order_completed", "eu_order_completed"])
def test_a_table_is_skipped_by_its_name_here_or_in_the_catalog(name: str) -> None:
    skipped = {"order_completed": ExcludedCounts(Call.TRACK, skipped=1)}
    assert route(line(), prefix="eu", skip={name}).excluded == skipped
    assert route(line(), prefix="us", skip={"eu_order_completed"}).excluded == {}


def test_a_suppressed_event_is_not_counted_as_skipped() -> None:
    router = route(line(userId="u1"), line(), suppressed={"u1"}, skip={"order_completed"})
    assert router.excluded == {
        "order_completed": ExcludedCounts(Call.TRACK, suppressed=1, skipped=1)
    }


@pytest.mark.parametrize("rules", [{"suppressed": {"u1"}}, {"skip": {"order_completed"}}])
def test_an_invalid_event_is_neither_suppressed_nor_skipped(rules: dict[str, Any]) -> None:
    raw = line(userId="u1", **deep(101))
    router = route(raw, **rules)
    assert router.excluded == {}
    assert [one.reason for one in router.rejected] == ["too_deep"]


# Too deep


def test_split_deep_rejects_lines_that_nest_too_deep() -> None:
    lines = [line(messageId="a"), line(messageId="b", **deep(101)), line(messageId="c")]
    buffer = route(*lines, place=3).buffers["order_completed"]
    kept, (rejected,) = split_deep(buffer.drain())
    assert (rejected.reason, rejected.raw, rejected.place) == ("too_deep", lines[1], 4)
    assert kept == [(lines[0], "a", MICROS, 3), (lines[2], "c", MICROS, 5)]
    assert (buffer.events, buffer.bytes) == ([], 0)


def test_validate_line_returns_the_routing_fields() -> None:
    assert validate_line(line(userId="u1")) == Routing(
        type="track", messageId="m1", receivedAt=NOON, event="Order Completed", userId="u1"
    )
