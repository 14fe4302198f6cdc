"""What all events of a sample share: its people, its event types, and what goes wrong where."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eventlake.sample.calls import Kind, kind_of
from eventlake.sample.names import ranked_types
from eventlake.sample.people import People
from eventlake.sample.spec import SampleSpec

Index = NDArray[np.int64]

ZIPF_EXPONENT = 1.05
EVENTS_PER_PERSON = 40


@dataclass(frozen=True)
class World:
    """Everything that is drawn once.

    `popularity` is cumulative over `kinds`. `debuts` are the events, in order, whose kind is fixed
    to that of `debut_kinds`; `resent` and `spoilt` are those followed by a duplicate or a bad line.
    """

    spec: SampleSpec
    people: People
    kinds: tuple[Kind, ...]
    popularity: NDArray[np.float64]
    debuts: Index
    debut_kinds: Index
    resent: Index
    spoilt: Index


def build_world(spec: SampleSpec) -> World:
    """The world of a sample, from its seed."""
    rng = np.random.default_rng(spec.seed)
    shares = np.cumsum(np.arange(1, spec.types + 1) ** -ZIPF_EXPONENT)
    return World(
        spec=spec,
        people=People(rng, min(max(spec.events // EVENTS_PER_PERSON, 200), 500_000)),
        kinds=tuple(kind_of(name) for name in ranked_types(spec.types)),
        popularity=shares / shares[-1],
        # Each type has one event for sure, spread over the sample, so that no table is left out.
        debuts=np.arange(spec.types) * spec.events // spec.types,
        debut_kinds=rng.permutation(spec.types),
        resent=np.sort(rng.integers(0, spec.events, spec.duplicate_count)),
        spoilt=np.sort(rng.integers(0, spec.events, spec.bad_count)),
    )


def within(positions: Index, first: int, count: int) -> slice:
    """Which of the sorted positions lie among the `count` events from `first` on."""
    low, high = np.searchsorted(positions, (first, first + count))
    return slice(int(low), int(high))
