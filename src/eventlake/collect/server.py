"""A collector from start to end: recover the spool, listen, drain, seal."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time

import uvloop

from eventlake.collect.app import App
from eventlake.collect.connection import Connection
from eventlake.collect.keys import Gate
from eventlake.collect.limits import DEFAULTS, Limits, max_connections
from eventlake.collect.metrics import Metrics
from eventlake.collect.pool import Pool
from eventlake.collect.proxies import LOOPBACK, PROXIES_VARIABLE, TrustedProxies
from eventlake.collect.seal import Sealer
from eventlake.collect.source import WatchedFile, load_gate
from eventlake.collect.spool import Segment, Spool, SpoolDirectory, make_durable_folder
from eventlake.collect.writer import Writer
from eventlake.errors import InvalidSettings
from eventlake.model.layout import archive_path
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel
from eventlake.stores import Store
from eventlake.suppression import read_suppressed_users

EVENTS, REJECTED = "events", "rejected"
SOURCE_FILE = "source.json"
LISTEN_BACKLOG = 2048
RELOAD_SECONDS = 1.0
WARNING_INTERVAL_SECONDS = 5.0


@dataclass(frozen=True)
class CollectorSettings:
    """The settings of a collector."""

    store: Store
    source: SourceSettings
    host: str = "127.0.0.1"
    port: int = 8400
    write_key: str | None = field(default=None, repr=False)
    suppress: Path | None = None
    """The file of suppressed user ids."""
    spool: Path | None = None
    """The spool's folder; by default it is in the lake."""
    limits: Limits = DEFAULTS

    @property
    def archive(self) -> str:
        return archive_path(self.source.folder)

    @property
    def spool_root(self) -> Path:
        folder = Path(self.spool) / self.source.folder if self.spool else None
        return folder or Path(self.store.root) / self.archive / ".spool"


class Endpoint(FrozenModel):
    """The URL and the write key to send events with."""

    url: str
    write_key: str


def serve(settings: CollectorSettings, on_ready: Callable[[Endpoint], None]) -> None:
    """Collect events until SIGTERM or SIGINT; call `on_ready` once when listening.

    At the end, acknowledged events are in the archive, or in the spool for the next start. Raises
    `InvalidSettings` for a spool or an address that cannot be used.
    """
    _check_spool(settings.spool_root)
    listener = _open_listener(settings.host, settings.port)
    uvloop.run(_serve(settings, listener, on_ready))


def _check_spool(root: Path) -> None:
    try:
        make_durable_folder(root)
    except PermissionError:
        raise
    except OSError as problem:
        raise InvalidSettings(
            f"{root} cannot be the spool: {problem.strerror}; name a local folder with --spool"
        ) from problem


