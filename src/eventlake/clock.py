"""The clock: the only module that asks the system for the time, so that tests can simulate it.

Waiting for an event of another thread or of the event loop, with a timeout, needs no clock.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> datetime:
        """Return the present time in UTC."""

    def time_ns(self) -> int:
        """Return the present time as Unix nanoseconds."""

    def monotonic(self) -> float:
        """Return seconds since some moment, for durations: they never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait `seconds` before returning."""


class SystemClock:
    """The clock of this machine."""

    # Plain functions of the time module: the collector asks several times a request.
    time_ns = staticmethod(time.time_ns)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def now(self) -> datetime:
        return datetime.now(UTC)


SYSTEM_CLOCK = SystemClock()
"""The default where no clock is given: commands, services and settings."""
