"""Redrives: quarantined lines are loaded again, corrected, and leave the quarantine."""

import gzip
import json
from collections import Counter
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import lakes
from tests.lakes import AtStage, InlineRunner
from tests.stores import WatchedDisk

from eventlake.errors import InvalidSettings
from eventlake.model.settings import source_settings
from eventlake.services.drop import drop
from eventlake.services.read import Lake, open_lake
from eventlake.services.redrive import RedriveRequest, RedriveResult, plan_redrive, redrive
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.suppress import suppress_users

AT = "2026-11-01T07:00:00Z"
SET_TIME = ("receivedAt=2026-11-02T09:00:00Z",)


def event(number: int, **fields: Any) -> str:
    known = {"type": "track", "event": "Order Completed", "messageId": f"m{number}"}
    known |= {"receivedAt": AT, "userId": f"u{number}", "properties": {"n": number}}
    return json.dumps({name: value for name, value in (known | fields).items() if value != ...})


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


MIXED = [
    event(1),
    event(2, receivedAt=...),
    event(3, receivedAt="yesterday"),
    event(4, receivedAt=..., event=...),  # no_event_name, and then no_received_at
    event(5, messageId=...),
    "{",
    "[]",
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lakes.load([write(tmp_path / "a.gz", MIXED)], tmp_path / "lake")
    return tmp_path / "lake"


def run(lake: Path, progress: Any = None, **fields: Any) -> RedriveResult:
    request = RedriveRequest("web", **fields)
    return redrive(request, lake=lake, where=InlineRunner(), progress=progress)


def reasons(lake: Path) -> dict[str, int]:
    return dict(Counter(open_lake(lake).quarantine("web").column("reason").to_pylist()))


def ids(lake: Path) -> list[str]:
    tables = lakes.read_contents(lake).tables.values()
    return sorted({n: v for n, _, v in row[:-2]}["id"] for rows in tables for row in rows)


def export(lake: Path, path: Path, **raw: str) -> Path:
    """Write what `quarantine --json` prints, with other lines for some reasons."""
    rows = open_lake(lake).quarantine("web").to_pylist()
    for row in rows:
        row["raw"] = raw.get(row["reason"], row["raw"].decode())
    path.write_text(json.dumps(rows))
    return path


def test_lines_with_a_set_field_land_and_leave_the_quarantine(lake: Path) -> None:
    result = run(lake, reasons=["no_received_at"], fields=SET_TIME)
    assert (result.status, result.matched, result.left, result.failed) == ("finished", 2, {}, {})
    assert (result.counts.received, result.counts.landed) == (2, 2)
    assert ids(lake) == ["m1", "m2", "m3"]
    assert reasons(lake) == {"no_event_name": 1, "no_message_id": 1, "not_json": 1, "not_object": 1}
    days = open_lake(lake).query("select day, n from web.order_completed order by n")
    assert [tuple(row.values()) for row in days.to_pylist()] == [
        ("2026-11-01", 1),
        ("2026-11-02", 2),
        ("2026-11-02", 3),
    ]
    first, second = lakes.assert_complete(lake).reports
    assert (first[0]["quarantined_count"], first[0]["received_count"]) == (6, 7)
    assert (second[0]["received_count"], second[0]["row_count"]) == (2, 2)


def test_lines_that_are_invalid_again_have_their_new_reason(lake: Path) -> None:
    result = run(lake, reasons=["no_event_name"], fields=["event=Signed Up"])
    assert result.failed == {"no_received_at": 1}
    assert (result.counts.landed, result.counts.quarantined) == (0, 1)
    assert reasons(lake)["no_received_at"] == 3
    lakes.assert_complete(lake)
    assert run(lake, reasons=["no_received_at"], fields=SET_TIME).counts.landed == 3
    assert ids(lake) == ["m1", "m2", "m3", "m4"]
    lakes.assert_complete(lake)


def test_lines_that_cannot_be_set_are_left_as_they_are(lake: Path) -> None:
    before = open_lake(lake).quarantine("web").to_pylist()
    result = run(lake, fields=SET_TIME)
    assert result.left == {"not_json": 1, "not_object": 1}
    assert result.failed == {"no_event_name": 1, "no_message_id": 1}
    assert result.matched == 6
    after = open_lake(lake).quarantine("web").to_pylist()
    assert [row for row in after if row["reason"].startswith("not_")] == before[-2:]
    lakes.assert_complete(lake)
    again = run(lake, fields=SET_TIME)  # the field is set already
    assert (again.status, sum(again.left.values())) == ("failed", 4)
    assert "nothing was redriven" in again.message
    assert len(lakes.read_commits(lake)) == 2


def test_a_dry_run_tells_what_would_happen(lake: Path) -> None:
    files = sorted(lake.rglob("*"))
    suppress_users(["u3"], lake=lake)
    request = RedriveRequest("web", fields=SET_TIME)
    plan = plan_redrive(request, lake=lake)
    assert plan.tables == {"order_completed": 1}
    assert (plan.matched, plan.suppressed, plan.skipped) == (6, 1, 0)
    assert plan.failed == {"no_event_name": 1, "no_message_id": 1}
    assert plan.left == {"not_json": 1, "not_object": 1}
    assert {*lake.rglob("*")} - {*files} == {lake / "segment-data/suppression.json"}
    result = run(lake, fields=SET_TIME)
    assert (result.counts.landed, result.counts.suppressed) == (1, 1)
    assert (result.failed, result.left) == (plan.failed, plan.left)


def test_suppressed_users_stay_suppressed(lake: Path) -> None:
    suppress_users(["u2"], lake=lake)
    result = run(lake, reasons=["no_received_at"], fields=SET_TIME)
    assert (result.counts.landed, result.counts.suppressed) == (1, 1)
    assert ids(lake) == ["m1", "m3"]
    assert "no_received_at" not in reasons(lake)
    lakes.assert_complete(lake)


def test_skipped_events_are_counted(tmp_path: Path) -> None:
    settings, lake = source_settings(source="web", skip_events=("page",)), tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", MIXED)], lake, settings=settings)
    request = {"reasons": ["no_received_at"], "fields": (*SET_TIME, "type=page")}
    assert plan_redrive(RedriveRequest("web", **request), lake=lake).skipped == 2
    assert run(lake, **request).counts.skipped == 2
    lakes.assert_complete(lake)


def test_duplicates_are_dropped(lake: Path, tmp_path: Path) -> None:
    lakes.load([write(tmp_path / "b.gz", [event(2)])], lake)
    result = run(lake, reasons=["no_received_at"], fields=SET_TIME)
    assert (result.counts.landed, result.counts.duplicates) == (1, 1)
    lakes.assert_complete(lake)


def test_only_the_lines_of_later_runs(lake: Path, tmp_path: Path) -> None:
    lakes.load([write(tmp_path / "b.gz", [event(8, receivedAt=...), event(9)])], lake)
    day = max(one["run_id"] for one in lakes.read_commits(lake))
    path = next(lake.glob(f"segment-data/quarantine/web/*/{day}.parquet"))
    started = lakes.open_lake(lake).reports("web")[-1]["start_time"]
    since = started.replace(" ", "T") + "Z"
    assert run(lake, since=since, fields=SET_TIME).counts.landed == 1
    assert not path.exists()
    assert ids(lake) == ["m1", "m8", "m9"]
    assert run(lake, since="2100-01-01", fields=SET_TIME).status == "nothing"
    lakes.assert_complete(lake)


def test_without_a_correction_nothing_changes(lake: Path) -> None:
    result = run(lake)
    assert (result.status, sum(result.left.values())) == ("failed", 6)
    assert len(lakes.read_commits(lake)) == 1


# Corrected lines


def test_corrected_lines_take_the_place_of_quarantined_ones(lake: Path, tmp_path: Path) -> None:
    fixed = export(lake, tmp_path / "fixed.json", not_json=event(6), not_object=event(7, type="x"))
    result = run(lake, corrected=fixed)
    assert (result.counts.landed, result.failed) == (1, {"bad_type": 1})
    assert result.left == {"no_event_name": 1, "no_message_id": 1, "no_received_at": 2}
    assert ids(lake) == ["m1", "m6"]
    assert reasons(lake) == {**result.left, "bad_type": 1}
    lakes.assert_complete(lake)
    with pytest.raises(InvalidSettings, match=r"2 lines are not in the quarantine: line 6 of .*a"):
        run(lake, corrected=fixed)


def test_the_damage_of_a_file_stays(tmp_path: Path) -> None:
    cut, lake = write(tmp_path / "a.gz", [event(n) for n in range(50)]), tmp_path / "lake"
    cut.write_bytes(cut.read_bytes()[:-20])
    lakes.load([cut], lake)
    assert run(lake, fields=SET_TIME).left["damaged_file"] == 1
    fixed = export(lake, tmp_path / "fixed.json", damaged_file=event(99))
    assert run(lake, corrected=fixed).left["damaged_file"] == 1
    assert reasons(lake)["damaged_file"] == 1
    lakes.assert_complete(lake)


# Mistakes


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reasons": ["no_time"]}, "reason 'no_time' is unknown: choose one of bad_type, "),
        ({"since": "yesterday"}, "--since is 'yesterday': write 2026-10-01"),
        ({"fields": ["x"]}, "a field to set is 'x': write field=value"),
        ({"fields": ["messageId=x"]}, "messageId: 4 lines would get the same id"),
        ({"corrected": Path("none.json")}, r"--from-file none\.json: No such file"),
        ({"corrected": Path("x"), "reasons": ["not_json"]}, "leave --set, --reason and --since"),
    ],
)
def test_mistakes_are_explained(lake: Path, fields: dict[str, Any], message: str) -> None:
    request = RedriveRequest("web", **fields)
    for work in (plan_redrive, redrive):
        with pytest.raises(InvalidSettings, match=message):
            work(request, lake=lake)
    assert len(lakes.read_commits(lake)) == 1


