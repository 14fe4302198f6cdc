"""Compactions in S3 and Glue: the same rows for others, without a call of the catalog."""

from collections import Counter
from pathlib import Path

from eventlake.model.settings import source_settings
from eventlake.services.compact import compact, plan_compaction
from eventlake.services.drop import drop
from eventlake.services.replay import replay
from tests import lakes
from tests.aws.proxy import Proxy
from tests.aws.test_landed import Reader
from tests.aws.test_replay import WINDOW, read
from tests.lakes import InlineRunner
from tests.pipeline.test_replay import event, write

SETTINGS = source_settings(source="web", date_partition="day")


def test_rows_stay_and_glue_is_not_asked(proxy: Proxy, tmp_path: Path) -> None:
    aws, lake = proxy.upstream, proxy.upstream.settings()
    files = lakes.small_sample(tmp_path / "raw")
    for file in files[:2]:
        lakes.load([file], lake, settings=SETTINGS)
    before = read(aws)
    proxy.calls.clear()
    [result] = compact("web", lake=lake, where=InlineRunner())
    assert (result.status, result.files, result.files_after) == ("finished", 12, 6)
    assert [call for call in proxy.calls if call.service == "glue"] == []
    assert proxy.astray() == []
    assert read(aws) == before
    assert lakes.assert_complete(lake).tables.keys() == before.keys()
    lakes.load(files, lake, settings=SETTINGS)
    assert compact("web", lake=lake, where=InlineRunner())[0].files == 12
    assert replay(WINDOW, lake=lake, where=InlineRunner()).status == "finished"
    lakes.load(files, tmp_path / "fresh", settings=SETTINGS)
    fresh = lakes.read_contents(tmp_path / "fresh").tables
    assert lakes.assert_complete(lake).tables == fresh
    assert drop("web", lake=lake).status == "finished"
    assert Reader(aws).tables("web") == {}


def count_requests(proxy: Proxy, folder: Path, tables: int, files: int) -> Counter[str]:
    """The requests of a compaction of `files` files in each of `tables` tables."""
    lake = proxy.upstream.settings()
    settings = source_settings(source=f"web{tables}-{files}", date_partition="day")
    for number in range(files):
        events = [
            event(100 * number + n, number / 100, event=f"Event {n}", properties={"n": n})
            for n in range(tables)
        ]
        path = write(folder / f"{tables}-{files}-{number}.gz", events)
        lakes.load([path], lake, settings=settings)
    assert plan_compaction(settings.source, lake=lake)[0].files == tables * files
    proxy.calls.clear()
    [result] = compact(settings.source, lake=lake, where=InlineRunner())
    assert (result.files, result.files_after) == (tables * files, tables)
    calls = (call for call in proxy.calls if "/ledger/" not in call.key)
    return Counter(f"{call.action} {call.key.partition('/')[0]}" for call in calls)


def test_requests_are_proportional_to_files(proxy: Proxy, tmp_path: Path) -> None:
    """A file takes one request to read; one that is made takes one to write and one to publish.

    Those of the ledger are apart: they depend on the number of commits.
    """
    few = count_requests(proxy, tmp_path, tables=3, files=3)
    more = count_requests(proxy, tmp_path, tables=3, files=6)
    wide = count_requests(proxy, tmp_path, tables=9, files=3)
    read, written, copied = "GetObject segment-data", "PutObject segment-stage", "CopyObject"
    assert (more[read] - few[read], wide[read] - few[read]) == (3 * 3, 6 * 3)
    assert (more[written] - few[written], wide[written] - few[written]) == (0, 6)
    copies = [n[f"{copied} segment-data"] for n in (few, more, wide)]
    assert copies == [3, 3, 9]
    assert more.total() - few.total() == 3 * 3
    assert (
        wide.total() - few.total()
        == 6 * (3 + 1 + 1) + wide["DeleteObjects "] - few["DeleteObjects "]
    )
