"""Spark in this process: folders of one user for its files, and why it did not start."""

import os
from pathlib import Path

import pytest

from eventlake.errors import InsufficientPermissions, Unavailable
from eventlake.runners import local
from eventlake.runners.reasons import start_failure
from tests import users


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
