"""What a load would do, found out without writing anything."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests import lakes
from tests.faults.test_names import events

from eventlake.cli.main import main
from eventlake.errors import InvalidSettings
from eventlake.model.settings import source_settings
from eventlake.services.load import plan_load, plan_sync

WEB = source_settings(source="web")


def snapshot(folder: Path) -> dict[Path, Any]:
    """Every file below a folder, with its content and time of change."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_lake_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    file = events(tmp_path / "a.json", "a", range(3))
    plan = plan_load([file], lake=tmp_path / "lake", settings=WEB)
    assert plan.files == (file.as_uri(),)
    assert plan.bytes == file.stat().st_size
    assert (plan.already_loaded, plan.tables) == (0, ())
    assert not (tmp_path / "lake").exists()


def test_files_that_were_loaded_before_are_left_out(tmp_path: Path) -> None:
    one = events(tmp_path / "raw/1.json", "a", range(3))
    lakes.load([one], tmp_path / "lake")
    two = events(tmp_path / "raw/2.json", "b", range(3))
    before = snapshot(tmp_path / "lake")
    plan = plan_load([tmp_path / "raw"], lake=tmp_path / "lake", settings=WEB)
    assert (plan.files, plan.already_loaded) == ((two.as_uri(),), 1)
    assert plan.tables == ("web.order_done",)
    assert snapshot(tmp_path / "lake") == before


def test_a_crashed_run_is_named_and_left_alone(tmp_path: Path) -> None:
    class Stops:
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage == "publish":
                raise KeyboardInterrupt

    one = events(tmp_path / "1.json", "a", range(3))
    with pytest.raises(KeyboardInterrupt):
        lakes.load([one], tmp_path / "lake", Stops())
    before = snapshot(tmp_path / "lake")
    plan = plan_load([one], lake=tmp_path / "lake", settings=WEB)
    assert (plan.runs_to_finish, plan.stages_to_remove, plan.already_loaded) == (1, 0, 1)
    assert snapshot(tmp_path / "lake") == before


def test_settings_that_a_load_would_refuse(tmp_path: Path) -> None:
    one = events(tmp_path / "1.json", "a", range(3))
    lakes.load([one], tmp_path / "lake")
    other = source_settings(source="web", date_partition="day")
    with pytest.raises(InvalidSettings, match="date_partition"):
        plan_load([one], lake=tmp_path / "lake", settings=other)


def test_a_sync(tmp_path: Path) -> None:
    one = events(tmp_path / "1.json", "a", range(3))
    lakes.load([one], tmp_path / "lake", keep_raw=True)
    archive = tmp_path / "lake/segment-logs/web/1793491200000"
    events(archive / "more.json", "b", range(2))
    plan = plan_sync("web", lake=tmp_path / "lake")
    assert [Path(file).name for file in plan.files] == ["more.json"]
    assert plan.already_loaded == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = events(tmp_path / "a.json", "a", range(3))
    lake = tmp_path / "lake"
    load = ["load", str(file), "--source", "web", "--lake", str(lake), "--dry-run"]
    assert main(load) == 0
    assert f"would load {file.as_uri()}\n1 file of " in capsys.readouterr().out
    assert main([*load, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [file.as_uri()]
    assert not lake.exists()
