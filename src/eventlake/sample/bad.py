"""Invalid lines: one or more for every reason for which a sync quarantines a line."""

from collections.abc import Callable
from typing import Any

import msgspec

Event = dict[str, Any]

encode = msgspec.json.Encoder().encode

LARGE_EVERY = 100
"""One in so many bad lines is over 1 MiB, because it weighs as much as a thousand others."""


def bad_line(number: int, event: Event) -> bytes:
    """The sample's bad line of this number, made of a valid event; the kinds take turns."""
    if number % LARGE_EVERY == LARGE_EVERY - 1:
        return encode({**event, "blob": "x" * (1 << 20)})
    return KINDS[number % len(KINDS)](event)


def _without(event: Event, field: str) -> Event:
    return {key: value for key, value in event.items() if key != field}


def _inject(event: Event, field: str, json: bytes) -> bytes:
    """The event with a field that need not be valid JSON."""
    return encode({**event, field: "@"}).replace(b'"@"', json)


def _cut_short(event: Event) -> bytes:
    line = encode(event)
    return line[: len(line) * 2 // 3]


KINDS: tuple[Callable[[Event], bytes], ...] = (
    _cut_short,
    lambda event: encode(_without(event, "messageId")),
    lambda event: encode({**event, "type": "trakc"}),
    lambda event: encode({**_without(event, "event"), "type": "track"}),
    lambda event: encode(_without(event, "receivedAt")),
    lambda event: encode([event]),
    lambda event: _inject(event, "extra", b'{"a":' * 120 + b"1" + b"}" * 120),
    lambda _: b"<html><body><h1>502 Bad Gateway</h1></body></html>",
    lambda event: encode({**event, "messageId": ""}),
    lambda event: encode(_without(event, "type")),
    lambda event: encode({**event, "type": "track", "event": ""}),
    lambda event: encode({**event, "receivedAt": "yesterday"}),
    lambda _: b'"ping"',
    lambda event: _inject(event, "note", b'"caf\xe9"'),
    lambda event: encode({**event, "messageId": 42}),
    lambda event: _inject(event, "score", b"NaN"),
)
