"""What the collector counts, in Prometheus' text form."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
PREFIX = "eventlake_collect"


@dataclass
class Metrics:
    """Counts since the start."""

    accepted: int = 0
    suppressed: int = 0
    bytes: int = 0
    troubles: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    responses: Counter[int] = field(default_factory=Counter)
    fsync_seconds: float = 0.0
    fsyncs: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def synced(self, seconds: float) -> None:
        self.fsync_seconds += seconds
        self.fsyncs[bisect_left(BUCKETS, seconds)] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything, one sample a line; gauges are what is true just now."""
        return "\n".join([*self._counters(), *self._fsync(), *_gauges(gauges)]) + "\n"

    def _counters(self) -> Iterator[str]:
        names = ("accepted", "suppressed", "bytes", "troubles")
        plain: dict[str, int] = {name: getattr(self, name) for name in names}
        for name, count in plain.items():
            yield from _family(f"{name}_total", "counter", {"": count})
        reasons = {f'{{reason="{reason}"}}': n for reason, n in sorted(self.rejected.items())}
        yield from _family("rejected_total", "counter", reasons)
        statuses = {f'{{status="{status}"}}': n for status, n in sorted(self.responses.items())}
        yield from _family("responses_total", "counter", statuses)

    def _fsync(self) -> Iterator[str]:
        name, below = f"{PREFIX}_fsync_seconds", 0
        yield f"# TYPE {name} histogram"
        for bound, count in zip((*BUCKETS, "+Inf"), self.fsyncs, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound}"}} {below}'
        yield f"{name}_sum {self.fsync_seconds:.6f}"
        yield f"{name}_count {below}"


def _family(name: str, kind: str, samples: Mapping[str, float]) -> Iterator[str]:
    yield f"# TYPE {PREFIX}_{name} {kind}"
    for labels, value in samples.items():
        yield f"{PREFIX}_{name}{labels} {value}"


def _gauges(gauges: Mapping[str, float]) -> Iterator[str]:
    for name, value in gauges.items():
        yield from _family(name, "gauge", {"": value})
