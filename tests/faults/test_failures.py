"""Failed runs: what remains, what they report, and what the next run does."""

import json
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from eventlake.errors import EventLakeError, Internal
from tests import lakes, processes
from tests.stores import WatchedDisk


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return lakes.small_sample(tmp_path_factory.mktemp("raw"))


def check_failed(lake: Path) -> dict[str, Any]:
    """Assert that only a failure report remains, and return its line."""
    assert not [*lake.glob("segment-stage/*")]
    assert lakes.read_commits(lake) == []
    [report] = lake.glob("segment-data/reports/*/*/*/report.json")
    line: dict[str, Any] = json.loads(report.read_text())
    assert line["status"] == "failed"
    return line


# Spark is lost


class LostSpark(lakes.InlineRunner):
    """A JVM that is gone when the second step uses it."""

    asked = 0

    def range(self, start: int, end: int, step: int, partitions: int) -> lakes.Frame:
        LostSpark.asked += 1
        if LostSpark.asked == 2:
            raise ConnectionRefusedError("no JVM here")
        return super().range(start, end, step, partitions)


def test_a_run_that_lost_its_spark_has_failed(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(Internal, match="Spark"):
        lakes.load(files, tmp_path, runner=LostSpark)
    assert check_failed(tmp_path)["error_code"] == "EventLake.Internal"


@dataclass
class KillsTheJvm:
    """Kills this process's JVM at a step."""

    stage: str

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage:
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # other processes end meanwhile
                    if child.name() == "java":
                        child.kill()
                        child.wait(10)


def load_without_a_jvm(files: list[Path], lake: Path, output: Path) -> None:
    try:
        lakes.load(files, lake, KillsTheJvm("write"), runner=lakes.SparkRunner)
    except EventLakeError as problem:
        output.write_text(f"{type(problem).__name__}: {problem}")


@pytest.mark.spark
def test_a_jvm_that_is_killed_is_an_error_that_names_the_log(
    files: list[Path], tmp_path: Path
) -> None:
    """As the kernel does when memory runs out."""
    lake, output = tmp_path / "lake", tmp_path / "output"
    assert processes.finish(processes.start(load_without_a_jvm, files, lake, output)) == 0
    assert output.read_text().partition(":")[0] in ("Internal", "Unavailable")
    assert f"eventlake-logs-{os.geteuid()}/spark-" in output.read_text()
    check_failed(lake)


# Interrupts


@dataclass
class Interrupts:
    """Ctrl-C at a step."""

    stage: str

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage:
            raise KeyboardInterrupt


def test_an_interrupted_run_leaves_a_report(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        lakes.load(files, tmp_path, Interrupts("write"))
    check_failed(tmp_path)
    assert lakes.load(files, tmp_path).status == "finished"
    assert lakes.assert_complete(tmp_path).rows == 240


@pytest.mark.parametrize("stage", ["publish", "register", "report", "clean"])
def test_a_run_interrupted_after_its_commit_is_carried_out_by_the_next(
    files: list[Path], tmp_path: Path, stage: str
) -> None:
    """In the same process: a living process does not mean a living run."""
    with pytest.raises(KeyboardInterrupt):
        lakes.load(files[:2], tmp_path, Interrupts(stage))
    assert lakes.load(files, tmp_path).status == "finished"
    assert lakes.assert_complete(tmp_path).rows == 240


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), Internal("no answer")])
def test_a_commit_whose_answer_is_lost_stands(
    files: list[Path], tmp_path: Path, problem: BaseException
) -> None:
    def fail(operation: str, path: str) -> None:
        if operation == "create" and "/ledger/" in path:
            raise problem

    with pytest.raises(type(problem)):
        lakes.load(files[:2], WatchedDisk(str(tmp_path), after=fail).lake())
    assert len(lakes.read_commits(tmp_path)) == 1
    lakes.load(files, tmp_path)
    assert lakes.assert_complete(tmp_path).rows == 240


@pytest.mark.spark
def test_ctrl_c_ends_the_command_with_130(files: list[Path], tmp_path: Path) -> None:
    """A terminal sends the signal to the whole process group."""
    process = processes.popen("load", *files, "--source", "web", "--lake", tmp_path)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("read"):
                break
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=processes.PATIENCE)
    finally:
        process.kill()
        process.wait()
        processes.end_session(process.pid)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted; run the same command again to finish"
    assert "Traceback" not in err
    check_failed(tmp_path)


# Partial runs


def blocked(path: Path) -> Path:
    """A folder where a catalog's file should be."""
    (path / "in the way").mkdir(parents=True)
    return path


@pytest.mark.parametrize("name", ["web/page", "__segment_datalake/sync_reports"])
def test_a_partial_run_is_completed_by_the_next_in_the_same_process(
    files: list[Path], tmp_path: Path, name: str
) -> None:
    """A table that cannot be registered does not stop the others, nor does that of the reports."""
    path = blocked(tmp_path / f"segment-data/catalog/{name}.json")
    result = lakes.load(files[:2], tmp_path)
    assert result.status == "partial"
    assert (tmp_path / result.report).exists()
    shutil.rmtree(path)
    assert lakes.load(files, tmp_path).status == "finished"
    assert lakes.assert_complete(tmp_path).rows == 240


def test_a_table_that_stays_blocked_does_not_stop_later_runs(
    files: list[Path], tmp_path: Path
) -> None:
    path = blocked(tmp_path / "segment-data/catalog/web/page.json")
    assert lakes.load(files[:2], tmp_path).status == "partial"
    assert lakes.load(files, tmp_path).status == "partial"
    shutil.rmtree(path)
    assert lakes.load(files, tmp_path).status == "nothing"
    found = lakes.assert_complete(tmp_path)
    assert found.rows == 240
    assert {line["status"] for report in found.reports for line in report} == {"finished"}
