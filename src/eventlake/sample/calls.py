"""The part of an event that depends on its type, for all six calls."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eventlake.sample.dice import Dice
from eventlake.sample.names import CALLS, RANKING
from eventlake.sample.people import Person
from eventlake.sample.properties import late_columns, shop_family, tail_family
from eventlake.sample.shop import CATEGORIES, PAGES, PLANS, REFERRERS

SCREENS = ("Home", "Category", "Product", "Search", "Cart", "Checkout", "Profile", "Orders")
INDUSTRIES = ("Retail", "Design", "Hospitality", "Education", "Health")
APP_ONLY = ("screen", "Application ", "Push ")
SIGNED_IN = ("identify", "group", "alias", "Signed Up", "Signed In", "Order Completed", "2FA ")
PERSONAL = ("identify", "group", "alias")

Body = tuple[dict[str, Any], dict[str, Any]]
"""The properties or traits of an event, and the fields that only its call has."""


@dataclass(frozen=True)
class Kind:
    """An event type."""

    name: str
    id_key: str
    """The property or trait that is unique to each event."""
    draw: Callable[[Dice, Person], Body]

    @cached_property
    def call(self) -> str:
        return self.name if self.name in CALLS else "track"

    @cached_property
    def field(self) -> str:
        """Where its columns are: `traits` or `properties`."""
        return "traits" if self.is_personal else "properties"

    @cached_property
    def is_personal(self) -> bool:
        """Whether its body says who sent it, so that people cannot share bodies."""
        return self.name in PERSONAL

    @cached_property
    def is_signed_in(self) -> bool:
        """Whether its senders always have a user id."""
        return self.name.startswith(SIGNED_IN)

    @cached_property
    def app_share(self) -> float:
        """The share of its events that comes from the app."""
        return 1.0 if self.name.startswith(APP_ONLY) else 0.0 if self.name == "page" else 0.4

    def body(self, dice: Dice, person: Person, rare: bool, late: bool) -> Body:
        """Draw a body; `rare` and `late` add columns that other events do not have."""
        fields, others = self.draw(dice, person)
        return {**fields, **late_columns(self.name, dice, rare, late)}, others


def kind_of(name: str) -> Kind:
    """The kind with this name: one of the five calls, or else a track event."""
    if name in CALLS:
        return Kind(name, "request_id" if name in PERSONAL else "view_id", _CALLS[name])
    family = shop_family(name) if name in RANKING else tail_family(name)
    return Kind(name, family.id_key, lambda dice, _: (family.draw(dice), {"event": name}))


def _page(dice: Dice, _: Person) -> Body:
    page = dice.favour(PAGES)
    title = {"name": page["title"], "category": dice.favour(CATEGORIES)}
    own = {"referrer": dice.favour(REFERRERS), "load_ms": dice.between(90, 6000)}
    return {**page, **title, **own}, title


def _screen(dice: Dice, _: Person) -> Body:
    properties = {
        "previous_screen": dice.favour(SCREENS),
        "render_ms": dice.between(4, 900),
        "orientation": dice.favour(("portrait", "landscape")),
        "scroll_depth": dice.between(0, 100) / 100,
    }
    return properties, {"name": dice.favour(SCREENS), "category": "App"}


def _identify(dice: Dice, person: Person) -> Body:
    traits = {
        "email": f"{person.given}.{person.family}{person.number}@example.com".lower(),
        "first_name": person.given,
        "last_name": person.family,
        "address": {"city": person.market.city, "country": person.market.country},
        "plan": PLANS[person.number % 3],
        "lifetime_value": dice.money(0, 4000),
        "orders": dice.between(0, 60),
        "newsletter": dice.chance(0.4),
        "interests": sorted({dice.pick(CATEGORIES) for _ in range(3)}),
        "last_seen_at": dice.moment(-24 * 20),
    }
    return traits, {}


def _group(dice: Dice, person: Person) -> Body:
    account = person.number % 997
    traits = {
        "company": f"{person.family} & Co {account}",
        "industry": INDUSTRIES[account % len(INDUSTRIES)],
        "employees": 3 + account * 7 % 4000,
        "plan": "business",
        "monthly_spend": dice.money(50, 9000),
        "website": f"https://company{account}.example.com",
        "renews_at": dice.moment(24 * 300),
    }
    return traits, {"groupId": f"acc_{account:04d}"}


def _alias(dice: Dice, person: Person) -> Body:
    return {"reason": dice.favour(("signup", "login", "merge"))}, {
        "previousId": person.anonymous_id
    }


_CALLS: dict[str, Callable[[Dice, Person], Body]] = {
    "page": _page,
    "screen": _screen,
    "identify": _identify,
    "group": _group,
    "alias": _alias,
}
