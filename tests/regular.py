"""Lines as real senders make them: of one shape, with few exceptions; by seed.

`adversary` mixes everything with everything, so that hardly a column keeps one kind. Here most
columns do, and a few values, keys and lines do not: what a fast path for regular lines must notice.
"""

import json
from collections.abc import Callable
from random import Random

from tests import adversary

Maker = Callable[[Random], str]
Shape = dict[str, "Shape | str"]

INTEGERS = ("0", "1", "-1", "42", "-0", "1234567890123", "9007199254740993", str(2**63 - 1))
INTEGERS += (str(-(2**63)),)
LARGE = ("9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" + "0" * 25)
LARGE += ("3" * 60, "1" * 400)
FRACTIONS = (
    "1.5", "-2.25", "0.1", "1e3", "1E-3", "1.0", "-0.0", "0.000001", "1.10", "100e-2", "1E+02",
    "123456789012.123456", "0.30000000000000004", "123456789012345678.123456", "1e18", "9.99e18",
    "9999999999999999999.5", "0.123456789012345678", "1e-18", "0.0000000000000000000",
)  # fmt: skip
EXTREME = (
    "1e19", "-1e19", "9999999999999999999", "12345678901234567890.5", "0.1234567890123456789",
    "1e-19", "1e-30", "1.0000000000000000000000", "5e-324", "1.7976931348623157e308", "1e308",
    "1e400", "0e400", "0.0e-400", "99999999999999999999.999999999999999999",
)  # fmt: skip
TEXTS = (
    "", "x", "hello", "5", "1.5", "true", "null", "2026-11-01", "é", "😀", "a/b", "\u0000", '"\\',
    "\u2028", "1e5", "[1]", "{}", "2026-11-01 07:30:00", "12:00:00", "x" * 50,
)  # fmt: skip
ARRAYS = (*adversary.ARRAYS, '["x",null]', '["2026-11-01T07:30:00Z"]', "[1.5]", '[{"a":"x"},{}]')
OBJECTS = ("{}", '{"x":1}', '{"x":"y"}', '{"x":{"y":1.5}}', '{"x":[1]}', '{"y":null}', '{"z":[]}')
KEYS = ("a", "b", "c", "d", "x", "y", "A", "properties", "context")
ODD_KEYS = (
    "a.b", "a/b", "", "é", 'a"b', "\\", "k\u0000", "x y", "type", "__proto__", "f0", "to int64",
    "/a", " in row 3", "a) changed from string to number in row 2",
)  # fmt: skip


def pick(*pool: str) -> Maker:
    return lambda rng: rng.choice(pool)


def strings(rng: Random) -> str:
    texts = [rng.choice(TEXTS) for _ in range(rng.randrange(4))]
    return json.dumps(texts, ensure_ascii=rng.random() < 0.5, separators=(",", ":"))


def any_fraction(rng: Random) -> str:
    whole = rng.randrange(10 ** rng.randrange(1, 19))
    return f"{rng.choice(('', '-'))}{whole}.{rng.randrange(10**6):06}"


MAKERS: dict[str, Maker] = {
    "integer": pick(*INTEGERS),
    "any integer": lambda rng: str(rng.randrange(-(2**63), 2**63) >> rng.randrange(64)),
    "large": pick(*LARGE),
    "fraction": pick(*FRACTIONS, *INTEGERS),
    "any fraction": any_fraction,
    "extreme": pick(*EXTREME),
    "text": adversary.of(TEXTS),
    "moment": adversary.of(adversary.STAMPS),
    "no moment": adversary.of(adversary.FALSE_STAMPS + adversary.CAST_ONLY_STAMPS),
    "flag": pick("true", "false"),
    "strings": strings,
    "array": pick(*ARRAYS),
    "object": pick(*OBJECTS),
    "null": pick("null"),
}
USUAL = ("integer", "any integer", "fraction", "any fraction", "text", "text", "moment", "flag")
USUAL += ("strings",)
RARE = ("array", "extreme", "large", "no moment", "object")


def shape(rng: Random, depth: int, keys: tuple[str, ...]) -> Shape:
    """An object's keys, each with the kind of its values or the shape of the object below."""
    made: Shape = {}
    for _ in range(rng.randrange(1, 5)):
        below = depth > 0 and rng.random() < 0.35
        kinds = USUAL if rng.random() < 0.85 else RARE
        made[rng.choice(keys)] = shape(rng, depth - 1, keys) if below else rng.choice(kinds)
    return made


def value(rng: Random, of: "Shape | str", odd: float) -> str:
    if rng.random() < odd:
        return MAKERS[rng.choice(list(MAKERS))](rng)
    return MAKERS[of](rng) if isinstance(of, str) else written(rng, pairs(rng, of, odd))


