"""Who visits the shop, and what each visit says about the device that it comes from."""

from dataclasses import dataclass

import msgspec
import numpy as np

from eventlake.sample.dice import Dice
from eventlake.sample.shop import CAMPAIGNS, MARKETS, PAGES, REFERRERS, Market

GIVEN = ("Ada", "Ben", "Chloé", "Dmitri", "Emma", "Farid", "Grace", "Hugo", "Inês", "Jürgen", "Kim")
FAMILY = ("Abbott", "Berg", "Castro", "Dubois", "Evans", "Fischer", "García", "Haddad", "Ito")

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
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

    @property
    def email(self) -> str:
        return f"{self.given}.{self.family}{self.number}@example.com".lower()


class People:
    """Everyone who may visit: their random ids are drawn once, the rest follows from the number."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self.count = count
        self._hex = rng.bytes(16 * count).hex()

    def person(self, number: int) -> Person:
        """The customer of this number."""
        digits = self._hex[32 * number : 32 * number + 32]
        mix = int(digits[:8], 16)
        return Person(
            number,
            uuid(digits),
            GIVEN[mix % len(GIVEN)],
            FAMILY[mix // 11 % len(FAMILY)],
            MARKETS[(mix // 99 % 100) ** 2 * len(MARKETS) // 10_000],
        )


def uuid(digits: str) -> str:
    """32 hexadecimal digits as a random (version 4) UUID."""
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


@dataclass(frozen=True, slots=True)
class Visit:
    """One session: the person, and the pieces of a line that all of its events share.

    A line begins with `known` or `anonymous`, goes on with `context` and then with one of
    WEB_CLOSINGS or APP_CLOSINGS, which end where the message id follows.
    """

    person: Person
    known: bytes
    anonymous: bytes
    context: bytes


def draw_visit(dice: Dice, person: Person, mobile: bool) -> Visit:
    """A visit of this person, on the web or in the app."""
    first = f'{{"anonymousId":"{person.anonymous_id}","userId":'
    context = _app_context(dice, person) if mobile else _web_context(dice, person)
    return Visit(
        person,
        f'{first}"{person.user_id}",'.encode(),
        f"{first}null,".encode(),
        f'"channel":"client","context":{{{context}'.encode(),
    )


def _json(**fields: object) -> str:
    """The fields of a JSON object, with the comma to go on after them but without braces."""
    return encode(fields).decode()[1:-1] + ","


def _browser(system: str, version: int) -> str:
    agent = (
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/{version}.0.0.0 Safari/537.36"
    )
    return _json(library={"name": "analytics.js", "version": "next-1.81.0"}, userAgent=agent)


def _with_hints(browser: str, platform: str) -> str:
    """A browser that also says in fields what others hide in the agent's name."""
    return browser + _json(userAgentData={"mobile": False, "platform": platform})


def _phone(kind: str, maker: str, model: str, system: str, size: tuple[int, int]) -> str:
    """What an app says of its phone, up to the fields of `device` that differ by person."""
    library = "analytics-swift" if kind == "ios" else "analytics-kotlin"
    return (
        _json(
            app={"build": "51204", "name": "Example Shop", "version": "5.12.0"},
            library={"name": library, "version": "1.19.2"},
            os={"name": "iOS" if kind == "ios" else "Android", "version": system},
            screen={"width": size[0], "height": size[1], "density": 3},
            userAgent=f"ExampleShop/5.12.0 ({model}; {kind} {system})",
        )
        + f'"device":{{"manufacturer":"{maker}","model":"{model}","type":"{kind}",'
    )


BROWSERS = (
    _browser("Windows NT 10.0; Win64; x64", 142),
    _browser("Macintosh; Intel Mac OS X 10_15_7", 143),
    _with_hints(_browser("Windows NT 10.0; Win64; x64", 143), "Windows"),
    _with_hints(_browser("X11; Linux x86_64", 143), "Linux"),
    _browser("X11; CrOS x86_64 14541.0.0", 141),
)
PHONES = (
    _phone("ios", "Apple", "iPhone17,1", "26.1", (402, 874)),
    _phone("ios", "Apple", "iPhone15,3", "18.6", (430, 932)),
    _phone("android", "samsung", "SM-S938B", "16", (412, 891)),
    _phone("android", "Google", "Pixel 10", "16", (412, 924)),
    _phone("android", "Xiaomi", "2312DRA50G", "14", (393, 873)),
)
_CAMPAIGNS = tuple(_json(campaign=campaign) for campaign in CAMPAIGNS)


def _web_context(dice: Dice, person: Person) -> str:
    campaign = dice.favourite(_CAMPAIGNS) if dice.chance(0.35) else ""
    return f"{dice.favourite(BROWSERS)}{campaign}{_place(dice, person)}"


def _app_context(dice: Dice, person: Person) -> str:
    phone = PHONES[person.number % len(PHONES)]
    wifi = dice.chance(0.7)
    network = (
        f'"carrier":"{person.market.carrier}","wifi":{_bool(wifi)},"cellular":{_bool(not wifi)}'
    )
    return (
        f'{phone}"id":"{person.anonymous_id[-12:]}","adTrackingEnabled":{_bool(dice.chance(0.4))}}},'
        f'"network":{{{network}}},{_place(dice, person)}'
    )


def _place(dice: Dice, person: Person) -> str:
    """What both platforms say of where the person is."""
    market = person.market
    address = ".".join(str(dice.between(1, 254)) for _ in range(3))
    network = 11 + person.number % 180
    return f'"ip":"{network}.{address}","locale":"{market.locale}","timezone":"{market.timezone}",'


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _closing(last: dict[str, object], **integrations: object) -> bytes:
    """The end of a context, and what stands between it and the message id."""
    return b'%b},"integrations":%b,"projectId":"8kXvQ2m","messageId":"' % (
        encode(last)[1:-1],
        encode(integrations),
    )


WEB_CLOSINGS = tuple(
    _closing({"page": {**page, "referrer": REFERRERS[number * 7 % len(REFERRERS)]}}, All=True)
    for number, page in enumerate(PAGES)
)
APP_CLOSINGS = tuple(
    _closing({"instanceId": f"inst-{number:04x}"}, All=True, Firebase=number % 2 == 0)
    for number in range(len(WEB_CLOSINGS))
)
