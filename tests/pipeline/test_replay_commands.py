"""The commands `replay`, `retype` and `drop`, without Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests import lakes
from tests.lakes import ApiWithoutSpark

from eventlake.cli.main import main


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lakes.load(lakes.small_sample(tmp_path / "raw"), tmp_path / "lake")
    return tmp_path / "lake"


class Command:
    """Runs a command on a lake and keeps what it printed."""

    def __init__(self, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.lake, self.capsys, self.out, self.err = lake, capsys, "", ""

    def __call__(self, *words: str) -> int:
        self.capsys.readouterr()
        code = main([*words, "--lake", str(self.lake)], ApiWithoutSpark())
        self.out, self.err = self.capsys.readouterr()
        return code

    @property
    def value(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(lake: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(lake, capsys)


DAY = ("--from", "2026-11-01", "--to", "2026-11-02")


def test_replay(run: Command) -> None:
    before = lakes.assert_complete(run.lake)
    assert run("replay", "--source", "web", *DAY, "--dry-run") == 0
    assert "from 2026-11-01 00:00 to 2026-11-02 00:00 (UTC)" in run.out
    assert "3 raw logs of" in run.out
    assert len(lakes.read_commits(run.lake)) == 1
    assert run("replay", "--source", "web", *DAY) == 0
    assert f"replaced {before.rows} rows in" in run.out
    assert run("replay", "--source", "web", "--all", "--set", "date_partition=day", "--json") == 0
    assert run.value["counts"]["landed"] == run.value["replaced_rows"] == before.rows
    assert lakes.assert_complete(run.lake).rows == before.rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the time to replay is not set: give --from and --to, or --all"),
        (("--all", "--set", "naming"), "'naming': write name=value"),
        (("--all", "--set", "source=x"), "a replay cannot change which source it is"),
        (("--all", "--set", "colour=x"), "colour is not a setting"),
        (("--all", "--set", "ledger_folder=x"), "ledger_folder is not a setting"),
        (("--all", "--set", "naming=x"), "naming is 'x'"),
        (("--all", "--set", "partition_by_slug=true", "--set", "x=y"), "x is not a setting"),
    ],
)
def test_a_wrong_replay(run: Command, words: tuple[str, ...], message: str) -> None:
    assert run("replay", "--source", "web", *words) == 2
    assert message in run.err
    assert len(lakes.read_commits(run.lake)) == 1


def test_the_advice_for_a_fixed_setting_can_be_followed(run: Command, tmp_path: Path) -> None:
    raw = str(tmp_path / "raw")
    assert run("load", raw, "--source", "web", "--date-partition", "day") == 2
    advice = run.err.partition("`eventlake ")[2].partition("`")[0]
    assert advice == "replay --source web --all --set date_partition=day"
    assert run(*advice.split()) == 0
    assert run("load", raw, "--source", "web", "--date-partition", "day") == 0
    assert "3 files were loaded before" in run.out


def test_drop_asks_for_the_name(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("drop", "--source", "web", "--dry-run") == 0
    assert "would drop 6 tables and the quarantine of web" in run.out
    assert run("drop", "--source", "web", "--yes", "ios") == 2
    assert "'ios' is not 'web': nothing was dropped" in run.err
    assert len(lakes.read_commits(run.lake)) == 1
    assert run("drop", "--source", "web", "--tables", "page", "--yes", "web") == 0
    assert "`eventlake replay --source web --all --event page` builds them again" in run.out
    assert run("drop", "--source", "web", "--yes", "web", "--json") == 0
    assert (run.value["status"], run.value["is_whole"]) == ("finished", True)
    assert lakes.assert_complete(run.lake).tables == {}


def test_retype(run: Command) -> None:
    word = "integrations_all=string"
    assert run("retype", "web.page", word, "--dry-run") == 0
    assert "integrations_all would become string; it was boolean" in run.out
    assert len(lakes.read_commits(run.lake)) == 1
    assert run("retype", "web.page", word) == 0
    assert "engines may refuse the column until these partitions are replayed" in run.out
    assert run("replay", "--source", "web", "--all", "--event", "page") == 0
    assert run("schema", "web.page") == 0
    assert "string, pinned" in run.out
    assert run("retype", "web.page", "integrations_all=boolean", "--replay", "--json") == 0
    assert run.value["replaced_rows"] == run.value["counts"]["landed"]
    assert run("retype", "web.page", "integrations_all=float") == 2
    assert run("retype", "web.page", "integrations_all=bigint", "integrations_all=string") == 2
    assert "integrations_all is given twice: as bigint and as string" in run.err
    lakes.assert_complete(run.lake)
