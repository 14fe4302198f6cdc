"""`eventlake up`: collector, API and scheduler in one process, on one port."""

import os
import socket
from collections.abc import Callable, Coroutine, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from eventlake.clock import Clock
from eventlake.collect.app import App
from eventlake.collect.keys import SourceKeys
from eventlake.collect.limits import DEFAULTS, Limits
from eventlake.collect.mount import Mount
from eventlake.collect.proxies import LOOPBACK, PROXIES_VARIABLE, TrustedProxies
from eventlake.collect.server import (
    create_spool_folder,
    get_listener_url,
    open_listener,
    run_event_loop,
    serve_app,
)
from eventlake.collect.settings import CollectorSettings
from eventlake.control.lakes import add_lake, list_lakes
from eventlake.control.preferences import set_server_url
from eventlake.control.users import has_people, has_users
from eventlake.errors import InvalidSettings
from eventlake.lakes.kinds import settings_model
from eventlake.model.values import FrozenModel
from eventlake.server.app import build_app, build_probes
from eventlake.server.collector import ManagedCollector, read_collected
from eventlake.server.context import Address, ServerContext, SetupCode
from eventlake.server.installation import DEFAULT_DATABASE, Installation, open_installation
from eventlake.server.loops import running_loops
from eventlake.server.metrics import ServerMetrics
from eventlake.server.parts import ALL_PARTS, Part
from eventlake.stores import Disk

if TYPE_CHECKING:
    from eventlake.server.oidc import OidcProvider

FIRST_LAKE = "main"
LIMITS = replace(DEFAULTS, seal_seconds=10.0)
"""Events are archived after 10 seconds, so that a sync every minute lands what has just come."""
OIDC_VARIABLE = "EVENTLAKE_OIDC_ISSUER"
API_THREADS = 12
"""Fewer than the database's pool has connections, of which each thread uses one."""


@dataclass(frozen=True)
class UpSettings:
    """Where a server listens and stores."""

    database: str = DEFAULT_DATABASE
    lake: Path = Path("lake")
    """The folder of the lake that is added if there is none."""
    address: Address = field(default_factory=Address)
    port: int = 8400
    spool: Path = Path("spool")
    limits: Limits = LIMITS
    parts: Set[Part] = ALL_PARTS


class Started(FrozenModel):
    """The server's URL, and the link with which the first admin is made, if there is none."""

    url: str
    setup_link: str | None = None


def run_server(settings: UpSettings, on_ready: Callable[[Started], None]) -> None:
    """Serve until SIGTERM or SIGINT; call `on_ready` once when listening.

    Raises InvalidSettings for an address at which others can reach the API while nobody has been
    added, and for a server of some parts on SQLite, where it is the only one.
    """
    with open_installation(settings.database, is_server=True) as installation:
        if installation.file and settings.parts != ALL_PARTS:
            raise InvalidSettings(
                "--only is for several servers on PostgreSQL, and a file of SQLite has only one "
                "server: leave --only out, or give a URL of PostgreSQL as --database"
            )
        _add_first_lake(installation, settings.lake)
        has_api = Part.API in settings.parts
        setup = _prepare_setup(installation, settings.address) if has_api else None
        listener = open_listener(settings.address.host, settings.port)
        metrics = ServerMetrics(installation.database, installation.clock)
        with running_loops(installation, settings.parts, metrics):
            context = ServerContext(
                installation.database,
                installation.vault,
                settings.address,
                installation.clock,
                setup,
                metrics=metrics,
                oidc=_open_oidc(installation.clock),
            )
            run_event_loop(_serve(settings, installation, listener, context, on_ready))


def _add_first_lake(installation: Installation, folder: Path) -> None:
    now, vault = installation.clock.now(), installation.vault
    with installation.database.write() as session:
        if not list_lakes(session):
            place = settings_model("local").chosen_by
            add_lake(session, FIRST_LAKE, "local", {place: str(folder)}, vault, now)


def _prepare_setup(installation: Installation, address: Address) -> SetupCode | None:
    """The code for the first admin; None if there are users."""
    with installation.database.read() as session:
        if not address.is_local and not has_people(session):
            raise InvalidSettings(
                f"others can reach {address.public_url or address.host}, and nobody has been added "
                "yet: add an admin first with `eventlake user add EMAIL --role admin`"
            )
        return None if has_users(session) else SetupCode(installation.clock.now())


def _open_oidc(clock: Clock) -> "OidcProvider | None":
    """The OpenID provider of the environment; its libraries are an extra."""
    if not os.environ.get(OIDC_VARIABLE):
        return None
    try:
        from eventlake.server.oidc import OidcProvider, OidcSettings  # noqa: PLC0415
    except ModuleNotFoundError as problem:
        raise InvalidSettings(
            f"{OIDC_VARIABLE} is set, and {problem.name} is not installed: "
            "pip install 'eventlake[oidc]'"
        ) from None
    settings = OidcSettings.from_environment(os.environ)
    return OidcProvider(settings, clock) if settings else None


async def _serve(
    settings: UpSettings,
    installation: Installation,
    listener: socket.socket,
    context: ServerContext,
    on_ready: Callable[[Started], None],
) -> None:
    anyio.to_thread.current_default_thread_limiter().total_tokens = API_THREADS
    proxies = TrustedProxies(os.environ.get(PROXIES_VARIABLE, LOOPBACK))
    app = App(SourceKeys(()), installation.clock, settings.limits, proxies)
    app.collects = Part.COLLECTOR in settings.parts
    context.render_metrics = app.render_metrics
    context.read_collected = lambda: read_collected(app)
    build = build_app if Part.API in settings.parts else build_probes
    app.mount = Mount(build(context), proxies)
    url = settings.address.public_url.rstrip("/") or get_listener_url(listener)
    with installation.database.write() as session:
        set_server_url(session, url)
    link = f"{url}/setup?code={context.setup.code}" if context.setup else None
    unused = Disk(str(settings.spool))  # each source has the store of its lake
    collecting = CollectorSettings(unused, spool=settings.spool, limits=settings.limits)
    collector = ManagedCollector(collecting, installation.database, installation.vault, app)
    watches = list[Coroutine[Any, Any, None]]()
    if app.collects:
        context.on_suppression_change = collector.reload_suppression_lists
        context.archive_collected = collector.archive
        create_spool_folder(settings.spool)  # a wrong one is an error now, not at the first event
        await collector.refresh()
        watches = [collector.watch(), collector.watch_suppression_lists()]
    await serve_app(app, listener, lambda: on_ready(Started(url=url, setup_link=link)), watches)
    await collector.close()
    context.readers.close()