def test_an_unknown_source(lake: Path) -> None:
    with pytest.raises(InvalidSettings, match="no source 'shop' in this lake; known: web"):
        plan_redrive(RedriveRequest("shop"), lake=lake)


def test_the_source_may_be_left_out_if_there_is_one(lake: Path, tmp_path: Path) -> None:
    request = RedriveRequest(fields=SET_TIME)
    assert plan_redrive(request, lake=lake).source == "web"
    app = source_settings(source="app")
    lakes.load([write(tmp_path / "b.gz", [event(1)])], lake, settings=app)
    with pytest.raises(InvalidSettings, match="source is not set: give --source; known: app, web"):
        plan_redrive(request, lake=lake)


def test_one_line_may_get_a_message_id(lake: Path) -> None:
    assert run(lake, reasons=["no_message_id"], fields=["messageId=x"]).counts.landed == 1


# What comes after


def test_a_sync_does_not_load_redriven_lines_again(lake: Path) -> None:
    run(lake, fields=SET_TIME)
    assert len(list(lake.glob("segment-logs/web/*/*-redrive.gz"))) == 1
    assert lakes.sync(lake).message == "nothing to load: 1 file was loaded before"


@pytest.mark.parametrize("window", [{"all_time": True}, {"since": AT[:10], "until": "2026-11-05"}])
def test_a_replay_has_the_redriven_lines(lake: Path, window: dict[str, Any]) -> None:
    run(lake, fields=SET_TIME)
    before = lakes.assert_complete(lake)
    result = replay(ReplayRequest("web", **window), lake=lake, where=InlineRunner())
    assert result.counts.landed == 3
    lakes.assert_same(lakes.assert_complete(lake), before, ("tables", "quarantine", "ids"))


