"""A new kind of lake: its own layout and catalog, with one line in the registry."""

import json
from pathlib import Path

import pytest
from tests import lakes
from tests.lakes import SETTINGS, InlineRunner, load, small_sample
from tests.other_lake import CATALOG, LAYOUT
from tests.other_lake_settings import OtherSettings

from eventlake.errors import InvalidSettings
from eventlake.lakes.kinds import KINDS, RegisteredKind
from eventlake.model.lake import LakeSettings
from eventlake.services.check import check
from eventlake.services.load import plan_load, plan_sync, sync
from eventlake.services.read import open_lake
from eventlake.services.repair import repair

PREFIXES = ("segment-logs/", *(f"{one}/" for one in (LAYOUT.data, "lake", LAYOUT.stage)))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OtherSettings:
    monkeypatch.setitem(KINDS, "other", RegisteredKind("tests.other_lake", "Other"))
    CATALOG.entries.clear()
    return OtherSettings(path=str(tmp_path / "lake"))


def sync_web(lake: LakeSettings) -> str:
    return sync("web", lake=lake, where=InlineRunner()).status


def files(lake: OtherSettings) -> list[str]:
    root = Path(lake.path)
    return [str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()]


def test_a_lake_with_another_layout_and_catalog(lake: OtherSettings, tmp_path: Path) -> None:
    first, second, third = small_sample(tmp_path / "raw")
    default = tmp_path / "default"
    for place in (lake, default):
        assert load([first], place).status == "finished"
        assert load([second], place, keep_raw=True).status == "finished"
        assert load([first, second], place).status == "nothing"
    archived = next(Path(lake.path).glob("segment-logs/web/*"))
    (archived / third.name).write_bytes(third.read_bytes())
    assert plan_sync("web", lake=lake).bytes == third.stat().st_size
    assert sync_web(lake) == "finished"
    assert sync_web(lake) == "nothing"
    load([third], default)

    opened, other = open_lake(lake), open_lake(default)
    assert opened.verify("web").problems == ()
    assert opened.tables() == [
        one.model_copy(update={"bytes": mine.bytes})
        for one, mine in zip(other.tables(), opened.tables(), strict=True)
    ]
    query = "select id, received_at, day, hr from web.page order by all"
    assert opened.query(query) == other.query(query)
    assert opened.quarantine("web").num_rows == other.quarantine("web").num_rows > 0
    runs = "select count(distinct run_id) as n from __segment_datalake.sync_reports"
    assert opened.query(runs)["n"].to_pylist() == [3]
    assert len(opened.reports("web")) == len(other.reports("web"))
    assert [one for one in files(lake) if not one.startswith(PREFIXES)] == []
    assert not list(Path(lake.path).glob("tmp/runs/*"))


def test_the_tables_of_a_new_catalog(lake: OtherSettings, tmp_path: Path) -> None:
    first, second, third = small_sample(tmp_path / "raw")
    load([first, second], lake)
    (table,) = CATALOG.tables("__segment_datalake")
    assert table.location == "lake/report-table"
    before = dict(CATALOG.entries)
    pages = before["web.page"]
    assert pages.location == "staging/web/segment_type=page"
    CATALOG.drop(pages)
    assert "web.page is not in the catalog" in open_lake(lake).verify("web").problems[0]
    steps = lakes.Recorder()
    load([third], lake, steps)
    again = CATALOG.entries["web.page"]
    assert {tuple(one.items()) for one in again.partitions} > {
        tuple(one.items()) for one in pages.partitions
    }
    assert ("register", len(CATALOG.entries)) in steps.steps

    expected = dict(CATALOG.entries)
    CATALOG.drop(pages)
    stray = pages.model_copy(update={"name": "gone", "location": "staging/web/segment_type=gone"})
    CATALOG.replace(stray)
    CATALOG.entries.pop("__segment_datalake.sync_reports")
    (repaired,) = repair(lake)
    assert (repaired.registered, repaired.dropped) == (("web.page",), ("web.gone",))
    assert repaired.problems == ()
    assert CATALOG.entries == expected
    assert open_lake(lake).verify("web").problems == ()


def test_a_killed_run_of_another_layout_is_finished(lake: OtherSettings, tmp_path: Path) -> None:
    class Killed(lakes.Recorder):
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage == "publish":
                raise KeyboardInterrupt

    first, second, _ = small_sample(tmp_path / "raw")
    with pytest.raises(KeyboardInterrupt):
        load([first], lake, Killed())
    assert list(Path(lake.path).glob("tmp/runs/*"))
    plan = plan_load([second], lake=lake, settings=SETTINGS)
    assert plan.runs_to_finish == 1
    assert load([second], lake).status == "finished"
    assert not list(Path(lake.path).glob("tmp/runs/*"))
    assert open_lake(lake).verify("web").problems == ()


def test_its_own_files_are_not_loaded(lake: OtherSettings, tmp_path: Path) -> None:
    first, *_ = small_sample(tmp_path / "raw")
    load([first], lake)
    log = tmp_path / "all" / "x.json"
    log.parent.mkdir()
    log.write_text(json.dumps({"type": "page"}))
    (log.parent / "linked").symlink_to(lake.path)
    plan = plan_load([log.parent], lake=lake, settings=SETTINGS)
    assert plan.files == (log.as_uri(),)
    for folder in ("staging", "lake/log", "tmp/runs"):
        (Path(lake.path) / folder).mkdir(exist_ok=True)
        with pytest.raises(InvalidSettings, match="the lake's own and has no raw logs"):
            load([Path(lake.path) / folder], lake)


def test_a_check_tries_its_folders(lake: OtherSettings, tmp_path: Path) -> None:
    Path(lake.path).mkdir()
    found = check(lake)
    assert [one.detail for one in found if not one.ok] == []
    names = {one.name for one in found}
    assert {"write tmp/runs", "write staging", "write lake", "create a table"} <= names
    assert files(lake) == []
    assert CATALOG.entries == {}


def test_an_empty_folder_is_not_such_a_lake(lake: OtherSettings, tmp_path: Path) -> None:
    Path(lake.path).mkdir()
    with pytest.raises(InvalidSettings, match="none of the folders staging, lake, segment-logs"):
        open_lake(lake)
    load(small_sample(tmp_path / "raw"), lake.path)
    with pytest.raises(InvalidSettings, match="there is no lake"):
        open_lake(lake)
    with pytest.raises(InvalidSettings, match="there is no source 'web' in this lake"):
        plan_sync("web", lake=lake)