def pairs(rng: Random, of: Shape, odd: float) -> list[str]:
    found = [
        f"{key_text(rng, key, odd)}:{value(rng, below, odd)}"
        for key, below in of.items()
        if rng.random() < 0.9
    ]
    if found and rng.random() < odd / 8:
        found.append(rng.choice(found))
    return found


def key_text(rng: Random, key: str, odd: float) -> str:
    if rng.random() < odd / 8:
        return '"' + "".join(f"\\u{ord(char):04x}" for char in key) + '"'
    return json.dumps(key, ensure_ascii=rng.random() < 0.5)


def written(rng: Random, found: list[str]) -> str:
    rng.shuffle(found)
    gap = rng.choice(("", "", "", " ", "\t", "\r"))
    return "{" + f",{gap}".join(found) + gap + "}"


def blocks(seed: int) -> list[list[bytes]]:
    """Lines of one table in several blocks; the shape may change from one to the next."""
    rng = Random(seed)
    keys = (*KEYS, rng.choice(ODD_KEYS)) if rng.random() < 0.3 else KEYS
    of, odd, made = shape(rng, 3, keys), rng.choice((0, 0, 0.002, 0.01, 0.05)), []
    for _ in range(rng.randrange(1, 4)):
        if rng.random() < 0.2:
            of |= shape(rng, 2, keys)
        size = rng.choice((2, 14, 25, 60))
        lines = [written(rng, pairs(rng, of, odd)).encode() for _ in range(size)]
        if rng.random() < 0.1:
            lines[rng.randrange(size)] = rng.choice(EXCEPTIONS)(rng)
        made.append(lines)
    return made


def deep(rng: Random) -> bytes:
    levels = rng.choice((50, 97, 98))
    inner = rng.choice((b"1", b'"x"', b"{}", b"null"))
    return b'{"deep":' + b'{"a":' * levels + inner + b"}" * levels + b"}"


def wide(rng: Random) -> bytes:
    keys = rng.choice((400, 1100))
    return json.dumps({f"w{n}": {"a": n, "b": str(n), "c": n / 8} for n in range(keys)}).encode()


EXCEPTIONS = (deep, wide)

CALLS = ("track", "track", "track", "identify", "page", "screen", "group", "alias")
TOP = ("id", "user_id", "userId", "anonymousId", "version", "channel", "name", "sentAt",
       "timestamp", "originalTimestamp", "category", "groupId", "received_at", "day")  # fmt: skip
FIELDS = ("a", "b", "c", "a_b", "aB", "A", "x_y", "x", "y", "user_id", "day", "hr", "id", "name",
          "timestamp", "sentAt", "properties", "context_ip", "type", "_rescued_data", "é",
          "rescued_data", "a.b")  # fmt: skip


def events(seed: int, count: int) -> list[bytes]:
    """Sound events of two calls; now and then one that nests at or over the limit."""
    rng = Random(seed)
    odd = rng.choice((0, 0, 0.002, 0.01, 0.05))
    shapes = {
        call: (
            shape(rng, 3, FIELDS),
            shape(rng, 2, FIELDS),
            {key: rng.choice(USUAL) for key in rng.sample(TOP, rng.randrange(5))},
        )
        for call in rng.sample(CALLS, 2)
    }
    made = []
    for number in range(count):
        call = rng.choice(list(shapes))
        if number == count // 2 and rng.random() < 0.5:
            shapes[call][0].update(shape(rng, 2, FIELDS))
        own, context, top = shapes[call]
        found = head(rng, call, number)
        bag = "properties" if call in ("track", "page", "screen") else "traits"
        found.append(f'"{bag}":{written(rng, pairs(rng, own, odd))}')
        found.append(f'"context":{value(rng, context, odd)}')
        found += pairs(rng, dict(top), odd)
        if rng.random() < 0.01:
            levels = rng.choice((99, 100))
            found.append('"q":' + "[" * levels + "]" * levels)
        made.append(written(rng, found).encode())
    return made


def head(rng: Random, call: str, number: int) -> list[str]:
    identity = number if rng.random() < 0.95 else rng.randrange(number + 1)
    day, hour, zone = rng.randrange(1, 20), rng.randrange(24), rng.choice(("Z", "", "+01:00"))
    found = [
        f'"type":"{call}"',
        f'"messageId":"m{identity}"',
        f'"receivedAt":"2026-11-{day:02}T{hour:02}:00:00{zone}"',
    ]
    return [*found, f'"event":"{rng.choice(("A", "A", "a", "B C"))}"'] if call == "track" else found
