"""A metastore of our own in front of a database: Hive's, from the jars that Spark brings.

It answers on loopback only, and ends with this process or when no catalog uses it any more.
"""

import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from weakref import WeakValueDictionary

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from eventlake.catalogs.hive_calls import MAX_CONNECTIONS, Address
from eventlake.catalogs.maven import Artifact, find_files, spark_jars
from eventlake.catalogs.metastore_database import NEW_SCHEMA, MetastoreDatabase
from eventlake.errors import Unavailable

HOST = "127.0.0.1"
DRIVER = Artifact("org.mariadb.jdbc", "mariadb-java-client", "3.5.11")
"""Not MySQL's own, whose licence is the GPL."""
HIVE = Artifact("org.apache.hive", "hive-standalone-metastore", "3.1.3", "bin", "tar.gz")
"""The archive that has the scripts of all schemas."""
JVM_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC"]


class _Server:
    """A running server; it ends when nothing refers to it any more."""

    def __init__(
        self, port: int, process: "subprocess.Popen[bytes]", folder: "TemporaryDirectory[str]"
    ) -> None:
        self.port = port
        self._process = process
        weakref.finalize(self, _stop, process, folder)

    def is_alive(self) -> bool:
        return self._process.poll() is None


_servers: "WeakValueDictionary[tuple[str, ...], _Server]" = WeakValueDictionary()
"""The servers of this process, which the catalogs of one lake share."""
_starting = threading.Lock()


@dataclass(frozen=True)
class PrivateMetastore:
    """Starts a metastore on a database when it is first used."""

    database: MetastoreDatabase
    root: str
    """The lake's root, below which the locations of all tables are."""
    databases_path: str
    find_java: Callable[[], str]
    jars: str = ""
    """A folder with the files that are not downloaded then."""
    _own: list[_Server] = field(default_factory=list, init=False, compare=False)

    def addresses(self) -> Sequence[Address]:
        """The server's address; starts it if it does not run."""
        key = (str(self.database), self.database.user, self.root)
        with _starting:
            server = _servers.get(key)
            if server is None or not server.is_alive():
                server = _servers[key] = self._start()
            self._own[:] = [server]
        return [(HOST, server.port)]

    def _start(self) -> _Server:
        java = self.find_java()
        version = self.database.ensure_schema(lambda: find_files(self.jars, [HIVE], java)[0])
        (driver,) = find_files(self.jars, [DRIVER], java)
        empty = TemporaryDirectory(prefix="eventlake-metastore-", ignore_cleanup_errors=True)
        process = _start_jvm(java, driver)
        try:
            gateway = _connect(process, java)
            port = _serve(gateway.jvm, self._settings(version, Path(empty.name)))
            gateway.close()
            return _Server(port, process, empty)
        except (Py4JError, Py4JNetworkError) as problem:
            _stop(process, empty)
            raise Unavailable(
                f"the metastore for {self.database} did not start: {_first_cause(problem)}"
            ) from problem

    def _settings(self, version: str, empty: Path) -> dict[str, str]:
        authority = self.root.partition("://")[2]
        return {
            "javax.jdo.option.ConnectionURL": self.database.jdbc_url,
            "javax.jdo.option.ConnectionDriverName": "org.mariadb.jdbc.Driver",
            "javax.jdo.option.ConnectionUserName": self.database.user,
            "javax.jdo.option.ConnectionPassword": self.database.password,
            "hive.metastore.schema.verification": str(version == NEW_SCHEMA).lower(),
            "hive.metastore.warehouse.dir": f"{self.root}/{self.databases_path}",
            # The files of a table are in the type that it has, so every change is compatible.
            "hive.metastore.disallow.incompatible.col.type.changes": "false",
            "datanucleus.connectionPoolingType": "DBCP",  # Spark has no BoneCP
            "datanucleus.connectionPool.maxPoolSize": str(2 * MAX_CONNECTIONS),
            # Hive creates the folders of tables. They exist already, as they have files, so every
            # path is shown to it as one existing folder. It needs no access to the lake then.
            "fs.abfss.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
            f"fs.viewfs.mounttable.{authority}.linkRegex.^.*$": empty.as_uri(),
            "hive.stats.autogather": "false",
        }


def _start_jvm(java: str, driver: Path) -> "subprocess.Popen[bytes]":
    """Start a JVM that ends with this process, and waits for calls of py4j."""
    main = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
    return subprocess.Popen(
        [java, *JVM_OPTIONS, "-cp", f"{spark_jars()}/*:{driver}", *main],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C is for this process, which may still need the server
    )


def _connect(process: "subprocess.Popen[bytes]", java: str) -> JavaGateway:
    """Connect to a JVM by the port and the token that it prints."""
    assert process.stdout is not None
    port, token = process.stdout.readline().strip(), process.stdout.readline().strip()
    if not token:
        raise Py4JError(f"Java does not work: try {java} -version")
    threading.Thread(target=_read_to_end, args=(process.stdout,), daemon=True).start()
    parameters = GatewayParameters(
        port=int(port),
        auth_token=token.decode(),
        enable_memory_management=False,  # the JVM keeps the server when Python forgets it
    )
    return JavaGateway(gateway_parameters=parameters)


def _read_to_end(output: IO[bytes]) -> None:
    with output:
        deque(output, maxlen=0)


def _serve(jvm: Any, settings: dict[str, str]) -> int:
    """Start the metastore in a JVM; return its port.

    The password goes to the JVM by this call, so that it is in no file or argument. Hive's own
    main function would listen on all of the machine's addresses.
    """
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    for name, value in settings.items():
        conf.set(name, value)
    metastore, thrift = jvm.org.apache.hadoop.hive.metastore, jvm.org.apache.thrift
    in_process = False
    handler = metastore.HiveMetaStore.newRetryingHMSHandler("eventlake", conf, in_process)
    socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress(HOST, 0))
    arguments = getattr(thrift.server, "TThreadPoolServer$Args")(socket)
    arguments.processor(metastore.TSetIpAddressProcessor(handler))
    _start_thread(jvm, thrift.server.TThreadPoolServer(arguments))
    return int(socket.getServerSocket().getLocalPort())


def _start_thread(jvm: Any, server: Any) -> None:
    """Call `server.serve()` in a thread of the JVM: a call from here would last as long."""
    invoke = jvm.java.lang.invoke
    returns_nothing = invoke.MethodType.methodType(jvm.java.lang.Void.TYPE)
    lookup = invoke.MethodHandles.publicLookup()
    serve = lookup.findVirtual(server.getClass(), "serve", returns_nothing).bindTo(server)
    runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
    jvm.java.lang.Thread(invoke.MethodHandleProxies.asInterfaceInstance(runnable, serve)).start()


def _stop(process: "subprocess.Popen[bytes]", folder: "TemporaryDirectory[str]") -> None:
    """Kill a JVM: it keeps nothing in memory that the database does not have."""
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
    folder.cleanup()


def _first_cause(problem: Exception) -> str:
    """The message of the exception that caused a failure in the JVM."""
    if not isinstance(problem, Py4JJavaError):
        return str(problem)
    cause = problem.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.toString()).partition("\n")[0]
