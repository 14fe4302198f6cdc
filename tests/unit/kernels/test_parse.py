"""The fast path, Arrow's reader, gives what the slow and obvious one gives, value by value."""

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlake.kernels import parse as module
from eventlake.kernels.cast import observe_column, observe_text
from eventlake.kernels.jsontext import TooDeep, decode, decode_line, encode, flatten, skim
from eventlake.kernels.parse import Kind, Kinds, Parsed, parse
from eventlake.model.naming import Path
from eventlake.model.types import Json, NumberText, Type, join, number, observe
from tests import jsons, regular

Values = dict[Path, object]


def expected(line: bytes) -> Values:
    """What a line holds, read the slow way."""
    return {path: comparable(value) for path, value in flatten(decode_line(line))}


def comparable(value: Json) -> object:
    if isinstance(value, NumberText):
        return ("number", number(value))
    if isinstance(value, list):
        return ("array", encode(value))
    return value


def found(parsed: Parsed) -> list[Values]:
    """What each line holds by what the parser made of it."""
    lines: list[Values] = [{} for _ in range(parsed.rows)]
    for path, (kind, array) in parsed.dense.items():
        for row, value in enumerate(array.to_pylist()):
            if value is not None:
                put(lines[parsed.order[row]], path, dense_value(kind, value))
    for path, texts in parsed.sparse.items():
        for row, text in texts:
            put(lines[parsed.order[row]], path, text_value(text))
    return lines


def put(line: Values, path: Path, value: object) -> None:
    assert path not in line
    line[path] = value


def dense_value(kind: Kind, value: object) -> object:
    if kind in (Kind.INT, Kind.NUMBER):
        return ("number", Decimal(value))
    return text_value(value) if kind is Kind.JSON else value


def text_value(text: str) -> object:
    return ("array", text) if text.startswith("[") else comparable(decode(text))


def observed(parsed: Parsed) -> dict[Path, Type]:
    return joined(
        chain(
            ((path, observe_column(*column)) for path, column in parsed.dense.items()),
            (
                (path, observe_text(text))
                for path, texts in parsed.sparse.items()
                for _, text in texts
            ),
        )
    )


def joined(seen: Iterable[tuple[Path, Type]]) -> dict[Path, Type]:
    types: dict[Path, Type] = {}
    for path, one in seen:
        types[path] = join(types.get(path, one), one)
    return types


def check(*blocks: list[bytes]) -> list[Parsed]:
    """Compare every block, read one after the other with the same `Kinds`, and the types of all."""
    kinds, every = Kinds(), []
    for lines in blocks:
        parsed = parse(lines, kinds)
        assert parsed.rows == len(lines)
        assert sorted(parsed.order) == list(range(len(lines)))
        assert found(parsed) == [expected(line) for line in lines]
        every.append(parsed)
    # A block alone may be read by what an earlier one taught; the types are the table's.
    ours = joined(chain.from_iterable(observed(parsed).items() for parsed in every))
    leaves = (flatten(decode_line(line)) for lines in blocks for line in lines)
    assert ours == joined((path, observe(value)) for line in leaves for path, value in line)
    return every


def read_fast(parsed: Parsed) -> int:
    """How many lines Arrow has read."""
    return max((len(array) for _, array in parsed.dense.values()), default=0)


# Generated lines


def test_regular_lines() -> None:
    fast = whole = 0
    for seed in range(8):
        for parsed in check(*regular.blocks(seed)):
            fast += read_fast(parsed) == parsed.rows
            whole += 1
    assert fast > 0.5 * whole  # or this would compare the slow path with itself


CELLS = {
    "integer": jsons.INTEGERS,
    "fraction": jsons.FRACTIONS | jsons.INTEGERS,
    "text": jsons.STRINGS,
    "flag": st.sampled_from(["true", "false"]),
    "strings": st.lists(jsons.STRINGS, max_size=3).map(lambda items: f"[{','.join(items)}]"),
    "anything": jsons.VALUES,
}


