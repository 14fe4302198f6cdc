"""The part of an event that depends on its type, for all six calls."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eventlake.sample.dice import Dice
from eventlake.sample.names import CALLS, RANKING
from eventlake.sample.people import Person
from eventlake.sample.properties import Family, Properties, late_columns, shop_family, tail_family
from eventlake.sample.shop import CATEGORIES, PAGES, REFERRERS

SCREENS = ("Home", "Category", "Product", "Search", "Cart", "Checkout", "Profile", "Orders")
INDUSTRIES = ("Retail", "Design", "Hospitality", "Education", "Health")
APP_ONLY = ("screen", "Application ", "Push ")
SIGNED_IN = ("identify", "group", "alias", "Signed Up", "Signed In", "Order Completed", "2FA ")
PERSONAL = ("identify", "group", "alias")


@dataclass(frozen=True)
class Kind:
    """An event type."""

    name: str
    family: Family

    @cached_property
    def call(self) -> str:
        return self.name if self.name in CALLS else "track"

    @cached_property
    def is_personal(self) -> bool:
        """Whether it has traits, which say who sent it; other kinds have properties."""
        return self.name in PERSONAL

    @cached_property
    def is_signed_in(self) -> bool:
        """Whether its senders always have a user id."""
        return self.name.startswith(SIGNED_IN)

    @cached_property
    def app_share(self) -> float:
        """The share of its events that comes from the app."""
        return 1.0 if self.name.startswith(APP_ONLY) else 0.0 if self.name == "page" else 0.4

    def draw_fields(self, dice: Dice, person: Person, rare: bool, late: bool) -> Properties:
        """Draw properties or traits; `rare` and `late` add columns that other events lack."""
        fields = self.family.draw(dice)
        if self.name == "identify":
            fields |= _person_traits(person)
        if self.name == "group":
            fields |= _company_traits(person)
        return {**fields, **late_columns(self.name, dice, rare, late)}

    def call_fields(self, fields: Properties, person: Person) -> dict[str, Any]:
        """The fields that an event of this call has beside those that all have."""
        match self.name:
            case "page" | "screen":
                return {"name": fields["name"], "category": fields["category"]}
            case "identify":
                return {}
            case "group":
                return {"groupId": f"acc_{person.number % 997:04d}"}
            case "alias":
                return {"previousId": person.anonymous_id}
        return {"event": self.name}


def kind_of(name: str) -> Kind:
    """The kind with this name: one of the five calls, or else a track event."""
    if name in CALLS:
        return Kind(name, _CALL_FAMILIES[name])
    return Kind(name, shop_family(name) if name in RANKING else tail_family(name))


def _page(dice: Dice) -> Properties:
    page = dice.favour(PAGES)
    own = {"category": dice.favour(CATEGORIES), "referrer": dice.favour(REFERRERS)}
    return {**page, "name": page["title"], **own}


def _screen(dice: Dice) -> Properties:
    name, previous = dice.favour(SCREENS), dice.favour(SCREENS)
    return {"name": name, "category": "App", "previous_screen": previous}


def _person_traits(person: Person) -> Properties:
    return {
        "email": f"{person.given}.{person.family}{person.number}@example.com".lower(),
        "first_name": person.given,
        "last_name": person.family,
        "address": {"city": person.market.city, "country": person.market.country},
    }


def _company_traits(person: Person) -> Properties:
    account = person.number % 997
    return {
        "company": f"{person.family} & Co {account}",
        "industry": INDUSTRIES[account % len(INDUSTRIES)],
        "employees": 3 + account * 7 % 4000,
        "website": f"https://company{account}.example.com",
    }


_CALL_FAMILIES = {
    "page": Family("view_id", "took_ms", _page),
    "screen": Family("view_id", "took_ms origin percent", _screen),
    "identify": Family("request_id", "plan amount quantity newsletter tags requested_at"),
    "group": Family("request_id", "plan amount expires_at"),
    "alias": Family("request_id", "reason"),
}
