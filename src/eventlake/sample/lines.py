"""A chunk's lines as they stand in a file: the events, and between them what goes wrong."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from eventlake.sample.bad import bad_line
from eventlake.sample.draft import PIECES, STAMP, Draft, draft_chunk
from eventlake.sample.plan import Chunk
from eventlake.sample.stamps import Millis, received_again
from eventlake.sample.world import World, within

# Lines joined at a time: about a megabyte, which stays in the processor's cache on its way to gzip.
LINES_PER_BLOCK = 1000


@dataclass(frozen=True)
class Resend:
    """A line that arrives once more, and when."""

    received_ms: int
    line: bytes


@dataclass(frozen=True)
class Extra:
    """A line to put behind the event at this place of a chunk; -1 is before them all."""

    place: int
    line: bytes


def chunk_blocks(world: World, chunk: Chunk, waiting: list[Resend]) -> Iterator[bytes]:
    """The chunk's lines, some at a time, with those waiting that are due; later ones are left."""
    # Never 0: numpy takes [seed, 0] for [seed], from which the world itself is drawn.
    rng = np.random.default_rng([world.spec.seed, chunk.number + 1])
    draft = draft_chunk(world, chunk, rng)
    waiting.extend(_resends(world, chunk, draft, rng))
    extras = [*_due(waiting, chunk, draft), *_bad(world, chunk, draft)]
    waiting[:] = [resend for resend in waiting if resend.received_ms >= chunk.end_ms]
    yield _insert(draft, extras)
    size = LINES_PER_BLOCK * PIECES
    for at in range(0, len(draft.pieces), size):
        yield b"".join(draft.pieces[at : at + size])


def _resends(
    world: World, chunk: Chunk, draft: Draft, rng: np.random.Generator
) -> Iterator[Resend]:
    """Second copies of the chunk's events that the world wants re-sent, none after its end."""
    chosen = world.resent[within(world.resent, chunk.first, chunk.count)] - chunk.first
    again = draft.received[chosen] + _delays(rng, len(chosen))
    for at, ms in zip(chosen.tolist(), again.tolist(), strict=True):
        received_ms = min(ms, world.spec.end_ms - 1)
        yield Resend(received_ms, _resent_line(draft.line(at), received_ms))


def _delays(rng: np.random.Generator, count: int) -> Millis:
    """Milliseconds until a retry: seconds as a rule, sometimes minutes, seldom hours."""
    longest = rng.choice((60_000, 1_800_000, 6 * 3_600_000), size=count, p=(0.7, 0.25, 0.05))
    delays: Millis = (rng.random(count) * longest).astype(np.int64)
    return delays


def _resent_line(pieces: list[bytes], received_ms: int) -> bytes:
    stamp = received_again(pieces[STAMP], received_ms)
    return b"".join((*pieces[:STAMP], stamp, *pieces[STAMP + 1 :]))


def _due(waiting: Iterable[Resend], chunk: Chunk, draft: Draft) -> Iterator[Extra]:
    """What arrives before the chunk ends, each behind the event received last before it."""
    due = [resend for resend in waiting if resend.received_ms < chunk.end_ms]
    due.sort(key=lambda resend: resend.received_ms)
    times = np.array([resend.received_ms for resend in due], np.int64)
    places = np.searchsorted(draft.received, times, side="right") - 1
    return map(Extra, places.tolist(), (resend.line for resend in due))


def _bad(world: World, chunk: Chunk, draft: Draft) -> Iterator[Extra]:
    """Lines that are no events, each behind the event that it was made of."""
    chosen = within(world.spoilt, chunk.first, chunk.count)
    for number in range(chosen.start, chosen.stop):
        place = int(world.spoilt[number]) - chunk.first
        yield Extra(place, bad_line(number, b"".join(draft.line(place))))


def _insert(draft: Draft, extras: Iterable[Extra]) -> bytes:
    """Append each extra to the last piece of the line before it; returns those before the first."""
    behind: defaultdict[int, list[bytes]] = defaultdict(list)
    for extra in extras:
        behind[extra.place].append(extra.line)
    first = b"".join(behind.pop(-1, ()))
    for place, lines in behind.items():
        draft.pieces[place * PIECES + PIECES - 1] += b"".join(lines)
    return first
