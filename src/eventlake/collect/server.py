"""A collector from start to end: recover the spools, listen, drain, seal."""

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from eventlake.collect.app import App
from eventlake.collect.connection import Connection
from eventlake.collect.keys import SourceKeys
from eventlake.collect.limits import max_connections
from eventlake.collect.pool import Pool
from eventlake.collect.proxies import LOOPBACK, PROXIES_VARIABLE, TrustedProxies
from eventlake.collect.settings import CollectorSettings, ServedSource
from eventlake.collect.source_runtime import SourceRuntime
from eventlake.collect.spool import make_durable_folder
from eventlake.collect.suppression_watch import SuppressionWatch
from eventlake.errors import InvalidSettings
from eventlake.model.values import FrozenModel

LISTEN_BACKLOG = 2048
RELOAD_SECONDS = 1.0


class Endpoint(FrozenModel):
    """The URL to send events to, and a write key of each source."""

    url: str
    write_keys: dict[str, str]


def serve(
    settings: CollectorSettings,
    sources: Sequence[ServedSource],
    on_ready: Callable[[Endpoint], None],
) -> None:
    """Collect events of the sources until SIGTERM or SIGINT; call `on_ready` once when listening.

    At the end, acknowledged events are in the archive, or in the spool for the next start. Raises
    `InvalidSettings` for a spool, a key or an address that cannot be used.
    """
    for source in sources:
        create_spool_folder(source.spool_root(settings))
    listener = open_listener(settings.host, settings.port)
    run_event_loop(_serve(settings, sources, listener, on_ready))


def run_event_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, in an event loop of its own."""
    uvloop.run(main)


def create_spool_folder(root: Path) -> None:
    """Create the spool's folder, if it is missing; raises `InvalidSettings` if it cannot be one.

    PermissionError is not translated.
    """
    try:
        make_durable_folder(root)
    except PermissionError:
        raise
    except OSError as problem:
        raise InvalidSettings(
            f"{root} cannot be the spool: {problem.strerror}; name a local folder with --spool"
        ) from problem


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free one.

    Raises `InvalidSettings` for an empty address and for one that cannot be listened on.
    """
    if not host:  # the system would listen on every address
        raise InvalidSettings("--host is empty: name an address, such as 127.0.0.1 or 0.0.0.0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise InvalidSettings(
                f"port {port} of {host} is in use: stop what uses it, or give --port"
            ) from problem
        raise InvalidSettings(f"cannot listen on {host}:{port}: {problem.strerror}") from problem
    except UnicodeError as problem:
        raise InvalidSettings(f"cannot listen on {host!r}: invalid address") from problem


async def _serve(
    settings: CollectorSettings,
    sources: Sequence[ServedSource],
    listener: socket.socket,
    on_ready: Callable[[Endpoint], None],
) -> None:
    """Serve on the listener until SIGTERM or SIGINT, then close the sources."""
    collector = Collector(settings, sources)
    endpoint = Endpoint(url=get_listener_url(listener), write_keys=collector.get_write_keys())
    watches = (collector.watch_files(), collector.watch_suppression_list())
    await serve_app(collector.app, listener, lambda: on_ready(endpoint), watches)
    await collector.close()


async def serve_app(
    app: App,
    listener: socket.socket,
    on_ready: Callable[[], None],
    watches: Iterable[Coroutine[Any, Any, None]],
) -> None:
    """Serve on the listener until SIGTERM or SIGINT; call `on_ready` once when listening.

    The endless coroutines `watches` run meanwhile. Then stops listening and waits for pending
    replies.
    """
    pool, stop = Pool(app.limits, max_connections(), app.clock), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tasks = [asyncio.create_task(one) for one in (*watches, pool.enforce_deadlines())]
    server = await loop.create_server(
        lambda: Connection(app, pool), sock=listener, backlog=LISTEN_BACKLOG
    )
    gc.freeze()  # objects of the start-up live for ever: do not scan them while clients wait
    on_ready()
    await stop.wait()
    server.close()
    await pool.drain(app.limits.drain_seconds)
    for task in tasks:
        task.cancel()


def get_listener_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket, with the port that it got."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Collector:
    """The running sources of a collector, and the app that they share.

    Creating it starts their threads and tasks, and archives the segments of earlier collectors.
    Raises `InvalidSettings` if two sources have the same write key, and the store's errors if the
    lake's suppression list cannot be read.
    """

    def __init__(self, settings: CollectorSettings, sources: Sequence[ServedSource]) -> None:
        self._settings = settings
        self._suppression = SuppressionWatch(settings.store)
        self._suppression.load_changes()
        self._sources = [SourceRuntime(settings, source) for source in sources]
        self._apply_suppression_list()
        self.app = App(
            keys=self._make_keys(),
            clock=settings.clock,
            limits=settings.limits,
            proxies=TrustedProxies(os.environ.get(PROXIES_VARIABLE, LOOPBACK)),
        )

    def get_write_keys(self) -> dict[str, str]:
        """Return the first write key of each source, by the source's name."""
        return {one.source.name: one.access.write_keys[0] for one in self._sources}

    async def watch_files(self) -> None:
        """Reload source files and suppression files when they change; never returns."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await asyncio.to_thread(self.reload_files)  # a suppression file may be long

    def reload_files(self) -> None:
        """Load the files that have changed, and replace the app's keys if those have.

        For an invalid file, or a key of another source, prints a warning and keeps the old content.
        """
        for source in self._sources:
            before = source.access
            try:
                source.load_changed_files()
                if source.access != before:
                    self.app.keys = self._make_keys()
            except (InvalidSettings, OSError, ValueError) as problem:
                source.access = before
                sys.stderr.write(f"warning: {problem}\n")

    async def watch_suppression_list(self) -> None:
        """Apply changes of the lake's suppression list; never returns.

        A task of its own: a store that hangs must not delay changes of keys.
        """
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await asyncio.to_thread(self.reload_suppression_list)

    def reload_suppression_list(self) -> None:
        """Apply the lake's suppression list if it has changed; keep the old one on errors."""
        if self._suppression.poll():
            self._apply_suppression_list()

    def _apply_suppression_list(self) -> None:
        """Give each source the suppression list as last loaded; does not read the store."""
        for source in self._sources:
            source.suppress(self._suppression.current)

    async def close(self) -> None:
        """Stop all sources and move their segments into the archive.

        Those that the store does not accept within `drain_seconds` stay in the spool, with a
        warning.
        """
        clock = self._settings.clock
        await asyncio.gather(*(source.close_writers() for source in self._sources))
        # The sealers work at the same time, so they share the time that there is.
        until = clock.monotonic() + self._settings.limits.drain_seconds
        for source in self._sources:
            source.close(max(0.0, until - clock.monotonic()))

    def _make_keys(self) -> SourceKeys:
        """Return the keys of all sources; raises `InvalidSettings` if two sources share one."""
        return SourceKeys(key for source in self._sources for key in source.list_keys())
