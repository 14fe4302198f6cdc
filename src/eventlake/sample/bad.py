"""Lines that are no events: every reason for which a sync sends a line to the quarantine."""

from collections.abc import Callable
from typing import Any

import msgspec

Event = dict[str, Any]

encode = msgspec.json.Encoder().encode

# One line over 1 MiB weighs as much as a thousand others, so it comes once in so many bad lines.
LARGE_EVERY = 100


def bad_line(number: int, event: bytes) -> bytes:
    """The sample's bad line of this number, made of a good event; kinds take turns."""
    if number % LARGE_EVERY == LARGE_EVERY - 1:
        return _too_large(msgspec.json.decode(event)) + b"\n"
    spoil = KINDS[number % len(KINDS)]
    return spoil(msgspec.json.decode(event)) + b"\n"


def _cut_short(event: Event) -> bytes:
    line = encode(event)
    return line[: len(line) * 2 // 3]


def _proxy_page(_: Event) -> bytes:
    return b"<html><body><h1>502 Bad Gateway</h1></body></html>"


def _bad_utf8(event: Event) -> bytes:
    return encode({**event, "note": "@"}).replace(b'"@"', b'"caf\xe9"')


def _not_a_number(event: Event) -> bytes:
    return encode({**event, "score": "@"}).replace(b'"@"', b"NaN")


def _batch(event: Event) -> bytes:
    return encode([event])


def _bare_value(_: Event) -> bytes:
    return b'"ping"'


def _too_deep(event: Event) -> bytes:
    return encode({**event, "extra": "@"}).replace(b'"@"', b'{"a":' * 120 + b"1" + b"}" * 120)


def _too_large(event: Event) -> bytes:
    return encode({**event, "blob": "x" * (1 << 20)})


def _without(field: str) -> Callable[[Event], bytes]:
    return lambda event: encode({key: value for key, value in event.items() if key != field})


def _with(field: str, value: Any) -> Callable[[Event], bytes]:
    return lambda event: encode({**event, field: value})


def _nameless_track(**name: str) -> Callable[[Event], bytes]:
    def spoil(event: Event) -> bytes:
        rest = {key: value for key, value in event.items() if key != "event"}
        return encode({**rest, "type": "track", **name})

    return spoil


KINDS: tuple[Callable[[Event], bytes], ...] = (
    _cut_short,
    _without("messageId"),
    _with("type", "trakc"),
    _nameless_track(),
    _without("receivedAt"),
    _batch,
    _too_deep,
    _proxy_page,
    _with("messageId", ""),
    _without("type"),
    _nameless_track(event=""),
    _with("receivedAt", "yesterday"),
    _bare_value,
    _bad_utf8,
    _with("messageId", 42),
    _not_a_number,
)
