"""Spark in this process: folders of one user for its files, and why it did not start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlake.errors import InsufficientPermissions, Unavailable
from eventlake.runners import local
from eventlake.runners.reasons import start_failure
from tests import processes, users


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_each_user_has_a_folder_that_is_closed_to_others(temporary: Path) -> None:
    folder = local.log_path().parent
    assert folder == temporary / f"eventlake-logs-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    warehouse = Path(local._conf("local")["spark.sql.warehouse.dir"])
    assert warehouse == temporary / f"eventlake-warehouse-{os.getuid()}"
    assert warehouse.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_open_is_closed(temporary: Path) -> None:
    folder = temporary / f"eventlake-logs-{os.getuid()}"
    folder.mkdir(mode=0o777)
    assert local.log_path().parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(temporary: Path) -> None:
    folder = temporary / f"eventlake-logs-{os.getuid()}"
    folder.mkdir()
    os.chown(folder, users.NOBODY, users.NOBODY)
    with pytest.raises(InsufficientPermissions, match=rf"{folder} belongs to another user.*TMPDIR"):
        local.log_path()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_folder_is_refused(temporary: Path, kind: str) -> None:
    folder = temporary / f"eventlake-logs-{os.getuid()}"
    if kind == "link":
        (temporary / "elsewhere").mkdir()
        folder.symlink_to(temporary / "elsewhere")
    else:
        folder.touch()
    with pytest.raises(InsufficientPermissions, match=rf"{folder} is not a folder.*TMPDIR"):
        local.log_path()


def test_a_folder_for_temporary_files_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with users.open_folder() as root:
        monkeypatch.setattr("tempfile.tempdir", str(root))
        root.chmod(0o555)
        with (
            users.unprivileged(),
            pytest.raises(
                InsufficientPermissions, match=rf"no permission to write to {root}: set TMPDIR"
            ),
        ):
            local.log_path()
        root.chmod(0o777)


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


STOPPED = """An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
This stopped SparkContext was created at:
\tat x
"""
LOG = """26/11/16 14:46:17 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master
26/11/16 14:47:17 ERROR StandaloneSchedulerBackend: Killed: All masters are unresponsive! Giving up.
26/11/16 14:47:18 WARN StandaloneSchedulerBackend: Application ID is not initialized yet.
"""


def test_a_master_that_cannot_be_reached(tmp_path: Path) -> None:
    """The texts of a Spark that tried for a minute."""
    (tmp_path / "log").write_text(LOG)
    said = start_failure(Unavailable(STOPPED), tmp_path / "log")
    assert said == "StandaloneSchedulerBackend: Killed: All masters are unresponsive! Giving up."
    assert start_failure(Unavailable(STOPPED), tmp_path / "no log").startswith("java.lang.Illegal")
