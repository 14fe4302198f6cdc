"""The lines of a sample, in batches.

Contexts and properties are encoded once for several events, which is most of a sample's speed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventlake.sample.bad import bad_line
from eventlake.sample.calls import Kind, kind_of
from eventlake.sample.dice import Dice
from eventlake.sample.messy import make_messy
from eventlake.sample.names import ranked_types
from eventlake.sample.people import (
    APP_ENDINGS,
    WEB_ENDINGS,
    Person,
    app_context,
    format_uuid,
    make_person,
    web_context,
)
from eventlake.sample.spec import HOUR_MS, SampleSpec

Millis = NDArray[np.int64]

ZIPF_EXPONENT = 1.05
EVENTS_PER_PERSON = 40
EVENTS_PER_VISIT = 12
EVENTS_PER_BODY = 4
"""So many events of a batch share their properties, each with an id of its own."""
RARE_SHARE = 1 / 2000
SIGNED_IN_SHARE = 0.55
OFFLINE_SHARE = 0.004
RESEND_MS = (60_000, 1_800_000, 6 * HOUR_MS)
"""The longest delays of re-sent events."""
RESEND_WEIGHTS = (70, 25, 5)
TIMES = ("originalTimestamp", "receivedAt", "sentAt", "timestamp")

encode = msgspec.json.Encoder().encode


class Batch(NamedTuple):
    """Consecutive events of a file: the number of the first, and when they are received."""

    first: int
    size: int
    start_ms: int
    end_ms: int


class Visit(NamedTuple):
    """A person's session on the website or in the app."""

    person: Person
    signed_in: bool
    context: bytes
    """The JSON of the context, without the ending that differs by event."""


Event = dict[str, Any]
"""An event; its context and its properties or traits are encoded already."""


