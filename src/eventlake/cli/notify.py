"""Commands for notices: channels, rules, deliveries."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Annotated, Any

import typer

from eventlake.cli import show
from eventlake.cli.control import ControlOptions, parse_settings, quote_url
from eventlake.cli.failures import FAILED, FINISHED
from eventlake.cli.options import expand_option_groups

notify_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Manage channels and their notices."
)
add_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Add a channel.")
notify_app.add_typer(add_app, name="add")

ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel's name.")]
NewName = Annotated[
    str, typer.Option("--name", help="The channel's name.", show_default="its kind")
]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event",
        metavar="EVENT",
        help="An event, or '*' for all; may be repeated.",
        show_default="all problems and recoveries",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="SOURCE", help="Only of this source; may be repeated."),
]


@add_app.command("email")
@expand_option_groups
def add_email(
    options: ControlOptions,
    to: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="The recipients.")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="host, port, security (tls, starttls or none), user, password or sender; "
            "may be repeated.",
            show_default="a server on this machine",
        ),
    ] = None,
    name: NewName = "email",
    events: Events = None,
    sources: Sources = None,
) -> None:
    """Send notices by e-mail.

    The password may be a reference such as env:SMTP_PASSWORD; others are sealed in the database.
    """
    settings: dict[str, Any] = {**_parse_mail_settings(set_ or []), "to": to}
    _add(options, {"name": name, "kind": "email", "settings": settings}, events, sources)


@add_app.command("slack")
@expand_option_groups
def add_slack(
    options: ControlOptions,
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="The incoming webhook, or a reference: env:SLACK_URL."),
    ],
    name: NewName = "slack",
    events: Events = None,
    sources: Sources = None,
) -> None:
    """Send notices to a channel of Slack, by an incoming webhook."""
    body = {"name": name, "kind": "slack", "settings": {"url": url}}
    _add(options, body, events, sources)


@add_app.command("webhook")
@expand_option_groups
def add_webhook(
    options: ControlOptions,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The address, or a reference: file:/path.")
    ],
    secret: Annotated[
        str,
        typer.Option(
            help="The secret to sign with, whsec_…, or a reference.", show_default="a random one"
        ),
    ] = "",
    name: NewName = "webhook",
    events: Events = None,
    sources: Sources = None,
) -> None:
    """Post notices as JSON, signed by the rules of Standard Webhooks.

    A random secret is shown once.
    """
    settings = {"url": url, **({"secret": secret} if secret else {})}
    _add(options, {"name": name, "kind": "webhook", "settings": settings}, events, sources)


@notify_app.command("list")
@expand_option_groups
def list_channels(options: ControlOptions) -> None:
    """Show the channels and what each gets, without their secrets."""
    with options.open() as client:
        channels, rules = client.list_all("/channels"), client.list_all("/rules")
    found = [
        {**one, "rules": [rule for rule in rules if rule["channel"] == one["name"]]}
        for one in channels
    ]
    columns: show.Columns = {
        "channel": itemgetter("name"),
        "kind": itemgetter("kind"),
        "to": _describe_target,
        "gets": _describe_rules,
    }
    options.print(found, lambda shown: show.print_table(columns, shown))


@notify_app.command("remove")
@expand_option_groups
def remove_channel(options: ControlOptions, channel: ChannelName) -> None:
    """Remove a channel; what was not delivered yet never is."""
    with options.open() as client:
        client.ask("DELETE", f"/channels/{quote_url(channel)}")
    options.print({"removed": channel}, lambda one: show.print_line(f"removed {one['removed']}"))


@notify_app.command("rotate")
@expand_option_groups
def rotate_secret(
    options: ControlOptions,
    channel: ChannelName,
    finish: Annotated[
        bool, typer.Option("--finish", help="Sign with the new secret only from now on.")
    ] = False,
) -> None:
    """Give a webhook a new secret, which is shown once; both sign until --finish."""
    path = f"/channels/{quote_url(channel)}"
    with options.open() as client:
        if finish:
            changed = client.change("PATCH", path, {"settings": {"old_secret": None}})
            made = {"channel": changed, "secret": None}
        else:
            made = client.ask("POST", f"{path}/rotate")
    options.print(made, _print_channel)


@notify_app.command("test")
@expand_option_groups
def send_test(
    options: ControlOptions,
    channel: Annotated[
        str | None,
        typer.Argument(metavar="CHANNEL", help="The channel's name.", show_default="all"),
    ] = None,
) -> None:
    """Send a test now, and show what the receivers answered. The exit code is 1 if one failed."""
    with options.open() as client:
        names = [channel] if channel else [one["name"] for one in client.list_all("/channels")]
        sent = [client.ask("POST", f"/channels/{quote_url(name)}/test") for name in names]
    options.print(sent, _print_deliveries)
    raise typer.Exit(FINISHED if all(one["state"] == "delivered" for one in sent) else FAILED)


@notify_app.command("deliveries")
@expand_option_groups
def list_deliveries(
    options: ControlOptions,
    channel: Annotated[str, typer.Option(help="Only to this channel.")] = "",
    state: Annotated[
        str, typer.Option(help="Only pending, sending, delivered, failed or cancelled ones.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
) -> None:
    """Show what was sent, and what the receivers answered, newest first."""
    filters = {"channel": channel, "state": state}
    query = "".join(f"&{name}={quote_url(value)}" for name, value in filters.items() if value)
    with options.open() as client:
        found = client.ask("GET", f"/deliveries?limit={limit}{query}")["items"]
    options.print(found, _print_deliveries)


@notify_app.command("redeliver")
@expand_option_groups
def redeliver(
    options: ControlOptions,
    delivery: Annotated[int, typer.Argument(metavar="DELIVERY", help="The delivery's number.")],
) -> None:
    """Send a delivery again. A running `eventlake up` does it."""
    with options.open() as client:
        sent = client.ask("POST", f"/deliveries/{delivery}/redeliver")
    options.print(sent, lambda one: _print_deliveries([one]))


def _add(
    options: ControlOptions,
    body: Mapping[str, Any],
    events: list[str] | None,
    sources: list[str] | None,
) -> None:
    """Add a channel that gets some events of some sources."""
    with options.open() as client:
        rule = {"events": events or [], "sources": sources or []}
        made = client.ask("POST", "/channels", {**body, **rule})
    options.print(made, _print_channel)


def _parse_mail_settings(words: list[str]) -> dict[str, Any]:
    found = parse_settings(words)
    if str(found.get("port", "")).isdigit():
        found["port"] = int(found["port"])
    return found


def _describe_target(channel: Mapping[str, Any]) -> str:
    settings = channel["settings"]
    return settings.get("target") or " ".join(settings["to"])


def _describe_rules(channel: Mapping[str, Any]) -> str:
    texts = [
        " ".join(rule["events"]) + (f" of {' '.join(rule['sources'])}" if rule["sources"] else "")
        for rule in channel["rules"]
    ]
    return "; ".join(texts) or "problems and recoveries"


def _print_channel(made: Mapping[str, Any]) -> None:
    name = made["channel"]["name"]
    show.print_line(f"{name} is set up; try it: eventlake notify test {name}")
    if made["secret"]:
        show.print_line(f"secret, shown only now: {made['secret']}")


def _print_deliveries(found: Any) -> None:
    columns: show.Columns = {
        "delivery": itemgetter("id"),
        "channel": itemgetter("channel"),
        "event": lambda one: one["notice"]["event"],
        "source": lambda one: one["notice"]["source"] or "",
        "state": itemgetter("state"),
        "tries": itemgetter("tries"),
        "created": itemgetter("created_at"),
        "answer": itemgetter("answer"),
    }
    show.print_table(columns, found)
