"""Errors as problem details of RFC 9457, with our error codes."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, get_type_hints

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from eventlake.errors import (
    Changed,
    Conflict,
    EventLakeError,
    InsufficientPermissions,
    InvalidSettings,
    LimitExceeded,
    MissingTable,
    NotFound,
    Unavailable,
)
from eventlake.model.validation import describe_error as describe_field_error
from eventlake.model.validation import drop_repeated

MEDIA_TYPE = "application/problem+json"
_STATUSES: Mapping[type[EventLakeError], int] = {
    NotFound: 404,
    MissingTable: 404,
    InvalidSettings: 422,
    Changed: 412,
    Conflict: 409,
    LimitExceeded: 409,
    InsufficientPermissions: 502,  # those of the server, not of the caller
    Unavailable: 503,
}


class RequestProblem(EventLakeError):
    """A request that is refused before anything is done."""

    def __init__(self, status: int, name: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code = status, f"EventLake.{name}"
        self.headers = {key.replace("_", "-"): value for key, value in headers.items()}


def make_problem(
    status: int,
    code: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[Mapping[str, str]] = (),
) -> Response:
    """The reply for an error; `errors` has what is wrong with each field."""
    body: dict[str, Any] = {
        "type": f"urn:eventlake:error:{code.removeprefix('EventLake.')}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if errors:
        body["errors"] = list(errors)
    return Response(msgspec.json.encode(body), status, dict(headers or {}), MEDIA_TYPE)


def describe_error(problem: EventLakeError) -> Response:
    """The reply for one of our errors."""
    detail = " ".join(str(problem).split())
    if isinstance(problem, RequestProblem):
        return make_problem(problem.status, problem.code, detail, problem.headers)
    for kind in type(problem).__mro__:
        if status := _STATUSES.get(kind):
            code = "EventLake.NotFound" if status == 404 else problem.code
            return make_problem(status, code, detail, {"retry-after": "2"} if status == 503 else {})
    return make_problem(500, problem.code, detail)


def describe_bug(request_id: str) -> Response:
    """The reply for an unexpected exception: it names only the request."""
    detail = f"this is a bug in EventLake; the server's log has it as request {request_id}"
    return make_problem(500, "EventLake.Internal", detail)


def add_handlers(app: FastAPI) -> None:
    """Have the app answer with problem details where it raises."""

    @app.exception_handler(EventLakeError)
    def _handle_error(_: Request, problem: EventLakeError) -> Response:
        return describe_error(problem)

    @app.exception_handler(Exception)  # it is raised again after the reply
    def _handle_bug(request: Request, _: Exception) -> Response:
        return describe_bug(request.scope["state"].get("request_id", ""))

    @app.exception_handler(RequestValidationError)
    def _handle_invalid(request: Request, problem: RequestValidationError) -> Response:
        wrong = drop_repeated(problem.errors())
        model, is_json = _find_body_model(request), _is_json(request)
        fields = [_describe_field(error, model, is_json=is_json) for error in wrong]
        detail = "; ".join(
            f"{one.name}: {one.detail}" if one.name else one.detail for one in fields
        )
        errors = [{"pointer": one.pointer, "detail": one.detail} for one in fields]
        return make_problem(422, InvalidSettings.code, detail, errors=errors)

    @app.exception_handler(HTTPException)
    def _handle_http(_: Request, problem: HTTPException) -> Response:
        status = problem.status_code
        name = HTTPStatus(status).phrase.replace(" ", "")
        detail = "no such path: /api/v1/openapi.json has all" if status == 404 else problem.detail
        return make_problem(status, f"EventLake.{name}", str(detail), problem.headers)


class _Field(NamedTuple):
    """What is wrong with a field of a request."""

    pointer: str
    name: str
    """Empty for a rule over several fields, whose sentence names them."""
    detail: str


def _describe_field(
    error: Mapping[str, Any], model: type[BaseModel] | None, *, is_json: bool
) -> _Field:
    """What is wrong and where; never the value, which may be a secret."""
    place, *path = error["loc"]
    if error["type"] == "json_invalid":
        path = []  # the position of the error
    name = ".".join(map(str, path))
    detail = describe_field_error({**error, "loc": path}, model if place == "body" else None)
    if place == "body" and not path:
        if error["type"] == "model_attributes_type" and not is_json:
            detail = "send Content-Type: application/json"
        elif error["type"] != "value_error":
            name = "body"
    pointer = "/".join(map(str, error["loc"]))
    return _Field(*map(_to_ascii, (pointer, name, detail)))


def _find_body_model(request: Request) -> type[BaseModel] | None:
    """The model of the body, for the names that it has."""
    model = get_type_hints(request.scope["endpoint"]).get("body")
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _to_ascii(text: str) -> str:
    """Names of fields come from the client and may have lone surrogates."""
    return text.encode("ascii", "backslashreplace").decode()
