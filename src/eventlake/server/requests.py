"""What several routes take and return: names, JSON values, versions, pages, idempotency keys."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from math import isfinite
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, JsonValue, StringConstraints

from eventlake.control.answers import Answer, IdempotencyKey, answer_once
from eventlake.control.database import Session
from eventlake.model.values import FrozenModel
from eventlake.server.access import Caller
from eventlake.server.context import ServerContext
from eventlake.server.problems import RequestProblem

MAX_NUMBER = 2**53
Value = TypeVar("Value", bound=BaseModel)

Name = Annotated[str, Path(pattern=r"^[!-~]{1,254}$", description="An id or a name.")]
Number = Annotated[int, Path(ge=1, le=MAX_NUMBER)]
Text = Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00]*$")]
Word = Annotated[str, StringConstraints(max_length=254, pattern=r"^[!-~]*$")]
Limit = Annotated[int, Query(ge=1, le=500, description="The most that a page has.")]
After = Annotated[
    str | None, Query(pattern=r"^[!-~]{1,254}$", description="`next` of the page before.")
]
AfterNumber = Annotated[
    int | None, Query(ge=0, le=MAX_NUMBER, description="`next` of the page before.")
]


def check_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuse what PostgreSQL cannot store."""
    for name, one in value.items():
        _check_value(name)
        _check_value(one)
    return value


def _check_value(value: JsonValue) -> None:
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise ValueError("no NUL characters and no halves of surrogate pairs")
    elif isinstance(value, dict):
        check_json(value)
    elif isinstance(value, list):
        for one in value:
            _check_value(one)
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("a number must be finite")


Settings = Annotated[dict[str, JsonValue], AfterValidator(check_json)]


class Page(FrozenModel, Generic[Value]):
    """A part of a list."""

    items: tuple[Value, ...]
    next: str | None
    """`after` of the page that follows; null for the last page."""


def make_page(
    items: Sequence[Value], key: Callable[[Value], str], after: str | None, limit: int
) -> Page[Value]:
    """The page after a key of a whole list, sorted by `key`.

    Databases sort texts in other orders than Python compares them.
    """
    rest = sorted((item for item in items if after is None or key(item) > after), key=key)
    is_last = len(rest) <= limit
    return Page(items=tuple(rest[:limit]), next=None if is_last else key(rest[limit - 1]))


def set_version(response: Response, version: int) -> None:
    """Send an object's version, which a change of it must name."""
    response.headers["etag"] = f'"{version}"'


def _parse_if_match(
    if_match: Annotated[
        str | None, Header(description='The ETag of what is changed, such as `"3"`.')
    ] = None,
) -> int:
    if if_match is None:
        raise RequestProblem(
            428, "PreconditionRequired", "send the ETag of what you change as If-Match"
        )
    number = if_match.strip().removeprefix("W/").strip('"')
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise RequestProblem(412, "Conflict", "If-Match is not an ETag of this object")
    return int(number)


Version = Annotated[int, Depends(_parse_if_match)]


async def _read_body(request: Request) -> bytes:
    return await request.body()


class Once:
    """Acts once for an idempotency key."""

    def __init__(
        self,
        request: Request,
        body: Annotated[bytes, Depends(_read_body)],
        idempotency_key: Annotated[
            str | None,
            Header(
                max_length=200,
                description="A request that is repeated with this key gets the first answer again.",
            ),
        ] = None,
    ) -> None:
        self._key = idempotency_key
        # The key is the salt: bodies may have ids of users.
        words = f"{self._key}\n{request.method} {request.url.path}?{request.url.query}\n".encode()
        self._fingerprint = sha256(words + body).hexdigest()

    def act(
        self,
        context: ServerContext,
        caller: Caller,
        action: Callable[[Session], BaseModel],
        status: int = 201,
    ) -> Response:
        """Do the action in a transaction, and reply with what it returns."""

        def answer() -> Answer:
            return Answer(status, action(session).model_dump(mode="json"))

        with context.database.write() as session:
            if self._key is None:
                made = answer()
            else:
                key = IdempotencyKey(caller.actor.name, self._key, self._fingerprint)
                made = answer_once(session, key, answer, context.clock.now())
        headers = {"idempotency-replayed": "true"} if made.is_repeated else None
        return JSONResponse(made.body, made.status, headers)


OnceOnly = Annotated[Once, Depends(Once)]
