"""Objects that commits replace or remove: publishing, and what is live afterwards."""

from dataclasses import replace
from pathlib import Path

import pytest

from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger
from eventlake.model.commit import Commit, Counts, Input, Rewrite, StagedFile
from eventlake.model.layout import DEFAULT_LAYOUT, rewritten_path
from eventlake.model.report import Problems
from eventlake.model.settings import source_settings
from eventlake.model.tunables import LedgerTunables
from eventlake.pipeline.finish import publish
from eventlake.pipeline.history import read_history
from eventlake.ports import NoProgress

SETTINGS = source_settings(source="web")
FIRST, SECOND, THIRD = (str(1_793_534_400_000_000_000 + number) for number in range(3))
OLD = DEFAULT_LAYOUT.quarantine_path("web", FIRST)
NEW = rewritten_path(OLD, SECOND)
LOG = "segment-logs/web/1793491200000/a.json.gz"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_parts(tmp_path, make=True)


def append(lake: Lake, run_id: str, **fields: object) -> tuple[int, Commit]:
    ledger = lake.ledger("web")
    fields = {"inputs": (), **fields}
    commit = Commit(run_id=run_id, settings=SETTINGS, counts=Counts(), **fields)
    sequence = ledger.read_state().sequence + 1
    assert ledger.append(sequence, commit)
    return sequence, commit


def append_and_publish(lake: Lake, run_id: str, **fields: object) -> tuple[int, Commit]:
    appended = append(lake, run_id, **fields)
    publish_again(lake, *appended)
    return appended


def publish_again(lake: Lake, sequence: int, commit: Commit) -> None:
    problems = Problems()
    publish(lake, sequence, commit, problems, NoProgress())
    assert problems == {}


def quarantine(lake: Lake) -> StagedFile:
    lake.store.write("segment-stage/1/q", b"old")
    return StagedFile(staged="segment-stage/1/q", path=OLD)


def rewrite(lake: Lake) -> Rewrite:
    lake.store.write("segment-stage/2/q", b"new")
    return Rewrite(path=OLD, new_path=NEW, staged="segment-stage/2/q")


def objects(lake: Lake) -> dict[str, bytes]:
    return {one.path: lake.store.read(one.path) for one in lake.store.objects("segment-data")}


def test_a_rewritten_object_takes_the_place_of_the_old_one(lake: Lake) -> None:
    append_and_publish(lake, FIRST, quarantine=quarantine(lake))
    assert list(lake.ledger("web").list_quarantine()) == [OLD]
    commit = append_and_publish(lake, SECOND, rewrites=(rewrite(lake),))
    found = objects(lake)
    assert (found[NEW], OLD in found) == (b"new", False)
    assert lake.ledger("web").list_quarantine() == {NEW: "segment-stage/2/q"}
    publish_again(lake, *commit)
    assert objects(lake) == found


def test_a_removed_object_is_not_published_again(lake: Lake) -> None:
    first = append_and_publish(lake, FIRST, quarantine=quarantine(lake))
    second = append_and_publish(lake, SECOND, rewrites=(rewrite(lake),))
    append_and_publish(lake, THIRD, rewrites=(Rewrite(path=NEW),))
    for staged in ("1", "2"):  # a bucket keeps staged objects until the stage is removed
        lake.store.write(f"segment-stage/{staged}/q", b"late")
    publish_again(lake, *first)
    publish_again(lake, *second)
    assert not {OLD, NEW} & objects(lake).keys()
    assert lake.ledger("web").list_quarantine() == {}


def test_the_old_object_stays_while_the_new_one_is_missing(lake: Lake) -> None:
    append_and_publish(lake, FIRST, quarantine=quarantine(lake))
    lost = Rewrite(path=OLD, new_path=NEW, staged="segment-stage/2/gone")
    problems = Problems()
    publish(lake, *append(lake, SECOND, rewrites=(lost,)), problems, NoProgress())
    assert list(problems) == [""]
    assert objects(lake)[OLD] == b"old"


@pytest.mark.parametrize("snapshot_every", [1, 2, 3, 100])
def test_snapshots_know_the_live_quarantine(lake: Lake, snapshot_every: int) -> None:
    ledger = lake.ledger("web")
    ledger = replace(ledger, tunables=LedgerTunables(snapshot_every=snapshot_every))
    other = DEFAULT_LAYOUT.quarantine_path("web", THIRD)
    for run_id, fields in (
        (FIRST, {"quarantine": quarantine(lake)}),
        (SECOND, {"rewrites": (rewrite(lake),)}),
        (THIRD, {"quarantine": StagedFile(staged="", path=other)}),
        (str(int(THIRD) + 1), {"rewrites": (Rewrite(path=NEW),)}),
    ):
        sequence, _ = append(lake, run_id, **fields)
        ledger.snapshot_if_due(sequence)
    assert list(ledger.list_quarantine()) == [other]


# Raw logs


def raw_log(path: str, size: int) -> Input:
    return Input(uri=f"lake:{path}", fingerprint=f"{size:x}", size=size)


def append_log(lake: Lake) -> Ledger:
    append(lake, FIRST, inputs=(raw_log(LOG, 9), raw_log(f"{LOG}.other", 9)))
    return lake.ledger("web")


def test_a_rewritten_log_counts_as_loaded(lake: Lake) -> None:
    ledger, path = append_log(lake), rewritten_path(LOG, SECOND)
    new = raw_log(path, 5)
    assert not ledger.read_state().has_loaded(new)
    append(lake, SECOND, rewrites=(Rewrite(path=LOG, new_path=path, staged="x", input=new),))
    assert ledger.read_state().has_loaded(new)
    assert {one.uri for one in read_history(ledger, 2).inputs.values()} == {
        f"lake:{LOG}.other",
        new.uri,
    }


def test_a_removed_log_is_not_read_again(lake: Lake) -> None:
    ledger = append_log(lake)
    append(lake, SECOND, rewrites=(Rewrite(path=LOG),))
    assert [one.uri for one in read_history(ledger, 2).inputs.values()] == [f"lake:{LOG}.other"]


def test_names_of_rewritten_objects() -> None:
    path = rewritten_path(LOG, FIRST)
    assert path == f"segment-logs/web/1793491200000/a-r{FIRST}.json.gz"
    assert rewritten_path(path, SECOND) == f"segment-logs/web/1793491200000/a-r{SECOND}.json.gz"
