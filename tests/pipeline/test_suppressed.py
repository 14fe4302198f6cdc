"""The suppression list of a lake: every later run obeys it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import lakes
from tests.pipeline.test_settings import run

from eventlake import job
from eventlake.errors import Damaged, InvalidSettings
from eventlake.lakes import open_parts
from eventlake.model.job import JobState, Phase
from eventlake.ports import NoProgress
from eventlake.services.read import open_lake
from eventlake.services.suppress import (
    list_suppressed_users,
    suppress_users,
    unsuppress_users,
)
from eventlake.stores import Disk
from eventlake.suppression import change_suppression_list

PERSON = "person-7f3a@example.com"


def pages(path: Path, *users: str, first: int = 0) -> Path:
    """One page view of each user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        {
            "type": "page",
            "messageId": f"m{number}",
            "receivedAt": f"2026-11-01T00:00:{number:02d}Z",
            "userId": user,
        }
        for number, user in enumerate(users, first)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def landed_users(lake: Path) -> list[str]:
    rows = open_lake(lake).query("select user_id from web.page order by 1")
    return [str(user) for user in rows.column("user_id").to_pylist()]


def files_with(lake: Path, text: str) -> list[str]:
    return [
        path.relative_to(lake).as_posix()
        for path in lake.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def test_a_list_that_was_given_once_holds_for_every_later_run(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first = lakes.load([pages(tmp_path / "1.json", "u1", "u2")], lake, suppressed=["u1"])
    assert (first.counts.landed, first.counts.suppressed) == (1, 1)
    later = lakes.load([pages(tmp_path / "2.json", "u1", "u3", first=10)], lake)
    assert (later.counts.landed, later.counts.suppressed) == (1, 1)
    pages(lake / "segment-logs/web/2026-11-01/3.json", "u1", "u4", first=20)
    synced = lakes.sync(lake, suppressed=["u4"])
    assert (synced.counts.landed, synced.counts.suppressed) == (0, 2)
    assert landed_users(lake) == ["u2", "u3"]
    assert list_suppressed_users(lake).users == ("u1", "u4")
    assert open_lake(lake).verify("web").ok


def test_the_list_is_of_the_lake_and_not_of_one_source(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    suppress_users(["u1"], lake=lake)
    settings = lakes.SETTINGS.model_copy(update={"source": "ios", "source_id": "ios"})
    result = lakes.load([pages(tmp_path / "1.json", "u1")], lake, settings=settings)
    assert (result.counts.landed, result.counts.suppressed) == (0, 1)


def test_a_list_is_kept_although_there_is_nothing_to_load(tmp_path: Path) -> None:
    lake, file = tmp_path / "lake", pages(tmp_path / "1.json", "u1")
    lakes.load([file], lake)
    assert lakes.load([file], lake, suppressed=["u1"]).status == "nothing"
    assert list_suppressed_users(lake).users == ("u1",)


def test_a_dry_run_adds_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake, users = tmp_path / "lake", tmp_path / "users"
    users.write_text("u1\n")
    file = pages(tmp_path / "1.json", "u1")
    command = ("load", file, "--source", "web", "--lake", lake, "--suppress", users)
    assert run(capsys, *command, "--dry-run").code == 0
    assert not lake.exists()
    assert run(capsys, *command).code == 0
    assert list_suppressed_users(lake).users == ("u1",)


@pytest.fixture
def sigterm() -> Iterator[None]:
    """A job takes SIGTERM over; give it back."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("sigterm")
def test_a_job_obeys_the_list_and_its_stage_has_no_ids(tmp_path: Path) -> None:
    """A run on a cluster or in a child process is a job."""
    place = tmp_path / "lake"
    staged: list[str] = []

    class Runner:
        poll_seconds, reads_local_files = 0.0, True

        def submit(self, name: str, path: str) -> str:
            staged.extend(files_with(place, PERSON))
            lake = open_parts(place)
            progress = job.JobProgress(lake.store, path, NoProgress())
            job.run_job(lake, path, lakes.InlineRunner(), progress)
            return name

        def state(self, handle: str) -> JobState:
            return JobState(Phase.ENDED)

        def log(self, handle: str) -> str:
            return handle

        def cancel(self, handle: str) -> None:
            raise AssertionError(handle)

    file = pages(tmp_path / "1.json", PERSON, "u2")
    result = lakes.load([file], place, runner=lambda _: Runner(), suppressed=[PERSON])
    assert (result.counts.landed, result.counts.suppressed) == (1, 1)
    assert staged == ["segment-data/suppression.json"]


# Users of whom the lake may only have a hash


def test_a_forgotten_user_is_known_by_a_hash_alone(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    store = Disk(str(lake))
    suppress_users([PERSON, "u1"], lake=lake)
    change_suppression_list(store, lambda listed: listed.add_hashed([PERSON]))
    result = lakes.load([pages(tmp_path / "1.json", PERSON, "u1", "u2")], lake, suppressed=[PERSON])
    assert (result.counts.landed, result.counts.suppressed) == (1, 2)
    assert files_with(lake, PERSON) == []
    assert suppress_users([PERSON], lake=lake).unchanged == (PERSON,)
    assert files_with(lake, PERSON) == []
    listed = list_suppressed_users(lake)
    assert (listed.users, listed.hashed) == (("u1",), 1)
    assert unsuppress_users([PERSON], lake=lake).listed == 1
    result = lakes.load([pages(tmp_path / "2.json", PERSON, first=10)], lake)
    assert result.counts.landed == 1


def test_the_same_user_has_another_hash_in_another_lake(tmp_path: Path) -> None:
    stored = set()
    for name in ("a", "b"):
        store = Disk(str(tmp_path / name))
        _, after = change_suppression_list(store, lambda listed: listed.add_hashed([PERSON]))
        stored.add(after.hashes)
    assert len(stored) == 2


def test_a_damaged_list_stops_a_load(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    suppress_users(["u1"], lake=lake)
    (lake / "segment-data/suppression.json").write_text('{"users": ["u1"')
    with pytest.raises(Damaged, match=r"suppression\.json is damaged"):
        lakes.load([pages(tmp_path / "1.json", "u1")], lake)
    assert not list(lake.glob("segment-data/data/**/*.parquet"))


# The commands


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = ("--lake", tmp_path / "lake")
    assert run(capsys, "suppress", "list", *lake).code == 2
    would = run(capsys, "suppress", "add", "u2", " u1", *lake, "--dry-run")
    assert (would.code, would.out) == (0, "would add 2 users\n")
    assert not (tmp_path / "lake").exists()
    added = run(capsys, "suppress", "add", "u2", " u1", "u2", *lake)
    assert (added.code, added.out) == (0, "added 2 users\n2 users suppressed in this lake\n")
    again = run(capsys, "suppress", "add", "u2", "u3", *lake, "--json")
    assert json.loads(again.out) == {
        "added": ["u3"],
        "removed": [],
        "unchanged": ["u2"],
        "listed": 3,
    }
    assert run(capsys, "suppress", "list", *lake).out == " u1\nu2\nu3\n"
    listed = run(capsys, "suppress", "list", *lake, "--json")
    assert json.loads(listed.out) == {"users": [" u1", "u2", "u3"], "hashed": 0}
    wrong = run(capsys, "suppress", "remove", "u2", "u1", *lake)
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("error: not on the suppression list: u1; nothing was removed")
    would = run(capsys, "suppress", "remove", "u2", " u1", *lake, "--dry-run")
    assert (would.code, would.out) == (0, "would remove 2 users\n")
    removed = run(capsys, "suppress", "remove", "u2", " u1", *lake)
    assert (removed.code, removed.out) == (0, "removed 2 users\n1 user suppressed in this lake\n")
    assert run(capsys, "suppress", "list", *lake).out == "u3\n"


def test_an_empty_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="a user id is empty"):
        suppress_users(["u1", ""], lake=tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def test_forgotten_users_are_counted_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_suppression_list(Disk(str(tmp_path)), lambda listed: listed.add_hashed(["a", "b"]))
    ran = run(capsys, "suppress", "list", "--lake", tmp_path)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "and 2 forgotten users, of whom the lake has only a hash\n"
