"""Why an event is rejected."""

import json
from typing import Any

import msgspec
import pytest

from eventlake.collect.check import EventHead, rejection_reason


def head(**fields: Any) -> EventHead:
    return msgspec.json.decode(json.dumps({"userId": "u", **fields}), type=EventHead)


VALID: list[dict[str, Any]] = [
    {"type": "track", "event": "Hello"},
    {"type": "track", "event": "Hello", "properties": {}},
    {"type": "track", "event": "Hello", "properties": None, "context": None, "integrations": None},
    {"type": "track", "event": "Hello", "userId": None, "anonymousId": "a"},
    {"type": "track", "event": "Hello", "userId": 5},
    {"type": "track", "event": "Hello", "messageId": "m" * 100},
    {"type": "track", "event": "Hello", "messageId": ""},
    {"type": "track", "event": "Hello", "timestamp": "yesterday", "sentAt": 5},
    {"type": "identify"},
    {"type": "identify", "traits": {"a": [1]}},
    {"type": "identify", "properties": 5},
    {"type": "page"},
    {"type": "screen", "name": "Home"},
    {"type": "group", "groupId": "g"},
    {"type": "group", "groupId": 7},
    {"type": "alias", "previousId": "p"},
]

INVALID: list[tuple[str, dict[str, Any]]] = [
    ("type_not_valid", {"event": "Hello"}),
    ("type_not_valid", {"type": "purchase"}),
    ("type_not_valid", {"type": ["track"]}),
    ("message_id_not_string", {"type": "page", "messageId": 5}),
    ("message_id_too_long", {"type": "page", "messageId": "m" * 101}),
    ("no_user_anon_id", {"type": "page", "userId": None}),
    ("no_user_anon_id", {"type": "page", "userId": ""}),
    ("no_user_anon_id", {"type": "page", "userId": {"id": 5}}),
    ("no_user_anon_id", {"type": "page", "userId": True, "anonymousId": []}),
    ("event_not_defined", {"type": "track"}),
    ("event_not_defined", {"type": "track", "event": ""}),
    ("event_not_defined", {"type": "track", "event": None}),
    ("event_not_string", {"type": "track", "event": 5}),
    ("event_not_string", {"type": "track", "event": {"name": "x"}}),
    ("properties_not_object", {"type": "track", "event": "x", "properties": []}),
    ("properties_not_object", {"type": "page", "properties": "x"}),
    ("properties_not_object", {"type": "screen", "properties": 0}),
    ("traits_not_object", {"type": "identify", "traits": "x"}),
    ("traits_not_object", {"type": "group", "groupId": "g", "traits": 1}),
    ("traits_not_object", {"type": "alias", "previousId": "g", "traits": False}),
    ("id_required", {"type": "group"}),
    ("id_required", {"type": "group", "groupId": ""}),
    ("id_required", {"type": "alias"}),
    ("context_not_object", {"type": "page", "context": "x"}),
    ("integrations_not_object", {"type": "page", "integrations": ["x"]}),
]


@pytest.mark.parametrize("fields", VALID, ids=str)
def test_a_valid_event_has_no_reason(fields: dict[str, Any]) -> None:
    assert rejection_reason(head(**fields)) is None


@pytest.mark.parametrize(("reason", "fields"), INVALID, ids=str)
def test_an_invalid_event_has_its_reason(reason: str, fields: dict[str, Any]) -> None:
    assert rejection_reason(head(**fields)) == reason
