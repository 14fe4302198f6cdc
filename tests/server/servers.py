"""The API over a real socket, in a thread of the test, with a clock that the test sets."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx
import uvloop
from cryptography.fernet import Fernet

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.collect.app import App
from eventlake.collect.connection import Connection
from eventlake.collect.keys import SourceKeys
from eventlake.collect.limits import DEFAULTS
from eventlake.collect.mount import Mount
from eventlake.collect.pool import Pool
from eventlake.collect.proxies import TrustedProxies
from eventlake.control.database import open_database
from eventlake.control.endings import end_runs
from eventlake.control.queue import Limits, start_runs
from eventlake.control.results import Outcome
from eventlake.control.roles import Role, Scope
from eventlake.control.runs import RunState
from eventlake.control.sessions import start_session
from eventlake.control.tokens import add_token
from eventlake.control.users import add_user
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from eventlake.server.app import build_app
from eventlake.server.context import Address, ServerContext
from eventlake.server.up import API_THREADS

PASSWORD = "correct horse battery"


@dataclass
class Api:
    """A running server."""

    url: str
    context: ServerContext
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Ask below /api/v1, without keeping cookies."""
        with httpx.Client(timeout=30) as client:
            shown = {name.replace("_", "-"): value for name, value in headers.items()}
            both = {**self.headers, **shown}
            content = None if body is None else json.dumps(body)
            kind = {} if body is None else {"content-type": "application/json"}
            address = f"{self.url}/api/v1{path}"
            return client.request(method, address, content=content, headers={**kind, **both})

    def get(self, path: str, **headers: str) -> Any:
        reply = self.ask("GET", path, **headers)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        reply = self.ask("POST", path, body, **headers)
        assert reply.status_code in (200, 201), reply.text
        return reply.json()

    def add_user(self, email: str, role: Role) -> None:
        with self.context.database.write() as session:
            add_user(session, email, PASSWORD, role, self.context.clock.now())

    def log_in(self, email: str, role: Role) -> httpx.Client:
        """A client of the pages with the session of a new user."""
        now = self.context.clock.now()
        with self.context.database.write() as session:
            user = add_user(session, email, PASSWORD, role, now)
            cookie = start_session(session, user.id, now)
        return httpx.Client(base_url=self.url, cookies={"eventlake": cookie}, timeout=60)

    def make_token(self, scope: Scope) -> str:
        with self.context.database.write() as session:
            return add_token(session, scope.value, scope, self.context.clock.now()).secret

    def use_token(self, scope: Scope) -> None:
        """Send a new token with every request from now on."""
        self.headers = {"authorization": f"Bearer {self.make_token(scope)}"}


@contextmanager
def serving(url: str, clock: Clock = SYSTEM_CLOCK, address: Address | None = None) -> Iterator[Api]:
    """Serve the API on a free port of this machine until the end of the block."""
    database = open_database(url, lambda _: clock.now())
    with database.write() as session:
        ensure_workspace(session, clock.now())
    vault = Vault([Fernet.generate_key().decode()])
    context = ServerContext(database, vault, address or Address(), clock)
    context.archive_collected = lambda _: timedelta(0)  # there is no collector to wait for
    ready, stop = threading.Event(), threading.Event()
    port = 0

    async def run() -> None:
        nonlocal port
        anyio.to_thread.current_default_thread_limiter().total_tokens = API_THREADS
        app = App(SourceKeys(()), SYSTEM_CLOCK)
        app.mount = Mount(build_app(context), TrustedProxies())
        context.render_metrics = app.render_metrics
        pool = Pool(DEFAULTS, 100, SYSTEM_CLOCK)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(app, pool), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.02)
        server.close()
        await pool.drain(5)

    thread = threading.Thread(target=lambda: uvloop.run(run()))
    thread.start()
    try:
        assert ready.wait(30)
        yield Api(f"http://127.0.0.1:{port}", context)
    finally:
        stop.set()
        thread.join(30)
        context.readers.close()
        database.close()


@contextmanager
def with_source(url: str, clock: Clock, folder: Path) -> Iterator[Api]:
    """A server with the source `web` in a lake."""
    with serving(url, clock) as api:
        settings = {"path": str(folder / "lake")}
        api.post("/lakes", {"slug": "main", "kind": "local", "settings": settings})
        api.post("/sources", {"slug": "web", "source_id": "web", "lake": "main"})
        yield api


def end_active(api: Api, state: str = "finished", **values: Any) -> list[int]:
    """Start what is queued, and end it; return the runs."""
    database, now = api.context.database, api.context.clock.now()
    with database.write() as session:
        started = start_runs(database, session, "worker:1", now, Limits(local=9))
        outcome = Outcome(state=RunState(state), **values)
        end_runs(session, {(run.id, run.attempt): outcome for run in started}, now)
    return [run.id for run in started]
