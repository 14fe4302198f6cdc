"""Forget a user: no byte of the user's events remains, and everything else does."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from tests import lakes
from tests.lakes import AtStage, InlineRunner
from tests.stores import WatchedDisk
from tests.users import open_folder, unprivileged

from eventlake.cli.main import main
from eventlake.errors import Conflict, InvalidSettings
from eventlake.kernels.erase import ErasedIds
from eventlake.kernels.user_hashes import hash_ids
from eventlake.model.commit import Commit, Counts, DataFile, TableCommit
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import new_table
from eventlake.model.settings import source_settings
from eventlake.ports import NoProgress
from eventlake.services.compact import compact
from eventlake.services.erase import erase_source
from eventlake.services.forget import forget, plan_forget
from eventlake.services.redrive import RedriveRequest, redrive
from eventlake.services.replay import ReplayRequest, replay
from eventlake.services.suppress import list_suppressed_users, suppress_users
from eventlake.services.user_files import index_compacted
from eventlake.stores import Disk
from eventlake.suppression import read_suppression_list

USER, EMAIL = "user_123", "ada@example.com"
BROWSER, PHONE, OLD = "anon-browser", "anon-phone", "old_123"
CONTENT = ("tables", "quarantine", "ids")


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "track",
        "event": "Order Completed",
        "messageId": f"m{number}",
        "receivedAt": f"2026-11-01T{number % 5:02}:00:00Z",
        **fields,
    }


def others(start: int, count: int = 20) -> list[dict[str, Any]]:
    return [
        event(start + n, userId=f"other_{n}", anonymousId=f"anon_{n}", properties={"n": n})
        for n in range(count)
    ]


def of_user(start: int) -> list[dict[str, Any]]:
    """Calls of the user, also with ids that calls tie to it, duplicates and invalid ones."""
    traits = {"email": EMAIL}
    lost = event(start + 5, userId=USER, traits=traits)
    del lost["receivedAt"]
    return [
        event(start, type="identify", userId=USER, anonymousId=BROWSER, traits=traits),
        event(start + 1, type="alias", userId=USER, previousId=OLD),
        event(start + 2, type="identify", userId=OLD, anonymousId=PHONE),
        event(start + 3, userId=USER, properties={"email": EMAIL}),
        event(start + 3, userId=USER, properties={"email": EMAIL}),
        event(start + 4, anonymousId=PHONE, properties={"n": 1}),
        event(start + 6, type="page", anonymousId=BROWSER),
        lost,
    ]


def write(path: Path, events: list[dict[str, Any]], more: bytes = b"") -> Path:
    data = b"".join(json.dumps(one).encode() + b"\n" for one in events) + more
    path.parent.mkdir(parents=True, exist_ok=True)
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


BROKEN = b'{"type":"track","userId":"user_123","properties":{"email":"ada@example.com"\nnot json\n'


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Three raw logs in the user's own folder, of which two have the user, and one in the lake."""
    raw, lake = tmp_path / "raw", tmp_path / "lake"
    write(raw / "a.gz", others(100) + of_user(0), BROKEN)
    write(raw / "b.json", others(200))
    write(raw / "c.zst", others(300) + of_user(50)[3:5])
    lakes.load([raw], lake)
    day = lake / "segment-logs/web/1793491200000"
    write(day / "new.gz", others(400) + of_user(70)[3:4])
    write(
        day.parent / ".rejected/1793491200000/_r.gz",
        [rejected(USER, EMAIL), rejected("other_1", "")],
    )
    return tmp_path


def rejected(user: str, email: str) -> dict[str, Any]:
    return {"reason": "bad_type", "receivedAt": "", "event": {"userId": user, "email": email}}


def search(folder: Path, words: tuple[str, ...]) -> list[str]:
    """The files that contain a word, in their bytes or in what these decompress to."""
    texts = [word.encode() for word in words]
    return [
        f"{path.relative_to(folder)}: {text.decode()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for text in texts
        if any(text in content for content in contents(path))
    ]