def _open_listener(host: str, port: int) -> socket.socket:
    if not host:  # the system would listen on every address
        raise InvalidSettings("--host is empty: name an address, such as 127.0.0.1 or 0.0.0.0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as problem:
        raise InvalidSettings(f"cannot listen on {host}:{port}: {problem.strerror}") from problem
    except UnicodeError as problem:
        raise InvalidSettings(f"cannot listen on {host!r}: invalid address") from problem


async def _serve(
    settings: CollectorSettings, listener: socket.socket, on_ready: Callable[[Endpoint], None]
) -> None:
    runtime = CollectorRuntime(settings, TroubleLog(Metrics()))
    pool, stop = Pool(settings.limits, max_connections()), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    endless = (runtime.watch_files(), pool.enforce_deadlines())
    tasks = [asyncio.create_task(coroutine) for coroutine in endless]
    server = await loop.create_server(
        lambda: Connection(runtime.app, pool), sock=listener, backlog=LISTEN_BACKLOG
    )
    gc.freeze()  # objects of the start-up live for ever: do not scan them while clients wait
    on_ready(Endpoint(url=_listener_url(listener), write_key=runtime.app.gate.write_key))
    await stop.wait()
    server.close()
    await pool.drain(settings.limits.drain_seconds)
    for task in tasks:
        task.cancel()
    await runtime.close()


def _listener_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass
class TroubleLog:
    """Counts fsyncs and failures, and prints a failure to stderr at most every five seconds."""

    metrics: Metrics
    _silent_until: float = 0.0

    def record_fsync(self, seconds: float) -> None:
        self.metrics.record_fsync(seconds)

    def report_failure(self, message: str) -> None:
        self.metrics.troubles += 1
        if monotonic() >= self._silent_until:
            self._silent_until = monotonic() + WARNING_INTERVAL_SECONDS
            sys.stderr.write(f"warning: {message}; retrying\n")


class CollectorRuntime:
    """The running parts of a collector: spool, writers, sealer and app.

    Creating it starts their threads and tasks, and archives the segments of earlier collectors.
    """

    def __init__(self, settings: CollectorSettings, log: TroubleLog) -> None:
        self._settings, limits = settings, settings.limits
        self._directory = SpoolDirectory(settings.spool_root)
        self._sealer = Sealer(settings.store, self._archive_path, log.report_failure)
        self._spools = {
            stream: Spool(self._directory.folder / stream, limits, self._sealer.add)
            for stream in (EVENTS, REJECTED)
        }
        for stream in self._spools:
            for segment in self._directory.recover_segments(stream):
                self._sealer.add(segment)
        self._writers = {
            stream: Writer(spool, lambda: self._sealer.backlog_bytes, log)
            for stream, spool in self._spools.items()
        }
        self._source_file = WatchedFile(settings.spool_root / SOURCE_FILE)
        self._suppress_file = WatchedFile(settings.suppress)
        self.app = App(
            project=settings.source.source_id,
            gate=self._load_gate(),
            events=self._writers[EVENTS],
            rejects=self._writers[REJECTED],
            get_gauges=self.get_gauges,
            limits=limits,
            proxies=TrustedProxies(os.environ.get(PROXIES_VARIABLE, LOOPBACK)),
            metrics=log.metrics,
        )
        self._load_changed_files()

    async def watch_files(self) -> None:
        """Reload the source file and the suppression file when they change; never returns."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await asyncio.to_thread(self.reload_files)  # a suppression file may be long

    def reload_files(self) -> None:
        """Load the files that have changed; for an invalid one, warn and keep the old content."""
        try:
            self._load_changed_files()
        except (InvalidSettings, OSError, ValueError) as problem:
            sys.stderr.write(f"warning: {problem}\n")

    async def close(self) -> None:
        """Seal all segments; those that the store did not accept in time stay in the spool."""
        for writer in self._writers.values():
            await writer.close()
        if not self._sealer.close(self._settings.limits.drain_seconds):
            sys.stderr.write(
                "warning: some events are still in the spool; the next start archives them\n"
            )
        if self._sealer.has_stopped:  # else it still reads the folder, which must stay locked
            self._directory.close()

    def get_gauges(self) -> dict[str, float]:
        times = [self._sealer.oldest_event_time, *(s.start_time for s in self._spools.values())]
        oldest = min((moment for moment in times if moment is not None), default=None)
        return {
            "archive_lag_seconds": 0.0 if oldest is None else round(max(0.0, time() - oldest), 3),
            "spool_bytes": sum((s.size for s in self._spools.values()), self._sealer.backlog_bytes),
            "sealed_files": self._sealer.sealed_files,
        }

    def _archive_path(self, segment: Segment) -> str:
        """Return a segment's path in the lake; loads ignore files that begin with `_`."""
        if segment.path.parent.name == EVENTS:
            return f"{self._settings.archive}/{segment.day}/{segment.name}.gz"
        return f"{self._settings.archive}/.rejected/{segment.day}/_{segment.name}.gz"

    def _load_gate(self) -> Gate:
        return load_gate(self._settings.spool_root / SOURCE_FILE, self._settings.write_key)

    def _load_changed_files(self) -> None:
        if self._source_file.has_changed():
            self.app.gate = self._load_gate()
        if self._settings.suppress and self._suppress_file.has_changed():
            self.app.suppressed = read_suppressed_users(self._settings.suppress)