@st.composite
def tables(draw: st.DrawFn) -> list[bytes]:
    """Lines of four columns, each of one kind but for one cell of anything."""
    kinds = draw(st.lists(st.sampled_from(list(CELLS)), min_size=4, max_size=4))
    rows = draw(st.lists(st.tuples(*(CELLS[kind] for kind in kinds)), min_size=3, max_size=3))
    cells = [list(row) for row in rows] * draw(st.sampled_from([1, 5, 9]))
    row, column = draw(st.integers(0, len(cells) - 1)), draw(st.integers(0, 3))
    cells[row] = [*cells[row][:column], draw(jsons.VALUES), *cells[row][column + 1 :]]
    form = '{{"a":{},"b":{{"c":{},"d":{}}},"e":{}}}'
    return [form.format(*row).encode() for row in cells]


@settings(max_examples=settings().max_examples // 2)
@given(tables(), tables())
def test_columns_of_one_kind_with_an_exception(one: list[bytes], other: list[bytes]) -> None:
    check(one, other)


# One exception among regular lines

REGULAR = (
    '{{"i":{n},"d":{n}.25,"s":"s{n}","f":true,"t":"2026-11-01T07:30:{n:02}Z",'
    '"l":["a","b{n}"],"o":{{"i":{n},"s":"x","p":{{"d":0.5}}}},"m":[{{"a":{n}}}]}}'
)
LINES = [REGULAR.format(n=n).encode() for n in range(module.LEARN + 3)]
UNSAMPLED = module.LEARN + 1
"""The parser looks at the first lines before it begins; it does not look at this one."""


def one_odd(line: str, at: int) -> list[bytes]:
    return [*LINES[:at], line.encode(), *LINES[at:]]


ODD = [
    # Another kind in a column: it becomes text, and no value changes.
    '{"i":"5"}',
    '{"i":5.5}',
    '{"i":1.0}',
    '{"i":1e2}',
    '{"i":-0}',
    '{"i":true}',
    '{"i":[1]}',
    '{"i":9223372036854775808}',
    '{"i":-9223372036854775809}',
    '{"i":123456789012345678901234567890123456789012345678901234567890}',
    '{"i":' + "1" * 5000 + "}",
    '{"i":1e400}',
    '{"i":1e-400}',
    '{"i":"2026-11-01T07:30:00Z"}',
    '{"d":1}',
    '{"d":9007199254740993}',
    '{"d":123456789012345678.123456}',
    '{"d":9999999999999999999.999999999999999999}',
    '{"d":1e18}',
    '{"d":1e19}',
    '{"d":-1e19}',
    '{"d":99999999999999999999}',
    '{"d":1e21}',
    '{"d":123456789012345678901234.5}',
    '{"d":0.123456789012345678}',
    '{"d":0.1234567890123456789}',
    '{"d":0.1000000000000000000000000000000000000000000000000000000000000}',
    '{"d":1e-18}',
    '{"d":1e-19}',
    '{"d":5e-324}',
    '{"d":1.7976931348623157e308}',
    '{"d":1e400}',
    '{"d":-1e400}',
    '{"d":0e400}',
    '{"d":"0.25"}',
    '{"d":"NaN"}',
    '{"d":"x"}',
    '{"d":false}',
    '{"d":[0.25]}',
    '{"s":5}',
    '{"s":1.10}',
    '{"s":null}',
    '{"s":["s"]}',
    '{"s":"\\u0000\\ud83d\\ude00\\/\\n"}',
    '{"s":"2026-11-01T07:30:00Z"}',
    '{"f":"true"}',
    '{"f":1}',
    '{"f":0}',
    '{"t":"soon"}',
    '{"t":"2026-11-01"}',
    '{"t":"2026-11-01T07:30:00.123456789+05:30"}',
    '{"t":1793518200}',
    # Arrays.
    '{"l":[]}',
    '{"l":["a",null]}',
    '{"l":["\\u00e9","\\"","\\u2028","\\u001f"]}',
    '{"l":[ "a" , "b" ]}',
    '{"l":["2026-11-01T07:30:00Z"]}',
    '{"l":[1]}',
    '{"l":[1.50]}',
    '{"l":[["a"]]}',
    '{"l":[{"a":1}]}',
    '{"l":"a"}',
    '{"l":{"a":1}}',
    '{"m":[]}',
    '{"m":["a"]}',
    '{"m":[{"a":1,"a":2,"b":{"c":[ ]}}]}',
    '{"m":[ 1.0 , -0, 1e400, 12345678901234567890 ]}',
    '{"m":{"a":[1]}}',
    '{"m":5}',
    # Objects where others have values, and values where others have objects.
    '{"i":{"x":1}}',
    '{"i":{}}',
    '{"o":5}',
    '{"o":"x"}',
    '{"o":[{"i":1}]}',
    '{"o":null}',
    '{"o":{}}',
    '{"o":{"i":{"x":1}}}',
    '{"o":{"p":0.5}}',
    '{"o":{"p":{"d":"x"}}}',
    '{"o":{"p":{"d":{"e":{"f":1}}}}}',
    # Keys.
    '{"i":1,"i":2}',
    '{"i":1,"i":"x"}',
    '{"i":"x","i":1}',
    '{"i":1,"i":null}',
    '{"i":null,"i":1}',
    '{"l":["a"],"l":[1]}',
    '{"m":[1],"m":null}',
    '{"o":{"i":1},"o":{"s":"y"}}',
    '{"o":{"i":1},"o":5}',
    '{"o":{"i":1,"i":"2"}}',
    '{"\\u0069":7}',
    '{"\\u006d":[7]}',
    '{"m":[1],"\\u006d":[2]}',
    '{"\\u006f":{"\\u0069":"x"}}',
    '{"o/i":"x","/o":{"i":1}}',
    '{"":1,"o":{"":{"":"x"}}}',
    '{"a\\"b":[1],"\\u0000":[2]}',
    '{"new":1.5,"newer":{"x":[1],"y":"2026-11-01T07:30:00"}}',
    '{"é":[1],"注文":{"é":1.5}}',
    '{"__proto__":[1],"f0":[2],"__init__":[3]}',
    '{" in row 3":[1],"to int64":1.5}',
    '{"Column(/i) changed from number to string in row 3":"x"}',
    '{"Column(/i) changed from number to string in row 3":["x",1]}',
    "{}",
    '{ "i" :\t1 ,\r"d": 2.5 }',
]


@pytest.mark.parametrize("line", ODD, ids=lambda line: line[:60])
def test_one_odd_line(line: str) -> None:
    (parsed,) = check(one_odd(line, UNSAMPLED))
    if line not in UNREADABLE:
        assert read_fast(parsed) >= len(LINES)


UNREADABLE = ('{"a\\"b":[1],"\\u0000":[2]}', '{"\\u006d":[7]}', '{"m":[1],"\\u006d":[2]}')
"""Arrays under a key with escapes: the whole block goes the slow way."""


def test_several_kinds_of_odd_lines_in_one_block() -> None:
    odd = [line.encode() for line in ODD if "1e400" not in line]
    for start in range(0, len(odd), 12):
        some = odd[start : start + 12]
        check(LINES + some + LINES, LINES)
        check(*([line] for line in some), LINES)


@pytest.mark.parametrize("line", ['{"i":1,"i":2}', '{"o":5}'])
def test_many_lines_that_only_python_can_read(line: str) -> None:
    few, many = [line.encode()] * module.MAX_ODD_LINES, [line.encode()] * 40
    (parsed,) = check(LINES + few)
    assert read_fast(parsed) == len(LINES)
    (parsed,) = check(LINES + many)
    assert read_fast(parsed) == 0


def test_regular_lines_are_all_read_by_arrow() -> None:
    (parsed,) = check(LINES)
    assert read_fast(parsed) == len(LINES)
    kinds = {path: kind for path, (kind, _) in parsed.dense.items()}
    assert kinds == {
        ("i",): Kind.INT,
        ("d",): Kind.NUMBER,
        ("s",): Kind.STRING,
        ("f",): Kind.BOOL,
        ("t",): Kind.STRING,
        ("l",): Kind.JSON,
        ("o", "i"): Kind.INT,
        ("o", "s"): Kind.STRING,
        ("o", "p", "d"): Kind.NUMBER,
    }
    assert parsed.sparse.keys() == {("m",)}


# Many keys


def test_a_line_of_many_keys_makes_no_columns() -> None:
    keys = ",".join(f'"key number {n}":{n}' for n in range(module.MANY_KEYS + 1))
    (parsed,) = check(one_odd(f"{{{keys}}}", UNSAMPLED))
    assert read_fast(parsed) == len(LINES)
    assert len(parsed.dense) < 20


def test_keys_that_are_data_make_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 10_000)
    growing = [f'{{"i":{n},"by id":{{"{n}":{{"n":{n}}}}}}}'.encode() for n in range(120)]
    (parsed,) = check(growing)
    assert parsed.dense == {}
    steady = [b'{"i":1,"o":{"s":"x"}}'] * 120
    (parsed,) = check(steady)
    assert read_fast(parsed) == 120


