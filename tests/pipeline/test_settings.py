"""The settings of a source are remembered in the lake."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests import lakes
from tests.faults.test_names import events
from tests.processes import Ran

from eventlake.cli.main import main
from eventlake.errors import InvalidSettings
from eventlake.ledger import find_source
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.settings import SettingChange, source_settings
from eventlake.services.load import plan_load
from eventlake.services.read import open_lake
from eventlake.stores import Disk


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ran:
    """Run the command without Spark."""
    code = main([str(word) for word in arguments], lakes.ApiWithoutSpark())
    return Ran(code, *capsys.readouterr())


def remembered(lake: Path, source: str = "web") -> dict[str, Any]:
    settings = find_source(Disk(str(lake)), DEFAULT_LAYOUT, source)
    assert settings
    return settings.model_dump(mode="json")


def test_a_later_load_uses_the_settings_of_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, raw = tmp_path / "lake", tmp_path / "raw"
    command = ("load", raw, "--lake", lake, "--source", "web")
    first = ("--table-prefix", "ios", "--dedup-days", 0, "--skip-event", "Nothing", "--naming")
    events(raw / "1.json", "a", range(2))
    assert run(capsys, *command, *first, "native").code == 0
    before = remembered(lake)
    assert before["skip_events"] == ["Nothing"]

    events(raw / "2.json", "b", range(2, 4))
    later = run(capsys, *command)
    assert (later.code, remembered(lake)) == (0, before)
    assert "setting" not in later.out
    tables = {table.name for table in open_lake(lake).tables()}
    assert tables == {"ios_track_order_done"}

    events(raw / "3.json", "c", range(4, 6))
    changed = run(capsys, *command, "--dedup-days", 7, "--skip-event", "")
    assert changed.code == 0
    assert "setting dedup_days changed from 0 to 7\n" in changed.out
    assert "setting skip_events changed from ['Nothing'] to []\n" in changed.out
    assert remembered(lake) == before | {"dedup_days": 7, "skip_events": []}


def test_changes_are_part_of_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake, raw = tmp_path / "lake", tmp_path / "raw"
    events(raw / "1.json", "a", range(2))
    lakes.load([raw], lake)
    events(raw / "2.json", "b", range(2, 4))
    command = ("load", raw, "--lake", lake, "--source", "web", "--max-columns", 50, "--json")
    wanted = [{"name": "max_columns", "before": 2000, "after": 50}]
    for more in (("--dry-run",), ()):
        ran = run(capsys, *command, *more)
        assert (ran.code, json.loads(ran.out)["setting_changes"]) == (0, wanted)
    assert json.loads(run(capsys, *command).out)["setting_changes"] == []


def test_settings_stay_when_nothing_is_loaded(tmp_path: Path) -> None:
    file = events(tmp_path / "1.json", "a", range(2))
    lakes.load([file], tmp_path / "lake")
    again = lakes.load(
        [file], tmp_path / "lake", settings=source_settings(source="web", dedup_days=1)
    )
    assert (again.status, again.setting_changes) == ("nothing", ())
    assert "keeps its settings without the new dedup_days" in again.warnings[0]
    assert remembered(tmp_path / "lake")["dedup_days"] == 7


def test_a_default_that_is_given_counts(tmp_path: Path) -> None:
    """The slug's own database can be chosen again."""
    lake = tmp_path / "lake"
    for number, database in enumerate(("other", None, "web")):
        file = events(tmp_path / f"{number}.json", f"{number}-", range(1))
        settings = source_settings(source="web", database=database)
        result = lakes.load([file], lake, settings=settings)
        assert remembered(lake)["database"] == (database or "other")
    change = SettingChange(name="database", before="other", after="web")
    assert result.setting_changes == (change,)


