"""The half of a line that depends on its event type, for all six calls."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from eventlake.sample.dice import Dice
from eventlake.sample.names import CALLS
from eventlake.sample.people import Person
from eventlake.sample.properties import extras, family_of
from eventlake.sample.shop import CATEGORIES, PAGES, REFERRERS

encode = msgspec.json.Encoder().encode

SCREENS = ("Home", "Category", "Product", "Search", "Cart", "Checkout", "Profile", "Orders")
INDUSTRIES = ("Retail", "Design", "Hospitality", "Education", "Health")

APP_ONLY = ("Application ", "Push ")
SIGNED_IN = ("Signed Up", "Signed In", "Order Completed", "2FA Enabled")

_END = b',"version":2}\n'


@dataclass(frozen=True)
class Moment:
    """What a body is drawn from: the dice, who did it, and which columns have begun."""

    dice: Dice
    person: Person
    rare: bool
    late: bool


@dataclass(frozen=True)
class Kind:
    """One event type: a line's `head` opens the string of an id, its body closes it and the line.

    A `personal` kind says in its body who did it, so people cannot share its bodies. A `known` one
    always comes from someone signed in.
    """

    name: str
    head: bytes
    body: Callable[[Moment], bytes]
    personal: bool = False
    known: bool = False
    app_share: float = 0.4


def kind_of(name: str) -> Kind:
    """The kind with this name: one of the five calls, or else a track event."""
    return _CALL_KINDS[name] if name in CALLS else _track(name)


def _head(call: str, field: str, id_key: str, more: str = "") -> bytes:
    return f',"type":"{call}"{more},"{field}":{{"{id_key}":"'.encode()


def _body(fields: dict[str, object], after: dict[str, object] | None = None) -> bytes:
    """The rest of the object that the head opened, and the fields that follow it."""
    more = b"," + encode(after)[1:-1] if after else b""
    return b'",%b%b%b' % (encode(fields)[1:], more, _END)


def _track(name: str) -> Kind:
    family = family_of(name)

    def body(moment: Moment) -> bytes:
        more = extras(name, moment.dice, moment.rare, moment.late)
        return _body({**family.draw(moment.dice), **more})

    head = _head("track", "properties", family.id_key, f',"event":"{name}"')
    app_share = 1.0 if name.startswith(APP_ONLY) else Kind.app_share
    return Kind(name, head, body, known=name in SIGNED_IN, app_share=app_share)


def _page(moment: Moment) -> bytes:
    dice = moment.dice
    page = dice.favourite(PAGES)
    title = {"name": page["title"], "category": dice.favourite(CATEGORIES)}
    own = {"referrer": dice.favourite(REFERRERS), "load_ms": dice.between(90, 6000)}
    more = extras("page", dice, moment.rare, moment.late)
    return _body({**page, **title, **own, **more}, title)


def _screen(moment: Moment) -> bytes:
    dice = moment.dice
    own = {
        "previous_screen": dice.favourite(SCREENS),
        "render_ms": dice.between(4, 900),
        "orientation": dice.favourite(("portrait", "landscape")),
        "scroll_depth": dice.between(0, 100) / 100,
    }
    more = extras("screen", dice, moment.rare, moment.late)
    return _body({**own, **more}, {"name": dice.favourite(SCREENS), "category": "App"})


def _identify(moment: Moment) -> bytes:
    dice, person, market = moment.dice, moment.person, moment.person.market
    traits = {
        "email": person.email,
        "first_name": person.given,
        "last_name": person.family,
        "address": {"city": market.city, "country": market.country},
        "plan": ("free", "plus", "business")[person.number % 3],
        "lifetime_value": dice.money(0, 4000),
        "orders": dice.between(0, 60),
        "newsletter": dice.chance(0.4),
        "interests": sorted({dice.pick(CATEGORIES) for _ in range(3)}),
        "last_seen_at": dice.moment(-24 * 20),
    }
    return _body({**traits, **extras("identify", dice, moment.rare, moment.late)})


def _group(moment: Moment) -> bytes:
    dice, account = moment.dice, moment.person.number % 997
    traits = {
        "company": f"{moment.person.family} & Co {account}",
        "industry": INDUSTRIES[account % len(INDUSTRIES)],
        "employees": 3 + account * 7 % 4000,
        "plan": "business",
        "monthly_spend": dice.money(50, 9000),
        "website": f"https://company{account}.example.com",
        "renews_at": dice.moment(24 * 300),
    }
    more = extras("group", dice, moment.rare, moment.late)
    return _body({**traits, **more}, {"groupId": f"acc_{account:04d}"})


def _alias(moment: Moment) -> bytes:
    traits = {"reason": moment.dice.favourite(("signup", "login", "merge"))}
    more = extras("alias", moment.dice, moment.rare, moment.late)
    return _body({**traits, **more}, {"previousId": moment.person.anonymous_id})


def _about_someone(call: str, body: Callable[[Moment], bytes]) -> Kind:
    return Kind(call, _head(call, "traits", "request_id"), body, personal=True, known=True)


_CALL_KINDS = {
    "page": Kind("page", _head("page", "properties", "view_id"), _page, app_share=0.0),
    "screen": Kind("screen", _head("screen", "properties", "view_id"), _screen, app_share=1.0),
    "identify": _about_someone("identify", _identify),
    "group": _about_someone("group", _group),
    "alias": _about_someone("alias", _alias),
}