def test_keys_that_grow_a_little_are_columns() -> None:
    check([f'{{"i":{n},"k{n}":{n}.5,"o":{{"k{n // 2}":"x"}}}}'.encode() for n in range(60)])


@pytest.mark.parametrize("value", ["1e400", "1" * 5000])
def test_many_lines_with_numbers_beyond_doubles(value: str) -> None:
    parsed = parse([f'{{"i":{value}}}'.encode()] * 900, Kinds())
    assert parsed.rows == 900


# Depth


@pytest.mark.parametrize("inner", ["1", "null", '"x"', "{}", "[]", '[{"a":1}]'])
@pytest.mark.parametrize("at", [0, UNSAMPLED])
def test_a_hundred_levels_and_one_more(inner: str, at: int) -> None:
    levels = 100 - inner.count("{") - inner.count("[")
    fits = '{"a":' * levels + inner + "}" * levels
    check(one_odd(fits, at))
    with pytest.raises(TooDeep):
        parse(one_odd(f'{{"a":{fits}}}', at), Kinds())


@pytest.mark.parametrize("levels", [101, 300])
def test_arrays_too_deep(levels: int) -> None:
    deep = '{"m":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    for at in (0, UNSAMPLED):
        with pytest.raises(TooDeep):
            parse(one_odd(deep, at), Kinds())


