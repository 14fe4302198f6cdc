"""Events as lines of JSON, assembled by the thousand from pieces that were rendered before.

A line is seven pieces: who, the visit's context, its end with the page, the stamp, the type's head,
an id, the type's body. Nothing is encoded event by event; numpy says which piece goes where.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eventlake.sample.calls import Kind, Moment
from eventlake.sample.dice import Dice
from eventlake.sample.people import APP_CLOSINGS, WEB_CLOSINGS, People, Visit, draw_visit
from eventlake.sample.plan import Chunk
from eventlake.sample.stamps import MOBILE_SKIP, TEMPLATE, Millis, draw_times, render_stamps
from eventlake.sample.world import Index, World, within

PIECES = 7
STAMP = 3
ID_DIGITS = 12
EVENTS_PER_VISIT = 12
# A body serves so many events of a chunk, each under an id of its own: most of a sample's speed.
EVENTS_PER_BODY = 4
RARE_SHARE = 1 / 5000
SIGNED_IN_SHARE = 0.55


@dataclass(frozen=True)
class Draft:
    """A chunk's events in order of receipt, before anything extra stands between them."""

    received: Millis
    pieces: list[bytes]

    def line(self, at: int) -> list[bytes]:
        """The pieces of one line."""
        return self.pieces[at * PIECES : (at + 1) * PIECES]


@dataclass(frozen=True)
class Scene:
    """What happens in a chunk: for each event its kind, its platform and its visit."""

    kinds: tuple[Kind, ...]
    visits: list[Visit]
    kind_at: Index
    mobile: NDArray[np.bool_]
    visit_at: Index

    def kind(self, at: int) -> Kind:
        """The kind of the event at this place."""
        return self.kinds[int(self.kind_at[at])]

    def body(self, at: int, dice: Dice, rare: bool, late: bool) -> bytes:
        """A new body for the event at this place."""
        person = self.visits[int(self.visit_at[at])].person
        return self.kind(at).body(Moment(dice, person, rare, late))


def draft_chunk(world: World, chunk: Chunk, rng: np.random.Generator) -> Draft:
    """The chunk's events, drawn from its own generator."""
    dice = Dice(rng.spawn(1)[0], chunk.start_ms)
    received = np.sort(rng.integers(chunk.start_ms, chunk.end_ms, chunk.count))
    scene = _draw_scene(world, chunk, dice, rng)
    pieces = [b""] * (chunk.count * PIECES)
    pieces[0::PIECES] = _who(scene, rng)
    pieces[1::PIECES] = [scene.visits[at].context for at in scene.visit_at.tolist()]
    pieces[2::PIECES] = _closings(scene, rng)
    pieces[STAMP::PIECES] = _stamps(received, scene, rng)
    pieces[4::PIECES] = [scene.kinds[at].head for at in scene.kind_at.tolist()]
    pieces[5::PIECES] = _ids(chunk.count, rng)
    pieces[6::PIECES] = _bodies(scene, chunk.late, dice, rng)
    return Draft(received, pieces)


def _draw_scene(world: World, chunk: Chunk, dice: Dice, rng: np.random.Generator) -> Scene:
    kind_at = _draw_kinds(world, chunk, rng)
    mobile = _draw_platforms(world.kinds, kind_at, rng)
    visits = list(_draw_visits(world.people, dice, chunk.count))
    return Scene(world.kinds, visits, kind_at, mobile, _spread(len(visits) // 2, mobile, rng))


def _draw_kinds(world: World, chunk: Chunk, rng: np.random.Generator) -> Index:
    kind_at = np.searchsorted(world.popularity, rng.random(chunk.count), side="right")
    debuts = within(world.debuts, chunk.first, chunk.count)
    kind_at[world.debuts[debuts] - chunk.first] = world.debut_kinds[debuts]
    return kind_at


def _draw_platforms(
    kinds: tuple[Kind, ...], kind_at: Index, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """True where the app sent the event, false where the website did."""
    shares = np.array([kind.app_share for kind in kinds])
    mobile: NDArray[np.bool_] = rng.random(len(kind_at)) < shares[kind_at]
    return mobile


def _draw_visits(people: People, dice: Dice, count: int) -> Iterator[Visit]:
    """Visits by turns on the web and in the app; some people come far more often than others."""
    for _ in range(1 + count // EVENTS_PER_VISIT // 2):
        for mobile in (False, True):
            person = people.person(int(dice.unit() ** 2 * people.count))
            yield draw_visit(dice, person, mobile)


def _spread(pairs: int, mobile: NDArray[np.bool_], rng: np.random.Generator) -> Index:
    """The visit of each event: visits follow each other in time, and overlap."""
    count = len(mobile)
    centre = np.arange(count) * pairs / max(count, 1) + rng.normal(0, 8, count)
    return np.clip(centre, 0, pairs - 1).astype(np.int64) * 2 + mobile


def _who(scene: Scene, rng: np.random.Generator) -> list[bytes]:
    """The ids of each event's sender: their user id too if they are signed in."""
    signed_in = rng.random(len(scene.visits)) < SIGNED_IN_SHARE
    always = np.array([kind.known for kind in scene.kinds])
    known = signed_in[scene.visit_at] | always[scene.kind_at]
    names = [name for visit in scene.visits for name in (visit.anonymous, visit.known)]
    return [names[at] for at in (scene.visit_at * 2 + known).tolist()]


def _closings(scene: Scene, rng: np.random.Generator) -> list[bytes]:
    options = (*WEB_CLOSINGS, *APP_CLOSINGS)
    # Squared: the first pages, home and the categories, are seen most.
    page = (rng.random(len(scene.mobile)) ** 2 * len(WEB_CLOSINGS)).astype(np.int64)
    return [options[at] for at in (page + scene.mobile * len(WEB_CLOSINGS)).tolist()]


def _stamps(received: Millis, scene: Scene, rng: np.random.Generator) -> list[bytes]:
    stamps = render_stamps(rng, draw_times(rng, received))
    width = len(TEMPLATE)
    begins = np.arange(len(received)) * width
    ends = begins + width
    begins += scene.mobile * MOBILE_SKIP
    return [stamps[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]


def _ids(count: int, rng: np.random.Generator) -> list[bytes]:
    digits = rng.bytes(count * ID_DIGITS // 2).hex().encode()
    return [digits[at : at + ID_DIGITS] for at in range(0, len(digits), ID_DIGITS)]


def _bodies(scene: Scene, late: bool, dice: Dice, rng: np.random.Generator) -> list[bytes]:
    bodies = [b""] * len(scene.kind_at)
    for places in _by_kind(scene.kind_at):
        personal = scene.kind(places[0]).personal
        fresh = len(places) if personal else -(-len(places) // EVENTS_PER_BODY)
        drawn = [scene.body(at, dice, False, late) for at in places[:fresh]]
        for turn, at in enumerate(places):
            bodies[at] = drawn[turn % fresh]
    for at in np.flatnonzero(rng.random(len(bodies)) < RARE_SHARE).tolist():
        bodies[at] = scene.body(at, dice, True, late)
    return bodies


def _by_kind(kind_at: Index) -> Iterator[list[int]]:
    """The places of each kind that occurs."""
    order = np.argsort(kind_at, kind="stable")
    bounds = np.flatnonzero(np.diff(kind_at[order])) + 1
    for places in np.split(order, bounds):
        if len(places):
            yield places.tolist()
