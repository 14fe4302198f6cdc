"""Looking into a lake: which lake, which source, which table is meant, and what is odd about it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlake.cli.main import main
from eventlake.errors import InvalidSettings
from eventlake.ledger import resolve_source
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.settings import source_settings
from eventlake.services.read import open_lake
from eventlake.stores import Disk
from eventlake.verify import LakeFiles, verify
from tests import lakes


def log(tmp_path: Path, name: str) -> Path:
    event = {"type": "track", "event": "Order Done", "receivedAt": "2026-11-01T00:00:00Z"}
    path = tmp_path / f"{name}.jsonl"
    path.write_text("\n".join([json.dumps(event | {"messageId": name}), "{"]))
    return path


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    assert lakes.load([log(tmp_path, "a")], tmp_path / "lake").status == "finished"
    return tmp_path / "lake"


@pytest.fixture
def namesakes(tmp_path: Path) -> Path:
    """Two sources with one slug."""
    for number in ("1", "2"):
        settings = source_settings(source="web", source_id=f"id{number}", database=f"web{number}")
        lakes.load([log(tmp_path, number)], tmp_path / "lake", settings=settings, keep_raw=True)
    return tmp_path / "lake"


def sync(lake: Path, source: str, **changes: object) -> Any:
    return lakes.sync(lake, source, changes=changes)


# Two sources with one slug

READS: dict[str, Callable[[Path, str], Any]] = {
    "sync": sync,
    "serve": lambda lake, source: resolve_source(Disk(str(lake)), DEFAULT_LAYOUT, source),
    "reports": lambda lake, source: open_lake(lake).reports(source),
    "quarantine": lambda lake, source: open_lake(lake).quarantine(source),
    "verify": lambda lake, source: verify(LakeFiles(*Disk(str(lake)).filesystem()), source),
    "load": lambda lake, source: lakes.load([], lake, settings=source_settings(source=source)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_slug_of_two_sources_is_refused(
    namesakes: Path, read: Callable[[Path, str], Any]
) -> None:
    with pytest.raises(InvalidSettings, match=r"'web'.*id1 and.*id2"):
        read(namesakes, "web")


def test_an_id_means_one_source(namesakes: Path) -> None:
    assert {line["source_id"] for line in open_lake(namesakes).reports("id2")} == {"id2"}
    found = open_lake(namesakes).quarantine("id1").column("file").to_pylist()
    assert ["/id1/" in file for file in found] == [True]
    assert READS["verify"](namesakes, "id1").ok
    assert READS["serve"](namesakes, "id2").database == "web2"
    assert sync(namesakes, "id1").already_loaded == 1
    assert sync(namesakes, "web", source_id="id2").already_loaded == 1


def test_an_id_goes_before_a_slug(tmp_path: Path, namesakes: Path) -> None:
    own = source_settings(source="id1", source_id="id3")
    lakes.load([log(tmp_path, "3")], namesakes, settings=own)
    assert resolve_source(Disk(str(namesakes)), DEFAULT_LAYOUT, "id1").source_id == "id1"


def test_an_id_with_another_slug_is_refused(namesakes: Path) -> None:
    with pytest.raises(InvalidSettings, match="'shop', and id1 is the id of web"):
        sync(namesakes, "shop", source_id="id1")


def test_a_load_must_say_which_source_it_means(tmp_path: Path, namesakes: Path) -> None:
    one = [log(tmp_path, "more")]
    with pytest.raises(InvalidSettings, match="the slug of 2 sources: use one of the ids id1 and"):
        lakes.load(one, namesakes, settings=source_settings(source="web", database="new"))
    again = lakes.load(one, namesakes, settings=source_settings(source="id1"))
    assert (again.status, again.source) == ("finished", "web")
    new = source_settings(source="web", source_id="id3", database="web3")
    assert lakes.load(one, namesakes, settings=new).status == "finished"


def test_two_ids_do_not_share_a_folder(tmp_path: Path) -> None:
    def load(identity: str) -> Any:
        settings = source_settings(source="web", source_id=identity, partition_by_slug=True)
        return lakes.load([log(tmp_path, identity)], tmp_path / "lake", settings=settings)

    assert load("id1").status == "finished"
    with pytest.raises(InvalidSettings, match="folder web holds the source web with the id id1"):
        load("id2")


def test_reports_of_a_source_that_never_landed(lake: Path) -> None:
    path = lake / "segment-data/reports/day=2026-11-01/source=app/run_id=1/report.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"source_id": "app", "run_id": "1", "status": "failed"}))
    assert [line["status"] for line in open_lake(lake).reports("app")] == ["failed"]


# A place without a lake


@pytest.mark.parametrize(
    "command",
    [
        ["tables"],
        ["schema", "web.order_done"],
        ["query", "select 1"],
        ["reports", "--source", "web"],
        ["quarantine", "--source", "web"],
        ["verify", "--source", "web"],
    ],
    ids=lambda command: command[0],
)
def test_a_folder_without_a_lake(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert main([*command, "--lake", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"there is no lake at {tmp_path}" in said.err


def test_a_lake_that_has_only_collected(tmp_path: Path) -> None:
    (tmp_path / "segment-logs/web").mkdir(parents=True)
    found = open_lake(tmp_path)
    assert found.tables() == []
    assert found.query("select 1 as n").to_pylist() == [{"n": 1}]