def contents(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    yield path.name.encode()
    if data.startswith(b"\x1f\x8b"):
        yield zlib.decompressobj(31).decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        yield zstandard.ZstdDecompressor().decompressobj().decompress(data)
    if data.startswith(b"PAR1"):
        with pq.ParquetFile(path) as file:
            yield str(file.read().to_pydict()).encode()
            groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
            yield str([group.to_dict() for group in groups]).encode()
            yield str(file.metadata.metadata).encode()


def without(lake: Path, ids: tuple[str, ...]) -> Any:
    """What tables and quarantine of a lake must be without some users."""
    before = lakes.read_contents(lake)
    tables = {
        name: {row: n for row, n in rows.items() if not any(one in str(row) for one in ids)}
        for name, rows in before.tables.items()
    }
    kept = {row: n for row, n in before.quarantine.items() if USER not in str(row)}
    return {name: rows for name, rows in tables.items() if rows}, kept


def test_nothing_of_the_user_remains_anywhere(world: Path) -> None:
    lake, ids = world / "lake", (USER, BROWSER, PHONE, OLD)
    tables, quarantine = without(lake, ids)
    assert len(search(world, (USER, EMAIL))) > 6
    result = forget(USER, lake=lake, also_anonymous=True)
    assert (result.status, set(result.ids), result.remaining) == ("finished", set(ids), ())
    assert search(world, (*ids, EMAIL)) == []
    after = lakes.read_contents(lake)
    assert {name: dict(rows) for name, rows in after.tables.items() if rows} == tables
    assert dict(after.quarantine) == quarantine
    assert after.problems == ()
    assert lakes.strays(lake) == []


def test_without_the_option_anonymous_events_stay(world: Path) -> None:
    lake = world / "lake"
    tables, _ = without(lake, (USER,))
    result = forget(USER, lake=lake)
    assert result.ids == (USER,)
    assert search(world, (USER, EMAIL)) == []
    assert search(world, (BROWSER, PHONE)) != []
    after = lakes.read_contents(lake)
    assert {name: dict(rows) for name, rows in after.tables.items() if rows} == tables
    assert after.problems == ()


def test_a_second_forget_finds_nothing(world: Path) -> None:
    lake = world / "lake"
    forget(USER, lake=lake, also_anonymous=True)
    commits = lakes.read_commits(lake)
    result = forget(USER, lake=lake, also_anonymous=True)
    assert (result.status, result.files) == ("nothing", ())
    assert lakes.read_commits(lake) == commits


def test_a_rewritten_raw_log_is_not_loaded_again(world: Path) -> None:
    lake = world / "lake"
    forget(USER, lake=lake)
    before = lakes.read_contents(lake)
    assert lakes.load([world / "raw"], lake).status == "nothing"
    assert lakes.sync(lake).files == 1  # the one that was not loaded before
    after = lakes.read_contents(lake)
    assert after.rows == before.rows + 20
    assert (search(lake, (USER, EMAIL)), after.problems) == ([], ())


def test_a_replay_brings_nothing_back(world: Path) -> None:
    lake = world / "lake"
    forget(USER, lake=lake, also_anonymous=True)
    before = lakes.read_contents(lake)
    replay(ReplayRequest("web", all_time=True), lake=lake, where=InlineRunner())
    after = lakes.read_contents(lake)
    assert {n: r for n, r in before.tables.items() if r} == {
        n: r for n, r in after.tables.items() if r
    }
    assert (after.problems, search(world, (USER, EMAIL))) == ((), [])


def test_late_events_do_not_land(world: Path) -> None:
    lake = world / "lake"
    forget(USER, lake=lake)
    late = write(world / "raw/late.gz", [event(900, userId=USER), event(901, userId="other_1")])
    result = lakes.load([late], lake)
    assert (result.counts.suppressed, result.counts.landed) == (1, 1)
    assert lakes.read_contents(lake).problems == ()
    assert list_suppressed_users(lake).users == ()


def test_the_receipt_has_every_file_and_no_id(world: Path) -> None:
    lake = world / "lake"
    result = forget(USER, lake=lake)
    (path,) = result.receipts
    receipt = json.loads((lake / path).read_bytes())
    kinds = {one["kind"] for one in receipt["files"]}
    assert kinds == {"table", "raw log", "quarantine", "rejected log"}
    for one in receipt["files"]:
        new = one["new_path"].removeprefix("file://")
        if new:
            data = (lake / new).read_bytes()
            assert len(data) == one["new_bytes"]
    assert receipt["rows_removed"] == sum(one.removed for one in result.files)
    page = (lake / path).with_suffix(".html").read_text()
    assert receipt["files"][0]["sha256"] in page
    assert USER not in page


def test_a_dry_run_writes_nothing(world: Path) -> None:
    lake = world / "lake"
    before = {path: path.read_bytes() for path in world.rglob("*") if path.is_file()}
    plan = plan_forget(USER, lake=lake, also_anonymous=True)
    assert {path: path.read_bytes() for path in world.rglob("*") if path.is_file()} == before
    result = forget(USER, lake=lake, also_anonymous=True)
    assert (plan.ids, set(plan.files)) == (result.ids, set(result.files))


def test_ctrl_c_is_finished_by_the_next_command(world: Path) -> None:
    """Until the commit nothing is changed; the user is on the list, and so the rest can follow."""
    lake = world / "lake"
    before = lakes.read_contents(lake)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for stage in ("erase", "commit"):
        with pytest.raises(KeyboardInterrupt):
            forget(USER, lake=lake, progress=AtStage(stage, interrupt))
        lakes.assert_same(lakes.read_contents(lake), before, (*CONTENT, "problems", "strays"))
        assert len(read_suppression_list(Disk(str(lake))).requests) == 1
    assert lakes.sync(lake).status == "finished"
    assert search(world, (USER, EMAIL)) == []
    assert lakes.read_contents(lake).problems == ()
    assert read_suppression_list(Disk(str(lake))).requests == ()


def test_damage_after_a_forget_is_found(world: Path) -> None:
    lake = world / "lake"
    forget(USER, lake=lake)
    path = next(path for path in lake.rglob("*.parquet") if "order_completed" in str(path))
    pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)
    problems = lakes.read_contents(lake).problems
    assert any("are missing" in problem for problem in problems)
    log = next(path for path in (world / "raw").iterdir() if path.name.startswith("a-r"))
    log.write_bytes(gzip.compress(gzip.decompress(log.read_bytes()).split(b"\n", 1)[1]))
    problems = lakes.read_contents(lake).problems
    assert any("compared with the archive: received" in problem for problem in problems)


