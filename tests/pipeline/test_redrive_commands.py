"""The command `quarantine redrive`, without Spark."""

import json
from pathlib import Path

import pytest
from tests import lakes
from tests.pipeline.test_redrive import MIXED, event, write
from tests.pipeline.test_replay_commands import Command

REDRIVE = ("quarantine", "redrive", "--source", "web")
SET_TIME = ("--set", "receivedAt=2026-11-02T09:00:00Z")
ONLY_TIME = ("--reason", "no_received_at", *SET_TIME)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    lakes.load([write(tmp_path / "a.gz", MIXED)], tmp_path / "lake")
    return Command(tmp_path / "lake", capsys)


def test_redrive(run: Command) -> None:
    assert run(*REDRIVE, *ONLY_TIME, "--dry-run") == 0
    assert "2 quarantined lines of web in" in run.out
    assert "2 would land, unless their message id has landed before\n" in run.out
    assert len(lakes.read_commits(run.lake)) == 1
    assert run(*REDRIVE, *ONLY_TIME) == 0
    assert "received 2 = landed 2\n" in run.out
    assert run(*REDRIVE, *ONLY_TIME) == 0
    assert run.out == "nothing to redrive: no quarantined line matches\n"
    assert run("quarantine", "--source", "web", "--json") == 0
    assert len(run.value) == 4
    lakes.assert_complete(run.lake)


def test_lines_that_stay_invalid_make_it_partial(run: Command) -> None:
    assert run(*REDRIVE, *SET_TIME, "--dry-run") == 0
    assert "2 lines (no_event_name 1, no_message_id 1) would be quarantined again\n" in run.out
    left = "2 lines (not_json 1, not_object 1) not corrected: they stay as they are\n"
    assert left in run.out
    assert run(*REDRIVE, *SET_TIME, "--quiet") == 3
    assert "2 lines (no_event_name 1, no_message_id 1) quarantined again\n" in run.out
    assert left in run.out
    assert run(*REDRIVE, *SET_TIME) == 1
    assert "error: nothing was redriven: the selected lines stay as they are (" in run.err


def test_what_is_printed_as_json_can_be_corrected(run: Command, tmp_path: Path) -> None:
    run("quarantine", "--source", "web", "--json")
    rows, fixed = run.value, tmp_path / "fixed.jsonl"
    rows = [row | {"raw": event(10 + number)} for number, row in enumerate(rows)]
    fixed.write_text("\n".join(map(json.dumps, rows)))
    assert run(*REDRIVE, "--from-file", str(fixed), "--json") == 0
    assert (run.value["counts"]["landed"], run.value["matched"]) == (6, 6)
    assert run("quarantine", "--source", "web") == 0
    assert run.out == "the quarantine is empty\n"
    assert run(*REDRIVE, "--from-file", str(fixed)) == 2
    assert "6 lines are not in the quarantine: line 2 of file://" in run.err
    lakes.assert_complete(run.lake)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*REDRIVE, "--reason", "x"), "reason 'x' is unknown: choose one of bad_type, "),
        ((*REDRIVE, "--set", "x"), "a field to set is 'x': write field=value"),
        ((*REDRIVE, "--since", "x"), "--since is 'x': write 2026-10-01"),
        (("quarantine", "redrive", "--source", "x"), "there is no source 'x' in this lake"),
        ((*REDRIVE, "--from-file", "none", *SET_TIME), "leave --set, --reason and --since out"),
        (("quarantine",), "source is not set: give --source"),
        (("quarantine", "--json", "redrive", "--source", "web"), "write options after redrive"),
    ],
)
def test_mistakes_are_usage_errors(run: Command, words: tuple[str, ...], message: str) -> None:
    assert run(*words) == 2
    assert message in run.err
    assert len(lakes.read_commits(run.lake)) == 1
