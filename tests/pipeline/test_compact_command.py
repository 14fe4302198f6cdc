"""The command `compact`, and `--compact-after` of a load, without Spark."""

from pathlib import Path

import pytest
from tests import lakes
from tests.pipeline.test_replay_commands import Command

from eventlake.model.settings import source_settings
from eventlake.services.retype import retype


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    settings = source_settings(source="web", date_partition="day")
    for file in lakes.small_sample(tmp_path / "raw")[:2]:
        lakes.load([file], tmp_path / "lake", settings=settings)
    return Command(tmp_path / "lake", capsys)


def test_compact(run: Command) -> None:
    before = lakes.assert_complete(run.lake)
    assert run("compact", "--dry-run") == 0
    assert "web: would merge 12 files of" in run.out
    assert run.out.rstrip().endswith("into about 6")
    assert len(lakes.read_commits(run.lake)) == 2
    assert run("compact", "--source", "web", "--quiet") == 0
    assert run.out.startswith("web: merged 12 files of")
    assert " into 6 files of " in run.out
    assert run.err == ""
    lakes.assert_same(lakes.assert_complete(run.lake), before, ("tables", "catalog", "ids"))
    assert run("compact") == 0
    assert run.out == "web: nothing to compact\n"
    assert len(lakes.read_commits(run.lake)) == 3


def test_json(run: Command) -> None:
    assert run("compact", "--json", "--dry-run") == 0
    [plan] = run.value
    assert (plan["status"], plan["run_ids"]) == ("planned", [])
    assert run("compact", "--json") == 0
    [result] = run.value
    assert (result["status"], len(result["run_ids"])) == ("finished", 1)
    assert [table["files"] for table in result["tables"]] == [2] * 6
    assert "compact" in run.err  # the progress


@pytest.mark.parametrize("words", [("--older-than", "soon"), ("--source", "app")])
def test_wrong_options(run: Command, words: tuple[str, ...]) -> None:
    for more in ((), ("--dry-run",)):
        assert run("compact", *words, *more) == 2
        assert run.err.startswith("error: ")
        assert words[1] in run.err
        assert run.out == ""


def test_files_with_other_types_are_mentioned(run: Command) -> None:
    retype("web.page", {"integrations_all": "string"}, lake=run.lake)
    assert run("compact", "--quiet") == 0
    assert "merged 10 files" in run.out
    assert "warning: 2 small files of web stay, because a column has another type" in run.err


def test_after_a_load(run: Command, tmp_path: Path) -> None:
    *_, last = sorted((tmp_path / "raw").iterdir())
    given = ("--source", "web", "--quiet")
    assert run("load", str(last), *given, "--compact-after", "2h") == 0
    assert "\ncompacted 18 files\n" in run.out
    assert "setting compact_after changed from '' to '2h'" in run.out
    assert run("load", str(last), *given, "--compact-after", "x") == 2
    assert "compact_after is 'x': it should be a number" in run.err
    lakes.assert_complete(run.lake)
