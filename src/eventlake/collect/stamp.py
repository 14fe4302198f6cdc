"""The fields that the collector adds to an event; all other bytes stay as they were sent."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Any
from uuid import uuid4

import msgspec

from eventlake.collect.check import EventHead, is_object
from eventlake.model.types import timestamp as parse_strict_iso

Fields = dict[str, Any]
"""An event's fields; those that were sent are `Raw`, so that numbers keep every digit."""

DAY_MS = 86_400_000
# `2026-11-15T10:00:00.123Z`, the format of Segment's SDKs.
_SDK_FORMAT_CHARS = 24
_SDK_SEPARATORS = tuple("--T::.Z")
_get_separators = itemgetter(4, 7, 10, 13, 16, 19, 23)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_EPOCH = _NAIVE_EPOCH.replace(tzinfo=UTC)
decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True)
class Arrival:
    """When, for which source and from which address a request came."""

    received: int
    """Microseconds since 1970."""
    project: str
    """The source's id."""
    ip: str | None = None
    """The client's address if it is a browser; a server's address says nothing about the user."""

    @property
    def day(self) -> int:
        """The archive's day folder: the start of the UTC day in Unix milliseconds."""
        return self.received // 1000 // DAY_MS * DAY_MS


@dataclass(frozen=True)
class SharedFields:
    """The fields of a batch that apply to all of its events."""

    context: Fields | None = None
    integrations: Fields | None = None
    sent_at: Any = None


NO_SHARED_FIELDS = SharedFields()


def stamp_event(event: Fields, head: EventHead, shared: SharedFields, arrival: Arrival) -> Fields:
    """Turn an event, in place, into what is archived, and return it.

    Sets its type from `head`, the times, `projectId`, and `messageId` if it has none. Adds the
    client's address and the batch's fields where the event has no own; removes the write key. Sets
    `head.sentAt` if only the batch has one.
    """
    event.pop("writeKey", None)
    event["type"] = head.type
    if not head.messageId:
        event["messageId"] = str(uuid4())
    _add_defaults(event, "context", shared.context, head.context)
    _add_defaults(event, "integrations", shared.integrations, head.integrations)
    if arrival.ip:
        _add_defaults(event, "context", {"ip": arrival.ip}, event.get("context"))
    if head.sentAt is None and shared.sent_at is not None:
        head.sentAt = event["sentAt"] = shared.sent_at
    _set_times(event, head, arrival.received)
    event["receivedAt"] = format_timestamp(arrival.received)
    event["projectId"] = arrival.project
    return event


def _add_defaults(event: Fields, name: str, defaults: Fields | None, value: Any) -> None:
    """Set a field to `defaults`, overridden by the fields of `value`; nothing without defaults."""
    if defaults:
        event[name] = defaults | decode_object(value)


def decode_object(value: Any) -> Fields:
    """Return the fields of an object, raw or decoded; {} for any other value."""
    if isinstance(value, dict):
        return value
    return decode_fields(value) if isinstance(value, msgspec.Raw) and is_object(value) else {}


def _set_times(event: Fields, head: EventHead, received: int) -> None:
    """Set `timestamp`, corrected by the client's clock skew, and `originalTimestamp`.

    The correction needs `sentAt`; an event without a valid time gets the time of receipt.
    """
    original = head.originalTimestamp if head.timestamp is None else head.timestamp
    if head.timestamp is not None:
        event["originalTimestamp"] = event["timestamp"]
    happened, sent = _parse_if_string(original), _parse_if_string(head.sentAt)
    if happened is None:
        happened = received
    elif sent is not None:
        # The client's clock may be wrong, but the difference of two of its times is right.
        happened = received - (sent - happened)
    event["timestamp"] = format_timestamp(happened)


def _parse_if_string(value: object) -> int | None:
    """Return a string's microseconds since 1970; None for other values, and if it is not a time."""
    return parse_timestamp(value) if isinstance(value, str) else None


@lru_cache(64)  # the events of a batch share when they were sent and received
def parse_timestamp(text: str) -> int | None:
    """Return a strict ISO timestamp as microseconds since 1970; None for other texts."""
    # The SDKs' format takes a fifth of the time of the general rule.
    if len(text) == _SDK_FORMAT_CHARS and _get_separators(text) == _SDK_SEPARATORS:
        try:
            return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
        except ValueError:
            return None
    return parse_strict_iso(text)


@lru_cache(64)
def format_timestamp(micros: int) -> str:
    """Return `2026-11-15T10:00:00.123Z`, with six digits if `micros` is not in whole milliseconds.

    Times outside year 1 to 9999 are clamped.
    """
    try:
        time = _NAIVE_EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        time = datetime.max if micros > 0 else datetime.min
    return time.isoformat(timespec="microseconds" if micros % 1000 else "milliseconds") + "Z"
