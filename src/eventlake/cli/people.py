"""Commands for users and tokens."""

import sys
from collections.abc import Mapping
from datetime import timedelta
from operator import itemgetter
from typing import Annotated, Any, Literal

import typer

from eventlake.cli import show
from eventlake.cli.control import ControlOptions, quote_url
from eventlake.cli.options import expand_option_groups
from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import InvalidSettings

PASSWORD_VARIABLE = "EVENTLAKE_PASSWORD"  # noqa: S105 - the name of a variable

token_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Manage tokens of programs."
)
user_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Manage users.")


@token_app.command("add")
@expand_option_groups
def add_token(
    options: ControlOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the token is for.")],
    scope: Annotated[
        Literal["read", "write", "admin"],
        typer.Option(help="read: look; write: also start and stop runs; admin: everything."),
    ] = "read",
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Days after which it expires.")
    ] = None,
) -> None:
    """Add a token. Its secret is shown once."""
    body: dict[str, Any] = {"name": name, "scope": scope}
    if days:
        body["expires_at"] = (SYSTEM_CLOCK.now() + timedelta(days=days)).isoformat()
    with options.open() as client:
        options.print(client.ask("POST", "/tokens", body), _print_token)


@token_app.command("list")
@expand_option_groups
def list_tokens(options: ControlOptions) -> None:
    """Show the tokens, without their secrets."""
    with options.open() as client:
        tokens = client.list_all("/tokens")
    columns: show.Columns = {
        "token": itemgetter("id"),
        "name": itemgetter("name"),
        "scope": itemgetter("scope"),
        "expires": lambda one: one["expires_at"] or "never",
        "last used": lambda one: one["used_at"] or "never",
    }
    options.print(tokens, lambda found: show.print_table(columns, found))


@token_app.command("remove")
@expand_option_groups
def remove_token(
    options: ControlOptions,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id.")],
) -> None:
    """Remove a token: it is refused from now on."""
    with options.open() as client:
        client.ask("DELETE", f"/tokens/{quote_url(token)}")
    options.print({"removed": token}, lambda one: show.print_line(f"removed {one['removed']}"))


@user_app.command("add")
@expand_option_groups
def add_user(
    options: ControlOptions,
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The user's e-mail address.")],
    password: Annotated[
        str,
        typer.Option(
            envvar=PASSWORD_VARIABLE,
            help="The password; asked for if it is not given.",
            show_default=False,
        ),
    ] = "",
    role: Annotated[
        Literal["viewer", "operator", "admin"],
        typer.Option(help="viewer: look; operator: also start and stop runs; admin: everything."),
    ] = "viewer",
) -> None:
    """Add a user."""
    with show.require_extra("control"):
        from eventlake.control.users import parse_email
    address = parse_email(email)
    with options.open(create=True) as client:
        if not password and any(one["email"] == address for one in client.list_all("/users")):
            raise InvalidSettings(f"email is {address!r}: there is such a user already")
        body = {"email": address, "password": password or _ask_password(), "role": role}
        user = client.ask("POST", "/users", body)
    options.print(user, lambda one: show.print_line(f"added {one['email']} as {one['role']}"))


@user_app.command("list")
@expand_option_groups
def list_users(options: ControlOptions) -> None:
    """Show the users."""
    with options.open() as client:
        users = client.list_all("/users")
    columns: show.Columns = {"user": itemgetter("email"), "role": itemgetter("role")}
    options.print(users, lambda found: show.print_table(columns, found))


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise InvalidSettings(
            f"no password, and no terminal to ask for it: set {PASSWORD_VARIABLE}"
        )
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer


def _print_token(made: Mapping[str, Any]) -> None:
    token = made["token"]
    show.print_line(f"added the token {token['name']} with the id {token['id']}")
    show.print_line(f"secret, shown only now: {made['secret']}")
