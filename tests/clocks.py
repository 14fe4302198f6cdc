"""A clock that tests set."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class SimulatedClock:
    """Stands still until a test advances it; sleeping advances it too."""

    moment: datetime

    def advance(self, span: timedelta) -> None:
        self.moment += span

    def now(self) -> datetime:
        return self.moment

    def time_ns(self) -> int:
        return (self.moment - EPOCH) // timedelta(microseconds=1) * 1000

    def monotonic(self) -> float:
        return self.time_ns() / 1e9

    def sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))
