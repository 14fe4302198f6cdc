"""Replays: a window or all of a lake is built again from its raw logs, in one commit."""

import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests import lakes
from tests.children import make_waiting_runner
from tests.lakes import AtStage, InlineRunner, LakeContents

from eventlake.errors import Conflict, InvalidSettings
from eventlake.model.commit import Replacement
from eventlake.model.settings import source_settings
from eventlake.services.drop import drop, plan_drop
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, ReplayResult, plan_replay, replay
from eventlake.services.retype import plan_retype, retype, retype_request
from eventlake.services.suppress import unsuppress_users

DAY = ("2026-11-01", "2026-11-02")
REQUEST = frozenset({"events", "changes", "infer", "partial"})
START = datetime(2026, 11, 1, tzinfo=UTC)
CONTENT = ("tables", "catalog", "quarantine", "ids", "strays", "problems")
"""What two lakes have in common that hold the same events, however they came in."""


def run(lake: Path, since: str = "", until: str = "", **options: Any) -> ReplayResult:
    """Replay a window, or all events; options are fields of the request or of the call."""
    asked = {name: options.pop(name) for name in REQUEST & options.keys()}
    request = ReplayRequest("web", since, until, all_time=not since, **asked)
    return replay(request, lake=lake, where=InlineRunner(), **options)


def event(number: int, hour: float, **fields: Any) -> dict[str, Any]:
    return {
        "type": "track",
        "event": "Order Completed",
        "messageId": f"m{number}",
        "receivedAt": (START + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "userId": f"u{number}",
        **fields,
    }


def write(path: Path, events: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in events).encode()))
    return path


def ids(lake: Path, table: str = "order_completed") -> list[str]:
    rows = lakes.read_contents(lake).tables.get(table, {})
    return sorted({name: value for name, _, value in row[:-2]}["id"] for row in rows)


def fresh(tmp_path: Path, files: list[Path], **options: Any) -> LakeContents:
    lakes.load(files, tmp_path / "fresh", **options)
    return lakes.assert_complete(tmp_path / "fresh")


def test_a_replay_with_the_same_settings_changes_no_row(tmp_path: Path) -> None:
    files, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    lakes.load(files[:2], lake)
    lakes.load(files, lake)
    before = lakes.assert_complete(lake)
    result = run(lake, "2026-11-01T01:30:00Z", "2026-11-01T02:00:00Z")
    assert result.status == "finished"
    assert result.counts.landed == result.replaced_rows > 0
    after = lakes.assert_complete(lake)
    lakes.assert_same(after, before, CONTENT)
    assert before.reports == after.reports[:-1]
    run_line = after.reports[-1][0]
    assert run_line["replay"] is True
    assert run_line["replay_from"] == "2026-11-01 01:00:00.000000"
    assert run_line["replay_to"] == "2026-11-01 02:00:00.000000"


def test_late_files_and_then_a_replay_are_a_fresh_load(tmp_path: Path) -> None:
    """The late files have earlier events of ids that have landed."""
    lake = tmp_path / "lake"
    first = write(tmp_path / "b.gz", [event(1, 5, properties={"n": 1}), event(2, 5)])
    late = write(tmp_path / "a.gz", [event(1, 3, properties={"n": 2.5}), event(3, 4)])
    lakes.load([first], lake)
    lakes.load([late], lake)
    assert lakes.assert_complete(lake) != fresh(tmp_path, [first, late])
    run(lake, *DAY, infer=True)
    lakes.assert_same(
        lakes.assert_complete(lake), lakes.assert_complete(tmp_path / "fresh"), CONTENT
    )


def test_all_is_built_again_with_settings_that_are_fixed(tmp_path: Path) -> None:
    files, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    lakes.load(files[:1], lake)
    lakes.load(files, lake)
    for changes in (
        {"date_partition": "day"},
        {"naming": "native"},
        {"date_partition": "year/month/day/hour", "naming": "warehouse"},
        {"data_folder": "mine/data"},
    ):
        run(lake, changes=changes, infer=True)
        settings = source_settings(**lakes.read_commits(lake)[-1]["settings"])
        content = fresh(tmp_path / "-".join(changes), files, settings=settings)
        # The quarantine has the lines in the order and the runs of the first loads.
        lakes.assert_same(lakes.assert_complete(lake), content, CONTENT)
    assert run(lake).counts.landed == content.rows
    assert lakes.load(files, lake, settings=settings).status == "nothing"


