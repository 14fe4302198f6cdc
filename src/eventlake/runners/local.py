"""A Spark session in this process, or on the cluster that a master address names."""

import hashlib
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import InsufficientPermissions, Unavailable
from eventlake.runners.class_archive import use_archive
from eventlake.runners.java import Java, find_java
from eventlake.runners.jvm import class_path, start_gateway
from eventlake.runners.reasons import start_failure
from eventlake.runners.worker_lock import wait_for_workers

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_CONF = {
    "spark.app.name": "eventlake",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark 4's default: an invalid cast in a query is an error, not null.
    "spark.sql.ansi.enabled": "true",
    # Results are small values for the driver; the rows themselves never pass through the JVM.
    "spark.driver.maxResultSize": "0",
    "spark.executor.memory": "1g",
    # One task is one result row, so adaptive planning has no use.
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.reuse": "true",
    # The JVM only schedules tasks: optimised compilation would cost more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.daemon.module": "eventlake.runners.daemon",
}
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_MARK = "spark.eventlake.settings"
"""Has the digest of the lake's settings in a session's settings."""


@dataclass
class LocalSpark:
    """Provides a session in this process, with local threads or a cluster's executors."""

    master: str = "local[*]"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that the lake needs."""
    memory: str = "1g"
    """The largest heap of the JVM; Python workers have their memory outside it."""
    log: Path | None = None
    """The log of the JVM; by default `log_path()`."""

    @property
    def parallelism(self) -> int:
        # The size of a cluster is not known here.
        return local_cores(self.master) or 16

    def session(self) -> "SparkSession":
        conf = {**self.settings, "spark.driver.memory": self.memory}
        return spark_session(self.master, conf, self.log or log_path())

    def stop(self) -> None:
        self.session().stop()
        if local_cores(self.master):
            wait_for_workers(self.log or log_path())


def spark_session(master: str, settings: Mapping[str, str], log: Path) -> "SparkSession":
    """The session for a master with these Spark settings: the active one, or a new one that
    replaces it; Unavailable if Spark does not start.
    """
    # Imported here because it takes a second.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        active = SparkSession.getActiveSession()
        if active is not None and _fits(active, master, settings):
            return active
    except Exception as problem:
        raise Unavailable(f"the Spark JVM has exited; its log is {log}") from problem
    if active is not None:
        _stop(active, settings)
    is_local = bool(local_cores(master))
    java = find_java(full=not is_local)
    options = use_archive(java, class_path()) if is_local else ()
    return _new_session(master, settings, log, (java, options))


def _new_session(
    master: str, settings: Mapping[str, str], log: Path, jvm: tuple[Java, Sequence[str]]
) -> "SparkSession":
    """A new session, in a JVM of this Java with these options; Unavailable if it does not start."""
    from pyspark import SparkConf  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    all_settings = {**_conf(master), **settings, _MARK: _digest(settings)}
    try:
        conf = SparkConf(loadDefaults=False).setMaster(master).setAll(list(all_settings.items()))
        _start_jvm(master, conf, log, jvm)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        _warm_up(session, master)
        return session
    except Exception as problem:
        _stop_half_started()
        reason = start_failure(problem, log)
        raise Unavailable(
            f"Spark did not start on {master}: {reason}; its log is {log}"
        ) from problem


def run_empty_session(log: Path, options: Sequence[str]) -> None:
    """Start a local session in a JVM with these options, and stop it with its JVM."""
    settings = {"spark.driver.memory": "1g"}
    _stop(_new_session("local[1]", settings, log, (find_java(), options)), NO_SETTINGS)


def _fits(session: "SparkSession", master: str, settings: Mapping[str, str]) -> bool:
    return session.conf.get("spark.master") == master and _has_settings(session, settings)


def _has_settings(session: "SparkSession", settings: Mapping[str, str]) -> bool:
    """Whether a session was started with exactly these settings of a lake."""
    return session.conf.get(_MARK, _digest(NO_SETTINGS)) == _digest(settings)


def _digest(settings: Mapping[str, str]) -> str:
    """A text that differs for other settings, and shows none: they may have passwords."""
    return hashlib.sha256(json.dumps(sorted(settings.items())).encode()).hexdigest()


def _stop(session: "SparkSession", settings: Mapping[str, str]) -> None:
    """Stop a session; and its JVM if `settings` are not its own, because jars are read at start."""
    from pyspark import SparkContext  # noqa: PLC0415

    keep_jvm = _has_settings(session, settings)
    session.stop()
    gateway = SparkContext._gateway
    jvm = getattr(gateway, "proc", None)  # none if spark-submit has started the JVM
    if keep_jvm or gateway is None or jvm is None:
        return
    with jvm:  # closes its input, which makes the JVM exit, and waits
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None


def _start_jvm(master: str, conf: "SparkConf", log: Path, jvm: tuple[Java, Sequence[str]]) -> None:
    """Start Spark's JVM unless it runs, with its output in `log`."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:
        return
    if local_cores(master):
        java, options = jvm
        gateway = start_gateway(java, dict(conf.getAll()), log, options)
    else:  # spark-submit reads the settings of the cluster's software on this machine
        with log.open("ab") as output:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def _stop_half_started() -> None:
    """Stop a partially started session, so that it is not reused."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with suppress(Exception):  # its JVM may be gone
        if session := SparkSession.getActiveSession():
            session.stop()
    with suppress(Exception):
        if context := SparkContext._active_spark_context:
            context.stop()


def _warm_up(session: "SparkSession", master: str) -> None:
    """Start the Python workers with a small job."""
    workers = local_cores(master) or 1
    session.range(0, workers, 1, workers).mapInArrow(lambda batches: batches, "id long").collect()


def local_cores(master: str) -> int | None:
    """Number of threads of a local master; None for a cluster."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,.*)?\])?", master)
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def _conf(master: str) -> dict[str, str]:
    if master.startswith("local"):
        # Workers use this Python; on a cluster PYSPARK_PYTHON may name another path.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return {
        **_CONF,
        "spark.sql.warehouse.dir": str(_private_folder("eventlake-warehouse")),
    }


def log_path(clock: Clock = SYSTEM_CLOCK) -> Path:
    """The log file of this process's Spark."""
    folder = log_folder()
    started = clock.now().strftime("%Y%m%d-%H%M%S")
    return next(iter(folder.glob(f"spark-*-{os.getpid()}.log")), None) or (
        folder / f"spark-{started}-{os.getpid()}.log"
    )


def log_folder() -> Path:
    """The folder of logs, which only this user can read."""
    return _private_folder("eventlake-logs")


def _private_folder(name: str) -> Path:
    """A temporary folder that other users cannot read: logs may quote events."""
    try:
        parent = Path(tempfile.gettempdir())
    except FileNotFoundError as problem:
        raise InsufficientPermissions(
            "no permission to write to any temporary folder: set TMPDIR to one"
        ) from problem
    folder = parent / f"{name}-{os.geteuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError as problem:
        raise InsufficientPermissions(
            f"no permission to write to {parent}: set TMPDIR to another folder ({problem.strerror})"
        ) from problem
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        wrong = "belongs to another user" if stat.S_ISDIR(status.st_mode) else "is not a folder"
        raise InsufficientPermissions(f"{folder} {wrong}: remove it, or set TMPDIR to another one")
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder
