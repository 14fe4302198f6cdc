"""The shop's visitors, and what their devices say about each visit."""

from dataclasses import dataclass
from typing import Any

from eventlake.sample.dice import Dice
from eventlake.sample.shop import CAMPAIGNS, MARKETS, PAGES, REFERRERS, Market

GIVEN = ("Ada", "Ben", "Chloé", "Dmitri", "Emma", "Farid", "Grace", "Hugo", "Inês", "Jürgen", "Kim")
FAMILY = ("Abbott", "Berg", "Castro", "Dubois", "Evans", "Fischer", "García", "Haddad", "Ito")


@dataclass(frozen=True)
class Person:
    """A customer; always the same for the same number in the same sample."""

    number: int
    anonymous_id: str
    given: str
    family: str
    market: Market

    @property
    def user_id(self) -> str:
        return f"usr_{self.number:08d}"


def make_person(seed: int, number: int) -> Person:
    """The customer of this number."""
    dice = Dice(f"{seed} {number}")
    return Person(
        number,
        format_uuid(f"{dice.getrandbits(128):032x}"),
        dice.pick(GIVEN),
        dice.pick(FAMILY),
        MARKETS[int(dice.random() ** 2 * len(MARKETS))],
    )


def format_uuid(digits: str) -> str:
    """32 hexadecimal digits as a random (version 4) UUID."""
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def web_context(dice: Dice, person: Person) -> dict[str, Any]:
    """The context of a visit to the website, without its page."""
    campaign = {"campaign": dice.favour(CAMPAIGNS)} if dice.chance(0.35) else {}
    return {**dice.favour(BROWSERS), **campaign, **_place(dice, person)}


def app_context(dice: Dice, person: Person) -> dict[str, Any]:
    """The context of a visit in the app, without the instance."""
    phone = PHONES[person.number % len(PHONES)]
    own = {"id": person.anonymous_id[-12:], "adTrackingEnabled": dice.chance(0.4)}
    wifi = dice.chance(0.7)
    return {
        **phone,
        "device": {**phone["device"], **own},
        "network": {"carrier": person.market.carrier, "wifi": wifi, "cellular": not wifi},
        **_place(dice, person),
    }


def _place(dice: Dice, person: Person) -> dict[str, Any]:
    host = ".".join(str(dice.between(1, 254)) for _ in range(3))
    market = person.market
    return {
        "ip": f"{11 + person.number % 180}.{host}",
        "locale": market.locale,
        "timezone": market.timezone,
    }


def _browser(system: str, version: int, platform: str = "") -> dict[str, Any]:
    agent = (
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/{version}.0.0.0 Safari/537.36"
    )
    hints = {"userAgentData": {"mobile": False, "platform": platform}} if platform else {}
    library = {"name": "analytics.js", "version": "next-1.81.0"}
    return {"library": library, "userAgent": agent, **hints}


def _phone(system: str, version: str, maker: str, model: str, height: int) -> dict[str, Any]:
    kind = system.lower()
    library = "analytics-swift" if kind == "ios" else "analytics-kotlin"
    return {
        "app": {"build": "51204", "name": "Example Shop", "version": "5.12.0"},
        "library": {"name": library, "version": "1.19.2"},
        "os": {"name": system, "version": version},
        "screen": {"width": 412, "height": height, "density": 3},
        "userAgent": f"ExampleShop/5.12.0 ({model}; {kind} {version})",
        "device": {"manufacturer": maker, "model": model, "type": kind},
    }


BROWSERS = (
    _browser("Windows NT 10.0; Win64; x64", 142),
    _browser("Macintosh; Intel Mac OS X 10_15_7", 143),
    _browser("Windows NT 10.0; Win64; x64", 143, "Windows"),
    _browser("X11; Linux x86_64", 143, "Linux"),
    _browser("X11; CrOS x86_64 14541.0.0", 141),
)
PHONES = (
    _phone("iOS", "26.1", "Apple", "iPhone17,1", 874),
    _phone("iOS", "18.6", "Apple", "iPhone15,3", 932),
    _phone("Android", "16", "samsung", "SM-S938B", 891),
    _phone("Android", "16", "Google", "Pixel 10", 924),
    _phone("Android", "14", "Xiaomi", "2312DRA50G", 873),
)
WEB_ENDINGS = tuple(
    {"page": {**page, "referrer": REFERRERS[number * 7 % len(REFERRERS)]}}
    for number, page in enumerate(PAGES)
)
"""The last field of a web context, for each page."""
APP_ENDINGS = tuple({"instanceId": f"inst-{number:04x}"} for number in range(len(WEB_ENDINGS)))
"""The last field of an app context, for each instance of the app."""