def test_a_database_that_the_slug_needs_is_remembered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The slug alone would give a database that engines reserve."""
    command = ("load", tmp_path / "raw", "--lake", tmp_path / "lake", "--source", "system")
    events(tmp_path / "raw/1.json", "a", range(1))
    assert run(capsys, *command).code == 2
    assert run(capsys, *command, "--database", "sys1").code == 0
    events(tmp_path / "raw/2.json", "b", range(1, 2))
    assert run(capsys, *command).code == 0
    assert remembered(tmp_path / "lake", "system")["database"] == "sys1"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("date_partition", "day", "day"),
        ("naming", "native", "native"),
        ("partition_by_slug", True, "true"),
    ],
)
def test_a_fixed_setting_is_refused_with_the_command_that_rebuilds(
    tmp_path: Path, name: str, value: object, text: str
) -> None:
    lake, given = tmp_path / "lake", {"source": "web", "source_id": "id1"}
    file = events(tmp_path / "1.json", "a", range(2))
    lakes.load([file], lake, settings=source_settings(**given))
    other = events(tmp_path / "2.json", "b", range(2))
    command = f"`eventlake replay --source web --all --set {name}={text}`"
    settings = source_settings(source="web", **{name: value})
    with pytest.raises(InvalidSettings, match=f"{name}.*{command}"):
        plan_load([other], lake=lake, settings=settings)
    with pytest.raises(InvalidSettings, match=f"{name}.*{command}"):
        lakes.load([other], lake, settings=settings)
    assert remembered(lake)[name] != value


def test_segments_names_of_settings() -> None:
    given = {"glueDatabase": "d", "datePartition": "Day [YYYY-MM-DD]", "partitionBySlugName": True}
    assert source_settings(source="web", sourceId="s", tablePrefix="p", **given) == source_settings(
        source="web",
        source_id="s",
        table_prefix="p",
        database="d",
        date_partition="day",
        partition_by_slug=True,
    )
    with pytest.raises(InvalidSettings, match="database is given twice, also as glueDatabase"):
        source_settings(source="web", database="d", glueDatabase="e")


def test_segments_names_change_what_is_remembered(tmp_path: Path) -> None:
    archive = tmp_path / "lake/segment-logs/web/2026-11-01"
    events(archive / "1.json", "a", range(2))
    lakes.sync(tmp_path / "lake", changes={"glueDatabase": "other"})
    assert remembered(tmp_path / "lake")["database"] == "other"


# Raw logs by id


def test_sync_finds_raw_logs_by_id_and_by_slug(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    archive = lake / "segment-logs"
    changes = {"source_id": "rh5BDZ", "partition_by_slug": True}
    events(archive / "rh5BDZ/1793491200000/1.json", "a", range(3))
    assert lakes.sync(lake, "web", changes=changes).counts.landed == 3
    events(archive / "rh5BDZ/1793491200000/2.json", "b", range(3, 5))
    events(archive / "web/2026-11-01/3.json", "c", range(5, 9))
    events(archive / "other/2026-11-01/4.json", "d", range(9, 10))
    assert lakes.sync(lake, "web").counts.landed == 6
    assert lakes.sync(lake, "web").status == "nothing"
    assert (lake / "segment-data/data/web").is_dir()
    assert open_lake(lake).verify("web").ok


def test_logs_below_the_slug_are_not_those_of_a_source_by_id(tmp_path: Path) -> None:
    archive = tmp_path / "lake/segment-logs"
    events(archive / "rh5BDZ/2026-11-01/1.json", "a", range(3))
    events(archive / "web/2026-11-01/2.json", "b", range(3, 5))
    result = lakes.sync(tmp_path / "lake", "web", changes={"source_id": "rh5BDZ"})
    assert result.counts.landed == 3


# Compression


def test_files_have_the_compression_of_the_settings(tmp_path: Path) -> None:
    lake, before = tmp_path / "lake", set[Path]()
    for number, codec in enumerate(("zstd", "snappy", "gzip")):
        file = events(tmp_path / f"{number}.json", f"{number}-", range(9), day=number + 1)
        given = {} if codec == "zstd" else {"compression": codec}
        lakes.load([file], lake, settings=source_settings(source="web", **given))
        files = set(lake.glob("segment-data/data/**/*.parquet"))
        codecs = {
            metadata.row_group(0).column(column).compression
            for metadata in map(pq.read_metadata, files - before)
            for column in range(metadata.num_columns)
        }
        assert codecs == {codec.upper()}
        before = files
    assert open_lake(lake).query("select count(*) n from web.order_done")["n"].to_pylist() == [27]
    with pytest.raises(InvalidSettings, match="compression is 'lz4': it should be 'zstd'"):
        source_settings(source="web", compression="lz4")
