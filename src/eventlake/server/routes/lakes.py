"""Lakes: their settings and their secrets, which nobody can read back."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from eventlake.control.audit import Change
from eventlake.control.database import Session
from eventlake.control.lakes import (
    RegisteredLake,
    add_lake,
    change_lake,
    get_lake,
    list_lakes,
    read_secrets,
)
from eventlake.errors import EventLakeError
from eventlake.lakes.kinds import KINDS, settings_model
from eventlake.model.values import FrozenModel
from eventlake.server.access import Admin, Caller, Operator, Viewer
from eventlake.server.checks import CheckedLake, CheckResult, check_lake, stream_checks
from eventlake.server.context import Context, ServerContext
from eventlake.server.requests import (
    After,
    Limit,
    Name,
    OnceOnly,
    Page,
    Settings,
    Version,
    Word,
    make_page,
    set_version,
)

router = APIRouter(prefix="/lakes", tags=["lakes"])
LINES = "application/x-ndjson"
Accept = Annotated[str, Header(include_in_schema=False)]


class NewLake(FrozenModel):
    """A lake to add; secrets are among the settings."""

    slug: Word
    kind: Word
    settings: Settings


class LakeChange(FrozenModel):
    """Settings and secrets to change; null sets a default again, or removes a secret."""

    settings: Settings


class LakeToCheck(FrozenModel):
    """Settings of a lake to try; secrets are among them."""

    kind: Word
    settings: Settings


class LakeKindInfo(FrozenModel):
    """A kind of lake, with the JSON Schema of its settings and the names of its secrets."""

    kind: str
    settings: dict[str, Any]
    secrets: tuple[str, ...]


class LakeKinds(FrozenModel):
    """The kinds of lakes."""

    items: tuple[LakeKindInfo, ...]


@router.get("/kinds")
def show_kinds(_: Viewer) -> LakeKinds:
    """List the kinds of lakes, with the JSON Schema of each kind's settings."""
    models = {kind: settings_model(kind) for kind in KINDS}
    return LakeKinds(
        items=tuple(
            LakeKindInfo(kind=kind, settings=model.model_json_schema(), secrets=(*model.secrets,))
            for kind, model in models.items()
        )
    )


@router.get("")
def show_lakes(
    _: Viewer, context: Context, after: After = None, limit: Limit = 100
) -> Page[RegisteredLake]:
    """List the lakes by name."""
    with context.database.read() as session:
        return make_page(list_lakes(session), lambda one: one.slug, after, limit)


@router.post("", status_code=201, response_model=RegisteredLake)
def create_lake(body: NewLake, caller: Admin, context: Context, once: OnceOnly) -> Response:
    """Add a lake."""

    def act(session: Session) -> RegisteredLake:
        now, vault = context.clock.now(), context.vault
        lake = add_lake(session, body.slug, body.kind, body.settings, vault, now)
        caller.record(session, Change("lake.add", f"lake:{lake.slug}", after=lake))
        return lake

    return once.act(context, caller, act)


@router.post("/check", response_model=CheckedLake)
def check_settings(
    body: LakeToCheck, _: Admin, accept: Accept = ""
) -> CheckedLake | StreamingResponse:
    """Try all operations of a run with settings that are not stored.

    With `Accept: application/x-ndjson`, a line for each operation as soon as it was tried.
    """
    model = settings_model(body.kind)
    named = {name: body.settings[name] for name in body.settings if name not in model.secrets}
    secrets = {
        variable: str(body.settings[name])
        for name, variable in model.secrets.items()
        if name in body.settings
    }
    settings = model.from_values(named)
    if LINES in accept:
        return _stream(stream_checks(settings, secrets))
    return check_lake(settings, secrets)


@router.get("/{lake}")
def show_lake(lake: Name, _: Viewer, context: Context, response: Response) -> RegisteredLake:
    """Show a lake. Its ETag is needed to change it."""
    with context.database.read() as session:
        found = get_lake(session, lake)
    set_version(response, found.version)
    return found


@router.patch("/{lake}")
def update_lake(
    lake: Name,
    body: LakeChange,
    caller: Admin,
    version: Version,
    context: Context,
    response: Response,
) -> RegisteredLake:
    """Change settings or secrets of a lake."""
    with context.database.write() as session:
        before = get_lake(session, lake)
        after = change_lake(session, before.slug, body.settings, version, context.vault)
        caller.record(session, Change("lake.change", f"lake:{after.slug}", before, after))
    set_version(response, after.version)
    return after


@router.post("/{lake}/check", response_model=CheckedLake)
def check_registered(
    lake: Name, caller: Operator, context: Context, accept: Accept = ""
) -> CheckedLake | StreamingResponse:
    """Try all operations of a run in the lake; what fails is shown with what to do.

    With `Accept: application/x-ndjson`, a line for each operation as soon as it was tried.
    """
    if LINES not in accept:
        return try_lake(lake, caller, context)
    with context.database.read() as session:
        found = get_lake(session, lake)
        secrets = read_secrets(session, found.id, context.vault)
    return _stream(stream_checks(found.model, secrets))


def try_lake(lake: str, _: Caller, context: ServerContext) -> CheckedLake:
    """Try all operations of a run in a lake."""
    with context.database.read() as session:
        found = get_lake(session, lake)
        secrets = read_secrets(session, found.id, context.vault)
    return check_lake(found.model, secrets)


def _stream(checks: Iterator[CheckResult]) -> StreamingResponse:
    def write_lines() -> Iterator[str]:
        try:
            for one in checks:
                yield one.model_dump_json() + "\n"
        except EventLakeError as problem:  # the reply has begun, so its status stays
            ended = CheckResult(name="all checks", ok=False, detail=f"{problem} ({problem.code})")
            yield ended.model_dump_json() + "\n"

    return StreamingResponse(write_lines(), media_type=LINES)
