"""The description of the API, for people, generators and fuzzers."""

from typing import Any

import msgspec

_ID = {"type": ["string", "number", "null"]}
_OBJECT = {"type": ["object", "null"]}
_EVENT = {
    "type": "object",
    "properties": {
        "type": {"enum": ["track", "identify", "page", "screen", "group", "alias"]},
        "messageId": {"type": ["string", "null"], "maxLength": 100},
        "userId": _ID,
        "anonymousId": _ID,
        "groupId": _ID,
        "previousId": _ID,
        "event": {"type": "string"},
        "name": {"type": "string"},
        "category": {"type": "string"},
        "timestamp": {"type": "string", "format": "date-time"},
        "sentAt": {"type": "string", "format": "date-time"},
        "properties": _OBJECT,
        "traits": _OBJECT,
        "context": _OBJECT,
        "integrations": _OBJECT,
        "writeKey": {"type": "string"},
    },
}
_BATCH = {
    "type": "object",
    "required": ["batch"],
    "properties": {
        "batch": {"type": "array", "maxItems": 2500, "items": _EVENT},
        "context": _OBJECT,
        "integrations": _OBJECT,
        "sentAt": {"type": "string", "format": "date-time"},
        "writeKey": {"type": "string"},
    },
}
_STATUSES = {
    "200": "Stored durably, or rejected and kept with its reason.",
    "400": "Too large, not JSON, or not of the right shape.",
    "401": "No write key, an unknown one, or a disabled source.",
    "408": "The header or the body did not arrive in time: send again.",
    "414": "The URL is too long.",
    "431": "The header is too large.",
    "429": "Overload: send again after Retry-After seconds.",
    "503": "Could not be stored: send again.",
}
_ANSWER = {
    "type": "object",
    "required": ["success"],
    "properties": {
        "success": {"type": "boolean"},
        "code": {"type": "string"},
        "message": {"type": "string"},
    },
}


def _post(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    kinds = ("application/json", "text/plain")
    return {
        "post": {
            "summary": summary,
            "security": [{"writeKey": []}, {}],
            "requestBody": {
                "required": True,
                "content": {kind: {"schema": schema} for kind in kinds},
            },
            "responses": {status: _response(text) for status, text in _STATUSES.items()},
        }
    }


def _response(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": _ANSWER}}}


def _get(summary: str, kind: str) -> dict[str, Any]:
    return {
        "get": {
            "summary": summary,
            "responses": {"200": {"description": summary, "content": {kind: {}}}},
        }
    }


def _pixel() -> dict[str, Any]:
    described = _get("A 1x1 GIF, whatever becomes of the event.", "image/gif")
    calls = {"enum": ["track", "identify", "page", "screen", "group", "alias"]}
    described["get"]["parameters"] = [
        {"name": "call", "in": "path", "required": True, "schema": calls},
        {"name": "data", "in": "query", "schema": {"type": "string"}},
    ]
    return described


def _paths() -> dict[str, Any]:
    calls = ("track", "identify", "page", "screen", "group", "alias", "t", "i", "p", "s", "g", "a")
    return {
        **{f"/v1/{call}": _post("One event.", _EVENT) for call in calls},
        **{f"/v1/{batch}": _post("Many events.", _BATCH) for batch in ("batch", "import", "b")},
        "/v1/m": _post("What analytics.js reports of itself; forgotten.", {"type": "object"}),
        "/v1/pixel/{call}": _pixel(),
        "/health": _get("Alive.", "application/json"),
        "/metrics": _get("Counts for Prometheus.", "text/plain"),
    }


DESCRIPTION = msgspec.json.encode(
    {
        "openapi": "3.1.0",
        "info": {"title": "EventLake tracking API", "version": "1"},
        "paths": _paths(),
        "components": {"securitySchemes": {"writeKey": {"type": "http", "scheme": "basic"}}},
    }
)
