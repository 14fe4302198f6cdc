"""Errors as problem details of RFC 9457, with our error codes."""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
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
    def _handle_invalid(_: Request, problem: RequestValidationError) -> Response:
        errors = list(_describe_fields(problem.errors()))
        detail = "; ".join(f"{one['pointer']}: {one['detail']}" for one in errors)
        return make_problem(422, InvalidSettings.code, detail, errors=errors)

    @app.exception_handler(HTTPException)
    def _handle_http(_: Request, problem: HTTPException) -> Response:
        status = problem.status_code
        name = HTTPStatus(status).phrase.replace(" ", "")
        detail = "no such path: /api/v1/openapi.json has all" if status == 404 else problem.detail
        return make_problem(status, f"EventLake.{name}", str(detail), problem.headers)


def _describe_fields(errors: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """What is wrong and where; never the value, which may be a secret."""
    for error in errors:
        pointer = "/".join(str(part) for part in error["loc"])
        yield {"pointer": _to_ascii(pointer), "detail": _to_ascii(str(error["msg"]))}


def _to_ascii(text: str) -> str:
    """Names of fields come from the client and may have lone surrogates."""
    return text.encode("ascii", "backslashreplace").decode()
