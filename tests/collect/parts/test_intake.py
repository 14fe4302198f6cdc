"""The lines of request bodies."""

import json
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.collect.check import EventHead
from eventlake.collect.intake import (
    IntakeResult,
    parse_batch,
    parse_single,
    process_batch,
    process_single,
    replace_lone_surrogates,
)
from eventlake.collect.limits import MAX_BODY_BYTES, MAX_EVENT_BYTES
from eventlake.collect.refusal import Refusal
from eventlake.collect.stamp import Arrival
from eventlake.kernels.route import validate_line

ARRIVAL = Arrival(1_794_736_800_000_000, "web")


def single(
    body: bytes, call: str = "track", suppressed: frozenset[str] = frozenset()
) -> IntakeResult:
    head = parse_single(body)
    head.type = call
    return process_single(head, body, suppressed, ARRIVAL)


def batch(*events: Any, suppressed: frozenset[str] = frozenset(), **shared: Any) -> IntakeResult:
    body = json.dumps({"batch": events, **shared}).encode()
    return process_batch(parse_batch(body), suppressed, ARRIVAL)


def test_a_line_is_an_event_that_a_load_accepts() -> None:
    (line,) = single(b'{"userId":"u","event":"Hello"}').lines
    assert line.endswith(b"}\n")
    assert validate_line(line[:-1]).event == "Hello"


def test_the_path_decides_the_type() -> None:
    (line,) = single(b'{"userId":"u","type":"track"}', "page").lines
    assert json.loads(line)["type"] == "page"


def test_pretty_printed_events_are_one_line() -> None:
    (line,) = single(b'{"userId":"u",\r\n "event":"x", "properties":{\n"a":\n1}}').lines
    assert line.count(b"\n") == 1
    assert b"\r" not in line


def test_invalid_events_of_a_batch_are_rejected_alone() -> None:
    result = batch({"type": "page", "userId": "u"}, 5, {"type": "page"}, {"type": "x"})
    assert len(result.lines) == 1
    reasons = ["event_not_object", "no_user_anon_id", "type_not_valid"]
    assert sorted(result.reasons) == reasons
    assert [json.loads(line)["reason"] for line in result.rejected] == reasons
    assert json.loads(result.rejected[0])["event"] == 5


def test_a_too_large_event_of_a_batch_is_rejected_alone() -> None:
    large = {"type": "page", "userId": "u", "properties": {"a": "x" * MAX_EVENT_BYTES}}
    result = batch(large, {"type": "page", "userId": "u"})
    assert result.reasons == {"event_too_large": 1}
    assert json.loads(result.rejected[0])["event"] == large
    assert len(result.lines) == 1


def test_no_line_contains_a_write_key() -> None:
    good = {"type": "page", "userId": "u", "writeKey": "secret"}
    result = batch(good, {"type": "page", "writeKey": "secret"}, writeKey="secret")
    assert b"secret" not in b"".join(result.lines + result.rejected)
    hidden = single(b'{"write\\u004bey":"secret"}')
    assert len(hidden.rejected) == 1
    assert b"secret" not in hidden.rejected[0]


@pytest.mark.parametrize("user", ["u1", 5])
def test_events_of_suppressed_users_are_only_counted(user: object) -> None:
    users = frozenset(("u1", "5"))
    result = batch(
        {"type": "page", "userId": user}, {"type": "page", "userId": "x"}, suppressed=users
    )
    assert (result.suppressed, len(result.lines), result.rejected) == (1, 1, [])


def test_invalid_events_of_suppressed_users_are_not_stored() -> None:
    users = frozenset(("u1",))
    bad = {"type": "nothing", "userId": "u1"}
    large = {"type": "page", "userId": "u1", "properties": {"a": "x" * MAX_EVENT_BYTES}}
    result = batch(bad, large, suppressed=users)
    assert (result.suppressed, result.lines, result.rejected) == (2, [], [])


def nested(levels: int) -> bytes:
    """Return a page event with this number of levels."""
    deep = b"[" * (levels - 1) + b"]" * (levels - 1)
    return b'{"type":"page","userId":"u","writeKey":"secret","a":' + deep + b"}"