@pytest.mark.parametrize(
    ("user", "source", "words"),
    [("", None, "user id is empty"), (USER, "shop", "no source 'shop' in this lake; known: web")],
)
def test_bad_arguments(world: Path, user: str, source: str | None, words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        forget(user, lake=world / "lake", source=source)


# Concurrent runs


def test_a_load_that_began_before_lands_nothing_of_the_user(world: Path) -> None:
    """The load has read its events when the user is forgotten, so it conflicts and runs again."""
    lake = world / "lake"
    late = write(world / "raw/late.gz", [event(900, userId=USER), event(901, userId="other_1")])

    class Forgets:
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage == "commit":
                forget(USER, lake=lake)

    with pytest.raises(Conflict, match="lands events of a user that is forgotten"):
        lakes.load([late], lake, Forgets())
    assert lakes.load([late], lake).counts.landed == 1
    assert (search(lake, (USER, EMAIL)), lakes.read_contents(lake).problems) == ([], ())


def test_a_load_that_has_read_events_conflicts_with_a_forget_that_finds_none(
    tmp_path: Path,
) -> None:
    lake, late = tmp_path / "lake", write(tmp_path / "late.gz", of_user(0) + others(50))
    lakes.load([write(tmp_path / "a.gz", others(100))], lake)
    results = []

    class Forgets:
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage == "commit" and not results:
                results.append(forget(USER, lake=lake))

    with pytest.raises(Conflict, match="lands events of a user that is forgotten"):
        lakes.load([late], lake, Forgets())
    assert (results[0].status, results[0].receipts) == ("nothing", ())
    assert search(lake, (USER, EMAIL)) == []
    lakes.load([late], lake)
    assert lakes.assert_complete(lake).problems == ()


def test_of_two_forgets_the_second_searches_what_the_first_has_rewritten(world: Path) -> None:
    """The raw logs of the second have other names when it reads them."""
    lake, done = world / "lake", []

    def forget_other(operation: str, path: str) -> None:
        if operation == "open" and not done:
            done.append(path)
            assert forget(USER, lake=lake, also_anonymous=True).status == "finished"

    # Without a request, which the other forget would finish: both are in one process.
    ids = ErasedIds(frozenset({"other_3"}), hash_ids(pa.array(["other_3"])))
    watched = WatchedDisk(str(lake), forget_other).lake()
    assert erase_source(watched, "web", ids, (), NoProgress()).files
    assert done
    assert search(world, (USER, EMAIL, "other_3")) == []
    assert lakes.read_contents(lake).problems == ()


def test_the_stage_of_a_first_load_that_died(tmp_path: Path) -> None:
    """The source has no ledger yet, and so no commit can abandon the run."""
    lake, stage = tmp_path / "lake", tmp_path / "lake/segment-stage/1700000000000000000"
    write(stage / "read" / "left", of_user(0))
    lease = {"folder": "web", "host": "another", "pid": 1}
    (stage / "lease.json").write_text(json.dumps(lease))
    assert forget(USER, lake=lake).remaining == ("segment-stage/1700000000000000000",)
    (stage / "lease.json").write_text(json.dumps(lease | {"pid": 0}))
    assert forget(USER, lake=lake).status == "nothing"
    assert search(lake, (USER, EMAIL)) == []


def test_a_load_that_commits_meanwhile_is_searched_again(world: Path) -> None:
    lake = world / "lake"
    late = write(world / "raw/late.gz", [event(900, userId=USER), event(901, userId="other_1")])
    loads = []

    class Loads:
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage == "commit" and not loads:
                loads.append(1)
                path = lake / "segment-data/suppression.json"
                listed = path.read_bytes()
                path.write_bytes(b"{}")  # as it was when the load began
                lakes.load([late], lake)
                path.write_bytes(listed)

    assert forget(USER, lake=lake, progress=Loads()).status == "finished"
    assert (search(world, (USER, EMAIL)), lakes.read_contents(lake).problems) == ([], ())


def test_a_load_of_others_commits_beside_a_forget(world: Path) -> None:
    lake = world / "lake"
    late = write(world / "raw/late.gz", others(100, 3) + others(950, 3))  # three are duplicates

    class Forgets:
        def step(self, stage: str, done: int, total: int, rows: int) -> None:
            if stage == "commit":
                forget(USER, lake=lake)

    assert lakes.load([late], lake, Forgets()).counts.landed == 3
    assert (search(lake, (USER, EMAIL)), lakes.read_contents(lake).problems) == ([], ())


# Files that are special


def test_a_raw_log_that_may_not_be_changed() -> None:
    with open_folder() as folder:
        lake, raw = folder / "lake", folder / "raw"
        write(raw / "a.gz", others(100) + of_user(0))
        write(raw / "b.gz", others(200))
        with unprivileged():
            lakes.load([raw], lake)
            result = forget(USER, lake=lake)
            log = (raw / "a.gz").as_uri()
            assert (result.status, result.remaining) == ("partial", (log,))
            receipt = lake / result.receipts[0]
            assert json.loads(receipt.read_bytes())["remaining"] == [log]
            assert forget(USER, lake=lake).remaining == (log,)
            assert main(["forget", USER, "--lake", str(lake)]) == 1
        raw.chmod(0o777)
        with unprivileged():
            assert main(["forget", USER, "--lake", str(lake)]) == 0
        assert search(folder, (USER, EMAIL)) == []
        assert json.loads(receipt.read_bytes())["remaining"] == []
        assert lakes.read_contents(lake).problems == ()
        assert lakes.load([raw], lake).status == "nothing"


def test_a_raw_log_that_may_not_be_read() -> None:
    with open_folder() as folder:
        lake, log = folder / "lake", write(folder / "raw/a.gz", others(100) + of_user(0))
        with unprivileged():
            lakes.load([log], lake)
        log.parent.chmod(0o777)
        log.chmod(0)
        with unprivileged():
            result = forget(USER, lake=lake)
            assert (result.status, result.remaining) == ("partial", (log.as_uri(),))
            assert forget(USER, lake=lake).remaining == (log.as_uri(),)
        log.chmod(0o644)
        with unprivileged():
            assert forget(USER, lake=lake).remaining == ()
        assert search(folder, (USER, EMAIL)) == []
        assert lakes.read_contents(lake).problems == ()


def test_a_raw_log_that_has_changed_since_it_was_loaded(world: Path) -> None:
    lake, log = world / "lake", world / "raw/b.json"
    with log.open("a") as file:
        file.write(json.dumps(event(990, userId=USER)) + "\n")
        file.write(json.dumps(event(991, userId="new")) + "\n")
    forget(USER, lake=lake)
    assert search(world, (USER, EMAIL)) == []
    assert lakes.load([world / "raw"], lake).counts.landed == 1  # what the change has added


def test_a_raw_log_that_is_gone(world: Path) -> None:
    (world / "raw/a.gz").unlink()
    assert forget(USER, lake=world / "lake").remaining == ()
    assert search(world, (USER, EMAIL)) == []


def test_a_damaged_raw_log_stays_damaged(tmp_path: Path) -> None:
    log = write(tmp_path / "raw/a.gz", others(100) + of_user(0))
    log.write_bytes(log.read_bytes()[:-30])
    lakes.load([log], tmp_path / "lake")
    forget(USER, lake=tmp_path / "lake", also_anonymous=True)
    contents_ = lakes.read_contents(tmp_path / "lake")
    assert contents_.problems == ()
    assert [row[0] for row in contents_.quarantine if row[0] == "damaged_file"] == ["damaged_file"]


def test_a_source_that_has_landed_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write(lake / "segment-logs/app/1793491200000/x.gz", others(1) + of_user(50))
    result = forget(USER, lake=lake, also_anonymous=True)
    assert (result.status, search(lake, (USER, EMAIL, PHONE))) == ("finished", [])
    assert json.loads((lake / result.receipts[0]).read_bytes())["source"] == "app"
    assert lakes.sync(lake, "app").counts.landed == 20


def test_only_files_of_the_user_are_opened(world: Path) -> None:
    """The index rules out all tables and loaded logs of others."""
    lake = world / "lake"
    forget(USER, lake=lake)
    assert plan_forget("other_3", lake=lake).opened > 4
    assert plan_forget("nobody", lake=lake).opened == 3  # new log, quarantine, rejected log
    for path in (lake / "segment-data/ledger/web/users").iterdir():
        path.unlink()
    assert plan_forget("nobody", lake=lake).opened > 10
    assert plan_forget("nobody", lake=lake).files == ()


def test_few_files_are_opened_in_vain(tmp_path: Path) -> None:
    """Of all searches for users who are not in a file, at most one in fifty opens it."""
    lake, logs = tmp_path / "lake", [tmp_path / f"raw/{n}.gz" for n in range(10)]
    for number, log in enumerate(logs):
        numbers = range(1000 * number, 1000 * number + 200, 5)  # all in one hour
        write(log, [event(n, userId=f"user_{number}_{n}") for n in numbers])
        lakes.load([log], lake)
    for number in range(0, 10, 3):
        result = plan_forget(f"user_{number}_{1000 * number}", lake=lake)
        assert [one.removed for one in result.files] == [1, 1]
        assert result.opened == 2


def test_a_compacted_file_has_the_users_of_its_parts() -> None:
    table = new_table("page", Call.PAGE, Naming.SEGMENT)
    files = {path: data_file(path, path[0]) for path in ("1a", "1b", "1", "2a", "2")}
    changes = TableCommit(
        table=table,
        counts=Counts(),
        adds=(files["1"], files["2"]),
        removes=(files["1a"], files["1b"], files["2a"]),
    )
    settings = source_settings(source="web")
    commit = Commit(run_id="1", settings=settings, inputs=(), counts=Counts(), tables=(changes,))
    index = {"1a": np.array([1, 3], np.uint32), "1b": np.array([2, 3], np.uint32)}
    merged = index_compacted(commit, index)
    assert {path: hashes.tolist() for path, hashes in merged.items()} == {"1": [1, 2, 3]}


def data_file(path: str, day: str) -> DataFile:
    return DataFile(path=path, rows=1, bytes=1, partition={"day": day})


def test_a_skipped_table_and_a_suppressed_user(tmp_path: Path) -> None:
    log = write(tmp_path / "raw/a.gz", others(100) + of_user(0))
    settings = source_settings(source="web", skip_events=["identify", "Order Completed"])
    lakes.load([log], tmp_path / "lake", settings=settings, suppressed=[USER])
    assert forget(USER, lake=tmp_path / "lake", also_anonymous=True).status == "finished"
    assert search(tmp_path, (USER, EMAIL, PHONE)) == []
    assert lakes.read_contents(tmp_path / "lake").problems == ()


def test_numbers_as_ids(tmp_path: Path) -> None:
    numbers = [event(n, userId=n, properties={"m": EMAIL}) for n in (5, 6)]
    log = write(tmp_path / "raw/a.gz", numbers)
    lakes.load([log], tmp_path / "lake")
    result = forget("5", lake=tmp_path / "lake")
    assert [(one.kind, one.removed) for one in result.files] == [("table", 1), ("raw log", 1)]


ODD_IDS = ["usér 😀", 'quo"te\\', "tab\tand\nline", "x" * 300, "-0.50", "' or 1=1", "{}", "null"]


@pytest.mark.parametrize("user", ODD_IDS)
def test_nothing_remains_whatever_was_done_before(user: str, tmp_path: Path) -> None:
    """Not of ids that are odd, and not after everything that writes the events again."""
    lake, raw = tmp_path / "lake", tmp_path / "raw"
    near = [f"{user}1", user[:-1] or "-", user.upper() + "!", f" {user}"]
    for number in range(3):
        mine = [
            event(number * 100, type="identify", userId=user, traits={"email": EMAIL}),
            event(number * 100 + 1, userId=user, context={"traits": {"email": EMAIL}}),
            event(number * 100 + 2, userId=user, receivedAt="", properties={"email": EMAIL}),
            event(number * 100 + 3, userId=user, type="call", email=EMAIL),
        ]
        theirs = [event(number * 100 + 10 + n, userId=one) for n, one in enumerate(near)]
        text = json.dumps(event(0, userId=user, email=EMAIL)).encode()
        write(raw / f"{number}.zst", mine + theirs, text[:-1] + b"\n" + text[:-40])
        lakes.load([raw], lake)
    for result in compact(lake=lake, where=InlineRunner(), older_than="0s"):
        assert result.status == "finished"
    request = RedriveRequest("web", ["no_received_at"], fields=["receivedAt=2026-11-01T09:00:00Z"])
    assert redrive(request, lake=lake, where=InlineRunner()).status == "finished"
    everything = ReplayRequest("web", all_time=True, changes={"naming": "native"})
    assert replay(everything, lake=lake, where=InlineRunner()).status == "finished"
    suppress_users([user], lake=lake)
    assert len(search(tmp_path, (EMAIL,))) > 6
    assert forget(user, lake=lake).status == "finished"
    assert search(tmp_path, (EMAIL,)) == []
    assert search(tmp_path, (f'"userId": {json.dumps(user)}', f"'{user}'")) == []
    after = lakes.read_contents(lake)
    assert sum(rows.total() for rows in after.tables.values()) == 3 * len(near)
    assert after.problems == ()
    assert forget(user, lake=lake).status == "nothing"


# The command


def test_the_command(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["forget", USER, "--also", "anonymous", "--lake", str(world / "lake")]
    assert main([*words, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "would remove 1 of 2 from rejected log segment-logs/web/.rejected/" in out
    assert f"with the id {PHONE}, by identify and alias calls" in out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "finished"
    assert main(words) == 0
    assert "nothing to remove: no events of the user" in capsys.readouterr().out
    assert main(["forget", "", "--lake", str(world / "lake")]) == 2
    assert "the user id is empty" in capsys.readouterr().err


def test_the_stage_of_a_dead_run_is_removed_although_no_file_has_the_user(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lakes.load([write(tmp_path / "a.gz", others(0))], lake)
    stage = lake / "segment-stage" / "1700000000000000000"
    write(stage / "read" / "left", of_user(0))
    (stage / "lease.json").write_text(json.dumps({"folder": "web", "host": "gone", "pid": 0}))
    assert forget(USER, lake=lake).status == "nothing"
    assert not stage.exists()
    assert forget(USER, lake=lake).status == "nothing"
    lakes.assert_complete(lake)


def test_a_duplicate_of_an_erased_event_beside_suppressed_ones(tmp_path: Path) -> None:
    """It is not taken for one of the suppressed events, of which one would then seem missing."""
    lake = tmp_path / "lake"
    suppress_users(["silent"], lake=lake)
    events = [
        event(1, userId=USER),
        event(1, userId="other"),  # a duplicate of the one above, received before the suppressed
        event(2, userId="silent"),
        event(3, userId="silent"),
        event(4, userId="other"),
    ]
    loaded = lakes.load([write(tmp_path / "raw/a.gz", events)], lake)
    assert (loaded.counts.duplicates, loaded.counts.suppressed) == (1, 2)
    forget(USER, lake=lake)
    assert lakes.read_contents(lake).problems == ()
