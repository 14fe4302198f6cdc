"""The shop itself: what it sells, its pages, its campaigns and the markets it sells in."""

from dataclasses import dataclass
from itertools import islice, product
from typing import Any

SITE = "https://shop.example"

CATEGORIES = ("Shoes", "Jackets", "Bags", "Kitchen", "Garden", "Toys", "Books", "Audio")
BRANDS = ("Northwind", "Contoso", "Fabrikam", "Tailspin", "Litware", "Adatum", "Köhler & Søn")
COLOURS = ("black", "navy", "olive", "sand", "crème", "red")
ADJECTIVES = ("Classic", "Light", "Everyday", "Urban", "Trail", "Vintage", "Compact", "Pro")
NOUNS = ("Runner", "Parka", "Tote", "Kettle", "Lamp", "Puzzle", "Atlas", "Speaker", "Café Mug")
COUPONS = ("WELCOME10", "FREESHIP", "AUTUMN20", "VIP15", "BLACKFRIDAY", "SORRY5")
QUERIES = ("running shoes", "gift for dad", "waterproof jacket", "café mug", "lamp", "größe 42")
PAYMENTS = ("visa", "mastercard", "paypal", "klarna", "apple_pay", "google_pay")
CARRIERS = ("UPS", "DHL", "FedEx", "Royal Mail", "PostNord")


@dataclass(frozen=True)
class Market:
    """Where a customer is: what their device says about it, and what they pay in."""

    locale: str
    timezone: str
    country: str
    city: str
    currency: str
    carrier: str


MARKETS = (
    Market("en-US", "America/New_York", "US", "New York", "USD", "Verizon"),
    Market("en-US", "America/Los_Angeles", "US", "San José", "USD", "T-Mobile"),
    Market("en-GB", "Europe/London", "GB", "London", "GBP", "EE"),
    Market("de-DE", "Europe/Berlin", "DE", "München", "EUR", "Telekom"),
    Market("fr-FR", "Europe/Paris", "FR", "Orléans", "EUR", "Orange"),
    Market("es-ES", "Europe/Madrid", "ES", "Málaga", "EUR", "Movistar"),
    Market("sv-SE", "Europe/Stockholm", "SE", "Malmö", "SEK", "Telia"),
    Market("pt-BR", "America/Sao_Paulo", "BR", "São Paulo", "BRL", "Vivo"),
    Market("ja-JP", "Asia/Tokyo", "JP", "東京", "JPY", "docomo"),
    Market("en-AU", "Australia/Sydney", "AU", "Sydney", "AUD", "Telstra"),
)
CURRENCIES = tuple(dict.fromkeys(market.currency for market in MARKETS))


def slug(text: str) -> str:
    """Text as it stands in an address."""
    return text.lower().replace(" & ", "-").replace(" ", "-")


def _product(number: int, adjective: str, noun: str, colour: str) -> dict[str, Any]:
    category = CATEGORIES[number * 5 % len(CATEGORIES)]
    name = f"{adjective} {noun}"
    return {
        "product_id": f"prd_{number * 7919 % 1_000_003:06d}",
        "sku": f"{category[:3].upper()}-{number:04d}",
        "name": name,
        "brand": BRANDS[number * 3 % len(BRANDS)],
        "category": category,
        "variant": colour,
        "price": (499 + number * 3761 % 24_000) / 100,
    }


def _page(path: str, title: str, search: str = "") -> dict[str, Any]:
    url = f"{SITE}{path}{search}"
    page = {"path": path, "title": title, "url": url}
    return {**page, "search": search} if search else page


def _campaign(number: int, source: str, medium: str) -> dict[str, Any]:
    theme = COUPONS[number % len(COUPONS)].lower()
    campaign = {"name": f"{theme}_{source}", "source": source, "medium": medium}
    term = {"term": QUERIES[number % len(QUERIES)]} if medium == "cpc" else {}
    return {**campaign, **term, "content": f"variant_{'abc'[number % 3]}"}


PRODUCTS: tuple[dict[str, Any], ...] = tuple(
    _product(number, *words)
    for number, words in enumerate(islice(product(ADJECTIVES, NOUNS, COLOURS), 400))
)

PAGES: tuple[dict[str, Any], ...] = (
    _page("/", "Home"),
    *(_page(f"/c/{slug(name)}", name) for name in CATEGORIES),
    *(_page("/search", "Search", f"?q={slug(query)}") for query in QUERIES),
    _page("/cart", "Your cart"),
    _page("/checkout", "Checkout"),
    _page("/account", "Your account"),
    *(_page(f"/p/{item['sku'].lower()}", item["name"]) for item in PRODUCTS[:200]),
)

REFERRERS = (
    "",
    f"{SITE}/",
    "https://search.example.net/",
    "https://social.example.org/feed",
    "https://mail.example.com/",
)

CAMPAIGNS: tuple[dict[str, Any], ...] = tuple(
    _campaign(number, source, medium)
    for number, (source, medium) in enumerate(
        product(
            ("newsletter", "google", "facebook", "tiktok", "affiliates"),
            ("email", "cpc", "paid_social", "referral"),
        )
    )
)
