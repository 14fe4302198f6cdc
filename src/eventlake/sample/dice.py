"""Random values one at a time, from numbers that numpy drew in bulk."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Dice:
    """Draws for one stretch of events; `now_ms` is the instant that moments lie around."""

    def __init__(self, rng: np.random.Generator, now_ms: int) -> None:
        self._units = _units(rng)
        self._now_ms = now_ms

    def unit(self) -> float:
        """A number from 0 up to but without 1."""
        return next(self._units)

    def below(self, limit: int) -> int:
        """A whole number from 0 up to but without `limit`."""
        return int(next(self._units) * limit)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(next(self._units) * (high - low + 1))

    def chance(self, share: float) -> bool:
        """True in this share of the throws."""
        return next(self._units) < share

    def pick(self, options: Sequence[T]) -> T:
        """Any of the options."""
        return options[int(next(self._units) * len(options))]

    def favourite(self, options: Sequence[T]) -> T:
        """One of the options, the early ones far more often than the late ones."""
        return options[int(next(self._units) ** 3 * len(options))]

    def money(self, low: int, high: int) -> float:
        """An amount with cents, written exactly: whole cents over 100 print as two digits."""
        return self.between(low * 100, high * 100) / 100

    def code(self, prefix: str, digits: int = 6) -> str:
        """An identifier such as `SKU-004211`."""
        return f"{prefix}{self.below(10**digits):0{digits}d}"

    def moment(self, within_hours: int) -> str:
        """An ISO timestamp at most so many hours ahead (behind, if negative)."""
        ms = self._now_ms + int(next(self._units) * within_hours * 3_600_000)
        at = datetime.fromtimestamp(ms // 1000, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def _units(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(4096).tolist()
