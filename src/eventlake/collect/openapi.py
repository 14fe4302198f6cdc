"""The OpenAPI description of the tracking API."""

from typing import Any

import msgspec

from eventlake.collect.limits import MAX_BATCH_EVENTS, MAX_MESSAGE_ID_CHARS
from eventlake.model.naming import Call

_CALLS = [call.value for call in Call]

_ID = {"type": ["string", "number", "null"]}
_OBJECT = {"type": ["object", "null"]}
_EVENT = {
    "type": "object",
    "properties": {
        "type": {"enum": _CALLS},
        "messageId": {"type": ["string", "null"], "maxLength": MAX_MESSAGE_ID_CHARS},
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
        "batch": {"type": "array", "maxItems": MAX_BATCH_EVENTS, "items": _EVENT},
        "context": _OBJECT,
        "integrations": _OBJECT,
        "sentAt": {"type": "string", "format": "date-time"},
        "writeKey": {"type": "string"},
    },
}
_STATUSES = {
    "200": "Stored durably; invalid events are stored in the rejected log.",
    "400": "Too large, not JSON, or the wrong structure.",
    "401": "Missing or invalid write key, or a disabled source.",
    "408": "The header or the body did not arrive in time: send again.",
    "414": "The URL is too long.",
    "431": "The header is too large.",
    "429": "Overload: send again after Retry-After seconds.",
    "503": "Could not be stored: send again after Retry-After seconds.",
}
_REPLY = {
    "type": "object",
    "required": ["success"],
    "properties": {
        "success": {"type": "boolean"},
        "code": {"type": "string"},
        "message": {"type": "string"},
    },
}


def _describe_post_path(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the path item of a POST of JSON, also as text/plain; the key may be in the body."""
    kinds = ("application/json", "text/plain")
    return {
        "post": {
            "summary": summary,
            "security": [{"writeKey": []}, {}],
            "requestBody": {
                "required": True,
                "content": {kind: {"schema": schema} for kind in kinds},
            },
            "responses": {status: _describe_response(text) for status, text in _STATUSES.items()},
        }
    }


def _describe_response(text: str) -> dict[str, Any]:
    """Return the description of a reply in JSON, of any status."""
    return {"description": text, "content": {"application/json": {"schema": _REPLY}}}


def _describe_get_path(summary: str, kind: str) -> dict[str, Any]:
    """Return the path item of a GET that answers 200 with the media type `kind`."""
    return {
        "get": {
            "summary": summary,
            "responses": {"200": {"description": summary, "content": {kind: {}}}},
        }
    }


def _describe_pixel_path() -> dict[str, Any]:
    """Return the path item of the pixel, with the call in the path and the event in `data`."""
    path = _describe_get_path("One event; always answered with a 1x1 GIF.", "image/gif")
    path["get"]["parameters"] = [
        {"name": "call", "in": "path", "required": True, "schema": {"enum": _CALLS}},
        {"name": "data", "in": "query", "schema": {"type": "string"}},
    ]
    return path


def _describe_paths() -> dict[str, Any]:
    """Return the path items of all paths of the API, by path."""
    calls = (*_CALLS, *(call[0] for call in _CALLS))
    return {
        **{f"/v1/{call}": _describe_post_path("One event.", _EVENT) for call in calls},
        **{
            f"/v1/{batch}": _describe_post_path("Many events.", _BATCH)
            for batch in ("batch", "import", "b")
        },
        "/v1/m": _describe_post_path("The metrics of analytics.js; ignored.", {"type": "object"}),
        "/v1/pixel/{call}": _describe_pixel_path(),
        "/health": _describe_get_path("Liveness check.", "application/json"),
        "/metrics": _describe_get_path("Metrics for Prometheus.", "text/plain"),
    }


DESCRIPTION = msgspec.json.encode(
    {
        "openapi": "3.1.0",
        "info": {"title": "EventLake tracking API", "version": "1"},
        "paths": _describe_paths(),
        "components": {"securitySchemes": {"writeKey": {"type": "http", "scheme": "basic"}}},
    }
)
