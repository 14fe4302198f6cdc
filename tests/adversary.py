"""Raw archive lines that try to make a loader go wrong; the same seed gives the same lines.

Everything is written as JSON text by hand, so that spellings, escapes, white space and repeated
keys are what a sender could really send. The `steady_` keys keep one kind of value throughout; the
`drift_` keys keep it in the first half of the lines only, so that a second load meets columns whose
type is settled.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random

Pair = tuple[str, str]
Maker = Callable[[Random], str]

EPOCH = datetime(2026, 11, 1, 7, 30)
LARGEST = 1_048_576
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
MOMENTS = [
    EPOCH + shift
    for shift in (
        timedelta(0),
        timedelta(0),
        TICK,
        timedelta(hours=1),
        timedelta(hours=16, minutes=29, seconds=59, microseconds=999999),
        DAY,
        7 * DAY - TICK,
        7 * DAY,
        7 * DAY + TICK,
        8 * DAY,
        14 * DAY,
        14 * DAY + 2 * TICK,
        21 * DAY,
        -7 * DAY,
        -40 * DAY,
        65 * DAY,
    )
]
MOMENTS += [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12)]

TYPES = ("track", "track", "track", "track", "identify", "page", "screen", "group", "alias")
EVENTS = (
    "Order Completed", "order_completed", "orderCompleted", "ORDER completed", "Order  Completed!",
    "Signed Up", "signed_up", "注文", "注文完了", "???", " ", "\u0000", "😀", "Ordre Passé",
    "2FA Enabled",
    "Identifies", "identify", "Identify", "pages", "page", "Track Pages", "track_pages",
    "Groups", "alias", "screen",
    "identify", "THE5r", "a" * 127, "a" * 128, "Very Long " * 20, "Very long " * 20, "é" * 200,
)  # fmt: skip
USERS = ('"u1"', '"u2"', '"u\\u0031"', '"5"', "5", "5.0", "5e0", '""', "true", "null", '["u1"]',
         '{"a":1}', "{}", "1e400", '"注文"')  # fmt: skip

NUMBERS = (
    "0", "1", "-1", "7", "42", "-0", "-0.0", "0.0", "0e5", "-0E-5", "1.0", "1.10", "5.0", "5.7",
    "-5.7", "0.5", "-0.5", "1e3", "1E+3", "1e-3", "10e-1", "0.1e1", "2.5e0", "100", "1e00002",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "9223372036854775807.5", "9223372036854775808.5", "9.223372036854775807e18", "1e18", "1e19",
    "1e31", "1e32", "-1e32", "1e40", "-1e40", "1e400", "-1e400", "1e-400", "1e9999", "-1e9999",
    "1e10000", "1e-9998", "1e-9999", "0e999999999999999999999", "1e999999999999999999999",
    "1e-999999999999999999999", "1" + "0" * 31, "1" + "0" * 32, "9" * 32, "9" * 32 + ".9999994",
    "9" * 32 + ".9999995", "-" + "9" * 32 + ".9999995", "9" * 31 + "e1", "3" * 60, "1" * 5000,
    "7" * 10001, "0." + "1" * 5000, "0.1234567", "0.1234565", "-0.1234565", "0.1234564999",
    "0.0000005", "-0.0000005", "0.0000004", "0.00000049999999999999999999", "0.000001", "5e-7",
    "123456789012345678.123456", "123456789012345678901234567890.123456",
    "0." + "1234567890" * 4, "3." + "9" * 40, "1.0000000000000000000000000000000000000000",
    "16777217", "9007199254740993", "0.1", "0.30000000000000004", "1.7976931348623157e308",
)  # fmt: skip
TEXTS = (
    "", " ", "x", "hello", "5", "+5", "-5", "-0", "+0", "007", "5.7", "+5.70", "-1.10", "1.", ".5",
    "1e3", " 5", "5 ", "5\n", "0x10", "1_000", "1,5", "--5", "٣", "\uff11\uff12",
    "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "0" * 40 + "7",
    "1" * 5000, "9" * 32, "1" + "0" * 32, "9" * 32 + ".9999994", "9" * 32 + ".9999995", "0.1234565",
    "-0.0000005", "5.70\n", "1", "0", "true", "TRUE", "False", "fAlSe", "fal\u017fe", " true",
    "true\n",
    "yes", "t", "null", "NaN", "Infinity", "{}", "[1, 2]", '{"a":1}', "é", "e\u0301", "naïve café",
    "注文", "😀", "\u0000", "a\u0000b", "\n\r\t\b\f", "\x1f\x7f\x80", "\u2028\u2029", "\ufeff", '"',
    "\\", "\\u0041", "/", "</script>", "a.b", "\ufffd", "\U0010ffff", "x" * 3000,
)  # fmt: skip
STAMPS = (
    "2026-11-01T07:30:00Z", "2026-11-01T07:30:00", "2026-11-01T07:30:00.000Z",
    "2026-11-01T07:30:00.1234567Z", "2026-11-01T07:30:00.999999999", "2026-11-01T13:00:00+05:30",
    "2026-11-01T13:00:00.5+0530", "2026-10-31T23:30:00-0800", "2026-11-01T07:30:00-00:00",
    "2026-11-01T07:30:00+23:59", "2024-02-29T00:00:00Z", "1969-12-31T23:59:59.9999999Z",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1900-01-01T00:00:00.000001+00:00",
    "0001-01-01T00:00:00-23:59", "9999-12-31T23:59:59+23:59", "1582-10-10T00:00:00Z",
)  # fmt: skip
CAST_ONLY_STAMPS = (
    "2026-11-01", "2024-02-29", "0001-01-01", "2026-11-01 07:30:00",
    "2026-11-01 07:30:00.123456789",
    "2026-11-01 07:30:00Z", "2026-11-01 13:00:00+0530",
)  # fmt: skip
FALSE_STAMPS = (
    "soon", "2026-02-29T00:00:00Z", "2026-02-30", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
    "2026-11-01T24:00:00Z", "2026-11-01T07:60:00Z", "2026-11-01T07:30:60Z", "2026-11-01T07:30Z",
    "2026-11-01t07:30:00Z", "2026-11-01T07:30:00z", "2026-11-01T07:30:00.Z",
    "2026-11-01T07:30:00+05",
    "2026-11-01T07:30:00+24:00", "2026-11-01T07:30:00+05:60", "2026-11-01T07:30:00 Z",
    "2026-11-01T07:30:00,5Z", "2026-1-1T07:30:00Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z",
    "+2026-11-01T07:30:00Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "20261101",
    "20261101T073000Z", "2026-W44-7", "\uff12\uff10\uff12\uff16-11-01T07:30:00Z",
    "2026-11-01T07:30:00Z\n",
    "2026-11-01\n", " 2026-11-01", "2026-11-01  07:30:00", "2026-11-01T07:30:00\u2212" + "05:00",
    "1793518200", "2026-11-01T", "2026-11-01 ", "2026-11-01T07:30:00UTC",
)  # fmt: skip
ARRAYS = (
    "[]", "[ ]", "[[]]", "[{}]", "[1,2,3]", "[ 1.0 , 1e3,\t-0, 1.10 ]", '["a","é","\\u00e9","\\n"]',
    '[{"b":1,"a":2,"b":3}]', '[{"a":{"x":1,"x":[ ]},"c":null}]', '[null , true,false]',
    '[1,"1",[1]]',
    '["\\ud83d\\ude00","\\/","\\u0000","\\u001F","\\u007f"]', "[123456789012345678.123456,1e400]",
    "[" * 40 + "]" * 40,
)  # fmt: skip

KEYS = (
    "unitPrice", "unit_price", "Unit Price", "UNIT_PRICE", "unit-price", "a.b", "a_b", "A.b", "aB",
    "a", "b", "A", "total", "Total", "", " ", "_", "注文", "field_da39a3ee", "é", "École",
    "key\u0000",
    "😀", "context_ip", "metadata_x", "properties", "traits", "properties_a", "user_id_a", "$set",
    "long" * 62 + "a", "long" * 62 + "abc", "long" * 62 + "abd", "Long Key " * 40, "9lives",
    "a\"b\\c",
    "constructor", "__proto__",
)  # fmt: skip
FIXED_KEYS = (
    "id", "ID", "message_id", "messageId", "user_id", "userId", "UserId", "anonymous_id", "event",
    "Event", "name", "category", "group_id", "previous_id", "type", "Type", "channel", "version",
    "project_id", "received_at", "receivedAt ", "sent_at", "sentAt", "original_timestamp",
    "timestamp",
    "Timestamp", "day", "Day", "hr", "HR", "year", "month", "_rescued_data", "rescued_data",
)  # fmt: skip
TOP_KEYS = (
    "user_id", "UserId", "anonymousID", "message_id", "id", "day", "hr", "year", "month",
    "received_at",
    "Sent At", "event", "name", "category", "groupId", "previousId", "a", "a_b", "a.b",
    "context_ip",
    "unit_price", "properties_a", "Properties", "Traits", "writeKey", "_rescued_data", "",
    "注文", "$x",
)  # fmt: skip


def lines(seed: int, n: int) -> list[bytes]:
    """`n` physical lines, without their newline."""
    rng = Random(seed)
    made: list[bytes] = []
    huge = 2
    for at in range(n):
        if made and chance(rng, 0.05):
            made.append(small(rng.choice(made)))
        elif huge and chance(rng, 0.01):
            made.append(huge_line(rng, pool=n))
            huge -= 1
        else:
            made.append(line(rng, pool=n, drifting=at >= n // 2))
    return made


def small(raw: bytes) -> bytes:
    return raw if len(raw) < 100_000 else b""


def line(rng: Random, pool: int, drifting: bool) -> bytes:
    dice = rng.random()
    if dice < 0.02:
        return rng.choice((b"", b" ", b"\t", b"\r", b" \t\r"))
    if dice < 0.16:
        return rng.choice(BROKEN)(rng, event(rng, pool, drifting))
    return written(rng, event(rng, pool, drifting))


def chance(rng: Random, odds: float) -> bool:
    return rng.random() < odds


# JSON text


def text(rng: Random, value: str) -> str:
    """The string as JSON, now and then with escapes it would not need."""
    if chance(rng, 0.85):
        return json.dumps(value, ensure_ascii=chance(rng, 0.2))
    return '"' + "".join(letter(rng, char) for char in value) + '"'


def letter(rng: Random, char: str) -> str:
    if char == "/":
        return "\\/"
    if chance(rng, 0.3):
        units = char.encode("utf-16-be").hex()
        units = units.upper() if chance(rng, 0.5) else units
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return json.dumps(char, ensure_ascii=False)[1:-1]


def gap(rng: Random) -> str:
    return rng.choice((" ", "  ", "\t", "\r")) if chance(rng, 0.06) else ""


def obj(rng: Random, pairs: list[Pair]) -> str:
    inner = ",".join(
        f"{gap(rng)}{text(rng, key)}{gap(rng)}:{gap(rng)}{value}{gap(rng)}" for key, value in pairs
    )
    return "{" + (inner or gap(rng)) + "}"


def written(rng: Random, pairs: list[Pair]) -> bytes:
    return (gap(rng) + obj(rng, pairs) + gap(rng)).encode()


# Values


def of(pool: tuple[str, ...]) -> Maker:
    return lambda rng: text(rng, rng.choice(pool))


def any_number(rng: Random) -> str:
    if chance(rng, 0.7):
        return rng.choice(NUMBERS)
    whole = str(rng.randrange(10 ** rng.randrange(1, 45)))
    fraction = "".join(rng.choices("0123456789", k=rng.randrange(1, 45)))
    power = f"{rng.choice('eE')}{rng.choice(('', '+', '-'))}{rng.randrange(50)}"
    return (
        rng.choice(("", "-"))
        + whole
        + rng.choice(("", f".{fraction}", f".{fraction[:7]}"))
        + rng.choice(("", "", power))
    )


def any_array(rng: Random) -> str:
    if chance(rng, 0.7):
        return rng.choice(ARRAYS)
    return "[" + ",".join(gap(rng) + any_value(rng, 1) for _ in range(rng.randrange(4))) + "]"


def any_object(rng: Random, depth: int) -> str:
    pairs = [(rng.choice(KEYS), any_value(rng, depth - 1)) for _ in range(rng.randrange(4))]
    return obj(rng, pairs)


def any_value(rng: Random, depth: int = 3) -> str:
    if depth and chance(rng, 0.15):
        return any_object(rng, depth)
    return rng.choice(SCALARS)(rng)


SCALARS: tuple[Maker, ...] = (
    any_number,
    any_number,
    of(TEXTS),
    of(TEXTS),
    of(STAMPS),
    of(CAST_ONLY_STAMPS + FALSE_STAMPS),
    any_array,
    lambda rng: rng.choice(("true", "false")),
    lambda rng: "null",
)
STEADY: dict[str, Maker] = {
    "int": lambda rng: str(rng.choice((0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)))),
    "decimal": lambda rng: rng.choice(
        ("1", "1.0", "-2.5", "1e3", "0.1234565", "0.0000005", "1e31")
    ),
    "time": of(STAMPS),
    "flag": lambda rng: rng.choice(("true", "false")),
    "text": of(TEXTS),
}


# Events


def clock(rng: Random, moment: datetime) -> str:
    """The moment in one of the forms of section 5, in some zone."""
    minutes = rng.choice((0, 0, 0, 330, -480, 1439, -1439))
    local = moment + timedelta(minutes=minutes)
    fraction = f".{local.microsecond:06}" if local.microsecond else rng.choice(("", ".000", ".0"))
    if len(fraction) == 7 or chance(rng, 0.1):
        fraction = (fraction or ".").ljust(7, "0") + rng.choice(("", "9", "499"))
    zone = local.replace(tzinfo=timezone(timedelta(minutes=minutes))).strftime("%z")
    if minutes == 0:
        zone = rng.choice(("Z", "Z", "", "+00:00", "-0000"))
    elif chance(rng, 0.5):
        zone = f"{zone[:3]}:{zone[3:]}"
    return f"{local:%Y-%m-%dT%H:%M:%S}{fraction}{zone}"


def bag(rng: Random, head: dict[str, str], moment: datetime, drifting: bool) -> list[Pair]:
    """Properties or traits: steady ones, drifting ones, colliding ones, and copies of the head."""
    pairs = [(f"steady_{kind}", make(rng)) for kind, make in STEADY.items() if chance(rng, 0.3)]
    for kind, make in STEADY.items():
        if chance(rng, 0.3):
            pairs.append((f"drift_{kind}", any_value(rng) if drifting else make(rng)))
    pairs += [(rng.choice(KEYS), any_value(rng)) for _ in range(rng.randrange(5))]
    pairs += [(rng.choice(FIXED_KEYS), any_value(rng)) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    if chance(rng, 0.2):
        pairs += copies(rng, head, moment)
    if chance(rng, 0.2):
        pairs += tangle(rng)
    rng.shuffle(pairs)
    return pairs


def tangle(rng: Random) -> list[Pair]:
    """Several paths for the column `a_b`, some with the same dotted form."""
    flat = [(key, any_value(rng)) for key in ("a.b", "A.b", "a_b", "aB")]
    deep = [(key, obj(rng, [("b", any_value(rng))])) for key in ("a", "A")]
    return rng.sample(flat + deep, rng.randrange(1, 6))


def copies(rng: Random, head: dict[str, str], moment: datetime) -> list[Pair]:
    """Values for fixed columns that those columns hold already, or nearly."""
    told = [
        ("type", head["type"]),
        ("id", head["messageId"]),
        ("user_id", head.get("userId", '"u1"')),
        ("received_at", text(rng, clock(rng, moment))),
        ("day", f'"{moment:%Y-%m-%d}"'),
        ("day", f'"{moment:%d}"'),
        ("hr", f'"{moment:%H}"'),
        ("hr", str(moment.hour)),
        ("year", f'"{moment:%Y}"'),
        ("month", str(moment.month)),
        ("name", head.get("name", "1")),
        ("event", head.get("event", "1")),
    ]
    return rng.sample(told, 3)


def head_of(rng: Random, kind: str, pool: int, moment: datetime) -> dict[str, str]:
    head = {
        "type": text(rng, kind),
        "messageId": text(rng, f"m{rng.randrange(max(4, pool // 3))}"),
        "receivedAt": text(rng, clock(rng, moment)),
    }
    if kind == "track":
        head["event"] = text(rng, rng.choice(EVENTS))
    if chance(rng, 0.01):
        head["receivedAt"] = rng.choice(('"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"'))
    for key in ("anonymousId", "userId"):
        if chance(rng, 0.7):
            head[key] = rng.choice(USERS)
    for key in ("sentAt", "originalTimestamp", "timestamp"):
        if chance(rng, 0.4):
            head[key] = any_value(rng) if chance(rng, 0.15) else of(STAMPS + FALSE_STAMPS)(rng)
    for key in ("name", "category", "groupId", "previousId", "channel", "version", "projectId"):
        if chance(rng, 0.25):
            head[key] = any_value(rng) if chance(rng, 0.5) else '"web"'
    return head


def event(rng: Random, pool: int, drifting: bool) -> list[Pair]:
    """The pairs of one sound event."""
    kind, moment = rng.choice(TYPES), rng.choice(MOMENTS)
    head = head_of(rng, kind, pool, moment)
    main = "properties" if kind in ("track", "page", "screen") else "traits"
    pairs = list(head.items())
    if chance(rng, 0.9):
        pairs.append((main, obj(rng, bag(rng, head, moment, drifting))))
    for key in ("context", "integrations", "_metadata", "properties", "traits"):
        if chance(rng, 0.12):
            pairs.append((key, rng.choice((any_value(rng), any_object(rng, 3)))))
    if chance(rng, 0.15):
        pairs.append(("context", obj(rng, [("ip", any_value(rng)), ("App", any_object(rng, 2))])))
    pairs += [(rng.choice(TOP_KEYS), any_value(rng)) for _ in range(rng.choice((0, 0, 1, 3)))]
    if chance(rng, 0.03):
        pairs.append(("extra", nested(rng, 99)))
    rng.shuffle(pairs)
    return unspoilt(rng, pairs, head)


def unspoilt(rng: Random, pairs: list[Pair], head: dict[str, str]) -> list[Pair]:
    """Of keys sent twice the last counts, so that of the keys an event needs must be sound."""
    needed = [key for key in ("type", "messageId", "receivedAt", "event") if key in head]
    rest = [(key, value) for key, value in pairs if key not in needed]
    for key in needed:
        first = rng.randrange(len(rest) + 1)
        rest.insert(first, (key, head[key]))
        if chance(rng, 0.03):
            rest.insert(rng.randrange(first + 1), (key, any_value(rng)))
    return rest


def nested(rng: Random, levels: int) -> str:
    """That many open brackets around a value, of one kind or of both."""
    key = rng.choice(("a", "b", "deepest"))
    value = rng.choice(("1", '"x"', "null"))
    objects = rng.choice((0, levels, levels, rng.randrange(levels)))
    arrays = "[" * (levels - objects) + value + "]" * (levels - objects)
    return f'{{"{key}":' * objects + arrays + "}" * objects


# Lines that are no events

Breaker = Callable[[Random, list[Pair]], bytes]


def without(pairs: list[Pair], key: str) -> list[Pair]:
    return [pair for pair in pairs if pair[0] != key]


def spoil(key: str, values: tuple[str, ...]) -> Breaker:
    """Leave the key out, or give it one of those values."""

    def broken(rng: Random, pairs: list[Pair]) -> bytes:
        rest = without(pairs, key)
        if chance(rng, 0.8):
            rest.append((key, rng.choice(values)))
        return written(rng, rest)

    return broken


def no_event_name(rng: Random, pairs: list[Pair]) -> bytes:
    broken = spoil("event", ('""', "null", "5", "[]", "{}", "true", '["Order"]'))
    return broken(rng, [*without(pairs, "type"), ("type", '"track"')])


def too_deep(rng: Random, pairs: list[Pair]) -> bytes:
    """101 levels, or many more; sometimes under a key that is sent again."""
    again = [("deep", "1")] if chance(rng, 0.3) else []
    levels = rng.choice((100, 100, 101, 300, 30_000))
    return written(rng, [*pairs, ("deep", nested(rng, levels)), *again])


def not_object(rng: Random, pairs: list[Pair]) -> bytes:
    whole = written(rng, pairs)
    others = (b"[]", b"5", b"-0", b'"x"', b"null", b"true", b'"{}"', b"[" * 150 + b"]" * 150)
    return rng.choice((*others, b"[" + whole + b"]", json.dumps(whole.decode()).encode()))


BAD_VALUES = (
    b"NaN", b"Infinity", b"-Infinity", b"01", b"-01", b"+1", b"1.", b".5", b"-", b"1e", b"1e+",
    b"0x1",
    b"'x'", b"nul", b"True", b"undefined", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83dx"',
    b'"\\ud83d\\u0041"', b'{"\\ud800":1}', b'["\\uDFFF"]', b'"\\x41"', b'"\\u12g4"', b'"\\u12"',
    b'"tab\there"', b'"\x00"', b'"\xff"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xc0\x80"',
    b'"\xf4\x90\x80\x80"', b"[1,]", b'{"a":1,}', b"{,}", b"[,1]", b"[1 2]", b'{"a" 1}', b'{"a":}',
    b"{a:1}", b"{1:1}", b"[1}", b'{"a":1]', b"/*x*/1", b"1\x0b", b"1\xc2\xa0", b"", b"1_0", b'"x',
    b"\xef\xbc\x91", b"tru e", b"[" * 200,
)  # fmt: skip


def bad_inside(rng: Random, pairs: list[Pair]) -> bytes:
    """One value is not JSON; sometimes its key is sent again, which does not mend the line."""
    whole = written(rng, pairs).rstrip()
    again = b',"bad":1' if chance(rng, 0.3) else b""
    return whole[:-1] + b',"bad":' + rng.choice(BAD_VALUES) + again + b"}"


def bad_outside(rng: Random, pairs: list[Pair]) -> bytes:
    whole = written(rng, pairs).strip()
    return rng.choice(
        (
            b"\xef\xbb\xbf" + whole,
            b"\xc2\xa0" + whole,
            b"\x00" + whole,
            b"\x1e" + whole,
            whole + b"\x0c",
            whole + b",",
            whole + b"}",
            whole + whole,
            whole.decode().encode("utf-16-le"),
            whole[: rng.randrange(1, len(whole))],
            whole[: rng.randrange(1, len(whole))],
            whole[:-1],
            b"[" * 50_000,
            b"not json",
        )
    )


def not_json(rng: Random, pairs: list[Pair]) -> bytes:
    return rng.choice((bad_inside, bad_inside, bad_outside))(rng, pairs)


def huge_line(rng: Random, pool: int) -> bytes:
    """A line at the limit, or one byte over it; the bytes may be space, text or rubbish."""
    over = rng.choice((0, 1, 1))
    core = written(rng, event(rng, pool, False)).strip()
    room = LARGEST + over - len(core)
    if chance(rng, 0.3):
        return core + b" " * room
    if chance(rng, 0.3):
        return core[:-1] + b"x" * (room + 1)
    return core[:-1] + b',"pad":"' + b"y" * (room - 9) + b'"}'


BROKEN: tuple[Breaker, ...] = (
    not_json,
    not_json,
    not_json,
    not_object,
    too_deep,
    spoil(
        "type", ('"Track"', '"tracks"', '""', '" track"', "5", "null", '["track"]', "{}", "true")
    ),
    spoil("messageId", ('""', "null", "5", '["m1"]', '{"a":"m1"}', "true")),
    no_event_name,
    spoil(
        "receivedAt",
        (
            "null",
            "1793518200",
            "true",
            "[]",
            "{}",
            '""',
            *(json.dumps(stamp) for stamp in CAST_ONLY_STAMPS + FALSE_STAMPS),
        ),
    ),
)
