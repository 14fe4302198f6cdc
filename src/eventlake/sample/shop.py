"""The shop: what it sells, its pages, its campaigns and its markets."""

from itertools import islice, product
from typing import Any, NamedTuple

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
CURRENCIES = ("USD", "GBP", "EUR", "SEK", "BRL", "JPY", "AUD")
PLANS = ("free", "plus", "business")
REFERRERS = (
    "",
    f"{SITE}/",
    "https://search.example.net/",
    "https://social.example.org/feed",
    "https://mail.example.com/",
)


class Market(NamedTuple):
    """What a customer's device says about where they are."""

    locale: str
    timezone: str
    country: str
    city: str
    carrier: str


MARKETS = (
    Market("en-US", "America/New_York", "US", "New York", "Verizon"),
    Market("en-US", "America/Los_Angeles", "US", "San José", "T-Mobile"),
    Market("en-GB", "Europe/London", "GB", "London", "EE"),
    Market("de-DE", "Europe/Berlin", "DE", "München", "Telekom"),
    Market("fr-FR", "Europe/Paris", "FR", "Orléans", "Orange"),
    Market("es-ES", "Europe/Madrid", "ES", "Málaga", "Movistar"),
    Market("sv-SE", "Europe/Stockholm", "SE", "Malmö", "Telia"),
    Market("pt-BR", "America/Sao_Paulo", "BR", "São Paulo", "Vivo"),
    Market("ja-JP", "Asia/Tokyo", "JP", "東京", "docomo"),
    Market("en-AU", "Australia/Sydney", "AU", "Sydney", "Telstra"),
)


def _product(number: int, adjective: str, noun: str, colour: str) -> dict[str, Any]:
    category = CATEGORIES[number * 5 % len(CATEGORIES)]
    return {
        "product_id": f"prd_{number * 7919 % 1_000_003:06d}",
        "sku": f"{category[:3].upper()}-{number:04d}",
        "name": f"{adjective} {noun}",
        "brand": BRANDS[number * 3 % len(BRANDS)],
        "category": category,
        "variant": colour,
        "price": (499 + number * 3761 % 24_000) / 100,
    }


def _page(path: str, title: str, search: str = "") -> dict[str, Any]:
    page = {"path": path, "title": title, "url": f"{SITE}{path}{search}"}
    return {**page, "search": search} if search else page


def _campaign(number: int, source: str, medium: str) -> dict[str, Any]:
    theme = COUPONS[number % len(COUPONS)].lower()
    campaign = {"name": f"{theme}_{source}", "source": source, "medium": medium}
    term = {"term": QUERIES[number % len(QUERIES)]} if medium == "cpc" else {}
    return {**campaign, **term, "content": f"variant_{'abc'[number % 3]}"}


PRODUCTS = tuple(
    _product(number, *words)
    for number, words in enumerate(islice(product(ADJECTIVES, NOUNS, COLOURS), 400))
)
PAGES = (
    _page("/", "Home"),
    *(_page(f"/c/{name.lower()}", name) for name in CATEGORIES),
    *(_page("/search", "Search", f"?q={query.replace(' ', '-')}") for query in QUERIES),
    _page("/cart", "Your cart"),
    _page("/checkout", "Checkout"),
    _page("/account", "Your account"),
    *(_page(f"/p/{item['sku'].lower()}", item["name"]) for item in PRODUCTS[:200]),
)
_SOURCES = ("newsletter", "google", "facebook", "tiktok", "affiliates")
_MEDIA = ("email", "cpc", "paid_social", "referral")
CAMPAIGNS = tuple(_campaign(number, *pair) for number, pair in enumerate(product(_SOURCES, _MEDIA)))
