"""The rules that an event must satisfy."""

from collections.abc import Callable
from typing import Any

import msgspec

from eventlake.collect.limits import MAX_MESSAGE_ID_CHARS
from eventlake.model.naming import Call

_CALLS = frozenset(call.value for call in Call)
_MISSING = msgspec.Raw()


class EventHead(msgspec.Struct, gc=False):
    """The fields of an event that the collector reads; the others are archived unread."""

    type: Any = None
    messageId: Any = None  # noqa: N815 - the event's own spelling
    userId: Any = None  # noqa: N815
    anonymousId: Any = None  # noqa: N815
    event: Any = None
    groupId: Any = None  # noqa: N815
    previousId: Any = None  # noqa: N815
    timestamp: Any = None
    originalTimestamp: Any = None  # noqa: N815
    sentAt: Any = None  # noqa: N815
    writeKey: Any = None  # noqa: N815
    properties: msgspec.Raw = _MISSING
    traits: msgspec.Raw = _MISSING
    context: msgspec.Raw = _MISSING
    integrations: msgspec.Raw = _MISSING


def rejection_reason(head: EventHead) -> str | None:
    """Return the code of the first rule that an event breaks; None for a valid event."""
    if not isinstance(head.type, str) or head.type not in _CALLS:
        return "type_not_valid"
    return (
        _check_message_id(head.messageId)
        or _check_user(head)
        or _CHECKS_BY_TYPE[head.type](head)
        or _check_object(head.context, "context_not_object")
        or _check_object(head.integrations, "integrations_not_object")
    )


def _check_message_id(value: object) -> str | None:
    """Return the reason code if the id is not a string or too long; it may be missing."""
    if value is None:
        return None
    if not isinstance(value, str):
        return "message_id_not_string"
    return "message_id_too_long" if len(value) > MAX_MESSAGE_ID_CHARS else None


def _check_user(head: EventHead) -> str | None:
    """Return the reason code if there is neither a user id nor an anonymous id."""
    if _is_id(head.userId) or _is_id(head.anonymousId):
        return None
    return "no_user_anon_id"


def _is_id(value: object) -> bool:
    """Return whether a value is a non-empty string, or a number as old libraries send it."""
    if isinstance(value, str):
        return value != ""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_track(head: EventHead) -> str | None:
    """Return the reason code if the event's name is missing or not a string.

    Also if `properties` is neither an object nor missing.
    """
    if head.event is None or head.event == "":
        return "event_not_defined"
    if not isinstance(head.event, str):
        return "event_not_string"
    return _check_properties_object(head)


def _check_group(head: EventHead) -> str | None:
    """Return the reason code without a group id, or if `traits` is present and not an object."""
    return _check_traits_object(head) if _is_id(head.groupId) else "id_required"


def _check_alias(head: EventHead) -> str | None:
    """Return the reason code without a previous id, or if `traits` is present and not an object."""
    return _check_traits_object(head) if _is_id(head.previousId) else "id_required"


def _check_properties_object(head: EventHead) -> str | None:
    """Return the reason code if `properties` is neither an object nor missing, for any type."""
    return _check_object(head.properties, "properties_not_object")


def _check_traits_object(head: EventHead) -> str | None:
    """Return the reason code if `traits` is neither an object nor missing, for any type."""
    return _check_object(head.traits, "traits_not_object")


def _check_object(value: msgspec.Raw, reason: str) -> str | None:
    """Return `reason` if a value is neither an object nor missing, else None."""
    return None if is_object(value) or is_missing(value) else reason


def is_object(value: msgspec.Raw) -> bool:
    """Return whether raw JSON is an object, by its first byte."""
    return bytes(memoryview(value)[:1]) == b"{"


def is_missing(value: msgspec.Raw) -> bool:
    """Return whether a field is absent or null."""
    return bytes(memoryview(value)[:4]) in (b"", b"null")


_CHECKS_BY_TYPE: dict[str, Callable[[EventHead], str | None]] = {
    "track": _check_track,
    "identify": _check_traits_object,
    "page": _check_properties_object,
    "screen": _check_properties_object,
    "group": _check_group,
    "alias": _check_alias,
}