@pytest.mark.parametrize("levels", [101, 500, 960, 968, 970, 975, 990, 1000, 5000, 15_000])
def test_a_single_event_over_100_levels_is_refused(levels: int) -> None:
    with pytest.raises(Refusal) as refused:
        single(nested(levels), "page")
    assert (refused.value.status, refused.value.code) == (400, "too_deep")


@pytest.mark.parametrize("levels", [101, 500, 960, 968, 970, 975, 990, 1000, 5000, 200_000])
def test_an_event_over_100_levels_in_a_batch_is_rejected_alone(levels: int) -> None:
    good = b'{"type":"page","userId":"u"}'
    body = b'{"batch":[' + good + b"," + nested(levels) + b"," + good + b"]}"
    result = process_batch(parse_batch(body), frozenset(), ARRIVAL)
    assert len(result.lines) == 2
    assert set(result.reasons) <= {"too_deep", "event_too_large"}
    (line,) = result.rejected
    assert json.loads(line)["event"]["userId"] == "u"
    assert b"secret" not in line


def test_100_levels_are_accepted_and_brackets_in_strings_do_not_count() -> None:
    assert len(single(nested(100), "page").lines) == 1
    wide = b'{"userId":"u","event":"x","properties":{"a":[' + b"[]," * 200 + b"[]]}}"
    assert len(single(wide).lines) == 1
    text = b'{"userId":"u","event":"x \\" ' + b"[" * 200 + b'"}'
    assert len(single(text).lines) == 1


