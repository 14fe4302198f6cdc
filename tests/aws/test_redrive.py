"""A redrive in S3 and Glue."""

from collections import Counter
from pathlib import Path

from eventlake.services.read import open_lake
from eventlake.services.redrive import RedriveRequest, plan_redrive, redrive
from eventlake.services.replay import ReplayRequest, replay
from tests import lakes
from tests.aws.moto import Aws
from tests.aws.test_replay import read
from tests.lakes import AtStage, InlineRunner

# Bad lines of the sample are copies of good ones: far later, they are no duplicates.
REQUEST = RedriveRequest(
    "web", reasons=["no_received_at", "no_event_name"], fields=["receivedAt=2026-11-20T02:30:00Z"]
)
AGAIN = RedriveRequest(
    "web", reasons=["bad_type"], fields=["receivedAt=2026-12-20T02:30:00Z", "type=page"]
)
CONTENT = ("tables", "quarantine", "ids", "strays", "problems")


def test_a_redrive_beside_a_load_and_another_redrive(aws: Aws, tmp_path: Path) -> None:
    files, lake = lakes.small_sample(tmp_path / "raw", bad=0.1), aws.settings()
    for place in (lake, tmp_path / "here"):
        lakes.load(files[:2], place)
    before = read(aws)
    plan = plan_redrive(REQUEST, lake=lake)
    beside = AtStage("commit", lambda: lakes.load(files, lake))
    result = redrive(REQUEST, lake=lake, where=InlineRunner(), progress=beside)
    assert result.counts.landed == sum(plan.tables.values()) > 0
    assert result.failed == plan.failed
    counts = Counter(open_lake(lake).quarantine("web").column("reason").to_pylist())
    redrive(REQUEST, lake=tmp_path / "here", where=InlineRunner())
    lakes.load(files, tmp_path / "here")
    here = lakes.read_contents(tmp_path / "here")
    lakes.assert_same(lakes.read_contents(lake), here, CONTENT)
    landed = read(aws)
    assert all(rows <= landed[name] for name, rows in before.items())
    replay(ReplayRequest("web", all_time=True), lake=lake, where=InlineRunner())
    lakes.assert_same(lakes.read_contents(lake), here, ("tables", "quarantine", "ids", "problems"))
    assert counts == Counter(open_lake(lake).quarantine("web").column("reason").to_pylist())
    winner = AtStage("read", lambda: redrive(AGAIN, lake=lake, where=InlineRunner()))
    assert redrive(AGAIN, lake=lake, where=InlineRunner(), progress=winner).status == "nothing"
    assert lakes.read_contents(lake).problems == ()