def test_a_dropped_source_is_loaded_again_with_redriven_lines(lake: Path, tmp_path: Path) -> None:
    run(lake, reasons=["no_received_at"], fields=SET_TIME)
    before = lakes.assert_complete(lake)
    drop("web", lake=lake)
    assert open_lake(lake).quarantine("web").num_rows == 0
    lakes.load([tmp_path / "a.gz"], lake)
    lakes.sync(lake)
    lakes.assert_same(lakes.assert_complete(lake), before, ("tables", "ids"))


def test_snapshots_of_a_lake_with_redrives(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number in range(6):
        lines = [event(number, receivedAt=...), event(9 + number), "{"]
        lakes.load([write(tmp_path / f"{number}.gz", lines)], lake)
        assert run(lake, reasons=["no_received_at"], fields=SET_TIME).counts.landed == 1
    assert list(lake.glob("segment-data/ledger/web/snapshots/*.json"))
    assert reasons(lake) == {"not_json": 6}
    lakes.assert_complete(lake)


# Beside other runs


def test_a_load_beside_a_redrive(lake: Path, tmp_path: Path) -> None:
    more = write(tmp_path / "b.gz", [event(8), event(9, receivedAt=...)])
    beside = AtStage("dedupe", lambda: lakes.load([more], lake))
    assert run(lake, beside, reasons=["no_received_at"], fields=SET_TIME).counts.landed == 2
    assert [stage for stage, _ in beside.steps].count("commit") == 1
    assert ids(lake) == ["m1", "m2", "m3", "m8"]
    assert reasons(lake)["no_received_at"] == 1
    lakes.assert_complete(lake)


@pytest.mark.parametrize("stage", ["read", "publish", "register", "clean"])
def test_a_sync_beside_a_redrive_loads_nothing(lake: Path, stage: str) -> None:
    beside = AtStage(stage, lambda: lakes.sync(lake))
    assert run(lake, beside, reasons=["no_received_at"], fields=SET_TIME).counts.landed == 2
    assert len(lakes.read_commits(lake)) == 2
    lakes.assert_complete(lake)


def test_a_reader_beside_a_redrive(lake: Path) -> None:
    redrives = [lambda: run(lake, reasons=["no_received_at"], fields=SET_TIME)]

    def redrive_before_open(operation: str, path: str) -> None:
        if operation == "open" and "quarantine" in path and redrives:
            redrives.pop()()

    watched = WatchedDisk(str(lake), redrive_before_open).lake()
    assert Lake(watched).quarantine("web").num_rows == 4
    assert not redrives


@pytest.mark.parametrize("stage", ["start", "read", "commit"])
@pytest.mark.parametrize("is_file", [False, True])
def test_of_two_redrives_of_the_same_lines_one_wins(
    lake: Path, tmp_path: Path, stage: str, is_file: bool
) -> None:
    request = {"reasons": ["no_received_at"], "fields": SET_TIME}
    if is_file:
        request = {"corrected": export(lake, tmp_path / "x.json", not_json=event(2))}
    results: list[RedriveResult] = []
    beside = AtStage(stage, lambda: results.append(run(lake, **request)))
    result = run(lake, beside, **request)
    assert results[0].status == "finished"
    assert result.status == ("failed" if is_file else "nothing")
    assert result.counts.received == 0
    assert len(lakes.read_commits(lake)) == 2
    lakes.assert_complete(lake)


# What verify finds


def test_verify_finds_a_redriven_line_that_is_still_quarantined(lake: Path, tmp_path: Path) -> None:
    old = copytree(lake, tmp_path / "old")
    run(lake, reasons=["no_received_at"], fields=SET_TIME)
    (rest,) = lake.glob("segment-data/quarantine/**/*.parquet")
    (whole,) = old.glob("segment-data/quarantine/**/*.parquet")
    content = rest.read_bytes()
    redriven = pq.read_table(whole, partitioning=None).slice(0, 1)
    table = pa.concat_tables([pq.read_table(rest, partitioning=None), redriven])
    pq.write_table(table, rest)
    assert open_lake(lake).verify("web").problems == (
        "commit 1, compared with its quarantine: quarantined 6, not 7",
        "quarantine of commit 1, compared with the archive: no_received_at 3, not 2",
    )
    rest.write_bytes(content)
    (lake / whole.relative_to(old)).write_bytes(whole.read_bytes())
    (problem,) = open_lake(lake).verify("web").problems
    assert problem.startswith("quarantine files that no commit names: ")


def test_verify_finds_a_line_that_is_missing(lake: Path) -> None:
    run(lake, reasons=["no_received_at"], fields=SET_TIME)
    (rest,) = lake.glob("segment-data/quarantine/**/*.parquet")
    content = rest.read_bytes()
    pq.write_table(pq.read_table(rest, partitioning=None).slice(1), rest)
    assert open_lake(lake).verify("web").problems == (
        "commit 1, compared with its quarantine: quarantined 6, not 5",
        "quarantine of commit 1, compared with the archive: no_event_name 0, not 1",
    )
    rest.write_bytes(content)
    (log,) = lake.glob("segment-logs/web/*/*-redrive.gz")
    lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
    log.write_bytes(gzip.compress(lines[0]))
    problems = open_lake(lake).verify("web").problems
    assert "commit 2, compared with the archive: landed 2, not 1, received 2, not 1" in problems
