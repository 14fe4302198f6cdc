"""A source as requests see it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from eventlake.collect.metrics import SourceCounts


class LineLog(Protocol):
    """Stores lines."""

    async def append(self, day: int, lines: list[bytes]) -> None:
        """Return when the lines are on disk; raises a `Refusal` if they cannot be stored.

        `day` is the archive's day folder, as `Arrival.day`.
        """


@dataclass(eq=False)
class Source:
    """Where the events of a source are stored, which are dropped, and how many there were."""

    name: str
    """The label of its metrics."""
    project: str
    """Its id."""
    events: LineLog
    rejects: LineLog
    get_gauges: Callable[[], dict[str, float]]
    suppressed: Collection[str] = frozenset()
    """Users whose events are dropped."""
    counts: SourceCounts = field(default_factory=SourceCounts)