def test_tables_move_to_the_folder_of_the_slug_and_back(tmp_path: Path) -> None:
    """The ledger stays where it is, so that one commit moves everything."""
    files, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    given = {"source": "shop", "source_id": "web", "database": "web"}
    lakes.load(files[:2], lake, settings=source_settings(**given))
    for by_slug, folder, other in (("true", "shop", "web"), ("false", "web", "shop")):
        assert run(lake, changes={"partition_by_slug": by_slug}).status == "finished"
        assert list((lake / "segment-data/data" / other).rglob("*.parquet")) == []
        assert list((lake / "segment-data/data" / folder).rglob("*.parquet")) != []
        assert lakes.load(files[:2], lake, settings=source_settings(**given)).status == "nothing"
        settings = source_settings(**given, partition_by_slug=by_slug).with_folder("web")
        content = fresh(tmp_path / folder, files[:2], settings=settings)
        lakes.assert_same(lakes.assert_complete(lake), content, CONTENT)
        count = open_lake(lake).query("select count(*) n from web.page")["n"].to_pylist()
        assert count == [content.tables["page"].total()]
    assert lakes.load(files, lake, settings=source_settings(source="shop")).status == "finished"
    lakes.assert_complete(lake)


def test_fixed_settings_need_all_tables(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1)])], lake)
    with pytest.raises(InvalidSettings, match=r"date_partition changes.*--all"):
        run(lake, *DAY, changes={"date_partition": "day"})


def test_an_event_that_a_replay_drops_can_be_loaded_again(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one, two = write(tmp_path / "a.gz", [event(1, 1), event(2, 1)]), tmp_path / "b.gz"
    lakes.load([one], lake)
    assert run(lake, *DAY, suppressed=["u1"]).counts.suppressed == 1
    assert ids(lake) == ["m2"]
    unsuppress_users(["u1"], lake=lake)
    lakes.load([write(two, [event(1, 1), event(2, 1)])], lake)
    assert ids(lake) == ["m1", "m2"]
    lakes.assert_complete(lake)


def test_only_the_window_and_the_tables_that_are_named(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    page = {"type": "page", "name": "Home"}
    events = [event(1, 1), event(2, 2), event(3, 1, **page), event(4, 2, **page)]
    lakes.load([write(tmp_path / "a.gz", events)], lake)
    suppressed = [f"u{number}" for number in range(5)]
    run(
        lake,
        "2026-11-01T01:00:00Z",
        "2026-11-01T02:00:00Z",
        events=["Order Completed"],
        suppressed=suppressed,
    )
    assert ids(lake) == ["m2"]
    assert ids(lake, "page") == ["m3", "m4"]
    lakes.assert_complete(lake)
    run(lake, events=["page"], suppressed=suppressed)
    assert ids(lake, "page") == []
    lakes.assert_complete(lake)


def test_events_that_did_not_land_before_are_found(tmp_path: Path) -> None:
    """The commit of the skipped event has no file in the window."""
    lake, settings = (
        tmp_path / "lake",
        source_settings(source="web", skip_events=["Order Completed"]),
    )
    lakes.load([write(tmp_path / "a.gz", [event(1, 1), event(2, 50)])], lake, settings=settings)
    result = run(lake, *DAY, events=["Order Completed"], changes={"skip_events": ()})
    assert result.counts.landed == 1
    assert ids(lake) == ["m1"]
    lakes.assert_complete(lake)


def test_types_hold_unless_they_are_inferred(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one = write(tmp_path / "a.gz", [event(1, 1, properties={"n": 1})])
    two = write(tmp_path / "b.gz", [event(2, 1, properties={"n": 2.5})])
    lakes.load([one], lake)
    lakes.load([two], lake)

    def type_of_n() -> str:
        columns = {
            c["name"]: c["type"] for c in lakes.read_contents(lake).catalog["order_completed"][0]
        }
        return str(columns["n"])

    run(lake)
    assert type_of_n() == "bigint"
    run(lake, infer=True)
    assert type_of_n() == "decimal(38,6)"
    lakes.assert_same(lakes.assert_complete(lake), fresh(tmp_path, [one, two]), CONTENT)


def test_infer_keeps_types_that_other_files_have(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    events = [event(1, 1, properties={"n": 1}), event(2, 30, properties={"n": "x"})]
    lakes.load([write(tmp_path / "a.gz", events)], lake)
    result = run(lake, *DAY, infer=True)
    assert any("order_completed" in warning for warning in result.warnings)
    lakes.assert_complete(lake)


def test_a_lost_file_stops_it_unless_it_is_named(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one = write(tmp_path / "a.gz", [event(1, 1), event(2, 2)])
    two = write(tmp_path / "b.gz", [event(3, 1)])
    lakes.load([one, two], lake)
    before = lakes.read_contents(lake)
    two.unlink()
    with pytest.raises(InvalidSettings, match=r"1 raw logs .*/b\.gz; restore .* --partial"):
        run(lake, *DAY, partial=["*a.gz"])
    lakes.assert_same(lakes.read_contents(lake), before, ("tables", "ids", "strays"))
    result = run(lake, partial=["*b.gz"])
    assert result.left_out == (two.as_uri(),)
    assert (result.replaced_rows, result.counts.landed) == (3, 2)
    assert ids(lake) == ["m1", "m2"]
    lakes.assert_complete(lake)
    write(two, [event(3, 1)])
    assert lakes.load([one, two], lake).counts.landed == 1


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    files, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    lakes.load(files, lake)
    before = sorted(lake.rglob("*"))
    plan = plan_replay(ReplayRequest("web", *DAY), lake=lake)
    assert sorted(lake.rglob("*")) == before
    assert len(plan.files) == 3
    assert sum(table.rows for table in plan.tables) == lakes.read_contents(lake).rows
    assert plan.estimated_seconds is not None


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        ("2026-11-01", "", "the time to replay is not set"),
        ("yesterday", "2026-11-02", "--from is 'yesterday'"),
        ("2026-11-02", "2026-11-01", "later than --from"),
    ],
)
def test_a_wrong_window(tmp_path: Path, since: str, until: str, message: str) -> None:
    lakes.load([write(tmp_path / "a.gz", [event(1, 1)])], tmp_path / "lake")
    with pytest.raises(InvalidSettings, match=message):
        replay(ReplayRequest("web", since, until), lake=tmp_path / "lake", where=InlineRunner())


def test_unknown_events_and_sources(tmp_path: Path) -> None:
    lakes.load([write(tmp_path / "a.gz", [event(1, 1)])], tmp_path / "lake")
    with pytest.raises(InvalidSettings, match="no event or table 'Orders'; it has order_completed"):
        run(tmp_path / "lake", events=["Orders"])
    with pytest.raises(InvalidSettings, match="no source 'ios'"):
        replay(ReplayRequest("ios", all_time=True), lake=tmp_path / "lake", where=InlineRunner())


# Beside other runs


def test_a_load_beside_a_replay_stays(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1), event(1, 2)])], lake)
    late = write(tmp_path / "b.gz", [event(2, 1, properties={"x": 1}), event(1, 1)])
    landed = AtStage("dedupe", lambda: lakes.load([late], lake))
    assert run(lake, *DAY, progress=landed).status == "finished"
    assert ids(lake) == ["m1", "m2"]
    assert [stage for stage, _ in landed.steps].count("commit") == 1
    lakes.assert_complete(lake)


def test_a_replay_is_planned_again_if_a_load_relied_on_a_row_that_it_drops(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1, userId="old")])], lake)
    late = write(tmp_path / "b.gz", [event(1, 1, userId="new"), event(2, 2)])
    landed = AtStage("dedupe", lambda: lakes.load([late], lake))
    run(lake, *DAY, progress=landed, suppressed=["old"])
    assert ids(lake) == ["m1", "m2"]
    assert [stage for stage, _ in landed.steps].count("commit") == 2
    lakes.assert_complete(lake)


def test_loads_at_every_step_of_a_replay(tmp_path: Path) -> None:
    """They land in its window, with ids that are new, or that it lands again."""
    lake, numbers = tmp_path / "lake", count(10)
    lakes.load([write(tmp_path / "a.gz", [event(n, n / 2) for n in range(10)])], lake)
    files = [tmp_path / "a.gz"]

    def load_more() -> None:
        number = next(numbers)
        events = [event(number, 2, properties={f"p{number}": 1}), event(number % 10, 3)]
        files.append(write(tmp_path / f"{number}.gz", events))
        assert lakes.load([files[-1]], lake).counts.landed == 1

    busy = AtStage("", load_more)
    for stage in ("start", "read", "index", "dedupe", "evolve", "write", "commit", "publish"):
        busy.stage, busy.times = stage, 1
        run(lake, *DAY, progress=busy)
        lakes.assert_complete(lake)
    assert ids(lake) == sorted(f"m{number}" for number in range(next(numbers)))


