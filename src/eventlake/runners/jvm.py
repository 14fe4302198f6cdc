"""Starts Spark's JVM for a local session, in about half the time that spark-submit takes.

spark-submit runs shell scripts and a second JVM only to find out the command that is built here.
"""

import os
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from eventlake.errors import Unavailable
from eventlake.runners import worker_lock
from eventlake.runners.java import Java

# What Spark reaches by reflection in Java 17 and newer.
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
_OPTIONS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
)
# Without these, Java 24 and newer print warnings, which later releases make errors.
_OPTIONS_24 = ("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED")
# An interrupt at the terminal is for this process, which then stops Spark.
_IGNORE_INTERRUPTS = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")


def start_gateway(java: Java, conf: Mapping[str, str], log: Path, options: Sequence[str]) -> Any:
    """Start a JVM with Spark and these settings; return PySpark's gateway to it.

    `options` are options of the JVM beside those that Spark needs. The JVM writes to `log`, and
    ends when the gateway's `proc` is closed or this process ends. Raises `Unavailable` if it ends
    while it starts; the log has the reason.
    """
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - it takes a second

    with tempfile.TemporaryDirectory() as folder, log.open("ab") as output:
        connection = Path(folder) / "connection"
        command = [*_IGNORE_INTERRUPTS, *_command(java, conf, options)]
        jvms: list[subprocess.Popen[bytes]] = []

        def start() -> None:
            jvms.append(
                subprocess.Popen(
                    command,
                    env=_environment(connection, log),
                    stdin=subprocess.PIPE,  # its end makes the JVM exit
                    stdout=output,
                    stderr=output,
                )
            )

        # Signals raise exceptions in the main thread only, so that this one cannot lose the JVM.
        starter = ThreadPoolExecutor(1)
        try:
            starter.submit(start).result()
            [jvm] = jvms
            port, secret = _wait_for_connection(jvm, connection)
        except BaseException:  # such as a cancelled run
            starter.shutdown()  # waits for the thread
            for jvm in jvms:
                with jvm:  # closes its input and waits
                    jvm.kill()  # it would live on: it could not say where it listens
            raise
        starter.shutdown()
    own = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    try:
        os.environ.update(own)
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in own:  # or a child process would use this JVM
            del os.environ[name]
    gateway.proc = jvm
    return gateway


def _command(java: Java, conf: Mapping[str, str], options: Sequence[str]) -> list[str]:
    settings = [word for one in conf.items() for word in ("--conf", "{}={}".format(*one))]
    return [
        java.path,
        *options,
        *_OPTIONS,
        *(_OPTIONS_24 if java.major >= 24 else ()),
        f"-Xmx{conf['spark.driver.memory']}",
        *conf.get("spark.driver.extraJavaOptions", "").split(),
        "-cp",
        ":".join(class_path()),
        "org.apache.spark.deploy.SparkSubmit",
        *settings,
        "pyspark-shell",
    ]


def class_path() -> tuple[str, ...]:
    """Spark's settings folder if there is one, and its jars, in an order that does not change."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415

    home = Path(_find_spark_home())
    settings = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    folders = [str(settings)] if settings.is_dir() else []
    return (*folders, *sorted(str(jar) for jar in (home / "jars").glob("*.jar")))


def _environment(connection: Path, log: Path) -> dict[str, str]:
    """The environment of the JVM, which writes its port and secret to `connection`.

    Without SPARK_HOME, Python workers import pyspark from where it is installed, compiled, and not
    from Spark's zip file, which each of them would have to compile.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    return {
        **inherited,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
        worker_lock.VARIABLE: str(worker_lock.lock_path(log)),
    }


def _wait_for_connection(jvm: "subprocess.Popen[bytes]", connection: Path) -> tuple[int, str]:
    """Wait for a JVM to write the port and the secret of its gateway, and return them."""
    while not connection.exists():
        try:
            status = jvm.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        raise Unavailable(f"JAVA_GATEWAY_EXITED: Java ended with status {status}")
    data = connection.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()
