"""Exact JSON: the same tree and the same text, whichever way it is read."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.jsontext import (
    NotJson,
    TooDeep,
    check_levels,
    compact,
    decode,
    decode_line,
    encode,
    flatten,
)
from eventlake.model.types import Json, NumberText
from tests import jsons


def spelled(text: str) -> object:
    """What the standard library reads, with each number as a pair of its spelling."""
    number = ("number",).__add__
    return json.loads(text, parse_int=lambda n: number((n,)), parse_float=lambda n: number((n,)))


def same(value: Json) -> object:
    """Our tree in the same terms."""
    if isinstance(value, NumberText):
        return ("number", str(value))
    if isinstance(value, list):
        return [same(item) for item in value]
    if isinstance(value, dict):
        return {key: same(item) for key, item in value.items()}
    return value


@given(jsons.VALUES)
def test_the_tree_and_its_text_are_what_was_sent(text: str) -> None:
    value = decode(text)
    assert same(value) == spelled(text)
    assert same(decode_line(text.encode())) == spelled(text)
    assert spelled(encode(value)) == spelled(text)
    assert encode(decode(encode(value))) == encode(value)


@given(jsons.ARRAYS | jsons.SCALARS)
def test_the_compact_form_is_the_same_without_a_tree(text: str) -> None:
    assert compact(text.encode()) == encode(decode(text))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("[ 1.0 , 1e3,\t-0, 1.10, 1E400 ]", "[1.0,1e3,-0,1.10,1E400]"),
        ("[12345678901234567890, -0.0, 123456789012345678.123456]", None),
        ('["\\u00e9","\\/","\\u0000","\\u001F","\\u007f","\\b\\f\\n\\r\\t"]', None),
        ('[{"b":1,"a":2,"b":3}]', '[{"b":3,"a":2}]'),
        ('[{"a":{"x":1,"x":[ ]},"c":null}]', '[{"a":{"x":[]},"c":null}]'),
        ('["a b", "c  d"]', '["a b","c  d"]'),
        ('["x\u2028\x7f\u0080"]', '["x\u2028\x7f\u0080"]'),
        ('"a\\u0041"', '"aA"'),
        ("[[], {} ,[ ]]", "[[],{},[]]"),
        ("[ -0 ]", "[-0]"),
        ("[ 18446744073709551616 ]", "[18446744073709551616]"),
        ("[ -123456789012345678901234567890 ]", "[-123456789012345678901234567890]"),
    ],
)
def test_compact(raw: str, text: str | None) -> None:
    assert compact(raw.encode()) == (text or encode(decode(raw)))


@given(jsons.VALUES, st.integers(0, 60), st.sampled_from(['"', ",", ":", "{", "]", "1", "x", "\\"]))
def test_both_readers_refuse_the_same(text: str, at: int, mark: str) -> None:
    broken = text[:at] + mark + text[at + 1 :]
    assert refuses(check_levels, broken) == refuses(lambda one: decode_line(one.encode()), broken)


def refuses(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except NotJson as problem:
        return "surrogate" not in str(problem)
    return False


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"NaN",
        b"-Infinity",
        b'{"a":NaN}',
        b"01",
        b"+1",
        b"1.",
        b".5",
        b"1e",
        b"'x'",
        b"[1,]",
        b"[,1]",
        b'{"a":1,}',
        b"{,}",
        b"{1:1}",
        b'{"a"}',
        b'{"a":1 "b":2}',
        b"[1}",
        b'"tab\there"',
        b'"\\x41"',
        b'"\\u12g4"',
        b'"unended',
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"tru",
        b"[" * 50,
        b"[" * 20_000,
        b'{"a":' * 5000 + b"}" * 5000,
    ],
)
def test_what_is_not_json(line: bytes) -> None:
    with pytest.raises(NotJson):
        decode_line(line)
    deep = b"[" * 101 + line + b"]" * 101
    with pytest.raises(TooDeep if line == b"" else NotJson):
        decode_line(deep)


def test_the_error_names_the_position_of_invalid_utf8() -> None:
    with pytest.raises(NotJson, match="invalid UTF-8 at byte 3"):
        decode_line(b'"a\xff"')


@pytest.mark.parametrize(
    "text",
    [
        r'"\ud800"',
        r'"\udc00\ud800"',
        r'"\ud83dx"',
        r'"\uDFFF"',
        r'{"\ud800":1}',
        r'["\ud83d\u0041"]',
    ],
)
def test_half_a_surrogate_pair_is_not_json(text: str) -> None:
    with pytest.raises(NotJson, match="surrogate"):
        decode_line(text.encode())


@pytest.mark.parametrize("text", [r'"\ud83d\ude00"', r'"\\ud800"', r'"\\\\ud800"'])
def test_a_pair_or_a_backslash_before_is_fine(text: str) -> None:
    assert decode_line(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("levels", "opening", "closing"),
    [
        *((levels, "[", "]") for levels in (1, 99, 100, 101, 1000, 100_000)),
        *((levels, '{"a":', "}") for levels in (1, 99, 100, 101, 1000)),
    ],
)
def test_a_hundred_levels_are_allowed(levels: int, opening: str, closing: str) -> None:
    line = (opening * levels + "1" + closing * levels).encode()
    if levels > 100:
        with pytest.raises(TooDeep, match=f"{levels} levels"):
            decode_line(line)
    else:
        decode_line(line)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert decode_line(b"[" + b"[],{}," * 500 + b'"[[["]')


def test_not_json_goes_before_too_deep() -> None:
    with pytest.raises(NotJson):
        decode_line(rb'["\ud800",' + b"[" * 100 + b"]" * 101)


def test_of_a_key_given_twice_the_last_counts() -> None:
    assert decode('{"a":1,"b":2,"a":{"c":3},"a":"x"}') == {"a": "x", "b": "2"}


def test_flatten() -> None:
    tree = decode('{"a":{"b":1,"c":{},"d":null,"e":[{"f":1}]},"":"x","a.b":false}')
    assert list(flatten(tree)) == [
        (("a", "b"), "1"),
        (("a", "e"), [{"f": "1"}]),
        (("",), "x"),
        (("a.b",), False),
    ]
