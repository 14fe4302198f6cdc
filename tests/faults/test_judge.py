"""What the lake knows of a run whose process is gone, killed at the ends of every stage."""

import signal
from pathlib import Path

import pytest

from eventlake.control.results import read_outcome
from eventlake.services.judge import Judgement, Verdict, judge_run
from tests import lakes
from tests.faults.kills import AtStep, ends_of_stages, killed_at_step, run
from tests.lakes import SOURCE, Recorder, small_sample


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return small_sample(tmp_path_factory.mktemp("raw"))[:2]


def find_run(lake: Path) -> str:
    """The id of the lake's one run, of which there is a stage or a commit."""
    staged = [path.name for path in (lake / "segment-stage").glob("[0-9]*")]
    committed = [commit["run_id"] for commit in lakes.read_commits(lake)]
    return next(iter([*committed, *staged]), "1772442000000000000")


def test_a_killed_run_is_judged_by_its_commit(
    files: list[Path], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    recorder = Recorder()
    whole = lakes.load(files, tmp_path / "whole", recorder)
    committing = recorder.steps.index(("commit", 0))
    for number, step in ends_of_stages(recorder.steps):
        with subtests.test(step=step):
            lake = tmp_path / f"{number}"
            assert run(killed_at_step, files, lake, AtStep(number)) == -signal.SIGKILL
            judgement = judge_run(lake, SOURCE, find_run(lake))
            if number <= committing:
                assert judgement == Judgement(verdict=Verdict.GONE)
                continue
            outcome = read_outcome(judgement.report)
            assert (judgement.verdict, outcome.state) == (Verdict.ENDED, "finished")
            assert outcome.tables[0].rows == whole.counts.landed
            assert judge_run(lake, SOURCE, find_run(lake)) == judgement


def test_a_run_that_is_alive_is_not_judged(files: list[Path], tmp_path: Path) -> None:
    seen: list[Verdict] = []

    class Judge:
        """Judges the run at each of its stages."""

        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage in ("write", "commit", "publish"):
                judgement = judge_run(tmp_path / "lake", SOURCE, find_run(tmp_path / "lake"))
                seen.append(judgement.verdict)

    result = lakes.load(files, tmp_path / "lake", Judge())
    assert set(seen) == {Verdict.RUNNING}
    judgement = judge_run(tmp_path / "lake", SOURCE, result.run_id)
    assert read_outcome(judgement.report).tables[0].rows == result.counts.landed


def test_a_run_that_failed_is_judged_by_its_report(files: list[Path], tmp_path: Path) -> None:
    class Fail:
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage == "write":
                self.run_id = find_run(tmp_path / "lake")
                raise OSError("the disk is full")

    progress = Fail()
    with pytest.raises(Exception, match="disk is full"):
        lakes.load(files, tmp_path / "lake", progress)
    judgement = judge_run(tmp_path / "lake", SOURCE, progress.run_id)
    outcome = read_outcome(judgement.report)
    assert (judgement.verdict, outcome.state) == (Verdict.ENDED, "failed")
    assert "disk is full" in outcome.error
