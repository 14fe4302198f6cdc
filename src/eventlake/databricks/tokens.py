"""Personal access tokens of a workspace: make one for a service principal, and when they expire."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from eventlake.databricks.workspace import Workspace
from eventlake.errors import InvalidSettings

COMMENT = "eventlake"
WARN_BEFORE = timedelta(days=14)


class NewToken(NamedTuple):
    """A token, which the workspace shows only once."""

    token: str
    expires: datetime
    principal: str


def make_token(workspace: Workspace, days: int) -> NewToken:
    """Make a token for the service principal of the settings.

    The principal makes its own; any other caller makes one on its behalf, as administrators may.
    """
    seconds = int(timedelta(days=days).total_seconds())
    if not workspace.client_id or workspace.user_name == workspace.client_id:
        needs = f"allow {workspace.principal} to use tokens (Settings, Advanced, Access tokens)"
        with workspace.errors("make a token", needs):
            made = workspace.client.tokens.create(comment=COMMENT, lifetime_seconds=seconds)
    else:
        needs = f"sign in as an administrator of the workspace, or as {workspace.client_id}"
        with workspace.errors(f"make a token on behalf of {workspace.client_id}", needs):
            made = workspace.client.token_management.create_obo_token(  # type: ignore[assignment]
                workspace.client_id, comment=COMMENT, lifetime_seconds=seconds
            )
    info = made.token_info
    expires = _parse_time(info.expiry_time if info else None)
    return NewToken(made.token_value or "", expires, workspace.client_id or workspace.user_name)


def describe_expiry(workspace: Workspace, now: datetime) -> str:
    """When the first token of the caller expires, with a warning if that is soon.

    The workspace does not say which token a call has, so tokens that EventLake made count, else
    all of the caller's.
    """
    with workspace.errors("list tokens"):
        found = [one for one in workspace.client.tokens.list() if (one.expiry_time or -1) > 0]
    own = [one for one in found if one.comment == COMMENT] or found
    times = [when for when in (_parse_time(one.expiry_time) for one in own) if when > now]
    if not times:
        return "does not expire"
    first = min(times)
    days = (first - now).days
    if first - now > WARN_BEFORE:
        return f"expires in {days} days ({first:%Y-%m-%d})"
    return (
        f"warning: a token of {workspace.user_name} expires in {days} days ({first:%Y-%m-%d}): "
        "make a new one with `eventlake databricks token`, and delete the old one"
    )


def _parse_time(milliseconds: int | None) -> datetime:
    if milliseconds is None:
        raise InvalidSettings("the workspace made a token without a time at which it expires")
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
