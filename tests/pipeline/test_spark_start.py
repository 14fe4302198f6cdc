"""How Spark starts, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import processes
from tests.tiers import long

START = """if True:
    import sys
    from eventlake.errors import Unavailable
    from eventlake.runners import local
    master, memory, *conf = sys.argv[1:]
    local._CONF.update(dict(word.split("=", 1) for word in conf))
    for _ in range(2):  # what did not start is not taken for a session that runs
        try:
            local.LocalSpark(master, memory=memory).session()
        except Unavailable as problem:
            print(problem)
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["nonsense", "1g"], "Master must either be yarn or start with spark, k8s, or local"),
        (["local[1]", "1k"], "Too small maximum heap"),
        (["local[1]", "1g", "spark.python.daemon.module=no.such"], "No module named 'no'"),
        (["local[1]", "1g", "spark.task.cpus=9"], "number of cpus per task = 9"),
    ],
)
def test_a_spark_that_does_not_start_says_why(given: list[str], reason: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", START, *given],
        env={**os.environ, **processes.SHORT_LIVED},
        capture_output=True,
        text=True,
        check=True,
        timeout=processes.PATIENCE,
    )
    lines = ran.stdout.splitlines()
    assert len(lines) == 2, ran.stdout + ran.stderr
    for line in lines:
        assert line.startswith(f"Spark did not start on {given[0]}: ")
        assert reason in line.partition("; its log is ")[0]


SETTINGS = """if True:
    from pyspark import SparkContext
    from eventlake.runners.local import LocalSpark

    def start(settings):
        session = LocalSpark("local[1]", settings).session()
        values = [session.conf.get(f"spark.{name}", "unset") for name in ("x", "task.maxFailures")]
        return session, SparkContext._gateway.proc, values

    settings = {"spark.x": "1", "spark.task.maxFailures": "3"}
    first, jvm, values = start(settings)
    print(*values)
    print("reused", start(dict(reversed(settings.items())))[0] is first)
    second, other_jvm, values = start({"spark.x": "2"})
    print(*values)
    print("same JVM", other_jvm is jvm, "the first has ended", jvm.poll() is not None)
"""


@pytest.mark.spark
def test_a_session_has_the_settings_of_the_lake_and_no_others() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SETTINGS],
        env={**os.environ, **processes.SHORT_LIVED},
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.PATIENCE,
    )
    assert ran.stdout.splitlines() == [
        "1 3",
        "reused True",
        "2 unset",
        "same JVM False the first has ended True",
    ], ran.stdout + ran.stderr


ARCHIVE = """if True:
    import atexit
    from pyspark import SparkContext
    from eventlake.runners import class_archive, local
    began = []
    atexit.register = began.append
    make = class_archive._start_making
    session = local.LocalSpark("local[1]").session()
    print(make in began)
    options = SparkContext._gateway.proc.args
    print(any(word.startswith("-XX:SharedArchiveFile=") for word in options))
    log = local.log_path().read_text()
    print("shared archive" in log.lower(), "SharedArchiveFile" in log)
"""


@long
@pytest.mark.spark
def test_spark_starts_from_the_archive_of_its_classes_once_it_is_made(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}

    def run(*command: str) -> list[str]:
        ran = subprocess.run(
            [sys.executable, *command],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=processes.PATIENCE,
        )
        return ran.stdout.splitlines()

    assert run("-c", ARCHIVE) == ["True", "False", "False False"]
    run("-m", "eventlake.runners.class_archive")
    (archive,) = (tmp_path / "eventlake").glob("*.jsa")
    assert run("-c", ARCHIVE) == ["False", "True", "False False"]
    made = archive.stat()
    run("-m", "eventlake.runners.class_archive")
    assert archive.stat() == made
    archive.chmod(0o600)
    archive.write_bytes(b"no archive")
    assert run("-c", ARCHIVE)[:2] == ["False", "True"]  # Java goes on without it


INTERRUPTED = """if True:
    import os, signal, sys, time
    from pathlib import Path
    import psutil
    from eventlake.pipeline.tasks import Watch, run_tasks
    from eventlake.runners.local import LocalSpark
    pid = Path(sys.argv[1])

    def end_slowly(*_):
        time.sleep(1)
        os._exit(1)

    def work(number):
        signal.signal(signal.SIGHUP, end_slowly)  # how Spark's daemon ends its workers
        pid.with_suffix(".new").write_text(str(os.getpid()))
        pid.with_suffix(".new").rename(pid)
        time.sleep(60)
        return b""

    def interrupt():
        if pid.exists():
            raise KeyboardInterrupt

    def is_running(number):
        try:
            return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    try:
        run_tasks(LocalSpark("local[1]"), 1, work, Watch(interrupt, 0.02))
    except KeyboardInterrupt:
        print("running", is_running(int(pid.read_text())))
"""


@pytest.mark.spark
def test_an_interrupt_waits_for_workers_that_still_write(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "pid")],
        env={**os.environ, **processes.SHORT_LIVED},
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.PATIENCE,
    )
    assert ran.stdout == "running False\n", ran.stderr