class Generator:
    """Draws the events of a sample; batches must be asked for in order."""

    def __init__(self, spec: SampleSpec) -> None:
        self._spec = spec
        self._rng, self._dice = np.random.default_rng(spec.seed), Dice(spec.seed)
        self._kinds = tuple(map(kind_of, ranked_types(spec.types)))
        shares = np.arange(1, spec.types + 1) ** -ZIPF_EXPONENT
        self._shares = shares / shares.sum()
        # Each type has at least one event, so that no table is missing.
        places = np.arange(spec.types) * spec.events // spec.types
        order = self._rng.permutation(spec.types)
        self._debuts = dict(zip(places.tolist(), order.tolist(), strict=True))
        self._resent = self._draw_places(spec.duplicate_count)
        self._spoilt = self._draw_places(spec.bad_count)
        self._bad_lines = 0
        self._waiting: list[tuple[int, bytes]] = []
        self._late_ms = spec.end_ms - HOUR_MS if spec.hours > 1 else spec.end_ms

    def lines(self, batch: Batch) -> list[bytes]:
        """The lines that are received in a batch's time: events, duplicates, invalid lines."""
        timed = []
        for number, received, event in self._draw_events(batch):
            timed.append((received, encode(event)))
            for _ in range(self._spoilt.get(number, 0)):
                timed.append((received, bad_line(self._bad_lines, event)))
                self._bad_lines += 1
            for _ in range(self._resent.get(number, 0)):
                self._resend(received, event)
        due = [item for item in self._waiting if item[0] < batch.end_ms]
        self._waiting = [item for item in self._waiting if item[0] >= batch.end_ms]
        return [line for _, line in sorted(timed + due, key=itemgetter(0))]

    def _draw_places(self, count: int) -> Counter[int]:
        return Counter(self._rng.integers(0, self._spec.events, count).tolist())

    def _resend(self, received: int, event: Event) -> None:
        """Put a copy on the waiting list, which is received later but within the sample."""
        (longest,) = self._dice.choices(RESEND_MS, RESEND_WEIGHTS)
        again = min(received + self._dice.between(0, longest), self._spec.end_ms - 1)
        copy = {**event, "receivedAt": _iso(np.array([again]))[0]}
        self._waiting.append((again, encode(copy)))

    def _draw_events(self, batch: Batch) -> Iterator[tuple[int, int, Event]]:
        """Each event with its number and when it is received."""
        count, rng = batch.size, self._rng
        self._dice.now_ms = batch.start_ms
        bodies = _Bodies(self._dice, self._spec.messy)
        visits = self._draw_visits(count)
        received = np.sort(rng.integers(batch.start_ms, batch.end_ms, count))
        kind_at = rng.choice(len(self._kinds), count, p=self._shares).tolist()
        # Visits follow each other in time and overlap.
        spread = np.arange(count) * len(visits) / max(count, 1) + rng.normal(0, 8, count)
        visit_at = np.clip(spread, 0, len(visits) - 1).astype(int).tolist()
        # Squared, because the first pages, home and the categories, are seen most.
        ending_at = (rng.random(count) ** 2 * len(_ENDINGS)).astype(int).tolist()
        in_app = rng.random(count).tolist()
        ids = rng.bytes(22 * count).hex()
        times = _draw_times(rng, received)
        for at, (ms, stamps) in enumerate(zip(received.tolist(), times, strict=True)):
            number = batch.first + at
            kind = self._kinds[self._debuts.get(number, kind_at[at])]
            mobile = in_app[at] < kind.app_share
            visit = visits[visit_at[at]][mobile]
            known = visit.signed_in or kind.is_signed_in
            own = ids[44 * at : 44 * at + 44]
            ending = _ENDINGS[ending_at[at]][mobile]
            yield (
                number,
                ms,
                {
                    "anonymousId": visit.person.anonymous_id,
                    "userId": visit.person.user_id if known else None,
                    "channel": "client",
                    "context": msgspec.Raw(visit.context + ending),
                    "integrations": {"All": True, "Firebase": True} if mobile else {"All": True},
                    "projectId": "8kXvQ2m",
                    "messageId": f"{'' if mobile else f'ajs-next-{ms}-'}{format_uuid(own[:32])}",
                    **dict(zip(TIMES, stamps, strict=True)),
                    **bodies.draw(kind, visit.person, own[32:], ms >= self._late_ms),
                    "version": 2,
                },
            )

    def _draw_visits(self, count: int) -> list[tuple[Visit, Visit]]:
        """Pairs of a visit on the web and one in the app."""
        return [
            (self._draw_visit(mobile=False), self._draw_visit(mobile=True))
            for _ in range(1 + count // EVENTS_PER_VISIT // 2)
        ]

    def _draw_visit(self, mobile: bool) -> Visit:
        dice = self._dice
        people = min(max(self._spec.events // EVENTS_PER_PERSON, 200), 500_000)
        # Squared, because some people come far more often than others.
        person = make_person(self._spec.seed, int(dice.random() ** 2 * people))
        context = (app_context if mobile else web_context)(dice, person)
        return Visit(person, dice.chance(SIGNED_IN_SHARE), encode(context)[:-1])


class _Bodies:
    """Draws the fields of a batch that depend on an event's type."""

    def __init__(self, dice: Dice, messy: bool) -> None:
        self._dice, self._messy = dice, messy
        self._drawn: defaultdict[tuple[str, bool], list[tuple[Event, bytes]]] = defaultdict(list)
        self._uses: Counter[tuple[str, bool]] = Counter()

    def draw(self, kind: Kind, person: Person, own_id: str, late: bool) -> Event:
        """The fields, with an id of their own; all but personal events share the properties."""
        first, properties = self._draw_shared(kind, person, late)
        own = b'{"%b":"%b",%b' % (kind.family.id_key.encode(), own_id.encode(), properties)
        return {**first, "traits" if kind.is_personal else "properties": msgspec.Raw(own)}

    def _draw_shared(self, kind: Kind, person: Person, late: bool) -> tuple[Event, bytes]:
        rare = self._dice.chance(RARE_SHARE)
        if rare or kind.is_personal:
            return self._draw_new(kind, person, rare, late)
        key = (kind.name, late)
        uses, drawn = self._uses[key], self._drawn[key]
        self._uses[key] += 1
        if len(drawn) * EVENTS_PER_BODY <= uses:
            drawn.append(self._draw_new(kind, person, rare, late))
        return drawn[uses % len(drawn)]

    def _draw_new(self, kind: Kind, person: Person, rare: bool, late: bool) -> tuple[Event, bytes]:
        """The type and the call's own fields, and the JSON of the properties without a brace."""
        fields = kind.draw_fields(self._dice, person, rare, late)
        sent = make_messy(fields, self._dice) if self._messy else fields
        return {"type": kind.call, **kind.call_fields(fields, person)}, encode(sent)[1:]


_ENDINGS = [
    (b"," + encode(web)[1:], b"," + encode(app)[1:])
    for web, app in zip(WEB_ENDINGS, APP_ENDINGS, strict=True)
]


def _draw_times(rng: np.random.Generator, received: Millis) -> Iterator[tuple[str, ...]]:
    """The TIMES of each event, by a device's inexact clock."""
    count = len(received)
    sent = received - rng.integers(30, 900, count) + rng.normal(0, 800, count).astype(int)
    # A few devices were offline, and send what they kept hours later.
    offline = rng.random(count) < OFFLINE_SHARE
    lag = rng.exponential(700, count).astype(int)
    lag += np.where(offline, rng.integers(0, 72 * HOUR_MS, count), 0)
    return zip(*map(_iso, (sent - lag, received, sent, received - lag)), strict=True)


def _iso(ms: Millis) -> list[str]:
    texts: list[str] = np.datetime_as_string(ms.astype("datetime64[ms]"), timezone="UTC").tolist()
    return texts
