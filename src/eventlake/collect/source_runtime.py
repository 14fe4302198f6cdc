"""The running parts of one source: spool, writers and sealer."""

import sys
import threading
from collections.abc import Container
from dataclasses import dataclass

from eventlake.clock import Clock
from eventlake.collect.keys import WriteKey
from eventlake.collect.metrics import SourceCounts
from eventlake.collect.seal import Sealer
from eventlake.collect.settings import CollectorSettings, ServedSource
from eventlake.collect.source import Source
from eventlake.collect.source_file import WatchedFile, load_access
from eventlake.collect.spool import EVENTS, REJECTED, Segment, Spool, SpoolDirectory
from eventlake.collect.suppression_watch import SuppressionWatch
from eventlake.collect.writer import Writer
from eventlake.suppression import SuppressionList, read_suppressed_users

WARNING_INTERVAL_SECONDS = 5.0
ARCHIVE_POLL_SECONDS = 0.05
LEARN_SECONDS = 60.0
"""Time in which a collector learns of a change of the suppression list, by whatever clock."""


@dataclass
class TroubleLog:
    """Counts fsyncs and failures, and prints a failure to stderr at most every five seconds."""

    source: str
    counts: SourceCounts
    clock: Clock
    _silent_until: float = 0.0

    def record_fsync(self, seconds: float) -> None:
        """Count an fsync in the source's histogram by its duration."""
        self.counts.record_fsync(seconds)

    def report_failure(self, message: str) -> None:
        """Count a failure; print it to stderr unless one was printed in the last five seconds."""
        self.counts.troubles += 1
        if self.clock.monotonic() >= self._silent_until:
            self._silent_until = self.clock.monotonic() + WARNING_INTERVAL_SECONDS
            sys.stderr.write(f"warning: source {self.source}: {message}; retrying\n")


