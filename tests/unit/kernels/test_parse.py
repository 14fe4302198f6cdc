"""Lines parsed by Arrow have the same values as lines decoded one by one in Python."""

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from itertools import chain

import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlake.kernels import parse as module
from eventlake.kernels.cast import observe_column, observe_text
from eventlake.kernels.jsontext import TooDeep, decode, decode_fast, decode_line, encode, flatten
from eventlake.kernels.kinds import PathKinds, ValueKind
from eventlake.kernels.parse import ParsedBlock, parse_lines
from eventlake.kernels.windows import MAX_SLOW_LINES
from eventlake.model.naming import Path
from eventlake.model.types import Json, NumberText, Type, join, number, observe
from tests import jsons, regular

Values = dict[Path, object]


def expected(line: bytes) -> Values:
    """Decode a line in Python: its values by path."""
    return {path: comparable(value) for path, value in flatten(decode_line(line))}


def comparable(value: Json) -> object:
    if isinstance(value, NumberText):
        return ("number", number(value))
    if isinstance(value, list):
        return ("array", encode(value))
    return value


def values_by_line(parsed: ParsedBlock) -> list[Values]:
    """Return the values of each line by path, from the parsed columns."""
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


def dense_value(kind: ValueKind, value: object) -> object:
    if kind in (ValueKind.INT, ValueKind.NUMBER):
        return ("number", Decimal(value))
    return text_value(value) if kind is ValueKind.JSON else value


def text_value(text: str) -> object:
    return ("array", text) if text.startswith("[") else comparable(decode(text))


def observed(parsed: ParsedBlock) -> dict[Path, Type]:
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


def joined(observations: Iterable[tuple[Path, Type]]) -> dict[Path, Type]:
    types: dict[Path, Type] = {}
    for path, one in observations:
        types[path] = join(types.get(path, one), one)
    return types


def check(*blocks: list[bytes], **limit: int) -> list[ParsedBlock]:
    """Compare all blocks, parsed in turn with the same `PathKinds`, and the types of all."""
    kinds, every = PathKinds(**limit), []
    for lines in blocks:
        parsed = parse_lines(lines, kinds)
        assert parsed.rows == len(lines)
        assert sorted(parsed.order) == list(range(len(lines)))
        assert values_by_line(parsed) == [expected(line) for line in lines]
        every.append(parsed)
    # A block is parsed with the kinds of earlier ones, so only the types of all blocks compare.
    ours = joined(chain.from_iterable(observed(parsed).items() for parsed in every))
    leaves = (flatten(decode_line(line)) for lines in blocks for line in lines)
    assert ours == joined((path, observe(value)) for line in leaves for path, value in line)
    return every


def read_fast(parsed: ParsedBlock) -> int:
    """Count the lines that Arrow read."""
    return max((len(array) for _, array in parsed.dense.values()), default=0)


# Generated lines


def test_regular_lines() -> None:
    fast = whole = 0
    for seed in range(8):
        for parsed in check(*regular.blocks(seed)):
            fast += read_fast(parsed) == parsed.rows
            whole += 1
    assert fast > 0.5 * whole  # otherwise the slow path is compared with itself


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


# One irregular line among regular ones

REGULAR = (
    '{{"i":{n},"d":{n}.25,"s":"s{n}","f":true,"t":"2026-11-01T07:30:{n:02}Z",'
    '"l":["a","b{n}"],"o":{{"i":{n},"s":"x","p":{{"d":0.5}}}},"m":[{{"a":{n}}}]}}'
)
LINES = [REGULAR.format(n=n).encode() for n in range(module.SAMPLE_LINES + 3)]
UNSAMPLED = module.SAMPLE_LINES + 1
"""The index of a line that is not in the sample."""


def with_line_at(line: str, at: int) -> list[bytes]:
    return [*LINES[:at], line.encode(), *LINES[at:]]


