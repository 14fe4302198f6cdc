"""The server's metrics for Prometheus: those of the database, and those of this process."""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from threading import Lock
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from eventlake.clock import Clock
from eventlake.control.database import Database
from eventlake.control.freshness import Freshness
from eventlake.control.scheduler import Tick
from eventlake.control.totals import Totals, read_totals
from eventlake.errors import EventLakeError

PREFIX = "eventlake"
CACHE_SECONDS = 5.0
"""How old the sums of the database may be: anybody may ask for metrics."""
LATENESS_BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


class ServerMetrics:
    """Counts what this process does; `render` adds what the database has."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._registry = registry = CollectorRegistry()
        self.is_leader: Callable[[], bool] = lambda: False
        """Whether this server schedules."""
        name = PREFIX
        self._deliveries = Counter(
            f"{name}_deliveries", "Tries to send a notice", ["kind", "result"], registry=registry
        )
        self._slots = Counter(
            f"{name}_slots", "Slots that this server claimed", ["result"], registry=registry
        )
        self._lateness = Histogram(
            f"{name}_schedule_lateness_seconds",
            "Time between a slot and its claim",
            buckets=LATENESS_BUCKETS,
            registry=registry,
        )
        self._requests = Histogram(
            f"{name}_http_request_duration_seconds",
            "Time to the end of the reply",
            ["route", "status"],
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        leader = Gauge(f"{name}_leader", "Whether this server schedules", registry=registry)
        leader.set_function(self._count_leader)
        build = Gauge(f"{name}_build_info", "The version", ["version"], registry=registry)
        build.labels(version("eventlake")).set(1)
        registry.register(_Totals(database, clock))

    def _count_leader(self) -> float:
        return float(self.is_leader())

    def count_try(self, kind: str, is_delivered: bool) -> None:
        """Count a try to send a notice."""
        self._deliveries.labels(kind, "delivered" if is_delivered else "failed").inc()

    def count_tick(self, tick: Tick) -> None:
        """Count what a tick of the scheduler did."""
        self._slots.labels("queued").inc(tick.queued)
        self._slots.labels("skipped").inc(tick.skipped)
        for seconds in tick.lateness:
            self._lateness.observe(seconds)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the pattern of its path."""
        self._requests.labels(route, str(status)).observe(seconds)

    def render(self) -> str:
        """The text for Prometheus."""
        return generate_latest(self._registry).decode()


class _Totals:
    """The sums of the database as metrics."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock, self._lock = database, clock, Lock()
        self._cached: tuple[float, Totals] | None = None

    def describe(self) -> list[Metric]:
        """Keep the registry from asking the database when it is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        try:
            totals = self._read()
        except EventLakeError:
            yield _gauge("database_up", "Whether the database answers", [], {(): 0})
            return
        yield _gauge("database_up", "Whether the database answers", [], {(): 1})
        yield from _collect_runs(totals)
        yield from _collect_sources(totals)
        queued = {(lane,): count for lane, count in totals.queued.items()}
        yield _gauge("queue_runs", "Runs in the queue", ["lane"], {("sync",): 0, **queued})
        waiting = {(): totals.waiting}
        yield _gauge("deliveries_waiting", "Notices that have not arrived", [], waiting)

    def _read(self) -> Totals:
        with self._lock:
            now = self._clock.monotonic()
            if self._cached is None or now - self._cached[0] >= CACHE_SECONDS:
                with self._database.read() as session:
                    self._cached = (now, read_totals(session))
            return self._cached[1]


def _collect_runs(totals: Totals) -> Iterator[Metric]:
    count = CounterMetricFamily(
        f"{PREFIX}_runs", "Runs that ended", labels=["source", "kind", "status"]
    )
    sums: dict[tuple[str, str], tuple[int, float]] = {}
    for one in totals.runs:
        count.add_metric([one.source, one.kind, one.state], one.runs)
        runs, seconds = sums.get((one.source, one.kind), (0, 0.0))
        sums[one.source, one.kind] = (runs + one.runs, seconds + one.seconds)
    yield count
    duration = SummaryMetricFamily(
        f"{PREFIX}_run_duration_seconds", "Time that runs took", labels=["source", "kind"]
    )
    for key, (runs, seconds) in sums.items():
        duration.add_metric(list(key), runs, seconds)
    yield duration


def _collect_sources(totals: Totals) -> Iterator[Metric]:
    rows = CounterMetricFamily(
        f"{PREFIX}_rows", "Lines of syncs by what became of them", labels=["source", "outcome"]
    )
    for one in totals.sources:
        for outcome, number in one.outcomes.items():
            rows.add_metric([one.source, outcome], number)
    yield rows
    known = totals.sources
    successes = {(one.source,): one.last_success.timestamp() for one in known if one.last_success}
    name = "last_success_timestamp_seconds"
    yield _gauge(name, "End of the last sync that succeeded", ["source"], successes)
    newest = {(one.source,): one.newest.timestamp() for one in known if one.newest}
    yield _gauge("newest_row_timestamp_seconds", "Receipt of the newest row", ["source"], newest)
    failures = {(one.source,): one.failures for one in known}
    yield _gauge("failures_in_a_row", "Syncs that failed in a row", ["source"], failures)
    states = {
        (one.source, state.value): int(state is one.state)
        for one in known
        if one.state
        for state in Freshness
    }
    yield _gauge("freshness", "1 for the state of the source", ["source", "state"], states)


def _gauge(
    name: str, help_: str, labels: list[str], values: Mapping[Any, float]
) -> GaugeMetricFamily:
    """A gauge; `values` are by the tuple of its labels."""
    metric = GaugeMetricFamily(f"{PREFIX}_{name}", help_, labels=labels)
    for key, value in values.items():
        metric.add_metric(list(key), value)
    return metric
