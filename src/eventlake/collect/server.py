"""A collector from start to end: recover, listen, drain, seal."""

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
from eventlake.collect.limits import DEFAULTS, Limits, connection_limit
from eventlake.collect.metrics import Metrics
from eventlake.collect.pool import Pool
from eventlake.collect.proxies import LOOPBACK, VARIABLE, Proxies
from eventlake.collect.seal import Sealer
from eventlake.collect.source import Watched, archive_folder, people, source_gate
from eventlake.collect.spool import Home, Segment, Spool, make_folder
from eventlake.collect.writer import Writer
from eventlake.errors import InvalidSettings
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel
from eventlake.stores import Store

EVENTS, REJECTED = "events", "rejected"
SOURCE_FILE = "source.json"
BACKLOG = 2048
WATCH_SECONDS = 1.0
QUIET_SECONDS = 5.0


@dataclass(frozen=True)
class Collector:
    """All that a collector is told."""

    store: Store
    settings: SourceSettings
    host: str = "127.0.0.1"
    port: int = 8400
    write_key: str | None = field(default=None, repr=False)
    suppress: Path | None = None
    spool: Path | None = None
    """Where the spool is when it is not in the lake itself."""
    limits: Limits = DEFAULTS

    @property
    def archive(self) -> str:
        return archive_folder(self.settings)

    @property
    def spool_root(self) -> Path:
        folder = Path(self.spool) / self.settings.folder if self.spool else None
        return folder or Path(self.store.root) / self.archive / ".spool"


class Ready(FrozenModel):
    """What a user needs to send the first event."""

    url: str
    write_key: str


def serve(collector: Collector, on_ready: Callable[[Ready], None]) -> None:
    """Collect until SIGTERM or SIGINT; everything acknowledged is archived, or left in the spool
    for the next start."""
    _check_spool(collector.spool_root)
    listener = _listener(collector.host, collector.port)
    uvloop.run(_serve(collector, listener, on_ready))


def _check_spool(root: Path) -> None:
    try:
        make_folder(root)
    except PermissionError:
        raise
    except OSError as problem:
        raise InvalidSettings(
            f"{root} cannot be the spool: {problem.strerror}; name a local folder with --spool"
        ) from problem


def _listener(host: str, port: int) -> socket.socket:
    if not host:  # the system would take it for every address
        raise InvalidSettings("--host is empty: name an address, such as 127.0.0.1 or 0.0.0.0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as problem:
        raise InvalidSettings(f"cannot listen on {host}:{port}: {problem.strerror}") from problem
    except UnicodeError as problem:
        raise InvalidSettings(f"cannot listen on {host!r}: it is no address") from problem


async def _serve(
    collector: Collector, listener: socket.socket, on_ready: Callable[[Ready], None]
) -> None:
    told = Told(Metrics())
    desk = Desk(collector, told)
    pool, stop = Pool(collector.limits, connection_limit()), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watches = [asyncio.create_task(desk.watch()), asyncio.create_task(pool.watch())]
    server = await loop.create_server(
        lambda: Connection(desk.app, pool), sock=listener, backlog=BACKLOG
    )
    gc.freeze()  # what is there now stays: the collector need not walk it while clients wait
    on_ready(Ready(url=_url(listener), write_key=desk.app.gate.write_key))
    await stop.wait()
    server.close()
    await pool.drain(collector.limits.drain_seconds)
    for watch in watches:
        watch.cancel()
    await desk.close()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass
class Told:
    """Hears how the disk and the store do, and tells a person now and then."""

    metrics: Metrics
    _silent_until: float = 0.0

    def synced(self, seconds: float) -> None:
        self.metrics.synced(seconds)

    def trouble(self, message: str) -> None:
        self.metrics.troubles += 1
        if monotonic() >= self._silent_until:
            self._silent_until = monotonic() + QUIET_SECONDS
            sys.stderr.write(f"warning: {message}; trying again\n")


class Desk:
    """The live parts of a collector, joined."""

    def __init__(self, collector: Collector, told: Told) -> None:
        self._collector, limits = collector, collector.limits
        self._home = Home(collector.spool_root)
        self._sealer = Sealer(collector.store, self._place, told.trouble)
        self._spools = {
            stream: Spool(self._home.folder / stream, limits, self._sealer.take)
            for stream in (EVENTS, REJECTED)
        }
        for stream in self._spools:
            for segment in self._home.segments(stream):
                self._sealer.take(segment)
        self._writers = {
            stream: Writer(spool, lambda: self._sealer.backlog, told)
            for stream, spool in self._spools.items()
        }
        self._source_file = Watched(collector.spool_root / SOURCE_FILE)
        self._suppress_file = Watched(collector.suppress)
        self.app = App(
            project=collector.settings.source_id,
            gate=self._gate(),
            events=self._writers[EVENTS],
            rejects=self._writers[REJECTED],
            gauges=self.gauges,
            limits=limits,
            proxies=Proxies(os.environ.get(VARIABLE, LOOPBACK)),
            metrics=told.metrics,
        )
        self._refresh()

    async def watch(self) -> None:
        """Follow the files that say who may send and who is suppressed."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await asyncio.to_thread(self.follow)  # a list of people may be long

    def follow(self) -> None:
        """Read what has changed; of a file that is broken, what was true stays true."""
        try:
            self._refresh()
        except (InvalidSettings, OSError, ValueError) as problem:
            sys.stderr.write(f"warning: {problem}\n")

    async def close(self) -> None:
        """Seal everything."""
        for writer in self._writers.values():
            await writer.close()
        if not self._sealer.close(self._collector.limits.drain_seconds):
            sys.stderr.write("warning: the archive did not take everything; the next start will\n")
        if self._sealer.ended:  # else it still writes: the folder stays locked while we live
            self._home.close()

    def gauges(self) -> dict[str, float]:
        began = [spool.began for spool in self._spools.values()] + [self._sealer.began]
        oldest = min((moment for moment in began if moment is not None), default=None)
        waiting = self._sealer.backlog + sum(spool.size for spool in self._spools.values())
        return {
            "archive_lag_seconds": 0.0 if oldest is None else round(max(0.0, time() - oldest), 3),
            "spool_bytes": waiting,
            "sealed_files": self._sealer.sealed,
        }

    def _place(self, segment: Segment) -> str:
        """The archive's name of a segment; loads take no file that begins with `_`."""
        if segment.path.parent.name == EVENTS:
            return f"{self._collector.archive}/{segment.day}/{segment.name}.gz"
        return f"{self._collector.archive}/.rejected/{segment.day}/_{segment.name}.gz"

    def _gate(self) -> Gate:
        return source_gate(self._collector.spool_root / SOURCE_FILE, self._collector.write_key)

    def _refresh(self) -> None:
        if self._source_file.changed():
            self.app.gate = self._gate()
        if self._collector.suppress and self._suppress_file.changed():
            self.app.suppressed = people(self._collector.suppress)