IRREGULAR = [
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


@pytest.mark.parametrize("line", IRREGULAR, ids=lambda line: line[:60])
def test_one_irregular_line_changes_no_value(line: str) -> None:
    (parsed,) = check(with_line_at(line, UNSAMPLED))
    if line not in SLOW_BLOCKS:
        assert read_fast(parsed) >= len(LINES)


SLOW_BLOCKS = ('{"a\\"b":[1],"\\u0000":[2]}', '{"\\u006d":[7]}', '{"m":[1],"\\u006d":[2]}')
"""Arrays under a key with escapes: the whole block takes the slow path."""


def test_several_irregular_lines_in_one_block() -> None:
    irregular = [line.encode() for line in IRREGULAR if "1e400" not in line]
    for start in range(0, len(irregular), 12):
        some = irregular[start : start + 12]
        check(LINES + some + LINES, LINES)
        check(*([line] for line in some), LINES)


@pytest.mark.parametrize("line", ['{"i":1,"i":2}', '{"o":5}'])
def test_a_block_with_many_slow_lines_is_read_by_python(line: str) -> None:
    few, many = [line.encode()] * MAX_SLOW_LINES, [line.encode()] * 40
    (parsed,) = check(LINES + few)
    assert read_fast(parsed) == len(LINES)
    (parsed,) = check(LINES + many)
    assert read_fast(parsed) == 0


def test_regular_lines_are_all_read_by_arrow() -> None:
    (parsed,) = check(LINES)
    assert read_fast(parsed) == len(LINES)
    kinds = {path: kind for path, (kind, _) in parsed.dense.items()}
    assert kinds == {
        ("i",): ValueKind.INT,
        ("d",): ValueKind.NUMBER,
        ("s",): ValueKind.STRING,
        ("f",): ValueKind.BOOL,
        ("t",): ValueKind.STRING,
        ("l",): ValueKind.JSON,
        ("o", "i"): ValueKind.INT,
        ("o", "s"): ValueKind.STRING,
        ("o", "p", "d"): ValueKind.NUMBER,
    }
    assert parsed.sparse.keys() == {("m",)}


# Many keys


def test_a_line_with_many_keys_makes_no_columns() -> None:
    keys = ",".join(f'"key number {n}":{n}' for n in range(module.WIDE_LINE_KEYS + 1))
    (parsed,) = check(with_line_at(f"{{{keys}}}", UNSAMPLED))
    assert read_fast(parsed) == len(LINES)
    assert len(parsed.dense) < 20


def test_too_many_keys_make_no_columns() -> None:
    growing = [f'{{"i":{n},"by id":{{"{n}":{{"n":{n}}}}}}}'.encode() for n in range(120)]
    (parsed,) = check(growing, max_cells=10_000)
    assert parsed.dense == {}
    steady = [b'{"i":1,"o":{"s":"x"}}'] * 120
    (parsed,) = check(steady, max_cells=10_000)
    assert read_fast(parsed) == 120


def test_a_few_new_keys_per_line_become_columns() -> None:
    check([f'{{"i":{n},"k{n}":{n}.5,"o":{{"k{n // 2}":"x"}}}}'.encode() for n in range(60)])


@pytest.mark.parametrize("value", ["1e400", "1" * 5000])
def test_many_lines_with_numbers_beyond_doubles(value: str) -> None:
    parsed = parse_lines([f'{{"i":{value}}}'.encode()] * 900, PathKinds())
    assert parsed.rows == 900


# Depth


@pytest.mark.parametrize("inner", ["1", "null", '"x"', "{}", "[]", '[{"a":1}]'])
@pytest.mark.parametrize("at", [0, UNSAMPLED])
def test_a_hundred_levels_and_one_more(inner: str, at: int) -> None:
    levels = 100 - inner.count("{") - inner.count("[")
    fits = '{"a":' * levels + inner + "}" * levels
    check(with_line_at(fits, at))
    with pytest.raises(TooDeep):
        parse_lines(with_line_at(f'{{"a":{fits}}}', at), PathKinds())


@pytest.mark.parametrize("levels", [101, 300])
def test_arrays_too_deep(levels: int) -> None:
    deep = '{"m":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    for at in (0, UNSAMPLED):
        with pytest.raises(TooDeep):
            parse_lines(with_line_at(deep, at), PathKinds())


def test_kinds_do_not_change_after_too_deep() -> None:
    kinds = PathKinds()
    lines = [f'{{"i":{n}}}'.encode() for n in range(module.SAMPLE_LINES + 3)]
    deep = f'{{"i":1.5,"m":{"[" * 100}{"]" * 100}}}'.encode()
    with pytest.raises(TooDeep):
        parse_lines([*lines[:UNSAMPLED], deep, *lines[UNSAMPLED:]], kinds)
    assert observed(parse_lines(lines, kinds)) == {("i",): Type.BIGINT}


# Kinds are reused


def test_kinds_only_widen_from_block_to_block() -> None:
    values = ["1", "2.5", "3", '"x"', "4", "[5]", "true", '{"y":6}', "7"]
    blocks = [[f'{{"a":{value},"b":1}}'.encode()] * 15 for value in values]
    check(*blocks)
    check(*reversed(blocks))


def test_numbers_that_may_be_rescued_keep_their_text() -> None:
    kinds = PathKinds(keeps_number_text=lambda path: path == ("a",))
    lines = [b'{"a":1.50,"b":1.50}', b'{"a":1e1,"b":1e1}', b'{"a":-0.0,"b":-0.0}'] * 5
    parsed = parse_lines(lines, kinds)
    texts = dict(parsed.sparse)[("a",)]
    assert [text for _, text in texts] == ["1.50", "1e1", "-0.0"] * 5
    assert parsed.dense.keys() == {("b",)}


def test_numbers_in_paths_of_several_kinds_keep_their_text() -> None:
    parsed = parse_lines([b'{"a":1.50}', b'{"a":"x"}', b'{"a":1E+3}'] * 5, PathKinds())
    texts = parsed.sparse[("a",)]
    assert [text for _, text in texts] == ["1.50", '"x"', "1E+3"] * 5


def test_of_strings_with_a_few_other_values_only_the_others_are_sparse() -> None:
    odd = {7: "1.50", 300: "[1, 2]", 301: '{"c":1}', 302: "null", 599: "true"}
    texts = [odd.get(n, f'"text \\"{n}\\""') for n in range(600)]
    lines = [f'{{"o":{{"a":{text},"b":"x","n":{n}}}}}'.encode() for n, text in enumerate(texts)]
    more = [line.replace(b'"x"', b"2") for line in lines[:5]]
    first, second = check(lines, [*lines, *more])
    for parsed in (first, second):
        assert read_fast(parsed) == parsed.rows
        kind, array = parsed.dense[("o", "a")]
        assert kind is ValueKind.STRING
        assert pc.indices_nonzero(array.is_null()).to_pylist()[:5] == sorted(odd)
        assert parsed.sparse[("o", "a")] == [(7, "1.50"), (300, "[1,2]"), (599, "true")]
        assert parsed.sparse[("o", "a", "c")] == [(301, "1")]
    assert [text for _, text in second.sparse[("o", "b")]] == ["2"] * 5


def test_no_lines() -> None:
    assert parse_lines([], PathKinds()).rows == 0


# Sampling


@given(jsons.ARRAYS | jsons.SCALARS)
@example("1" * 5000)
@example("-0")
@example("9223372036854775808")
@example("-9223372036854775808")
def test_the_fast_decoder_gives_the_same_kinds_as_the_exact_one(text: str) -> None:
    line = f'{{"a":{{"b":{text}}}}}'.encode()
    results = []
    for read in (decode_fast, decode_line):
        kinds: defaultdict[Path, set[ValueKind]] = defaultdict(set)
        module._collect_kinds(read(line), (), kinds)
        results.append(kinds)
    assert results[0] == results[1]


def test_the_fast_decoder_refuses_lines_that_nest_too_deep() -> None:
    with pytest.raises(TooDeep):
        decode_fast(b'{"a":' * 101 + b"1" + b"}" * 101)
