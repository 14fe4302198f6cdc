"""A Spark session in this process, or on the cluster that a master address names."""

import os
import re
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventlake.errors import InsufficientPermissions, Unavailable
from eventlake.runners.java import check_java
from eventlake.runners.reasons import start_failure

if TYPE_CHECKING:
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
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    # One task is one result row, so adaptive planning has no use.
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.reuse": "true",
    # The JVM only schedules tasks: optimised compilation would cost more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.daemon.module": "eventlake.runners.daemon",
}


@dataclass
class LocalSpark:
    """Provides a session in this process, with local threads or a cluster's executors."""

    master: str = "local[*]"

    @property
    def parallelism(self) -> int:
        # The size of a cluster is not known here.
        return local_cores(self.master) or 16

    def session(self) -> "SparkSession":
        return spark_session(self.master)


def spark_session(master: str) -> "SparkSession":
    """The session for a master: the active one, or a new one that replaces it; Unavailable if
    Spark does not start.
    """
    # Imported here because it takes a second.
    from pyspark import SparkConf  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        active = SparkSession.getActiveSession()
        active_master = active.conf.get("spark.master") if active else None
    except Exception as problem:
        raise Unavailable(f"the Spark JVM has exited; its log is {log_path()}") from problem
    if active is not None:
        if active_master == master:
            return active
        active.stop()
    check_java()
    log = log_path()
    settings = _conf(master)
    try:
        conf = SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))
        _start_jvm(conf, log)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        _warm_up(session, master)
        return session
    except Exception as problem:
        _stop_half_started()
        reason = start_failure(problem, log)
        raise Unavailable(
            f"Spark did not start on {master}: {reason}; its log is {log}"
        ) from problem


def _start_jvm(conf: Any, log: Path) -> None:
    """Start Spark's JVM unless it runs, with its output in `log`."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is None:
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


def log_path() -> Path:
    """The log file of this process's Spark."""
    folder = _private_folder("eventlake-logs")
    started = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return next(iter(folder.glob(f"spark-*-{os.getpid()}.log")), None) or (
        folder / f"spark-{started}-{os.getpid()}.log"
    )


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
