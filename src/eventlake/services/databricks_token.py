"""Make a token for the service principal of a lake in a Databricks workspace."""

from pathlib import Path

from eventlake.lakes import open_workspace
from eventlake.model.lake import LakeSettings
from eventlake.model.values import FrozenModel

DEFAULT_DAYS = 90


class MadeToken(FrozenModel):
    """A token, which is shown only once, with the day on which it expires."""

    token: str
    principal: str
    expires: str


def make_databricks_token(
    lake: str | Path | LakeSettings, *, days: int = DEFAULT_DAYS
) -> MadeToken:
    """Make a personal access token that lives for a number of days.

    Raises InvalidSettings for a lake without a Databricks workspace.
    """
    from eventlake.databricks.tokens import make_token  # noqa: PLC0415 - the SDK takes seconds

    made = make_token(open_workspace(lake), days)
    return MadeToken(token=made.token, principal=made.principal, expires=f"{made.expires:%Y-%m-%d}")