def test_ctrl_c_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load(lakes.small_sample(tmp_path / "raw"), lake)
    before = lakes.assert_complete(lake)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for stage in ("read", "index", "write", "commit"):
        with pytest.raises(KeyboardInterrupt):
            run(lake, *DAY, progress=AtStage(stage, interrupt))
        lakes.assert_same(lakes.read_contents(lake), before, CONTENT)


def test_a_replay_in_a_child_process(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load(lakes.small_sample(tmp_path / "raw"), lake)
    before = lakes.assert_complete(lake)
    runner = make_waiting_runner(lake, tmp_path / "jobs")
    for request in (ReplayRequest("web", *DAY), ReplayRequest("web", all_time=True)):
        assert replay(request, lake=lake, where=runner).status == "finished"
        lakes.assert_same(lakes.assert_complete(lake), before, CONTENT)


def test_a_rebuild_takes_in_what_was_loaded_meanwhile(tmp_path: Path) -> None:
    lake, files = tmp_path / "lake", lakes.small_sample(tmp_path / "raw")
    lakes.load(files[:2], lake)
    landed = AtStage("commit", lambda: lakes.load(files, lake))
    run(lake, changes={"date_partition": "day"}, progress=landed, infer=True)
    settings = source_settings(source="web", date_partition="day")
    lakes.assert_same(
        lakes.assert_complete(lake), fresh(tmp_path, files, settings=settings), CONTENT
    )


def test_a_load_that_a_rebuild_overtakes_lands_nothing(tmp_path: Path) -> None:
    lake, files = tmp_path / "lake", lakes.small_sample(tmp_path / "raw")
    lakes.load(files[:2], lake)
    with pytest.raises(Conflict, match="replaces or drops all tables"):
        lakes.load(files, lake, AtStage("commit", lambda: run(lake)))
    lakes.load(files, lake)
    lakes.assert_complete(lake)


def test_a_replay_gives_up_after_some_conflicts(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1)])], lake)
    numbers = count(2)

    def load_more() -> None:
        number = next(numbers)
        lakes.load([write(tmp_path / f"{number}.gz", [event(number, 1)])], lake)

    busy = AtStage("commit", load_more, times=100)
    with pytest.raises(Conflict):
        run(lake, progress=busy)
    lakes.assert_complete(lake)


# Drops


def test_a_dropped_source_can_be_loaded_again_with_other_settings(tmp_path: Path) -> None:
    files, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    lakes.load(files[:2], lake)
    lakes.load(files, lake)
    planned = plan_drop("web", lake=lake)
    assert sum(table.rows for table in planned.tables) == lakes.assert_complete(lake).rows
    assert drop("web", lake=lake).status == "finished"
    empty = lakes.assert_complete(lake)
    assert (empty.tables, empty.catalog, empty.ids, empty.quarantine) == ({}, {}, {}, {})
    assert drop("web", lake=lake).status == "nothing"
    settings = source_settings(source="web", date_partition="day", naming="native")
    lakes.load(files, lake, settings=settings)
    content = fresh(tmp_path, files, settings=settings)
    lakes.assert_same(lakes.assert_complete(lake), content, CONTENT)


def test_a_dropped_table_comes_back_with_a_replay(tmp_path: Path) -> None:
    files, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    lakes.load(files, lake)
    before = lakes.assert_complete(lake)
    assert drop("web", lake=lake, tables=["page", "Product Viewed"]).status == "finished"
    after = lakes.assert_complete(lake)
    assert before.tables.keys() - after.tables.keys() == {"page", "product_viewed"}
    assert before.catalog.keys() - after.catalog.keys() == {"page", "product_viewed"}
    assert lakes.load(files, lake).status == "nothing"
    run(lake, events=["page", "product_viewed"])
    lakes.assert_same(lakes.assert_complete(lake), before, CONTENT)


def test_a_load_beside_a_drop_lands_nothing(tmp_path: Path) -> None:
    files, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    lakes.load(files[:2], lake)
    beside = AtStage("commit", lambda: drop("web", lake=lake, tables=["page"]))
    with pytest.raises(Conflict):
        lakes.load(files, lake, beside)
    lakes.load(files, lake)
    lakes.assert_complete(lake)


# Retypes


