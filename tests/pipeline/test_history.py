"""The cost of a sync does not depend on how many came before it."""

import json
from pathlib import Path

from tests import lakes
from tests.aws.moto import Aws, aws
from tests.aws.proxy import Proxy, proxy

from eventlake.lakes.aws_settings import AwsSettings
from eventlake.ledger import Ledger
from eventlake.ledger.commits import MAX_SNAPSHOTS
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.tunables import LedgerTunables, Tunables
from eventlake.pipeline.plan import MERGE_FILES
from eventlake.services.read import open_lake
from eventlake.stores import Disk

__all__ = ["aws", "proxy"]

START = 1_793_491_200
FIVE_MINUTES = 300

EVERY = LedgerTunables().snapshot_every


def log(folder: Path, number: int, events: int = 8) -> Path:
    """The events of five minutes; the last is repeated five minutes later."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:05d}.jsonl"
    ids = [f"{number}-{n}" for n in range(events)] + [f"{number - 1}-{events - 1}"]
    lines = (
        {
            "type": "track",
            "event": f"Event {n % 2}",
            "messageId": identity,
            "receivedAt": _iso(START + number * FIVE_MINUTES + n),
        }
        for n, identity in enumerate(ids)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _iso(seconds: int) -> str:
    days, rest = divmod(seconds - START, 86_400)
    return f"2026-11-{1 + days:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}Z"


def test_three_hundred_syncs_leave_a_small_state(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    duplicates = 0
    for number in range(300):
        result = lakes.load([log(tmp_path / "raw", number)], lake)
        assert result.status == "finished"
        duplicates += result.counts.duplicates
    assert duplicates == 299, "an id is known whichever file of the index it is in by now"
    ledger = Ledger(Disk(str(lake)), DEFAULT_LAYOUT, "web")
    state = ledger.read_state()
    assert len(state.ids) <= 3 * MERGE_FILES  # rather than 300
    _, snapshots = ledger.store.names(f"{ledger.path}/snapshots")
    assert len(snapshots) == MAX_SNAPSHOTS
    assert state.sequence - int(snapshots[-1][:12]) < EVERY
    assert len(state.manifests) < 10
    assert len(ledger.store.read(f"{ledger.path}/snapshots/{snapshots[-1]}")) < 100_000
    everything = sorted((tmp_path / "raw").iterdir())
    assert lakes.load(everything, lake).already_loaded == 300
    assert sum(table.rows for table in open_lake(lake).tables()) == 300 * 8 + 1
    assert open_lake(lake).verify("web").problems == ()


def test_a_sync_in_a_bucket_makes_as_many_requests_as_long_ago(
    aws: Aws, proxy: Proxy, tmp_path: Path
) -> None:
    """Over as many syncs as there are between two snapshots."""
    lake: AwsSettings = aws.settings(catalog="files")
    requests = []
    for number in range(3 * EVERY):
        proxy.calls.clear()
        assert lakes.load([log(tmp_path / "raw", number)], lake).status == "finished"
        requests.append(len(proxy.calls))
        sizes = [call for call in proxy.asked("HeadObject") if "/ids/" in call.key]
        assert sizes == [], "a small file of the index is read in one request"
    first, last = requests[EVERY : 2 * EVERY], requests[2 * EVERY :]
    assert sum(last) <= 1.3 * sum(first), (first, last)
    assert max(requests) < 250, requests


def test_index_files_that_were_merged_go_after_a_day(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    index = lake / "segment-data/ledger/web/ids"
    for number in range(MERGE_FILES + 1):
        lakes.load([log(tmp_path / "raw", number)], lake)
    assert len(list(index.iterdir())) == MERGE_FILES + 2, "a run planned before may still read them"
    at_once = Tunables(retired_seconds=0.0)
    lakes.load([log(tmp_path / "raw", MERGE_FILES + 1)], lake, tunables=at_once)
    assert len(list(index.iterdir())) == 3
    assert open_lake(lake).verify("web").problems == ()
