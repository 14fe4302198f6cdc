"""The nesting depth of JSON, found without recursion."""

import re
from collections.abc import Iterator
from itertools import accumulate

from eventlake.kernels.jsontext import MAX_LEVELS

# Possessive, and an unterminated string matches to the end of the text: linear for any bytes.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(_STRING + rb"|[\[{]|[\]}]", re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(set(range(256)) - set(_STEPS))


def is_too_deep(text: bytes) -> bool:
    """Return whether JSON text, valid or not, has more levels than an event may have."""
    if text.count(b"{") + text.count(b"[") <= MAX_LEVELS:
        return False
    brackets = _STRINGS.sub(b"", text).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_LEVELS


def truncate_levels(text: bytes, max_levels: int) -> bytes:
    """Replace each array or object that begins deeper than `max_levels` with `null`."""
    pieces, end = [], 0
    for start, stop in _find_deep_values(text, max_levels):
        pieces += [text[end:start], b"null"]
        end = stop
    return b"".join([*pieces, text[end:]])


def _find_deep_values(text: bytes, max_levels: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each array or object that begins at level `max_levels` + 1.

    One that does not end is not yielded.
    """
    level = start = 0
    for token in _TOKENS.finditer(text):
        step = _STEPS.get(text[token.start()], 0)
        if step > 0 and level == max_levels:
            start = token.start()
        level += step
        if step < 0 and level == max_levels:
            yield start, token.end()