def types(lake: Path, table: str = "order_completed") -> dict[str, str]:
    columns, *_ = lakes.read_contents(lake).catalog[table]
    return {one["name"]: one["type"] for one in columns}


ORDERS = "web.order_completed"


def test_new_rows_follow_a_retype_and_a_replay_brings_the_others(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    amounts = [event(1, 1, properties={"total": "5"}), event(2, 30, properties={"total": "x"})]
    lakes.load([write(tmp_path / "a.gz", amounts)], lake)
    plan = plan_retype(ORDERS, {"total": "decimal"}, lake=lake)
    (total,) = plan.columns
    assert (plan.rows, len(plan.partitions), total.values, total.misfits) == (2, 2, 2, 1)
    assert retype(ORDERS, {"total": "decimal"}, lake=lake).status == "finished"
    assert types(lake)["total"] == "decimal(38,6)"
    lakes.load([write(tmp_path / "b.gz", [event(3, 60, properties={"total": "7.5"})])], lake)
    lakes.assert_complete(lake)
    run(lake, "2026-11-01", "2026-11-03", events=["order_completed"])
    totals = open_lake(lake).query(f"select total, _rescued_data r from {ORDERS} order by id")
    rescued = '{"properties.total":"x"}'
    assert totals["total"].to_pylist() == [Decimal(5), None, Decimal("7.5")]
    assert totals["r"].to_pylist() == [None, rescued, None]
    assert open_lake(lake).schema(ORDERS).pinned == ("total",)
    lakes.assert_complete(lake)


def test_a_retype_with_a_replay_is_one_commit_and_outlives_inference(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1, properties={"total": 5})])], lake)
    request = retype_request(ORDERS, {"total": "string"}, lake=lake)
    result = replay(request, lake=lake, where=InlineRunner())
    assert (result.status, len(lakes.read_commits(lake))) == ("finished", 2)
    assert types(lake)["total"] == "string"
    run(lake, infer=True)
    assert types(lake)["total"] == "string"
    lakes.assert_complete(lake)


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ("web.orders", {"total": "string"}, "no table 'web.orders'; the lake has web.order_comp"),
        (ORDERS, {"sum": "string"}, "no column 'sum'; those with a type to set: total"),
        (ORDERS, {"id": "bigint"}, "id has the type string in every table"),
        (ORDERS, {"total": "float"}, "'float': choose boolean, bigint, decimal"),
    ],
)
def test_a_wrong_retype(tmp_path: Path, table: str, given: dict[str, str], message: str) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1, properties={"total": 5})])], lake)
    with pytest.raises(InvalidSettings, match=message):
        retype(table, given, lake=lake)


def test_a_load_beside_a_retype_lands_nothing_of_the_old_type(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1, properties={"total": 5})])], lake)
    more = write(tmp_path / "b.gz", [event(2, 1, properties={"total": 6})])
    beside = AtStage("commit", lambda: retype(ORDERS, {"total": "string"}, lake=lake))
    with pytest.raises(Conflict, match=r"gave order_completed\.total another type"):
        lakes.load([more], lake, beside)
    lakes.load([more], lake)
    lakes.assert_complete(lake)


# What verify finds


def problems(lake: Path) -> str:
    return "\n".join(open_lake(lake).verify("web").problems)


def test_verify_finds_what_a_replay_did_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1)])], lake)
    lakes.load([write(tmp_path / "b.gz", [event(2, 1)])], lake)
    monkeypatch.setattr(Replacement, "overlaps", lambda _, one: "a.gz" in one.uri)
    run(lake, *DAY)
    assert "table order_completed: 1 events of the archive are missing: m2" in problems(lake)


def test_verify_finds_ids_that_were_not_removed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1), event(2, 1)])], lake)
    run(lake, *DAY, suppressed=["u1"])
    assert problems(lake) == ""
    path = max(lake.glob("segment-data/ledger/web/*.json"))
    commit = json.loads(path.read_bytes())
    del commit["removed_ids"]
    path.write_text(json.dumps(commit))
    assert "commit 1: the id index has other ids than the tables" in problems(lake)


def test_verify_finds_a_row_that_a_replay_should_have_dropped(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", [event(1, 1), event(2, 1)])], lake)
    old = next((lake / "segment-data/data").rglob("*.parquet"))
    content = old.read_bytes()
    run(lake, *DAY)
    old.write_bytes(content)  # as if it had not been deleted
    assert "Parquet files that no commit names" in problems(lake)
    assert "table order_completed: 2 rows are duplicates" in problems(lake)
