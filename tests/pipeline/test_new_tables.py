"""Selective sync: events of new tables are counted and not stored, until somebody wants them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.lakes import InlineRunner, load

from eventlake.errors import InvalidSettings
from eventlake.model.settings import source_settings
from eventlake.services.load import LoadResult
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, replay


def event(name: str, number: int) -> str:
    at = "2026-03-02T08:00:00.000Z"
    body = {"type": "track", "event": name, "messageId": f"{name}-{number}", "receivedAt": at}
    return json.dumps(body)


def land(folder: Path, number: int, names: list[str], **settings: Any) -> LoadResult:
    path = folder / f"{number}.json"
    path.write_text("\n".join(event(name, number) for name in names))
    chosen = source_settings(source="web", **settings)
    return load([path], folder / "lake", settings=chosen)


def list_tables(folder: Path) -> dict[str, int]:
    return {one.name: one.rows for one in open_lake(folder / "lake").tables()}


def check_verified(folder: Path) -> None:
    assert open_lake(folder / "lake").verify("web").problems == ()


def test_events_of_new_tables_are_counted_and_come_back_with_a_replay(tmp_path: Path) -> None:
    land(tmp_path, 1, ["Hello"])
    result = land(tmp_path, 2, ["Hello", "Goodbye", "Order Completed"], new_tables="skip")
    assert (result.counts.landed, result.counts.skipped, result.counts.received) == (1, 2, 3)
    assert list_tables(tmp_path) == {"hello": 2}
    check_verified(tmp_path)
    again = land(tmp_path, 3, ["Goodbye"])  # it is still new, and the setting is remembered
    assert (again.counts.landed, again.counts.skipped) == (0, 1)
    check_verified(tmp_path)
    wanted = land(tmp_path, 4, ["Goodbye", "Order Completed"], land_events=["Goodbye"])
    assert (wanted.counts.landed, wanted.counts.skipped) == (1, 1)
    request = ReplayRequest("web", "2026-03-02", "2026-03-03")
    replay(request, lake=tmp_path / "lake", where=InlineRunner())
    assert list_tables(tmp_path) == {"goodbye": 3, "hello": 2}
    check_verified(tmp_path)
    changed = ReplayRequest("web", all_time=True, changes={"new_tables": "land"})
    replay(changed, lake=tmp_path / "lake", where=InlineRunner())
    assert list_tables(tmp_path) == {"goodbye": 3, "hello": 2, "order_completed": 2}
    check_verified(tmp_path)


def test_nothing_of_a_new_source_lands_but_what_is_named(tmp_path: Path) -> None:
    result = land(tmp_path, 1, ["A", "B"], new_tables="skip", land_events=["b"])
    assert (result.counts.landed, result.counts.skipped) == (1, 1)
    assert list_tables(tmp_path) == {"b": 1}
    check_verified(tmp_path)


def test_skipped_events_that_are_named_stay_skipped(tmp_path: Path) -> None:
    settings = {"new_tables": "skip", "land_events": ["A"], "skip_events": ["A"]}
    assert land(tmp_path, 1, ["A"], **settings).counts.skipped == 1


def test_new_names_of_tables_are_not_skipped_silently(tmp_path: Path) -> None:
    land(tmp_path, 1, ["A"], new_tables="skip", land_events=["A"])
    request = ReplayRequest("web", all_time=True, changes={"naming": "native"})
    with pytest.raises(InvalidSettings, match="set new_tables to land"):
        replay(request, lake=tmp_path / "lake", where=InlineRunner())
