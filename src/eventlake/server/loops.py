"""The loops of a server, each in a thread of its own."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from importlib.metadata import version

from eventlake.control.monitor import Monitor
from eventlake.control.notify.outbox import Outbox
from eventlake.control.replicas import Heartbeat
from eventlake.control.scheduler_loop import SchedulerLoop
from eventlake.control.supervisor import Supervisor
from eventlake.errors import EventLakeError
from eventlake.server.installation import Installation
from eventlake.server.metrics import ServerMetrics
from eventlake.server.parts import Part

RESTART_SECONDS = 1.0


@contextmanager
def running_loops(
    installation: Installation, parts: Set[Part], metrics: ServerMetrics
) -> Iterator[None]:
    """Run the loops of a server's parts until the end of the block; runs go on after it.

    Every server says that it is alive; a worker schedules, supervises runs, sends notices and
    monitors.
    """
    stop = threading.Event()
    holder = f"{socket.gethostname()}:{os.getpid()}"
    is_alone = installation.file is not None
    scheduler = SchedulerLoop(installation.database, holder, installation.clock, is_alone)
    scheduler.on_tick = metrics.count_tick
    metrics.is_leader = lambda: scheduler.lease is not None
    supervisor = Supervisor(
        installation.database, installation.url, installation.key_file, installation.clock
    )
    outbox = Outbox(
        installation.database, installation.vault, installation.clock, metrics.count_try
    )
    monitor = Monitor(
        installation.database, installation.vault, holder, installation.clock, is_alone
    )
    names = sorted(parts)
    heartbeat = Heartbeat(
        installation.database, holder, names, version("eventlake"), installation.clock
    )
    loops = {
        Part.WORKER: {
            "scheduler": scheduler.run,
            "supervisor": supervisor.run,
            "outbox": outbox.run,
            "monitor": monitor.run,
        }
    }
    chosen = [("heartbeat", heartbeat.run)]
    chosen += [one for part in parts for one in loops.get(part, {}).items()]
    threads = [
        threading.Thread(target=_keep_running, args=(run, stop), name=name) for name, run in chosen
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _keep_running(run: Callable[[Callable[[], bool]], None], stop: threading.Event) -> None:
    """Run a loop until `stop` is set; after an error, write it to stderr and begin again."""
    while not stop.is_set():
        try:
            run(stop.is_set)
        except EventLakeError as problem:
            sys.stderr.write(f"warning: {threading.current_thread().name}: {problem}\n")
            stop.wait(RESTART_SECONDS)
