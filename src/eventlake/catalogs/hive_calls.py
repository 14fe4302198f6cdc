"""Calls of a Hive metastore over Thrift: connections, retries, and errors that say what to do."""

import logging
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import Any

from hive_metastore import ttypes
from hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from eventlake.catalogs.changes import ChangedError
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    InvalidSettings,
    MissingTable,
    Unavailable,
)

# It logs every failed connection, which our errors have too.
logging.getLogger("thrift").addHandler(logging.NullHandler())

MAX_CONNECTIONS = 8
CONNECT_SECONDS = 10
CALL_SECONDS = 900
"""Hive 3.1 rewrites every partition when a column is added, which takes minutes for some tables."""
ATTEMPTS = 3
RETRY_SECONDS = 0.5

Address = tuple[str, int]
MISSING = (ttypes.NoSuchObjectException, ttypes.UnknownDBException, ttypes.UnknownTableException)
EXISTS = (ttypes.AlreadyExistsException,)


class _Connection:
    """An open connection to one server."""

    def __init__(self, address: Address) -> None:
        socket = TSocket(*address)
        socket.setTimeout(CONNECT_SECONDS * 1000)
        self._transport = TBufferedTransport(socket)
        self._transport.open()
        socket.setTimeout(CALL_SECONDS * 1000)
        self.client = Client(TBinaryProtocolAccelerated(self._transport))

    def close(self) -> None:
        self._transport.close()


@dataclass(frozen=True)
class HiveCalls:
    """Calls a metastore, from several threads at a time."""

    find_addresses: Callable[[], Sequence[Address]]
    """Returns the addresses of servers, of which the first that answers is used."""
    clock: Clock = SYSTEM_CLOCK
    _idle: list[_Connection] = field(default_factory=list, init=False)
    _slots: BoundedSemaphore = field(
        default_factory=lambda: BoundedSemaphore(MAX_CONNECTIONS), init=False
    )

    def __post_init__(self) -> None:
        weakref.finalize(self, _close_all, self._idle)

    def call(self, method: str, *arguments: Any, accept: tuple[type[Exception], ...] = ()) -> Any:
        """Call the metastore and return its answer; None if it raises one of `accept`.

        A call whose connection breaks is repeated, so it may have been carried out before.
        """
        for number in range(1, ATTEMPTS + 1):
            try:
                return self._try_call(method, arguments)
            except accept:
                return None
            except (TTransportException, OSError) as problem:
                if getattr(problem, "type", None) == TTransportException.SIZE_LIMIT:
                    raise self._explain(method, problem) from problem
                if number == ATTEMPTS:
                    raise Unavailable(
                        f"the Hive metastore {self._where()} broke the connection in {method} "
                        f"({problem}): see its log; servers with Kerberos or TLS are not supported"
                    ) from problem
                self.clock.sleep(RETRY_SECONDS * number)
            except TException as problem:
                raise self._explain(method, problem) from problem
        raise AssertionError

    def _try_call(self, method: str, arguments: Sequence[Any]) -> Any:
        """Call over an idle or a new connection, which is used again unless it broke."""
        with self._slots:
            connection = self._take_idle() or self._connect()
            is_usable = False
            try:
                answer = getattr(connection.client, method)(*arguments)
                is_usable = True
            except (TTransportException, TProtocolException, OSError):
                _close_all(self._idle)  # a server that was restarted has closed these too
                raise
            except TException:  # an answer of the server
                is_usable = True
                raise
            finally:
                if is_usable:
                    self._idle.append(connection)
                else:
                    connection.close()
        return True if answer is None else answer

    def _take_idle(self) -> _Connection | None:
        try:
            return self._idle.pop()
        except IndexError:  # other threads have taken all
            return None

    def _connect(self) -> _Connection:
        problem: Exception | None = None
        for address in self.find_addresses():
            try:
                return _Connection(address)
            except (TTransportException, OSError) as failure:
                problem = failure
        reason = str(problem).partition("\n")[0]
        raise Unavailable(
            f"cannot connect to the Hive metastore {self._where()}: {reason}: check metastore_url, "
            "that the server runs, and that this machine may reach its port"
        ) from problem

    def _where(self) -> str:
        return ", ".join(f"thrift://{host}:{port}" for host, port in self.find_addresses())

    def _explain(self, method: str, problem: Exception) -> EventLakeError:
        if isinstance(problem, TProtocolException | TTransportException):
            return InvalidSettings(
                f"metastore_url is {self._where()}, and what answers there is not a Hive "
                "metastore: its port is usually 9083"
            )
        text = str(getattr(problem, "message", "") or problem).partition("\n")[0]
        failed = f"the Hive metastore {self._where()} refused {method}"
        if isinstance(problem, TApplicationException):
            return InvalidSettings(
                f"{failed}: {text}; its version is not supported: use Hive 2.3, 3.1 or 4.0"
            )
        for pattern, kind, remedy in _MEANINGS:
            if re.search(pattern, text):
                return kind(f"{failed}: {text}{remedy}")
        if isinstance(problem, MISSING):
            return MissingTable(f"{failed}: {text}")
        if isinstance(problem, ttypes.InvalidObjectException | ttypes.InvalidOperationException):
            return InvalidSettings(f"{failed}: {text}")
        return Unavailable(f"{failed}: {text}")


def _close_all(connections: list[_Connection]) -> None:
    while connections:
        connections.pop().close()


_MEANINGS: Sequence[tuple[str, type[EventLakeError], str]] = (
    (r"has been modified", ChangedError, ""),
    (
        r"No FileSystem for scheme|azurebfs\.\w+ not found",
        InvalidSettings,
        "; the server creates folders of tables itself: give it hadoop-azure",
    ),
    (
        r"403|AccessControlException|Permission denied|AuthorizationPermissionMismatch",
        InsufficientPermissions,
        "; the server creates folders of tables itself: let its identity write to the container",
    ),
)
"""Patterns in the server's messages, the errors they mean, and what to do."""