def test_a_line_that_nests_too_deep_teaches_nothing() -> None:
    kinds = Kinds()
    lines = [f'{{"i":{n}}}'.encode() for n in range(module.LEARN + 3)]
    deep = f'{{"i":1.5,"m":{"[" * 100}{"]" * 100}}}'.encode()
    with pytest.raises(TooDeep):
        parse([*lines[:UNSAMPLED], deep, *lines[UNSAMPLED:]], kinds)
    assert observed(parse(lines, kinds)) == {("i",): Type.BIGINT}


# What is remembered


def test_kinds_only_widen_from_block_to_block() -> None:
    values = ["1", "2.5", "3", '"x"', "4", "[5]", "true", '{"y":6}', "7"]
    blocks = [[f'{{"a":{value},"b":1}}'.encode()] * 15 for value in values]
    check(*blocks)
    check(*reversed(blocks))


def test_numbers_keep_their_spelling_where_they_may_be_rescued() -> None:
    kinds = Kinds(spelled=lambda path: path == ("a",))
    lines = [b'{"a":1.50,"b":1.50}', b'{"a":1e1,"b":1e1}', b'{"a":-0.0,"b":-0.0}'] * 5
    parsed = parse(lines, kinds)
    texts = dict(parsed.sparse)[("a",)]
    assert [text for _, text in texts] == ["1.50", "1e1", "-0.0"] * 5
    assert parsed.dense.keys() == {("b",)}


def test_awkward_numbers_keep_their_spelling() -> None:
    parsed = parse([b'{"a":1.50}', b'{"a":"x"}', b'{"a":1E+3}'] * 5, Kinds())
    texts = parsed.sparse[("a",)]
    assert [text for _, text in texts] == ["1.50", '"x"', "1E+3"] * 5


def test_no_lines() -> None:
    assert parse([], Kinds()).rows == 0


# The first look


@given(jsons.ARRAYS | jsons.SCALARS)
@example("1" * 5000)
@example("-0")
@example("9223372036854775808")
@example("-9223372036854775808")
def test_a_first_look_sees_the_kinds_that_the_exact_reader_sees(text: str) -> None:
    line = f'{{"a":{{"b":{text}}}}}'.encode()
    looks = []
    for look in (skim, decode_line):
        seen: defaultdict[Path, set[Kind]] = defaultdict(set)
        module._see_kinds(look(line), (), seen)
        looks.append(seen)
    assert looks[0] == looks[1]


def test_a_first_look_refuses_what_nests_too_deep() -> None:
    with pytest.raises(TooDeep):
        skim(b'{"a":' * 101 + b"1" + b"}" * 101)
