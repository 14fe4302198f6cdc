"""Replays, retypes, redrives, compactions, forgets and drops: as on disk, and in the metastore."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlake.services.compact import compact
from eventlake.services.drop import drop
from eventlake.services.forget import forget
from eventlake.services.redrive import redrive
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.retype import retype, retype_request
from tests import lakes
from tests.aws.test_redrive import REQUEST
from tests.aws.test_replay import WINDOW
from tests.azure.azurite import Azure
from tests.azure.copies import copied
from tests.azure.metastores import Metastore
from tests.lakes import InlineRunner, Place
from tests.pipeline.test_forget import search

PARTS = ("tables", "catalog", "quarantine", "ids", "strays", "problems")
INLINE = InlineRunner()


@pytest.fixture
def both(azure: Azure, hive: Metastore, tmp_path: Path) -> Callable[[Any], None]:
    """Does something to a lake with a metastore and to one on disk, which stay the same."""
    lake, disk = azure.settings(metastore_url=hive.url), tmp_path / "disk"

    def do(work: Callable[[Place], Any]) -> None:
        results = [work(place) for place in (lake, disk)]
        assert len({getattr(one, "status", "") for one in results}) == 1
        lakes.assert_same(lakes.read_contents(lake), lakes.read_contents(disk), PARTS)

    return do


def test_one_correction_after_the_other(
    both: Callable[[Any], None], azure: Azure, hive: Metastore, tmp_path: Path
) -> None:
    first, second, third = lakes.small_sample(tmp_path / "raw", bad=0.1)
    both(lambda lake: lakes.load([first, second], lake))
    both(lambda lake: lakes.load([third], lake))
    both(lambda lake: replay(WINDOW, lake=lake, where=INLINE))
    change = {"integrations_all": "string"}
    both(lambda lake: retype("web.page", change, lake=lake))
    both(
        lambda lake: replay(retype_request("web.page", change, lake=lake), lake=lake, where=INLINE)
    )
    both(lambda lake: redrive(REQUEST, lake=lake, where=INLINE))
    both(lambda lake: compact("web", lake=lake, where=INLINE)[0])
    everything = ReplayRequest("web", all_time=True, changes={"date_partition": "day"})
    both(lambda lake: replay(everything, lake=lake, where=INLINE))
    both(lambda lake: drop("web", lake=lake, tables=["page"]))
    assert "page" not in hive.calls.call("get_all_tables", "web")
    # The raw logs are those of both lakes, and are rewritten once.
    lake, user = azure.settings(metastore_url=hive.url), some_user(tmp_path / "disk")
    assert forget(user, lake=lake).status == "finished"
    assert search(copied(lake, tmp_path / "copy"), (user,)) == []
    assert lakes.read_contents(lake).problems == ()


def some_user(disk: Path) -> str:
    rows = (row for rows in lakes.read_contents(disk).tables.values() for row in rows)
    users = {value for row in rows for name, *_, value in row if name == "user_id"}
    return min(map(str, users))
