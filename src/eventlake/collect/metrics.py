"""The collector's metrics in the Prometheus text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FSYNC_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds in seconds."""
PREFIX = "eventlake_collect"
GAUGES = ("archive_lag_seconds", "spool_bytes", "sealed_files")


@dataclass
class SourceCounts:
    """Counters of one source since the start of the process."""

    accepted: int = 0
    suppressed: int = 0
    bytes: int = 0
    troubles: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    fsync_seconds: float = 0.0
    fsyncs: list[int] = field(default_factory=lambda: [0] * (len(FSYNC_BUCKETS) + 1))

    def record_fsync(self, seconds: float) -> None:
        """Count an fsync in the histogram by its duration."""
        self.fsync_seconds += seconds
        self.fsyncs[bisect_left(FSYNC_BUCKETS, seconds)] += 1


@dataclass
class Metrics:
    """Counters of the whole collector since the start of the process."""

    troubles: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Requests of no known source, by reason."""
    responses: Counter[int] = field(default_factory=Counter)

    def render(self, sources: Mapping[str, tuple[SourceCounts, Mapping[str, float]]]) -> str:
        """Return the text of `/metrics` for Prometheus; `sources` are counts and gauges by name."""
        counts = {f'source="{name}"': counts for name, (counts, _) in sources.items()}
        gauges = {f'source="{name}"': gauges for name, (_, gauges) in sources.items()}
        lines = list[str]()
        for name in ("accepted", "suppressed", "bytes", "troubles"):
            own = {"": self.troubles} if name == "troubles" else {}
            samples = own | {label: getattr(one, name) for label, one in counts.items()}
            lines += _render_samples(f"{name}_total", "counter", samples)
        rejected = _label_reasons("", self.rejected)
        for label, one in counts.items():
            rejected |= _label_reasons(f"{label},", one.rejected)
        lines += _render_samples("rejected_total", "counter", rejected)
        statuses = {f'status="{status}"': n for status, n in sorted(self.responses.items())}
        lines += _render_samples("responses_total", "counter", statuses)
        lines.append(f"# TYPE {PREFIX}_fsync_seconds histogram")
        for label, one in counts.items():
            lines += _render_fsyncs(label, one)
        for name in GAUGES:
            values = {label: one[name] for label, one in gauges.items()}
            lines += _render_samples(name, "gauge", values)
        return "\n".join(lines) + "\n"


def _label_reasons(label: str, rejected: Counter[str]) -> dict[str, float]:
    """Return the counts by label text: `label`, "" or with a comma at its end, and the reason."""
    return {f'{label}reason="{reason}"': count for reason, count in sorted(rejected.items())}


def _render_fsyncs(label: str, counts: SourceCounts) -> Iterator[str]:
    """Yield the histogram lines of one source: cumulative buckets, sum and count."""
    name, cumulative = f"{PREFIX}_fsync_seconds", 0
    for bound, count in zip((*FSYNC_BUCKETS, "+Inf"), counts.fsyncs, strict=True):
        cumulative += count
        yield f'{name}_bucket{{{label},le="{bound}"}} {cumulative}'
    yield f"{name}_sum{{{label}}} {counts.fsync_seconds:.6f}"
    yield f"{name}_count{{{label}}} {cumulative}"


def _render_samples(name: str, kind: str, samples: Mapping[str, float]) -> Iterator[str]:
    """Yield a metric's TYPE line and a line for each sample, by label text, which may be "".

    `name` is without `PREFIX`, which is put before it.
    """
    yield f"# TYPE {PREFIX}_{name} {kind}"
    for labels, value in samples.items():
        yield f"{PREFIX}_{name}{f'{{{labels}}}' if labels else ''} {value}"
