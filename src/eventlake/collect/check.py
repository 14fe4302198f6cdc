"""The rules for one event: the reason why it is not accepted, or none."""

from collections.abc import Callable
from typing import Any

import msgspec

from eventlake.collect.limits import MAX_MESSAGE_ID
from eventlake.model.naming import Call

_CALLS = frozenset(call.value for call in Call)
_NOTHING = msgspec.Raw()
_NULL = b"null"


class Head(msgspec.Struct, gc=False):
    """The fields of an event that the collector looks at; the others pass as they came."""

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
    properties: msgspec.Raw = _NOTHING
    traits: msgspec.Raw = _NOTHING
    context: msgspec.Raw = _NOTHING
    integrations: msgspec.Raw = _NOTHING


def fault(head: Head) -> str | None:
    """Why an event is rejected; None for a good one."""
    if not isinstance(head.type, str) or head.type not in _CALLS:
        return "type_not_valid"
    return (
        _bad_message_id(head.messageId)
        or _bad_ids(head)
        or _OWN[head.type](head)
        or _not_object(head.context, "context_not_object")
        or _not_object(head.integrations, "integrations_not_object")
    )


def _bad_message_id(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str):
        return "message_id_not_string"
    return "message_id_too_long" if len(given) > MAX_MESSAGE_ID else None


def _bad_ids(head: Head) -> str | None:
    if _is_id(head.userId) or _is_id(head.anonymousId):
        return None
    return "no_user_anon_id"


def _is_id(given: object) -> bool:
    """A text, or a number as old libraries send it."""
    if isinstance(given, str):
        return given != ""
    return isinstance(given, int | float) and not isinstance(given, bool)


def _track(head: Head) -> str | None:
    if head.event is None or head.event == "":
        return "event_not_defined"
    if not isinstance(head.event, str):
        return "event_not_string"
    return _with_properties(head)


def _group(head: Head) -> str | None:
    return _with_traits(head) if _is_id(head.groupId) else "id_required"


def _alias(head: Head) -> str | None:
    return _with_traits(head) if _is_id(head.previousId) else "id_required"


def _with_properties(head: Head) -> str | None:
    return _not_object(head.properties, "properties_not_object")


def _with_traits(head: Head) -> str | None:
    return _not_object(head.traits, "traits_not_object")


def _not_object(given: msgspec.Raw, reason: str) -> str | None:
    return None if is_object(given) or is_absent(given) else reason


def is_object(given: msgspec.Raw) -> bool:
    return bytes(memoryview(given)[:1]) == b"{"


def is_absent(given: msgspec.Raw) -> bool:
    """Not there, or null."""
    return bytes(memoryview(given)[:4]) in (b"", _NULL)


_OWN: dict[str, Callable[[Head], str | None]] = {
    "track": _track,
    "identify": _with_traits,
    "page": _with_properties,
    "screen": _with_properties,
    "group": _group,
    "alias": _alias,
}
