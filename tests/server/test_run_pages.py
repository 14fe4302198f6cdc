"""What the pages say about runs: dry runs, errors, attempts, options, results."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clocks import SimulatedClock
from tests.server.servers import Api, end_active, with_source

REDRIVE: dict[str, Any] = {"source": "web", "kind": "redrive"}
RETYPE = {
    "source": "web",
    "kind": "retype",
    "parameters": {"table": "hello", "types": {"total": "string"}},
}


@pytest.fixture
def api(migrated_sqlite: bytes, clock: SimulatedClock, tmp_path: Path) -> Iterator[Api]:
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    with with_source(str(path), clock, tmp_path) as api:
        yield api


def read_page(api: Api, path: str) -> str:
    """The text of a page, without tags and with single spaces."""
    reply = httpx.get(api.url + path, timeout=30)
    assert reply.status_code == 200, reply.text
    return " ".join(re.sub(r"<[^>]+>", " ", reply.text).split())


def start(api: Api, body: dict[str, Any]) -> str:
    """Start a run; return the path of its page."""
    return f"/runs/{api.post('/runs', body)['id']}"


@pytest.mark.parametrize("body", [REDRIVE, RETYPE])
def test_a_dry_run_says_that_it_changed_nothing(api: Api, body: dict[str, Any]) -> None:
    path = start(api, {**body, "dry_run": True})
    end_active(api, plan={"lines": 3})
    assert "This was a dry run. It changed nothing." in read_page(api, path)
    for one in (path, "/runs", "/sources/web/history"):
        assert "othing was new" not in read_page(api, one)
        assert "nothing new" not in read_page(api, one)
    assert "dry run, nothing changed" in read_page(api, "/runs")


def test_the_plan_of_a_replay_says_that_it_changed_nothing(api: Api) -> None:
    made = api.post("/replays", {"source": "web", "all_time": True, "dry_run": True})
    end_active(api, plan={"bytes": 3})
    assert "This was a dry run." in read_page(api, f"/runs/{made['plan_run']}")


def test_a_sync_without_new_files_says_so(api: Api) -> None:
    path = start(api, {"source": "web"})
    end_active(api, result={"warnings": []})
    text = read_page(api, path)
    assert "Nothing was new." in text
    assert "Result" not in text
    assert "nothing new" in read_page(api, "/runs")


def test_a_redrive_without_lines_does_not_speak_of_the_archive(api: Api) -> None:
    path = start(api, REDRIVE)
    end_active(api)
    assert "There was nothing to do." in read_page(api, path)
    assert "nothing to do" in read_page(api, "/runs")


@pytest.mark.parametrize(
    ("body", "said", "has_check"),
    [
        ({"source": "web"}, "correct what the message names; the next sync tries again.", True),
        (RETYPE, "correct what the message names, then start it again.", False),
        (REDRIVE, "correct what the message names, then start it again.", False),
    ],
)
def test_what_to_do_about_an_error_depends_on_the_kind(
    api: Api, body: dict[str, Any], said: str, has_check: bool
) -> None:
    path = start(api, body)
    end_active(api, "failed", error_code="EventLake.InvalidSettings", error="no such column")
    text = read_page(api, path)
    assert said in text
    assert ("Run the checks of main" in text) is has_check


def test_a_run_that_waits_for_its_next_attempt_says_so(api: Api, clock: SimulatedClock) -> None:
    path = start(api, REDRIVE)
    missing = {"error_code": "EventLake.Unavailable", "error": "/lake: no such folder"}
    for minutes in (1, 5, 25):
        end_active(api, "failed", **missing)
        waiting = read_page(api, path)
        clock.advance(timedelta(minutes=minutes))
    assert "Waiting for attempt 4, next try at " in waiting
    assert ", attempt 3 " in waiting
    assert ", attempt 4 " not in waiting
    assert "Attempt 3 failed: Something that the run needs is not available" in waiting
    assert "nothing now: it is tried again by itself." in waiting
    end_active(api, "failed", **missing)
    ended = read_page(api, path)
    assert ", attempt 4 " in ended
    assert "make what the message names available, then start it again." in ended


def test_options_are_shown_as_they_are_typed(api: Api) -> None:
    text = read_page(api, start(api, RETYPE))
    assert "types total: string" in text


def test_a_plan_names_the_run_that_did_it(api: Api) -> None:
    path = start(api, {**RETYPE, "dry_run": True})
    end_active(api, plan={"rows": 3})
    assert "Do it" in read_page(api, path)
    failed = httpx.post(f"{api.url}{path}/confirm", timeout=30).headers["location"]
    end_active(api, "failed", error_code="EventLake.InvalidSettings", error="no")
    assert "Do it" in read_page(api, path), failed
    done = httpx.post(f"{api.url}{path}/confirm", timeout=30).headers["location"]
    number = done.removeprefix("/runs/").partition("?")[0]
    assert f"Started as run {number} ." in read_page(api, path)
    assert "Do it" not in read_page(api, path)
    end_active(api)
    assert f"Done by run {number} ." in read_page(api, path)
