"""A catalog that keeps refusing a table: no stages pile up, and each run's work is bounded."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from eventlake.errors import Unavailable
from eventlake.ledger import Ledger, add_refusals, read_refusals, remove_refusals
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.services.check import check
from eventlake.services.load import LoadResult
from eventlake.services.read import open_lake
from eventlake.services.repair import repair
from eventlake.stores import Disk
from tests import lakes
from tests.faults.test_failures import Interrupts
from tests.stores import WatchedDisk

RUNS = 10
REPORTS = "__segment_datalake/sync_reports"


def refuse(lake: Path, name: str) -> Path:
    """A folder where the catalog's file of a table should be."""
    path = lake / f"segment-data/catalog/{name}.json"
    (path / "in the way").mkdir(parents=True)
    return path


def load_hour(folder: Path, lake: Path, hour: int) -> tuple[LoadResult, Counter[str]]:
    """Load a page and a track event; return the result and the operations on the store."""
    path = folder / f"{hour}.json"
    calls = ({"type": "page"}, {"type": "track", "event": "Paid"})
    lines = (
        {**call, "messageId": f"{hour}-{number}", "receivedAt": f"2026-11-01T{hour:02}:00:00Z"}
        for number, call in enumerate(calls)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    operations: Counter[str] = Counter()

    def count(operation: str, path: str) -> None:
        operations[operation] += "segment-stage" not in path

    return lakes.load([path], WatchedDisk(str(lake), before=count).lake()), operations


@pytest.mark.parametrize("name", ["web/page", REPORTS])
def test_a_lasting_refusal_keeps_no_stage_and_is_made_up_for(tmp_path: Path, name: str) -> None:
    lake = tmp_path / "lake"
    refused = refuse(lake, name)
    work = []
    for hour in range(RUNS):
        result, operations = load_hour(tmp_path, lake, hour)
        assert result.status == "partial"
        assert list(lake.glob("segment-stage/*")) == []
        work.append(operations)
    assert work[-1]["publish"] == work[0]["publish"]
    assert work[-2]["write"] == work[1]["write"]  # the last run writes a snapshot too
    shutil.rmtree(refused)
    assert load_hour(tmp_path, lake, RUNS)[0].status == "finished"
    entry = json.loads((lake / "segment-data/catalog/web/page.json").read_bytes())
    assert len(entry["partitions"]) == RUNS + 1
    contents = lakes.assert_complete(lake)
    assert contents.reported == {"web"}
    assert {line["status"] for lines in contents.reports for line in lines} == {"finished"}


def test_check_and_later_runs_name_a_table_that_stays_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    refused = refuse(lake, "web/page")
    load_hour(tmp_path, lake, 0)
    [found] = [one for one in check(lake) if one.name == "tables of web"]
    assert not found.ok
    assert "the catalog lacks data of page since 20" in found.detail
    assert "page.json" in found.detail
    assert "eventlake repair" in found.detail
    result = lakes.load([tmp_path / "0.json"], lake)
    assert (result.status, result.warnings) == ("nothing", (found.detail,))
    shutil.rmtree(refused)
    repair(lake)
    assert [one for one in check(lake) if one.name == "tables of web"] == []
    assert open_lake(lake).verify("web").ok


def test_a_table_without_new_rows_is_registered_when_the_refusal_ends(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    refused = refuse(lake, "web/page")
    load_hour(tmp_path, lake, 0)
    shutil.rmtree(refused)
    other = tmp_path / "other.json"
    other.write_text('{"type":"alias","messageId":"a","receivedAt":"2026-11-02T00:00:00Z"}\n')
    assert lakes.load([other], lake).status == "finished"
    assert lakes.assert_complete(lake).rows == 3


@pytest.mark.parametrize("step", ["register", "report", "clean"])
def test_a_run_interrupted_after_a_refusal_is_made_up_for(tmp_path: Path, step: str) -> None:
    lake = tmp_path / "lake"
    refused = refuse(lake, "web/page")
    path = tmp_path / "first.json"
    path.write_text('{"type":"page","messageId":"p","receivedAt":"2026-11-02T00:00:00Z"}\n')
    with pytest.raises(KeyboardInterrupt):
        lakes.load([path], lake, Interrupts(step))
    shutil.rmtree(refused)
    assert load_hour(tmp_path, lake, 1)[0].status == "finished"
    assert load_hour(tmp_path, lake, 2)[0].status == "finished"
    contents = lakes.assert_complete(lake)
    assert {line["status"] for lines in contents.reports for line in lines} == {"finished"}
    assert read_refusals(open_lake(lake).parts.ledger("web")) == {}


def test_a_refusal_that_another_run_adds_meanwhile_is_kept(tmp_path: Path) -> None:
    ledger = Ledger(Disk(str(tmp_path)), DEFAULT_LAYOUT, "web")
    add_refusals(ledger, "1" * 19, {"page": Unavailable("no answer")})
    known = read_refusals(ledger)
    add_refusals(ledger, "2" * 19, {"page": Unavailable("no answer")})
    remove_refusals(ledger, known)
    assert read_refusals(ledger)["page"].runs == ("2" * 19,)


def test_a_refusal_that_cannot_be_recorded_keeps_the_stage(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    refused = refuse(lake, "web/page")

    def fail(operation: str, path: str) -> None:
        if operation == "update" and path.endswith("unregistered.json"):
            raise Unavailable("no answer")

    path = tmp_path / "first.json"
    path.write_text('{"type":"page","messageId":"p","receivedAt":"2026-11-02T00:00:00Z"}\n')
    assert lakes.load([path], WatchedDisk(str(lake), before=fail).lake()).status == "partial"
    assert len(list(lake.glob("segment-stage/*"))) == 1
    shutil.rmtree(refused)
    assert load_hour(tmp_path, lake, 1)[0].status == "finished"
    lakes.assert_complete(lake)
