"""The collector's metrics in the Prometheus text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FSYNC_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds in seconds."""
PREFIX = "eventlake_collect"


@dataclass
class Metrics:
    """Counters since the start of the process."""

    accepted: int = 0
    suppressed: int = 0
    bytes: int = 0
    troubles: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    responses: Counter[int] = field(default_factory=Counter)
    fsync_seconds: float = 0.0
    fsyncs: list[int] = field(default_factory=lambda: [0] * (len(FSYNC_BUCKETS) + 1))

    def record_fsync(self, seconds: float) -> None:
        self.fsync_seconds += seconds
        self.fsyncs[bisect_left(FSYNC_BUCKETS, seconds)] += 1

    def render(self, gauges: Mapping[str, float]) -> str:
        """Return all counters and the given gauges as the text of `/metrics`."""
        lines = [*self._counter_lines(), *self._fsync_lines()]
        for name, value in gauges.items():
            lines += _sample_lines(name, "gauge", {"": value})
        return "\n".join(lines) + "\n"

    def _counter_lines(self) -> Iterator[str]:
        for name in ("accepted", "suppressed", "bytes", "troubles"):
            yield from _sample_lines(f"{name}_total", "counter", {"": getattr(self, name)})
        reasons = {f'{{reason="{reason}"}}': n for reason, n in sorted(self.rejected.items())}
        yield from _sample_lines("rejected_total", "counter", reasons)
        statuses = {f'{{status="{status}"}}': n for status, n in sorted(self.responses.items())}
        yield from _sample_lines("responses_total", "counter", statuses)

    def _fsync_lines(self) -> Iterator[str]:
        name, cumulative = f"{PREFIX}_fsync_seconds", 0
        yield f"# TYPE {name} histogram"
        for bound, count in zip((*FSYNC_BUCKETS, "+Inf"), self.fsyncs, strict=True):
            cumulative += count
            yield f'{name}_bucket{{le="{bound}"}} {cumulative}'
        yield f"{name}_sum {self.fsync_seconds:.6f}"
        yield f"{name}_count {cumulative}"


def _sample_lines(name: str, kind: str, samples: Mapping[str, float]) -> Iterator[str]:
    yield f"# TYPE {PREFIX}_{name} {kind}"
    for labels, value in samples.items():
        yield f"{PREFIX}_{name}{labels} {value}"
