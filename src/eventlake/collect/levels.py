"""How deep JSON nests, without recursion."""

import re
from collections.abc import Iterator
from itertools import accumulate

from eventlake.kernels.jsontext import MAX_LEVELS

# Possessive, and a string without an end reaches to the end of the text: linear for any bytes.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(_STRING + rb"|[\[{]|[\]}]", re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(set(range(256)) - set(_STEPS))


def is_too_deep(text: bytes) -> bool:
    """Whether JSON nests more levels than an event may."""
    if text.count(b"{") + text.count(b"[") <= MAX_LEVELS:
        return False
    brackets = _STRINGS.sub(b"", text).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_LEVELS


def cut_levels(text: bytes, most: int) -> bytes:
    """JSON with `null` in place of each value that begins deeper than `most` levels."""
    pieces, end = [], 0
    for start, stop in _deep_values(text, most):
        pieces += [text[end:start], b"null"]
        end = stop
    return b"".join([*pieces, text[end:]])


def _deep_values(text: bytes, most: int) -> Iterator[tuple[int, int]]:
    level = start = 0
    for token in _TOKENS.finditer(text):
        step = _STEPS.get(text[token.start()], 0)
        if step > 0 and level == most:
            start = token.start()
        level += step
        if step < 0 and level == most:
            yield start, token.end()
