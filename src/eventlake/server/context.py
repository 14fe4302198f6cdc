"""What all routes share."""

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hmac import compare_digest
from ipaddress import ip_address
from threading import Lock
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Database
from eventlake.control.notify.outbox import Outbox
from eventlake.control.vault import Vault
from eventlake.errors import InvalidSettings
from eventlake.model.contents import QueryLimits
from eventlake.server.collected import CollectedEvents
from eventlake.server.metrics import ServerMetrics
from eventlake.server.problems import RequestProblem
from eventlake.server.readers import Readers

if TYPE_CHECKING:
    from eventlake.server.oidc import OidcProvider

LOGINS_PER_MINUTE = 5
MAX_ADDRESSES = 10_000
SETUP_TIME = timedelta(minutes=15)


@dataclass(frozen=True)
class Address:
    """Where the server listens, and the URL at which others reach it, if that is another."""

    host: str = "127.0.0.1"
    public_url: str = ""

    def __post_init__(self) -> None:
        if not self.public_url:
            return
        parsed = urlsplit(self.public_url)
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise InvalidSettings(
                f"public-url is {self.public_url!r}: give a URL such as https://lake.example.com"
            )

    @property
    def is_https(self) -> bool:
        return self.public_url.startswith("https:")

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach it, by its own address."""
        if self.public_url:
            return False
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def names(self) -> frozenset[str]:
        """The names that a Host header may have."""
        public = urlsplit(self.public_url).hostname
        return frozenset(filter(None, ("localhost", "127.0.0.1", "::1", self.host, public)))


class LoginLimit:
    """Limits the attempts to log in from each address."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._attempts: dict[str, deque[float]] = {}

    def admit(self, address: str) -> None:
        """Count an attempt; raises a 429 problem for the sixth within a minute."""
        now, network = self._clock.monotonic(), _to_network(address)
        with self._lock:
            attempts = self._attempts.pop(network, deque())
            self._attempts[network] = attempts  # the last in the order
            while attempts and attempts[0] <= now - 60:
                attempts.popleft()
            if len(attempts) >= LOGINS_PER_MINUTE:
                seconds = str(int(attempts[0] + 60 - now) + 1)
                raise RequestProblem(
                    429,
                    "TooManyRequests",
                    f"{LOGINS_PER_MINUTE} attempts within a minute: wait {seconds} seconds",
                    retry_after=seconds,
                )
            attempts.append(now)
            if len(self._attempts) > MAX_ADDRESSES:
                del self._attempts[next(iter(self._attempts))]


def _to_network(address: str) -> str:
    """An IPv4 address, or the network that one subscriber has with IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return address if parsed.version == 4 else parsed.exploded[:19]


@dataclass
class SetupCode:
    """The secret of the link with which the first admin is made, once, within 15 minutes."""

    made_at: datetime
    code: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def matches(self, code: str, now: datetime) -> bool:
        return compare_digest(code.encode(), self.code.encode()) and (
            now - self.made_at < SETUP_TIME
        )


def nothing() -> None:
    """Do nothing."""


def leave_to_collectors(_: str) -> timedelta:
    """The time in which collectors of other processes notice a sync and archive what they have."""
    return timedelta(seconds=2.5)


@dataclass
class ServerContext:
    """The parts that routes use."""

    database: Database
    vault: Vault
    address: Address = field(default_factory=Address)
    clock: Clock = SYSTEM_CLOCK
    setup: SetupCode | None = None
    render_metrics: Callable[[], str] = str
    """The metrics of the collector, in the format of Prometheus."""
    on_suppression_change: Callable[[], None] = nothing
    """Called after a lake's suppression list was changed."""
    archive_collected: Callable[[str], timedelta] = leave_to_collectors
    """Archives what a source has sent, before a sync on request; returns how long that waits."""
    read_collected: Callable[[], Mapping[str, CollectedEvents]] = dict
    """What the collector has received, by the source's slug."""
    trusted: str = ""
    """The name of the caller of every request, who is admin: for calls within the process."""
    oidc: "OidcProvider | None" = None
    metrics: ServerMetrics = None  # type: ignore[assignment] # set below
    """Those of the server."""
    logins: LoginLimit = field(init=False)
    outbox: Outbox = field(init=False)
    """Sends tests of channels."""
    readers: Readers = field(default_factory=Readers)
    """The processes that read lakes."""
    query_limits: QueryLimits = field(default_factory=QueryLimits)

    def __post_init__(self) -> None:
        self.logins = LoginLimit(self.clock)
        self.metrics = self.metrics or ServerMetrics(self.database, self.clock)
        self.outbox = Outbox(self.database, self.vault, self.clock, self.metrics.count_try)


def get_context(request: Request) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


Context = Annotated[ServerContext, Depends(get_context)]
