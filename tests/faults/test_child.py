"""Runs in child processes: what they land, and what is left if they are cancelled or killed."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.errors import Conflict, InsufficientPermissions, Internal
from eventlake.lakes import resolve_settings
from eventlake.model.job import JobState, Phase
from eventlake.model.settings import SourceSettings
from eventlake.runners.child import ChildRunner
from eventlake.services.load import LoadResult, load
from tests import lakes, processes
from tests.children import find_processes, make_runner, make_waiting_runner, wait_until_gone

BEFORE_COMMIT = ("read", "dedupe", "evolve", "write", "commit")
AFTER_COMMIT = ("publish", "clean")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return lakes.small_sample(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def once(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> lakes.LakeContents:
    """A lake that was loaded in this process."""
    lake = tmp_path_factory.mktemp("once")
    lakes.load(files, lake)
    return lakes.assert_complete(lake)


def load_in_child(
    files: list[Path],
    lake: Path,
    runner: ChildRunner,
    progress: "Interrupts | None" = None,
    source: str = lakes.SOURCE,
) -> LoadResult:
    settings = SourceSettings(source=source)
    return load(files, lake=lake, settings=settings, where=runner, progress=progress)


@dataclass
class Interrupts:
    """Ctrl-C when a step of the child is shown; remembers all that are."""

    stage: str
    seen: list[str] = field(default_factory=list)

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        self.seen.append(stage)
        if stage == self.stage:
            raise KeyboardInterrupt


def wait_for_step(folder: Path) -> str:
    """Wait until a job is at its step; return the id of its run."""
    processes.wait_for(folder / "at")
    [log] = folder.glob("job-*.log")
    return log.stem.removeprefix("job-")


# A child does what this process would do


@pytest.mark.spark
def test_two_children_side_by_side_land_what_this_process_lands(
    files: list[Path], once: lakes.LakeContents, tmp_path: Path
) -> None:
    """With Spark, on one lake; inputs outside the lake are read where they are."""
    lake = tmp_path / "lake"
    runner = make_runner(lake, tmp_path / "logs", cores=1, memory="512m")
    seen = {source: Interrupts("none") for source in ("web", "app")}

    def run(source: str) -> LoadResult:
        return load_in_child(files, lake, runner, seen[source], source)

    with ThreadPoolExecutor(2) as both:
        results = list(both.map(run, seen))
    assert [result.status for result in results] == ["finished", "finished"]
    found = lakes.assert_complete(lake)
    lakes.assert_same(found, once, [part for part in lakes.WHOLE if part != "reported"])
    assert found.reported == {"web", "app"}
    assert not (lake / "segment-logs").exists()
    for result in results:
        state = runner.state(result.run_id)
        assert (state.phase, state.reason) == (Phase.ENDED, "")
        text = Path(runner.log(result.run_id)).read_text()
        assert text.endswith(f"finished: {result.report}\n")
        assert Path(runner.log(result.run_id)).stat().st_mode & 0o777 == 0o600
    assert {"submit", "read", "write"} <= {*seen["web"].seen}
    wait_until_gone(find_processes(lake))


def test_the_command_line_of_a_child_has_its_settings_and_limits(
    files: list[Path], tmp_path: Path
) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "folder"
    runner = make_waiting_runner(lake, folder, "read", cores=3, memory="2g")
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(load_in_child, files, lake, runner)
        run_id = wait_for_step(folder)
        [child] = find_processes(lake)
        (folder / "go").touch()
        words = child.cmdline()
        assert running.result().status == "finished"
    log = runner.log(run_id)
    assert words[-6:-3] == [log, "local[3]", "2g"]
    assert words[-3:] == [f"segment-stage/{run_id}/job.json", "kind=local", f"path={lake}"]


# Cancelled


def check_untouched(lake: Path) -> None:
    """Assert that a cancelled run left nothing but its report."""
    assert lakes.read_commits(lake) == []
    assert [*lake.glob("segment-stage/*")] == []
    assert find_processes(lake) == []
    reports = lake.glob("segment-data/reports/*/*/*/report.json")
    assert ["the run was cancelled" in path.read_text() for path in reports] == [True]


@pytest.mark.parametrize("stage", BEFORE_COMMIT)
def test_cancelled_before_the_commit(
    files: list[Path], once: lakes.LakeContents, tmp_path: Path, stage: str
) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "folder"
    runner = make_waiting_runner(lake, folder, stage)
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(load_in_child, files, lake, runner)
        run_id = wait_for_step(folder)
        runner.cancel(run_id)
        with pytest.raises(Conflict, match="the run was cancelled; it landed nothing"):
            running.result()
    assert runner.state(run_id).reason.startswith("exit status 1: the run was cancelled")
    check_untouched(lake)
    assert lakes.load(files, lake).status == "finished"
    same = [part for part in lakes.WHOLE if part != "failures"]
    lakes.assert_same(lakes.assert_complete(lake), once, same)


@pytest.mark.parametrize("stage", AFTER_COMMIT)
def test_cancelled_after_the_commit_it_finishes(
    files: list[Path], once: lakes.LakeContents, tmp_path: Path, stage: str
) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "folder"
    runner = make_waiting_runner(lake, folder, stage)
    with ThreadPoolExecutor(2) as beside:
        running = beside.submit(load_in_child, files, lake, runner)
        run_id = wait_for_step(folder)
        cancelling = beside.submit(runner.cancel, run_id)
        time.sleep(0.3)
        assert runner.state(run_id).phase is Phase.RUNNING
        (folder / "go").touch()
        cancelling.result()
        assert running.result().status == "finished"
    lakes.assert_same(lakes.assert_complete(lake), once)


def test_ctrl_c_cancels_the_child_whose_step_is_shown(files: list[Path], tmp_path: Path) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "folder"
    runner = make_waiting_runner(lake, folder, "write")
    with pytest.raises(KeyboardInterrupt):
        load_in_child(files, lake, runner, Interrupts("evolve"))
    check_untouched(lake)


def test_a_child_that_does_not_end_is_killed(
    files: list[Path], once: lakes.LakeContents, tmp_path: Path
) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "folder"
    runner = make_waiting_runner(lake, folder, "publish", grace_seconds=0.2)
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(load_in_child, files, lake, runner)
        run_id = wait_for_step(folder)
        runner.cancel(run_id)
        assert runner.state(run_id) == JobState(Phase.FAILED, "killed by signal 9 (SIGKILL)")
        # The commit was made: whoever waits for the job finishes it.
        assert running.result().status == "finished"
    lakes.assert_same(lakes.assert_complete(lake), once)


@pytest.mark.spark
def test_cancelled_and_killed_on_spark(tmp_path: Path) -> None:
    """While tasks run; neither leaves a JVM, and the next run recovers."""
    raw = lakes.small_sample(tmp_path / "raw", events=20_000)

    def end(name: str) -> None:
        lake = tmp_path / name
        runner = make_runner(lake, tmp_path / f"{name} logs", cores=1, poll_seconds=0.02)
        with ThreadPoolExecutor(1) as beside:
            running = beside.submit(load_in_child, raw, lake, runner)
            run_id = wait_for_tasks(tmp_path / f"{name} logs", lake)
            started = find_processes(lake)
            assert "java" in {one.name() for one in started}
            if name == "cancelled":
                runner.cancel(run_id)
                with pytest.raises(Conflict, match="the run was cancelled"):
                    running.result()
                check_untouched(lake)
            else:
                started[0].kill()
                with pytest.raises(Internal, match=r"killed by signal 9.*logs/job-.*\.log"):
                    running.result()
                assert [*lake.glob("segment-stage/*")]
            wait_until_gone(started)
        time.sleep(1)  # a task that went on would write now
        assert bool([*lake.glob("segment-stage/*")]) == (name == "killed")

    with ThreadPoolExecutor(2) as both:
        list(both.map(end, ("cancelled", "killed")))
    for name in ("cancelled", "killed"):
        assert lakes.load(raw, tmp_path / name).status == "finished"
    found, other = (lakes.assert_complete(tmp_path / name) for name in ("cancelled", "killed"))
    same = [part for part in lakes.WHOLE if part != "failures"]
    lakes.assert_same(found, other, same)
    assert found.rows == 20_000


def wait_for_tasks(logs: Path, lake: Path) -> str:
    """Wait until tasks have staged something; return the id of the run."""
    until = time.monotonic() + processes.PATIENCE
    while not [*lake.glob("segment-stage/*/read/*")]:
        assert time.monotonic() < until
        time.sleep(0.02)
    [log] = logs.glob("job-*.log")
    return log.stem.removeprefix("job-")


# The parent ends


def load_and_die(files: list[Path], lake: Path, folder: Path) -> None:
    load_in_child(files, lake, make_waiting_runner(lake, folder, "write"))


def test_a_child_goes_on_when_its_parent_is_killed(
    files: list[Path], once: lakes.LakeContents, tmp_path: Path
) -> None:
    """Another process can follow it, and leaves its stage alone."""
    lake, folder = tmp_path / "lake", tmp_path / "folder"
    parent = processes.start(load_and_die, files, lake, folder)
    with processes.ended(parent):
        run_id = wait_for_step(folder)
        os.kill(parent.pid or 0, signal.SIGKILL)
        parent.join(10)
    other = ChildRunner(resolve_settings(lake), logs=folder)
    state = other.state(run_id)
    assert state.phase is Phase.RUNNING
    assert state.step is not None
    assert state.step.stage == "evolve"
    assert lakes.load(files[:1], lake, settings=SourceSettings(source="app")).status == "finished"
    assert (lake / "segment-stage" / run_id).exists()
    (folder / "go").touch()
    wait_until_gone(find_processes(lake))
    assert other.state(run_id).phase is Phase.ENDED
    found = lakes.assert_complete(lake)
    lakes.assert_same(found, once, [part for part in lakes.WHOLE if part != "reported"])


def test_a_child_is_cancelled_by_another_process_than_its_parent(
    files: list[Path], tmp_path: Path
) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "folder"
    parent = processes.start(load_and_die, files, lake, folder)
    with processes.ended(parent):
        run_id = wait_for_step(folder)
        os.kill(parent.pid or 0, signal.SIGKILL)
        parent.join(10)
    other = ChildRunner(resolve_settings(lake), logs=folder)
    other.cancel(run_id)
    state = other.state(run_id)
    assert (state.phase, state.reason.partition(";")[0]) == (Phase.FAILED, "the run was cancelled")
    check_untouched(lake)


# What does not start


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit('no licence')", "exit status 1: no licence"),
        ("import no_such_module", "exit status 1: ModuleNotFoundError: No module named"),
        ("import os; os.abort()", r"killed by signal 6 \(SIGABRT\)"),
        ("", "the job ended without a commit"),
    ],
)
def test_a_job_that_ends_at_once_is_an_error_with_its_log(
    files: list[Path], tmp_path: Path, script: str, reason: str
) -> None:
    lake, logs = tmp_path / "lake", tmp_path / "logs"
    runner = make_runner(lake, logs, command=(sys.executable, "-c", script))
    with pytest.raises(Internal, match=reason) as caught:
        load_in_child(files, lake, runner)
    [log] = logs.iterdir()
    assert str(caught.value).endswith(f" is {log}")
    assert [*lake.glob("segment-stage/*")] == []
    assert lakes.load(files, lake).status == "finished"


def test_a_log_that_cannot_be_written_is_an_error_that_names_it(
    files: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("")
    runner = make_runner(tmp_path / "lake", tmp_path / "logs")
    with pytest.raises(InsufficientPermissions, match=r"cannot write the log .*/logs/job-"):
        load_in_child(files, tmp_path / "lake", runner)
    assert [*(tmp_path / "lake").glob("segment-stage/*")] == []


def test_a_job_whose_log_is_gone_has_failed(tmp_path: Path) -> None:
    runner = ChildRunner(resolve_settings(tmp_path), logs=tmp_path)
    assert runner.state("1") == JobState(Phase.FAILED, "its log is empty")
    runner.cancel("1")


class EndsWhileLookedAt(ChildRunner):
    """Its jobs end between two looks at them."""

    def _is_running(self, handle: str) -> bool:
        self._children[handle].wait(processes.PATIENCE)
        return super()._is_running(handle)


def test_a_job_that_ends_while_it_is_looked_at_says_why(tmp_path: Path) -> None:
    script = "import time; time.sleep(0.5); raise SystemExit('no licence')"
    command = (sys.executable, "-c", script)
    runner = EndsWhileLookedAt(resolve_settings(tmp_path), logs=tmp_path, command=command)
    job = runner.submit("load", "stage/1/job.json")
    assert runner.state(job) == JobState(Phase.FAILED, "exit status 1: no licence")