@pytest.mark.parametrize("name", ["context", "integrations", "sentAt", "writeKey", "unknown"])
@pytest.mark.parametrize("levels", [120, 968, 980, 995, 5000])
def test_a_batch_with_deep_fields_outside_its_events_is_read(name: str, levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    body = b'{"batch":[{"type":"page","userId":"u"}],"%s":%s}' % (name.encode(), deep)
    result = process_batch(parse_batch(body), frozenset(), ARRIVAL)
    assert result.reasons == ({"too_deep": 1} if name in SHARED else {})


SHARED = ("context", "integrations", "sentAt")
NUMBERS = ["1e999", "-1e999", "9" * 5000, "1." + "9" * 5000, "-0.0", "1E+2", "123456789012345678"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("field", ["userId", "anonymousId", "timestamp", "sentAt", "name", "x"])
def test_a_number_of_any_size_is_stored_as_it_was_sent(field: str, number: str) -> None:
    body = f'{{"type":"page","{field}":{number},"previousId":"p"}}'.encode()
    event = body if field in ("userId", "anonymousId") else body[:-1] + b',"userId":"u"}'
    for result in (
        single(event, "page"),
        process_batch(parse_batch(b'{"batch":[%s]}' % event), frozenset(), ARRIVAL),
    ):
        assert not result.rejected
        stored_as = "originalTimestamp" if field == "timestamp" else field
        assert f'"{stored_as}":{number}'.encode() in result.lines[0]
        validate_line(result.lines[0][:-1])


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_a_huge_number_in_place_of_a_string_has_the_usual_reason(number: str) -> None:
    assert single(f'{{"userId":"u","event":{number}}}'.encode()).reasons == {"event_not_string": 1}
    by_id = f'{{"userId":"u","event":"x","messageId":{number}}}'.encode()
    assert single(by_id).reasons == {"message_id_not_string": 1}
    inside = f'{{"userId":[{number}],"event":"x"}}'.encode()
    assert single(inside).reasons == {"no_user_anon_id": 1}


@pytest.mark.parametrize("number", ["1e999", "-5", "7.5"])
def test_sent_at_of_a_batch_may_be_any_number(number: str) -> None:
    body = f'{{"batch":[{{"type":"page","userId":"u"}}],"sentAt":{number}}}'.encode()
    (line,) = process_batch(parse_batch(body), frozenset(), ARRIVAL).lines
    assert f'"sentAt":{number},'.encode() in line


@pytest.mark.parametrize(
    ("user", "suppressed_id"), [("1e2", "100"), ("1.50", "1.5"), ("1e20000", "1e20000")]
)
def test_numeric_user_ids_are_suppressed_by_their_plain_form(user: str, suppressed_id: str) -> None:
    event = f'{{"event":"x","userId":{user}}}'.encode()
    assert len(single(event).lines) == 1
    result = single(event, suppressed=frozenset((suppressed_id,)))
    assert (result.suppressed, result.lines) == (1, [])


def test_many_quotes_and_brackets_parse_in_linear_time() -> None:
    began = process_time()
    for unit in (b'\\"', b'"', b'"[', b"[", b"{", b"]"):
        with suppress(Refusal):
            parse_batch(b'{"batch":["' + unit * (MAX_BODY_BYTES // len(unit)))
    assert process_time() - began < 5


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from([*EventHead.__struct_fields__, "name", "receivedAt", "projectId", "x"])
TYPES = st.sampled_from(["track", "identify", "page", "screen", "group", "alias"])
EVENTS = st.builds(
    lambda some, good, kind: {**good, **some, "type": kind},
    st.dictionaries(FIELDS, VALUES),
    st.fixed_dictionaries({}, optional={"userId": st.text(min_size=1), "event": st.just("Hello")}),
    TYPES,
)


@given(
    st.lists(EVENTS | VALUES, max_size=4),
    st.dictionaries(st.sampled_from(["context", "integrations", "sentAt", "writeKey"]), VALUES),
)
def test_every_accepted_event_is_valid_for_a_load(events: list[Any], shared: Any) -> None:
    try:
        result = batch(*events, **shared)
    except Refusal:
        return
    assert len(result.lines) + len(result.rejected) == len(events)
    assert result.reasons.total() == len(result.rejected)
    for line in result.lines:
        assert line.count(b"\n") == 1
        assert validate_line(line[:-1]).messageId
    for line in result.rejected:
        assert json.loads(line)["reason"] in result.reasons


@given(st.binary() | st.text().map(str.encode) | VALUES.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_parse_or_are_refused(body: bytes) -> None:
    for parse in (parse_batch, parse_single):
        with suppress(Refusal):
            parse(replace_lone_surrogates(body))


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("not_json", b""),
        ("not_json", b"hello"),
        ("not_json", b'{"a":NaN}'),
        ("not_json", b'{"a":"\xff"}'),
        ("not_json", b'{"a":1} {}'),
        ("invalid_request", b"5"),
        ("invalid_request", b"[]"),
        ("too_deep", b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        ("event_too_large", b'{"a":"' + b"x" * MAX_EVENT_BYTES + b'"}'),
    ],
)
def test_an_unreadable_single_event_is_refused(code: str, body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse_single(body)
    assert (refused.value.status, refused.value.code) == (400, code)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("invalid_request", b"{}"),
        ("invalid_request", b'{"batch":{}}'),
        ("invalid_request", b'{"batch":null}'),
        ("context_too_large", b'{"batch":[1,2,3],"context":{"a":"' + b"x" * 700_000 + b'"}}'),
        ("batch_too_long", b'{"batch":[' + b"1," * 2500 + b"1]}"),
    ],
)
def test_an_invalid_batch_is_refused(code: str, body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse_batch(body)
    assert (refused.value.status, refused.value.code) == (400, code)


def test_the_longest_batch_is_accepted() -> None:
    assert len(batch(*[{"type": "page", "userId": "u"}] * 2500).lines) == 2500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb'"\ud83d"', rb'"\ufffd"'),
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"'),
        (rb'"\\ud83d"', rb'"\\ud83d"'),
        (rb'"\uD83Dx"', rb'"\ufffdx"'),
        (rb'"\\\ud83d\n"', rb'"\\\ufffd\n"'),
        (rb'"\ud7ff"', rb'"\ud7ff"'),
    ],
)
def test_half_an_emoji_becomes_the_replacement_character(text: bytes, expected: bytes) -> None:
    assert replace_lone_surrogates(text) == expected
    json.loads(replace_lone_surrogates(text))
