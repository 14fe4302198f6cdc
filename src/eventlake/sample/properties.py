"""The properties of track events: families for the shop's own events, any few for the tail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

from eventlake.sample.dice import Dice
from eventlake.sample.shop import (
    CARRIERS,
    CATEGORIES,
    COUPONS,
    CURRENCIES,
    MARKETS,
    PAYMENTS,
    PLANS,
    PRODUCTS,
    QUERIES,
    SITE,
)

Properties = dict[str, Any]

RARE = ("gift_message", "fraud_flag", "legacy_sku", "debug_trace", "partner_ref", "price_override")
LATE = ("new_checkout", "ai_assisted", "one_tap", "dark_mode")
TAGS = ("sale", "new", "gift", "eco", "bestseller", "last-chance", "été")
COMMENTS = ("", "thanks", "bitte schnell", 'says "fine"', "ok ✓")


def late_columns(event: str, dice: Dice, rare: bool, late: bool) -> Properties:
    """Columns that a table gets late: in one event of thousands, or from the last hour on."""
    mark = crc32(event.encode())
    columns: Properties = {RARE[mark % len(RARE)]: dice.code("r-", 8)} if rare else {}
    if late and mark % 3 == 0:
        columns[LATE[mark // 3 % len(LATE)]] = dice.chance(0.5)
    return columns


def _cart_lines(dice: Dice) -> list[Properties]:
    keys = ("product_id", "sku", "name", "price", "category")
    items = [dice.favour(PRODUCTS) for _ in range(dice.between(1, dice.between(1, 4)))]
    return [
        {**{key: item[key] for key in keys}, "quantity": dice.favour((1, 2, 3, 4))}
        for item in items
    ]


def _address(dice: Dice) -> Properties:
    market = dice.favour(MARKETS)
    spot = {"lat": dice.between(-60_000, 70_000) / 1000, "lon": dice.between(-180, 180)}
    return {"city": market.city, "country": market.country, "geo": spot}


def _mixed_value(dice: Dice) -> Any:
    """A number to most senders, text with its currency to some: a column of mixed types."""
    amount = dice.money(2, 400)
    return f"{amount} {dice.favour(CURRENCIES)}" if dice.chance(0.1) else amount


# None of these is a standard column of the lake. `discount`, `size` and `value` have mixed types.
FIELDS: Mapping[str, Callable[[Dice], Any]] = {
    "amount": lambda dice: dice.money(1, 900),
    "attempt": lambda dice: dice.between(1, 5),
    "billing_address": _address,
    "build": lambda dice: dice.between(51_000, 51_204),
    "campaign_id": lambda dice: dice.code("cmp_", 4),
    "cart_started_at": lambda dice: dice.moment(-5),
    "cold_start_ms": lambda dice: dice.between(180, 4200),
    "comment": lambda dice: dice.pick(COMMENTS),
    "completed_at": lambda dice: dice.moment(-2),
    "corrected": lambda dice: dice.chance(0.1),
    "coupon": lambda dice: dice.favour(COUPONS),
    "creative": lambda dice: dice.pick(("hero_autumn", "tile_sale", "strip_shipping")),
    "currency": lambda dice: dice.favour(CURRENCIES),
    "deliver_by": lambda dice: dice.moment(24 * 6),
    "department": lambda dice: dice.favour(CATEGORIES),
    "device_trust": lambda dice: {"score": dice.between(0, 99) / 100, "known": dice.chance(0.7)},
    "discount": lambda dice: dice.money(1, 30) if dice.chance(0.3) else False,
    "duration_ms": lambda dice: dice.between(20, 90_000),
    "error_code": lambda dice: dice.favour((None, "E_TIMEOUT", "E_LIMIT", "E_DECLINED")),
    "experiment": lambda dice: {"id": dice.code("exp_", 2), "variant": dice.pick("abc")},
    "expires_at": lambda dice: dice.moment(24 * 30),
    "filters": lambda dice: [{"type": "price", "value": f"under-{dice.between(2, 20) * 10}"}],
    "from_background": lambda dice: dice.chance(0.6),
    "invitees": lambda dice: dice.between(1, 6),
    "is_first_order": lambda dice: dice.chance(0.22),
    "item": lambda dice: dice.favour(PRODUCTS),
    "label": lambda dice: f"{dice.favour(CATEGORIES)} {dice.between(1, 30)}",
    "link_url": lambda dice: f"{SITE}/c/{dice.favour(CATEGORIES).lower()}",
    "memory": lambda dice: {"free_mb": dice.between(100, 6000), "warnings": dice.between(0, 2)},
    "method": lambda dice: dice.favour(("click", "swipe", "keyboard", "voice")),
    "newsletter": lambda dice: dice.chance(0.4),
    "origin": lambda dice: dice.favour(("home", "list", "detail", "cart", "email")),
    "payment": lambda dice: {"method": dice.favour(PAYMENTS), "installments": dice.pick((1, 3))},
    "percent": lambda dice: dice.between(0, 10_000) / 100,
    "placement": lambda dice: dice.favour(("top", "side", "bottom", "modal")),
    "plan": lambda dice: dice.favour(PLANS),
    "products": _cart_lines,
    "promotion_id": lambda dice: dice.code("promo_", 3),
    "quantity": lambda dice: dice.favour((1, 2, 3, 5, 10)),
    "query": lambda dice: dice.favour(QUERIES),
    "rating": lambda dice: dice.between(1, 5),
    "reason": lambda dice: dice.favour(("user", "timeout", "policy", "stock")),
    "referrer_code": lambda dice: dice.code("REF") if dice.chance(0.2) else None,
    "requested_at": lambda dice: dice.moment(-30),
    "results": lambda dice: dice.between(0, 900),
    "score": lambda dice: dice.between(0, 1_000_000) / 1_000_000,
    "shipping_address": _address,
    "shipping_method": lambda dice: dice.favour(CARRIERS),
    "size": lambda dice: dice.pick(("S", "M", "L", 38, 40, 42)),
    "sorts": lambda dice: [{"type": "price", "value": dice.pick(("asc", "desc"))}],
    "step": lambda dice: dice.between(1, 4),
    "store": lambda dice: {"code": dice.code("st_", 3), "city": dice.favour(MARKETS).city},
    "subject": lambda dice: dice.pick(
        ("Your basket misses you", "20 % auf alles", "Hi \U0001f389")
    ),
    "success": lambda dice: dice.chance(0.9),
    "tags": lambda dice: [dice.pick(TAGS) for _ in range(dice.between(0, 3))],
    "took_ms": lambda dice: dice.between(8, 700),
    "total_steps": lambda dice: dice.between(2, 8),
    "value": _mixed_value,
    "verified": lambda dice: dice.chance(0.8),
    "visible_ms": lambda dice: dice.between(200, 30_000),
}


def _product(dice: Dice) -> Properties:
    own = {"position": dice.between(1, 48), "value": dice.money(2, 400)}
    return {**dice.favour(PRODUCTS), **own}


def _cart(dice: Dice) -> Properties:
    products = _cart_lines(dice)
    items = sum(line["quantity"] for line in products)
    return {"products": products, "value": _cents(products) / 100, "item_count": items}


def _cents(products: list[Properties]) -> int:
    return sum(round(line["price"] * 100) * line["quantity"] for line in products)


def _order(dice: Dice) -> Properties:
    products = _cart_lines(dice)
    cents, shipping = _cents(products), dice.favour((0, 399, 799, 1299))
    tax = cents // 5
    return {
        "affiliation": "Example Shop",
        "products": products,
        "revenue": cents / 100,
        "shipping": shipping / 100,
        "tax": tax / 100,
        "total": (cents + shipping + tax) / 100,
        "coupon": dice.favour(COUPONS) if dice.chance(0.25) else None,
    }


@dataclass(frozen=True)
class Family:
    """The properties of some event types."""

    id_key: str
    """The property that is unique to each event."""
    names: str
    """Names of FIELDS, separated by spaces."""
    others: Callable[[Dice], Properties] = lambda _: {}

    def draw(self, dice: Dice) -> Properties:
        """Draw all properties but the id."""
        return {**self.others(dice), **{name: FIELDS[name](dice) for name in self.names.split()}}


_PRODUCT = "quantity currency experiment tags"
_CHECKOUT = (
    "step shipping_method shipping_address payment value currency discount cart_started_at verified"
)
_ACCOUNT = "method plan newsletter attempt referrer_code completed_at device_trust"
_MESSAGE = "campaign_id subject label link_url requested_at success attempt"
_FAMILIES: Mapping[str, Family] = {
    "Product ": Family("impression_id", _PRODUCT, _product),
    "Product Added": Family("cart_id", _PRODUCT, _product),
    "Product Removed": Family("cart_id", _PRODUCT, _product),
    "Product Reviewed": Family("review_id", "rating comment verified requested_at", _product),
    "Product List ": Family("list_id", "department products filters sorts results experiment"),
    "Products Searched": Family("query_id", "query results took_ms corrected filters experiment"),
    "Wishlist ": Family("wishlist_id", _PRODUCT, _product),
    "Cart ": Family("cart_id", "currency verified", _cart),
    "Order ": Family("order_id", "discount currency payment is_first_order deliver_by", _order),
    "Checkout ": Family("checkout_id", _CHECKOUT),
    "Payment ": Family("checkout_id", _CHECKOUT),
    "Coupon ": Family("coupon_id", "coupon label discount reason expires_at verified"),
    "Promotion ": Family(
        "impression_id", "promotion_id creative placement label visible_ms experiment tags"
    ),
    "Signed ": Family("request_id", _ACCOUNT),
    "2FA ": Family("request_id", _ACCOUNT),
    "Email ": Family("email_id", _MESSAGE),
    "Push ": Family("push_id", _MESSAGE),
    "Invite ": Family("invite_id", "invitees origin amount currency expires_at success"),
    "Application ": Family("launch_id", "from_background build step origin cold_start_ms memory"),
}
"""The families of the shop's own events, by the beginning of their names."""


def shop_family(event: str) -> Family:
    """The family of one of the shop's own events."""
    longest = max((start for start in _FAMILIES if event.startswith(start)), key=len)
    return _FAMILIES[longest]


def tail_family(event: str) -> Family:
    """A family for any other event: a few of FIELDS, the same ones whatever the seed.

    `Wishlist Item Shared` has a `wishlist_item_id`.
    """
    fields = Random(event)  # noqa: S311 - not for security
    names = sorted(fields.sample(sorted(FIELDS), fields.randint(4, 9)))
    thing = event.lower().rpartition(" ")[0].replace(" ", "_")
    return Family(f"{thing}_id", " ".join(names))
