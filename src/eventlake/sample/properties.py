"""What each track event says: families for the shop's own events, word lists for the tail."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np

from eventlake.sample.dice import Dice
from eventlake.sample.shop import (
    CARRIERS,
    CATEGORIES,
    COUPONS,
    CURRENCIES,
    MARKETS,
    PAYMENTS,
    PRODUCTS,
    QUERIES,
    SITE,
)

Properties = dict[str, Any]
Draw = Callable[[Dice], Properties]


@dataclass(frozen=True)
class Family:
    """How a track event's properties are drawn, and the property that is new in each event."""

    id_key: str
    draw: Draw


def family_of(event: str) -> Family:
    """The family of a track event; a tail event is one of its own."""
    return FAMILIES.get(event) or _tail_family(event)


def extras(event: str, dice: Dice, rare: bool, late: bool) -> Properties:
    """Columns that a table gets late: in one event of thousands, or from the last hour on."""
    mark = crc32(event.encode())
    found: Properties = {}
    if rare:
        found[RARE[mark % len(RARE)]] = dice.code("r-", 8)
    if late and mark % 3 == 0:
        found[LATE[mark // 3 % len(LATE)]] = dice.chance(0.5)
    return found


RARE = ("gift_message", "fraud_flag", "legacy_sku", "debug_trace", "partner_ref", "price_override")
LATE = ("new_checkout", "ai_assisted", "one_tap", "dark_mode")


def value(dice: Dice) -> Any:
    """A number to most senders, text with its currency to some: a column of mixed types."""
    amount = dice.money(2, 400)
    return f"{amount} {dice.favourite(CURRENCIES)}" if dice.chance(0.1) else amount


def discount(dice: Dice) -> Any:
    """False when there is none, otherwise an amount: a column of mixed types."""
    return dice.money(1, 30) if dice.chance(0.3) else False


def tags(dice: Dice) -> list[str]:
    """An array of strings, now and then empty."""
    words = ("sale", "new", "gift", "eco", "bestseller", "last-chance", "été")
    return [dice.pick(words) for _ in range(dice.below(4))]


def experiment(dice: Dice) -> Properties:
    """An object that the lake flattens."""
    return {"id": dice.code("exp_", 2), "variant": dice.pick(("control", "a", "b"))}


def address(dice: Dice) -> Properties:
    """An object two levels deep."""
    market = dice.favourite(MARKETS)
    spot = {"lat": dice.between(-60_000, 70_000) / 1000, "lon": dice.between(-180, 180)}
    return {"city": market.city, "country": market.country, "geo": spot}


def cart_lines(dice: Dice) -> tuple[list[Properties], int]:
    """An array of objects, and what they cost together in cents."""
    lines: list[Properties] = []
    cents = 0
    for _ in range(1 + dice.below(dice.between(1, 4))):
        item, quantity = dice.favourite(PRODUCTS), dice.favourite((1, 2, 3, 4))
        fields = {key: item[key] for key in ("product_id", "sku", "name", "price", "category")}
        lines.append({**fields, "quantity": quantity})
        cents += round(item["price"] * 100) * quantity
    return lines, cents


def _product(dice: Dice) -> Properties:
    return {
        **dice.favourite(PRODUCTS),
        "quantity": dice.favourite((1, 2, 3)),
        "position": dice.between(1, 48),
        "currency": dice.favourite(CURRENCIES),
        "value": dice.money(2, 400),
        "in_stock": dice.chance(0.93),
        "tags": tags(dice),
    }


def _review(dice: Dice) -> Properties:
    return {
        **dice.favourite(PRODUCTS),
        "rating": dice.between(1, 5),
        "review_body": dice.pick(("Très bien!", "Fits well.", "Came late, but \u2713 quality", "")),
        "verified": dice.chance(0.8),
        "purchased_at": dice.moment(-24 * 60),
    }


def _listing(dice: Dice) -> Properties:
    shown = [dice.favourite(PRODUCTS) for _ in range(dice.between(2, 4))]
    return {
        "category": dice.favourite(CATEGORIES),
        "products": [{"product_id": item["product_id"], "price": item["price"]} for item in shown],
        "filters": [{"type": "price", "value": f"under-{dice.between(2, 20) * 10}"}],
        "sorts": [{"type": "price", "value": dice.pick(("asc", "desc"))}],
        "results": dice.between(0, 320),
        "experiment": experiment(dice),
    }


def _search(dice: Dice) -> Properties:
    return {
        "query": dice.favourite(QUERIES),
        "results": dice.between(0, 900),
        "took_ms": dice.between(8, 700),
        "corrected": dice.chance(0.1),
        "filters": {"category": dice.favourite(CATEGORIES), "max_price": dice.money(20, 300)},
        "experiment": experiment(dice),
    }


def _cart(dice: Dice) -> Properties:
    products, cents = cart_lines(dice)
    return {
        "products": products,
        "value": cents / 100,
        "currency": dice.favourite(CURRENCIES),
        "item_count": sum(line["quantity"] for line in products),
        "has_coupon": dice.chance(0.2),
    }


def _order(dice: Dice) -> Properties:
    products, cents = cart_lines(dice)
    shipping, tax = dice.favourite((0, 399, 799, 1299)), cents // 5
    return {
        "affiliation": "Example Shop",
        "products": products,
        "revenue": cents / 100,
        "shipping": shipping / 100,
        "tax": tax / 100,
        "total": (cents + shipping + tax) / 100,
        "discount": discount(dice),
        "coupon": dice.favourite(COUPONS) if dice.chance(0.25) else None,
        "currency": dice.favourite(CURRENCIES),
        "payment": {"method": dice.favourite(PAYMENTS), "installments": dice.favourite((1, 3, 12))},
        "is_first_order": dice.chance(0.22),
        "deliver_by": dice.moment(24 * 6),
    }


def _checkout(dice: Dice) -> Properties:
    return {
        "step": dice.between(1, 4),
        "shipping_method": dice.favourite(CARRIERS),
        "payment_method": dice.favourite(PAYMENTS),
        "value": value(dice),
        "currency": dice.favourite(CURRENCIES),
        "discount": discount(dice),
        "shipping_address": address(dice),
        "express": dice.chance(0.15),
        "cart_started_at": dice.moment(-5),
    }


def _coupon(dice: Dice) -> Properties:
    return {
        "coupon": dice.favourite(COUPONS),
        "cart_id": dice.code("crt_", 8),
        "discount": discount(dice),
        "reason": dice.favourite(("ok", "expired", "minimum not met", "already used")),
        "expires_at": dice.moment(24 * 30),
        "stackable": dice.chance(0.3),
    }


def _promotion(dice: Dice) -> Properties:
    return {
        "promotion_id": dice.code("promo_", 3),
        "creative": dice.pick(("hero_autumn", "tile_sale", "strip_shipping")),
        "position": dice.pick(("home_top", "home_middle", "cart_side")),
        "name": f"{dice.favourite(COUPONS)} teaser",
        "visible_ms": dice.between(200, 30_000),
        "experiment": experiment(dice),
        "tags": tags(dice),
    }


def _account(dice: Dice) -> Properties:
    return {
        "method": dice.favourite(("email", "google", "apple", "facebook")),
        "plan": dice.favourite(("free", "plus", "business")),
        "newsletter": dice.chance(0.4),
        "attempts": dice.favourite((1, 2, 3)),
        "referrer_code": dice.code("REF") if dice.chance(0.2) else None,
        "terms_accepted_at": dice.moment(-1),
        "device_trust": {"score": dice.between(0, 1000) / 1000, "known": dice.chance(0.7)},
    }


def _message(dice: Dice) -> Properties:
    return {
        "campaign_id": dice.code("cmp_", 4),
        "subject": dice.pick(
            ("Your basket misses you", "20 % auf alles", "It\u2019s here \U0001f389")
        ),
        "list_id": dice.code("lst_", 2),
        "link_url": f"{SITE}/c/{dice.favourite(CATEGORIES).lower()}",
        "scheduled_at": dice.moment(-48),
        "delivered": dice.chance(0.97),
        "attempt": dice.favourite((1, 2, 3)),
    }


def _invite(dice: Dice) -> Properties:
    return {
        "invitee_email_domain": dice.pick(("example.com", "example.org", "example.net")),
        "invitees": dice.between(1, 6),
        "share_channel": dice.favourite(("link", "email", "sms", "whatsapp")),
        "reward": {"amount": dice.money(5, 20), "currency": dice.favourite(CURRENCIES)},
        "expires_at": dice.moment(24 * 14),
        "accepted": dice.chance(0.3),
    }


def _application(dice: Dice) -> Properties:
    return {
        "from_background": dice.chance(0.6),
        "build": dice.between(51_000, 51_204),
        "previous_build": dice.between(50_000, 51_000),
        "referring_application": dice.favourite(("none", "mail", "browser")),
        "cold_start_ms": dice.between(180, 4200),
        "memory": {"free_mb": dice.between(100, 6000), "warnings": dice.favourite((0, 1, 2))},
    }


FAMILIES = {
    event: Family(id_key, draw)
    for id_key, draw, events in (
        ("impression_id", _product, ("Product Viewed", "Product Clicked", "Product Shared")),
        ("cart_id", _product, ("Product Added", "Product Removed")),
        ("wishlist_id", _product, ("Product Added to Wishlist", "Wishlist Product Added to Cart")),
        ("review_id", _review, ("Product Reviewed",)),
        ("list_id", _listing, ("Product List Viewed", "Product List Filtered")),
        ("query_id", _search, ("Products Searched",)),
        ("cart_id", _cart, ("Cart Viewed", "Cart Shared")),
        (
            "order_id",
            _order,
            ("Order Completed", "Order Updated", "Order Refunded", "Order Cancelled"),
        ),
        (
            "checkout_id",
            _checkout,
            (
                "Checkout Started",
                "Checkout Step Viewed",
                "Checkout Step Completed",
                "Payment Info Entered",
            ),
        ),
        (
            "coupon_id",
            _coupon,
            ("Coupon Entered", "Coupon Applied", "Coupon Denied", "Coupon Removed"),
        ),
        ("impression_id", _promotion, ("Promotion Viewed", "Promotion Clicked")),
        ("request_id", _account, ("Signed Up", "Signed In", "Signed Out", "2FA Enabled")),
        ("email_id", _message, ("Email Opened", "Email Link Clicked", "Email Bounced")),
        ("push_id", _message, ("Push Notification Received", "Push Notification Tapped")),
        ("invite_id", _invite, ("Invite Sent", "Invite Accepted")),
        (
            "launch_id",
            _application,
            (
                "Application Opened",
                "Application Backgrounded",
                "Application Installed",
                "Application Updated",
                "Application Crashed",
            ),
        ),
    )
    for event in events
}

# What a tail event may say. No name here is a standard column of the lake.
TAIL_FIELDS: tuple[tuple[str, Callable[[Dice], Any]], ...] = (
    ("amount", lambda dice: dice.money(1, 900)),
    ("attempt", lambda dice: dice.between(1, 5)),
    ("billing_address", address),
    ("comment", lambda dice: dice.pick(("", "thanks", "bitte schnell", 'says "fine"', "ok ✓"))),
    ("completed_at", lambda dice: dice.moment(-2)),
    ("coupon", lambda dice: dice.favourite(COUPONS)),
    ("currency", lambda dice: dice.favourite(CURRENCIES)),
    ("discount", discount),
    ("duration_ms", lambda dice: dice.between(20, 90_000)),
    ("error_code", lambda dice: dice.favourite((None, "E_TIMEOUT", "E_LIMIT", "E_DECLINED"))),
    ("expires_at", lambda dice: dice.moment(24 * 30)),
    ("experiment", experiment),
    ("is_first", lambda dice: dice.chance(0.2)),
    ("item", lambda dice: dice.favourite(PRODUCTS)),
    ("label", lambda dice: f"{dice.favourite(CATEGORIES)} {dice.between(1, 30)}"),
    ("method", lambda dice: dice.favourite(("click", "swipe", "keyboard", "voice"))),
    ("origin", lambda dice: dice.favourite(("home", "list", "detail", "cart", "email"))),
    ("percent", lambda dice: dice.between(0, 10_000) / 100),
    ("placement", lambda dice: dice.favourite(("top", "side", "bottom", "modal"))),
    ("plan", lambda dice: dice.favourite(("free", "plus", "business"))),
    ("products", lambda dice: cart_lines(dice)[0]),
    ("quantity", lambda dice: dice.favourite((1, 2, 3, 5, 10))),
    ("rating", lambda dice: dice.between(1, 5)),
    ("reason", lambda dice: dice.favourite(("user", "timeout", "policy", "stock"))),
    ("requested_at", lambda dice: dice.moment(-30)),
    ("score", lambda dice: dice.between(0, 1_000_000) / 1_000_000),
    ("size", lambda dice: dice.pick(("S", "M", "L", 38, 40, 42))),
    ("store", lambda dice: {"code": dice.code("st_", 3), "city": dice.favourite(MARKETS).city}),
    ("success", lambda dice: dice.chance(0.9)),
    ("tags", tags),
    ("total_steps", lambda dice: dice.between(2, 8)),
    ("value", value),
)


@cache
def _tail_family(event: str) -> Family:
    """The same few fields for the same name, whatever the seed."""
    rng = np.random.default_rng(crc32(event.encode()))
    count = int(rng.integers(4, 10))
    chosen = rng.choice(len(TAIL_FIELDS), size=count, replace=False).tolist()
    fields = [TAIL_FIELDS[at] for at in sorted(chosen)]
    return Family(_tail_id(event), lambda dice: {key: draw(dice) for key, draw in fields})


def _tail_id(event: str) -> str:
    """`Wishlist Item Shared` is about a `wishlist_item_id`."""
    *thing, _ = event.lower().split()
    return "_".join((*thing, "id"))
