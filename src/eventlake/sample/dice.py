"""Random values of the kinds that events have."""

from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice(Random):
    """A random generator; `now_ms` is the instant that its moments are relative to."""

    now_ms = 0

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.random() < share

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included. Faster than `randint`."""
        return low + int(self.random() * (high - low + 1))

    def pick(self, options: Sequence[T]) -> T:
        """One of the options. Faster than `choice`."""
        return options[int(self.random() * len(options))]

    def favour(self, options: Sequence[T]) -> T:
        """One of the options, the first ones far more often than the last ones."""
        return options[int(self.random() ** 3 * len(options))]

    def money(self, low: int, high: int) -> float:
        """An amount with cents."""
        return self.between(low * 100, high * 100) / 100

    def code(self, prefix: str, digits: int = 6) -> str:
        """An identifier such as `SKU-004211`."""
        return f"{prefix}{self.between(0, 10**digits - 1):0{digits}d}"

    def moment(self, within_hours: int) -> str:
        """An ISO timestamp at most `within_hours` after `now_ms`, or before it if negative."""
        seconds = self.now_ms / 1000 + self.random() * within_hours * 3600
        at = datetime.fromtimestamp(seconds, UTC)
        return f"{at.isoformat(timespec='milliseconds')[:-6]}Z"