class SourceRuntime:
    """A source that is being served, with nothing of another source.

    Creating it starts its threads and tasks, and archives the segments of earlier collectors.
    """

    def __init__(self, settings: CollectorSettings, served: ServedSource) -> None:
        self._clock, self._served = settings.clock, served
        name, counts = served.settings.source, SourceCounts()
        log = TroubleLog(name, counts, settings.clock)
        self._source_path = served.source_file(settings)
        self._directory = SpoolDirectory(served.spool_root(settings))
        # Of the sealer's thread; the collector watches the list too, and warns.
        self._watch = SuppressionWatch(settings.store, warns=False)
        self._sealer = Sealer(
            settings.store, self._archive_path, log.report_failure, self._find_forgotten
        )
        self._spools = {
            stream: Spool(
                self._directory.folder / stream, settings.limits, self._sealer.add, settings.clock
            )
            for stream in (EVENTS, REJECTED)
        }
        for stream in self._spools:
            for segment in self._directory.recover_segments(stream):
                self._sealer.add(segment)
        self._writers = {
            stream: Writer(spool, lambda: self._sealer.backlog_bytes, log)
            for stream, spool in self._spools.items()
        }
        self._source_file = WatchedFile(self._source_path)
        self._suppress_files = [WatchedFile(path) for path in served.suppress]
        self._suppressing = threading.Lock()  # the list and the files are watched by two threads
        self._listed, self._suppressed_by_files = SuppressionList(), frozenset[str]()
        self.source = Source(
            name=name,
            project=served.settings.source_id,
            events=self._writers[EVENTS],
            rejects=self._writers[REJECTED],
            get_gauges=self.get_gauges,
            counts=counts,
        )
        self.access = load_access(self._source_path, served.write_keys)
        self.load_changed_files()

    def list_keys(self) -> list[WriteKey]:
        """Return the source's write keys, as the app looks them up, also if it is disabled."""
        enabled = self.access.enabled
        return [WriteKey(key, self.source, enabled) for key in self.access.write_keys]

    def load_changed_files(self) -> None:
        """Load files that have changed: user ids into `source.suppressed`, keys into `access`.

        Raises `InvalidSettings` or OSError for one that cannot be used; it counts as unchanged from
        then on.
        """
        if any(file.has_changed() for file in self._suppress_files):
            users = map(read_suppressed_users, self._served.suppress)
            self.suppress(by_files=frozenset().union(*users))
        if self._source_file.has_changed():
            self.access = load_access(self._source_path, self._served.write_keys)

    def suppress(
        self, listed: SuppressionList | None = None, by_files: frozenset[str] | None = None
    ) -> None:
        """Drop the events of the users on the lake's list and in the source's own files.

        What is None stays as it was.
        """
        with self._suppressing:
            if listed and listed.hashes != self._listed.hashes:
                self.archive_soon()  # forgotten users leave the spool now
            self._listed = self._listed if listed is None else listed
            if by_files is not None:
                self._suppressed_by_files = by_files
            self.source.suppressed = self._listed.matcher(self._suppressed_by_files)

    def archive(self, seconds: float) -> None:
        """Wait until all events that were acknowledged before are archived, at most `seconds`.

        Any thread but the event loop's may call this.
        """
        now = self._clock.time_ns() / 1e9
        until = self._clock.monotonic() + seconds
        self.archive_soon()
        while (oldest := self._oldest_event_time()) is not None and oldest <= now:
            if self._clock.monotonic() >= until:
                return
            self._clock.sleep(ARCHIVE_POLL_SECONDS)

    def archive_soon(self) -> None:
        """Have the events that were acknowledged before archived in the next moments."""
        for writer in self._writers.values():
            writer.rotate_soon()

    async def close_writers(self) -> None:
        """Write pending lines and complete the segments; later requests get 503."""
        for writer in self._writers.values():
            await writer.close()

    def close(self, seconds: float) -> None:
        """Wait up to `seconds` for the store to accept all segments, and stop.

        Prints a warning if some stay in the spool. Unlocks the spool, if no segment is in use any
        more.
        """
        if not self._sealer.close(seconds):
            sys.stderr.write(
                f"warning: some events of {self.source.name} are still in the spool; the next "
                "start archives them\n"
            )
        if self._sealer.has_stopped:  # else it still reads the folder, which must stay locked
            self._directory.close()

    def get_gauges(self) -> dict[str, float]:
        """Return lag in seconds, spool bytes and sealed files, by the names of `metrics.GAUGES`.

        Lag and bytes include the open segments; the lag is 0 if no event waits.
        """
        oldest = self._oldest_event_time()
        age = 0.0 if oldest is None else self._clock.time_ns() / 1e9 - oldest
        return {
            "archive_lag_seconds": round(max(0.0, age), 3),
            "spool_bytes": sum((s.size for s in self._spools.values()), self._sealer.backlog_bytes),
            "sealed_files": self._sealer.sealed_files,
        }

    def _oldest_event_time(self) -> float | None:
        """Unix seconds of the oldest event that is not archived; None if all are."""
        # The spools first: a segment that leaves one is in the queue before.
        times = [spool.start_time for spool in self._spools.values()]
        times.append(self._sealer.oldest_event_time)
        return min((moment for moment in times if moment is not None), default=None)

    def _archive_path(self, segment: Segment) -> str:
        """Return a segment's path in the lake: `<archive>/<day>/<name>.gz` for events.

        Rejected lines get a hidden folder and a name with `_` first, which loads ignore.
        """
        archive = self._served.archive
        if segment.stream == EVENTS:
            return f"{archive}/{segment.day}/{segment.name}.gz"
        return f"{archive}/.rejected/{segment.day}/_{segment.name}.gz"

    def _find_forgotten(self, segment: Segment) -> Container[str] | None:
        """Return the forgotten users that a segment may have lines of, by the lake's list of now.

        None if the list has not changed since shortly before the segment was begun: events of users
        who were forgotten earlier are not accepted.
        """
        self._watch.poll()
        listed, changed = self._watch.current, self._watch.changed
        if not listed.hashes or changed is None:
            return None
        is_older = segment.start_time > changed.timestamp() + LEARN_SECONDS
        return None if is_older else listed.match_hashed(listed.hashes)
