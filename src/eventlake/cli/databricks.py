"""Commands for Databricks workspaces."""

from typing import TYPE_CHECKING, Annotated

import typer

from eventlake.cli import show
from eventlake.cli.options import AsJson, LakeRoot

if TYPE_CHECKING:
    from eventlake.services.databricks_token import MadeToken

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Manage a lake's Databricks workspace."
)


@app.callback()
def databricks() -> None:
    """Manage a lake's Databricks workspace."""


@app.command()
def token(
    lake: LakeRoot,
    days: Annotated[
        int, typer.Option(min=1, max=730, help="Days after which the token expires.")
    ] = 90,
    as_json: AsJson = False,
) -> None:
    """Make a personal access token for the lake's service principal.

    Signs in as the lake's settings say: as the principal, or as an administrator who makes the
    token on behalf of the principal that client_id names. The token is shown once.
    """
    from eventlake.services.databricks_token import make_databricks_token

    show.print_result(make_databricks_token(lake, days=days), as_json, _print_token)


def _print_token(made: "MadeToken") -> None:
    show.print_line(made.token)
    show.print_stderr(
        f"the token of {made.principal} expires on {made.expires} and is not shown again: put it "
        "into DATABRICKS_TOKEN, and set auth = 'pat'"
    )
