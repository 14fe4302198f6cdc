"""The page of notices: channels with a test, rules, what was not delivered, incidents."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from eventlake.control.notify.deliveries import Delivery
from eventlake.control.notify.events import EVENTS, TEST
from eventlake.errors import EventLakeError
from eventlake.model.settings import validate_settings
from eventlake.server.pages.base import (
    AdminPage,
    Form,
    OperatorPage,
    Renderer,
    ViewerPage,
    drop_empty,
    go,
)
from eventlake.server.requests import Name, Number
from eventlake.server.routes import notices as routes

router = APIRouter()
PAGE_ROWS = 50
MAX_ROWS = 1000
_TEXTS = ("host", "user", "password", "sender", "url", "secret", "security")


@router.get("/admin/notices")
def show_notices(page: ViewerPage) -> HTMLResponse:
    """Show channels, rules, deliveries and incidents."""
    return _render(page)


@router.post("/admin/notices")
def send_channel(page: AdminPage, form: Form) -> Response:
    """Add a channel."""
    settings: dict[str, Any] = dict(drop_empty(form, _TEXTS))
    if form.get("to"):
        settings["to"] = [one.strip() for one in form["to"].replace(",", "\n").split("\n")]
    if form.get("port", "").isdecimal() and len(form["port"]) < 6:
        settings["port"] = int(form["port"])
    values = {"name": form.get("name", ""), "kind": form.get("kind", ""), "settings": settings}
    try:
        body = validate_settings(routes.ChannelToAdd, values)
        made = routes.create_channel(body, page.caller, page.context)
    except EventLakeError as problem:
        return _render(page, problem=problem, form=form)
    return _render(page, secret=made.secret or "") if made.secret else go("/admin/notices", "added")


@router.post("/admin/notices/{channel}/test")
def send_test(page: OperatorPage, channel: Name) -> Response:
    """Send a test to a channel, and show what the receiver answered."""
    delivery = routes.send_channel_test(channel, page.caller, page.context)
    return _render(page, tested=delivery)


@router.post("/admin/notices/{channel}/remove")
def send_removal(page: AdminPage, channel: Name) -> Response:
    """Remove a channel."""
    routes.delete_channel(channel, page.caller, page.context)
    return go("/admin/notices", "removed")


@router.post("/admin/rules")
def send_rule(page: AdminPage, form: Form) -> Response:
    """Add a rule to a channel."""
    named = [name.removeprefix("event.") for name in form if name.startswith("event.")]
    of = [one.strip() for one in form.get("sources", "").split(",") if one.strip()]
    values = {"channel": form.get("channel", ""), "events": named, "sources": of}
    try:
        body = validate_settings(routes.RuleToAdd, values)
        routes.create_rule(body, page.caller, page.context)
    except EventLakeError as problem:
        return _render(page, problem=problem)
    return go("/admin/notices", "added")


@router.post("/admin/rules/{rule}/remove")
def send_rule_removal(page: AdminPage, rule: Number) -> Response:
    """Remove a rule."""
    routes.delete_rule(rule, page.caller, page.context)
    return go("/admin/notices", "removed")


@router.post("/admin/deliveries/{delivery}/redeliver")
def send_again(page: OperatorPage, delivery: Number) -> Response:
    """Send a delivery again."""
    routes.send_again(delivery, page.caller, page.context)
    return go("/admin/notices", "redelivered")


def _render(
    page: Renderer,
    *,
    problem: EventLakeError | None = None,
    secret: str = "",
    tested: Delivery | None = None,
    form: Mapping[str, str] | None = None,
) -> HTMLResponse:
    caller, context = page.caller, page.context
    names = ("name", "kind", "to", "host", "port", "user", "sender")
    return page.render(
        "admin_notices.html",
        problem,
        channels=routes.show_channels(caller, context, None, MAX_ROWS).items,
        rules=routes.show_rules(caller, context, None, MAX_ROWS).items,
        events={name: severity for name, severity in EVENTS.items() if name != TEST},
        deliveries=routes.show_deliveries(caller, context, "", None, None, PAGE_ROWS).items,
        incidents=routes.show_incidents(caller, context, "", False, None, PAGE_ROWS).items,
        secret=secret,
        tested=tested,
        form={name: (form or {}).get(name, "") for name in names},
    )
