"""Decode and encode JSON exactly: numbers keep their text, depth is limited, errors are specific.

`decode_line` is the reference that all other readers agree with: it raises `NotJson` for what a
strict parser refuses and `TooDeep` for more than `MAX_LEVELS` nested brackets. `decode_fast` is
several times as fast and good enough to find out which paths and kinds a line has.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from eventlake.model.naming import Path
from eventlake.model.types import Json, NumberText

MAX_LEVELS = 100


class NotJson(ValueError):
    """Text that is not valid JSON."""


class TooDeep(ValueError):
    """Valid JSON that nests more than `MAX_LEVELS` brackets."""


def _refuse_constant(constant: str) -> Json:
    """Raise `NotJson`; the decoder calls this for NaN and infinities, which are not JSON."""
    raise NotJson(f"{constant} is not JSON")


_EXACT_DECODER = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, parse_constant=_refuse_constant
)
_quote = json.encoder.encode_basestring


def decode_line(line: bytes) -> Json:
    """Decode a line; numbers are `NumberText`. Raises `NotJson` or `TooDeep`.

    Invalid UTF-8 and unpaired surrogates are `NotJson` too.
    """
    text = _decode_utf8(line)
    _refuse_lone_surrogates(text)
    if text.count("{") + text.count("[") > MAX_LEVELS:
        check_levels(text)
    return decode(text)


def decode(text: str) -> Json:
    """Decode JSON text that does not nest too deep; numbers are `NumberText`. Raises `NotJson`."""
    try:
        value: Json = _EXACT_DECODER.decode(text)
    except json.JSONDecodeError as problem:
        raise NotJson(str(problem)) from problem
    return value


def _decode_utf8(line: bytes) -> str:
    """Return the text of a line; raises `NotJson` with the position of the first invalid byte."""
    try:
        return line.decode()
    except UnicodeDecodeError as problem:
        raise NotJson(f"invalid UTF-8 at byte {problem.start + 1}") from problem


_HALF = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPES = re.compile(rf"{_PAIR}|({_HALF})|\\.", re.DOTALL)


def _refuse_lone_surrogates(text: str) -> None:
    """Raise `NotJson` for half a surrogate pair: Python accepts it, but UTF-8 cannot encode it."""
    if "\\u" in text and any(escape[1] for escape in _ESCAPES.finditer(text)):
        raise NotJson("an unpaired surrogate in a string")


def encode(value: Json) -> str:
    """Encode as compact JSON: keys not sorted, non-ASCII not escaped, numbers as they were sent."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, str):
        return str(_quote(value))
    if isinstance(value, list):
        return f"[{','.join(map(encode, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_quote(k)}:{encode(v)}' for k, v in value.items())}}}"
    return "null" if value is None else "true" if value else "false"


_QUOTE = ord('"')
_PLAIN = re.compile(rb"[^\s\\{]*")
_FAST_DECODER = msgspec.json.Decoder(float_hook=msgspec.Raw)


def compact(raw: bytes) -> str:
    """Return the compact form of a valid JSON value, as `encode(decode(raw))` but faster."""
    if _PLAIN.fullmatch(raw) or (raw[0] == _QUOTE and b"\\" not in raw):
        return raw.decode()
    if _ODD_INTEGER.search(raw):
        return encode(decode(raw.decode()))
    return msgspec.json.encode(_FAST_DECODER.decode(raw)).decode()


def decode_fast(line: bytes) -> Any:
    """Decode a line fast; numbers are `msgspec.Raw`, int or `NumberText`.

    Raises `TooDeep`, and `NotJson` for a line that is not valid.
    """
    if line.count(b"{") + line.count(b"[") > MAX_LEVELS:
        return decode_line(line)
    try:
        return _FAST_DECODER.decode(line)
    except ValueError:  # for example an integer of thousands of digits
        return decode_line(line)


# msgspec returns the text of floats as Raw, but changes -0 and very long integers.
_ODD_INTEGER = re.compile(rb"[\[,:]\s*(?:-0|-?\d{19})")


def flatten(value: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yield every value that is neither null nor an object, with its path; arrays as a whole.

    `path` is where `value` itself is.
    """
    if isinstance(value, dict):
        for key, below in value.items():
            yield from flatten(below, (*path, key))
    elif value is not None:
        yield path, value


class KeyTree:
    """The keys of objects and of the objects in them; adding an object with known keys is fast."""

    __slots__ = ("_keys", "_objects", "count")

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._objects: dict[str, KeyTree] = {}
        self.count = 0
        """At least as many as there are paths with values."""

    def add(self, value: dict[str, Any]) -> int:
        """Add the keys of an object and of those in it; return how many are new."""
        new = 0
        if not value.keys() <= self._keys:
            new = len(value.keys() - self._keys)
            self._keys |= value.keys()
        for key, below in value.items():
            if type(below) is dict:
                if key not in self._objects:
                    self._objects[key] = KeyTree()
                new += self._objects[key].add(below)
        self.count += new
        return new


_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:(?P<punctuation>[\[\]{}:,])
    |(?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")
    |(?P<scalar>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)
    )[ \t\r\n]*""",
    re.VERBOSE,
)
# The tokens that each state of the tokenizer accepts, and the state after them.
_NEXT_STATES = {
    "value": {"string": "end", "scalar": "end", "[": "first", "{": "key"},
    "first": {"string": "end", "scalar": "end", "[": "first", "{": "key", "]": "end"},
    "key": {"string": "colon", "}": "end"},
    "next key": {"string": "colon"},
    "colon": {":": "value"},
    "end": {",": "", "]": "end", "}": "end"},
}


def check_levels(text: str) -> None:
    """Raise `TooDeep` for valid JSON over the limit, `NotJson` for invalid; does not recurse."""
    deepest, opened, state, at = 0, list[str](), "value", 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise NotJson(f"not JSON at character {at + 1}")
        kind = token["punctuation"] or token.lastgroup or ""
        state = _advance(state, kind, opened, at)
        deepest, at = max(deepest, len(opened)), token.end()
    if state != "end" or opened:
        raise NotJson("the line ends inside a value")
    if deepest > MAX_LEVELS:
        raise TooDeep(f"{deepest} levels, over {MAX_LEVELS}")


def _advance(state: str, kind: str, opened: list[str], at: int) -> str:
    """Return the state after a token; updates `opened`, the stack of open brackets.

    Raises `NotJson`, with the position `at`, for a token that cannot come in this state.
    """
    after = _NEXT_STATES[state].get(kind)
    closing = kind in ("]", "}")
    if after is None or (state == "end" and not opened):
        raise NotJson(f"not JSON at character {at + 1}")
    if closing and opened.pop() != {"]": "[", "}": "{"}[kind]:
        raise NotJson(f"not JSON at character {at + 1}")
    if kind in ("[", "{"):
        opened.append(kind)
    if kind == ",":
        return "value" if opened[-1] == "[" else "next key"
    return after
