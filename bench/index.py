"""A lake that has landed much before: an id index of any size, without the events."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from eventlake.kernels.dedupe import DAY_MICROS, Ids
from eventlake.lakes import open_store
from eventlake.ledger import Ledger, State
from eventlake.model.commit import Commit, Counts, IdFile
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.pipeline.id_files import write_ids
from eventlake.stores import Store

PER_FILE = 1_000_000
DAYS = 6
"""How far back the ids go: less than the window of 7 days, so that a load must heed them all."""


def grow(lake: Path, source: str, ids: int) -> None:
    """Add a commit to a source's ledger that says that `ids` more events landed in the days before.

    The ids are random, so no event is a duplicate of one; a load cannot know and has to look.
    """
    store = open_store(lake, make=False)
    ledger = Ledger(store, DEFAULT_LAYOUT, source)
    state = ledger.read_state()
    if state.settings is None:
        raise ValueError(f"source is {source!r}; it must have been loaded into the lake before")
    run_id = str(time.time_ns())
    commit = Commit(
        run_id=run_id,
        settings=state.settings,
        inputs=(),
        counts=Counts(),
        ids=tuple(_write(store, source, run_id, _days_before(state), ids)),
    )
    if not ledger.append(state.sequence + 1, commit):
        raise RuntimeError(f"another run of {source} committed meanwhile")


def _days_before(state: State) -> tuple[int, int]:
    """The days up to the first event that landed, in microseconds since 1970."""
    end = min(file.first for file in state.ids)
    return end - DAYS * DAY_MICROS, end


def _write(
    store: Store, folder: str, run_id: str, span: tuple[int, int], ids: int
) -> Iterator[IdFile]:
    rng = np.random.default_rng(0)
    edges = np.linspace(*span, -(-ids // PER_FILE) + 1).astype(np.int64)
    for number, (begin, end) in enumerate(pairwise(edges)):
        file = _random_ids(rng, min(PER_FILE, ids - number * PER_FILE), int(begin), int(end))
        path = DEFAULT_LAYOUT.ids_path(folder, run_id, number)
        write_ids(store, path, file)
        first, last = int(file.received.min()), int(file.received.max())
        yield IdFile(path=path, rows=len(file.high), first=first, last=last)


def _random_ids(rng: np.random.Generator, count: int, begin: int, end: int) -> Ids:
    bounds = np.iinfo(np.int64)
    high, low = rng.integers(bounds.min, bounds.max, (2, count), endpoint=True)
    return Ids(high, low, rng.integers(begin, end, count))
