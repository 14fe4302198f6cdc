"""The workspace as one value: read it, or change the workspace to it."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from eventlake.control.apply import Plan, Target, apply_declaration
from eventlake.control.audit import Change
from eventlake.control.declaration import Declaration, read_declaration
from eventlake.errors import InvalidSettings
from eventlake.server.access import Admin, Viewer
from eventlake.server.context import Context
from eventlake.server.requests import check_json

router = APIRouter(tags=["workspace"])


def _check(declared: Declaration) -> Declaration:
    check_json(declared.model_dump(mode="json"))
    return declared


@router.get("/export")
def export_workspace(_: Viewer, context: Context) -> Declaration:
    """Show lakes, sources, connections, schedules and channels, for `/apply`, without secrets."""
    with context.database.read() as session:
        return read_declaration(session)


@router.post("/apply")
def apply_workspace(
    body: Annotated[Declaration, AfterValidator(_check)],
    caller: Admin,
    context: Context,
    dry_run: Annotated[bool, Query(description="Only show what would change.")] = False,
) -> Plan:
    """Change the workspace to what is sent. What is not in it stays as it is.

    All of it is done, or if anything is refused, nothing: 422 with the reasons.
    """
    with context.database.write() as session:
        target = Target(session, context.vault, context.clock.now())
        plan, effects = apply_declaration(target, body, dry_run=dry_run)
        if plan.is_applied:
            for effect in effects:
                caller.record(session, Change(*effect))
    if plan.refused and not dry_run:
        reasons = "; ".join(f"{one.object}: {one.reason}" for one in plan.refused)
        raise InvalidSettings(f"nothing was changed: {reasons}")
    return plan
