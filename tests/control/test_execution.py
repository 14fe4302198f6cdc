"""The work of runs, without a server: checks before a sync, and ends that the lake decides."""

import signal
from pathlib import Path

import pytest

from eventlake.control.connections import connect
from eventlake.control.database import Database
from eventlake.control.endings import LOST
from eventlake.control.lakes import add_lake
from eventlake.control.runs import RunState, request_run
from eventlake.control.sources import add_source
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from eventlake.ports import NoProgress
from eventlake.worker.execution import execute, judge, make_hooks, read_task
from eventlake.worker.kinds import Hooks, Task
from tests import lakes
from tests.clocks import SimulatedClock
from tests.control.world import KEY
from tests.faults.kills import AtStep, killed_at_step, run
from tests.lakes import SETTINGS, small_sample


@pytest.fixture
def task(database: Database, clock: SimulatedClock, tmp_path: Path) -> Task:
    """A sync of a source without events; the folder of its lake is not there yet."""
    vault, now = Vault([KEY]), clock.now()
    with database.write() as session:
        ensure_workspace(session, now)
        add_lake(session, "main", "local", {"path": str(tmp_path / "lake")}, vault, now)
        add_source(session, "web", now)
        connect(session, "web", "main", {"date_partition": "day"}, now)
        return read_task(session, request_run(session, "web", "sync", "ada", now), vault)


def no_plan(run_id: str) -> None:
    raise AssertionError(f"{run_id} was planned")


def hooks_of(task: Task) -> Hooks:
    """Hooks of a run that must plan nothing."""
    return make_hooks(task, NoProgress(), no_plan, no_plan)


def test_a_source_without_events_has_nothing_to_do(task: Task) -> None:
    assert task.source.date_partition == "day"
    outcome = execute(task, hooks_of(task))
    assert outcome
    assert (outcome.state, outcome.error) == ("finished", "")


def test_a_run_that_checks_first_syncs_only_if_the_checks_pass(task: Task, tmp_path: Path) -> None:
    checking = task._replace(run=task.run.model_copy(update={"check_first": True}))
    outcome = execute(checking, hooks_of(checking))
    assert outcome
    assert (outcome.state, outcome.error_code) == (
        RunState.FAILED,
        "EventLake.InvalidSettings",
    )
    assert "the check 'access' fails: no such folder" in outcome.error
    (tmp_path / "lake").mkdir()
    outcome = execute(checking, hooks_of(checking))
    assert outcome
    assert outcome.state == "finished"


@pytest.mark.parametrize(("stage", "state"), [("write", "failed"), ("publish", "finished")])
def test_the_lake_says_how_a_killed_run_ended(
    task: Task, tmp_path: Path, stage: str, state: str
) -> None:
    files, lake = small_sample(tmp_path / "raw")[:2], tmp_path / "lake"
    assert run(killed_at_step, files, lake, AtStep(0, stage)) == -signal.SIGKILL
    staged = [path.name for path in (lake / "segment-stage").glob("[0-9]*")]
    run_of_lake = task.run.model_copy(update={"lake_run": staged[0]})
    outcome = judge(task._replace(source=SETTINGS, run=run_of_lake))
    assert outcome
    assert outcome.state == state
    if state == "failed":
        assert (outcome.error, outcome.error_code) == (LOST.error, LOST.error_code)
    else:
        landed = lakes.read_commits(lake)[0]["counts"]["landed"]
        assert outcome.tables[0].rows == landed > 0


def test_a_run_without_a_plan_has_landed_nothing(task: Task) -> None:
    assert judge(task) == LOST
