"""Each kind of run on a lake: its plan, its end, its cancellation, and kills at every stage."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.control import tables
from eventlake.control.audit import list_audit
from eventlake.control.connections import get_connection
from eventlake.control.endings import TOO_LATE
from eventlake.control.erasures import (
    Erasure,
    ErasureRequest,
    add_erasure,
    get_erasure,
    hash_user,
)
from eventlake.control.results import list_pins, list_results
from eventlake.control.runs import Run, RunState, retry_run
from eventlake.errors import InvalidSettings
from eventlake.services.read import open_lake
from eventlake.services.suppress import list_suppressed_users
from eventlake.worker import keeper
from tests.control.workspaces import (
    AtStage,
    Workspace,
    event,
    make_workspace,
    open_workspace,
    work_and_die,
)
from tests.faults.kills import run as run_process

WHOLE = {"all_time": True}
DAY = {"since": "2026-03-01", "until": "2026-03-02"}
RETYPE = {"table": "order_completed", "types": {"n": "string"}}
BAD_LINE = '{"type":"track","event":"Order Completed","receivedAt":"2026-03-02T09:00:00Z"}'
REDRIVE = {"fields": ["messageId=fixed"]}
COMPACT = {"older_than": "0s"}
RETYPE_ALL = {**RETYPE, "replay": True}
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("replay", WHOLE),
    ("retype", RETYPE),
    ("retype", RETYPE_ALL),
    ("redrive", REDRIVE),
    ("compact", COMPACT),
    ("forget", {}),
]
NAMES = ["replay", "retype", "retype-replay", "redrive", "compact", "forget"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: bytes) -> Path:
    """Two syncs of events of two days, and a line in the quarantine."""
    folder = tmp_path_factory.mktemp("template")
    path = folder / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    with open_workspace(str(path), folder) as workspace:
        make_workspace(workspace)
        workspace.archive("a", *(event(number, 1 + number % 2) for number in range(10)))
        assert workspace.run("sync").state == "finished"
        more = [event(number, 1 + number % 2) for number in range(10, 20)]
        workspace.archive("b", *more, BAD_LINE)
        assert workspace.run("sync").state == "finished"
    return folder


@pytest.fixture
def workspace(tmp_path: Path, template: Path) -> Iterator[Workspace]:
    """A copy of the template."""
    folder = copytree(template, tmp_path / "copy")
    with open_workspace(str(folder / "eventlake.db"), folder) as workspace:
        with workspace.database.write() as session:
            place = {"path": str(workspace.lake)}
            session.execute(tables.lakes.update().values(settings=place))
        yield workspace


def ask(workspace: Workspace, kind: str, parameters: dict[str, Any], dry_run: bool = False) -> Run:
    if kind != "forget":
        return workspace.queue(kind, dry_run, **parameters)
    return workspace.show(forget(workspace, dry_run=dry_run).runs[0])


def forget(workspace: Workspace, *users: str, **options: Any) -> Erasure:
    request = ErasureRequest(users=users or ("u1",), **options)
    with workspace.database.write() as session:
        return add_erasure(session, request, workspace.vault, "ada", SYSTEM_CLOCK.now())


def show_erasure(workspace: Workspace, number: int) -> Erasure:
    with workspace.database.read() as session:
        return get_erasure(session, number)


@pytest.mark.parametrize(("kind", "parameters"), KINDS, ids=NAMES)
def test_a_plan_is_stored_and_writes_nothing(
    workspace: Workspace, kind: str, parameters: dict[str, Any]
) -> None:
    before = workspace.list_objects()
    asked = ask(workspace, kind, parameters, dry_run=True)
    assert asked.lane == "plan"
    [run] = workspace.work()
    assert (run.state, run.error, run.lake_run, run.result) == ("finished", "", "", None)
    assert run.plan
    expected: dict[str, Any] = {
        "replay": {"files_total": None, "bytes": run.plan.get("bytes")},
        "retype": {"rows": 20, "table": "web.order_completed"},
        "redrive": {"matched": 1, "tables": {"order_completed": 1}},
        "compact": {"status": "planned", "source": "web"},
        "forget": {"removed": 14, "ids": 1},
    }[kind]
    assert {name: run.plan.get(name) for name in expected} == expected
    assert workspace.list_objects() == before


@pytest.mark.parametrize(("kind", "parameters"), KINDS, ids=NAMES)
def test_a_run_ends_with_its_result(
    workspace: Workspace, kind: str, parameters: dict[str, Any]
) -> None:
    ask(workspace, kind, parameters)
    [run] = workspace.work()
    assert (run.state, run.error) == ("finished", "")
    assert run.lake_run
    assert run.result is not None
    assert run.stages[0].stage == "plan"
    rows = {"redrive": 21, "forget": 13}.get(kind, 20)
    assert workspace.count() == rows
    assert workspace.verify() == ()
    with workspace.database.read() as session:
        counted = list_results(session, run.id)
        pins = [(one.table, one.column, one.type) for one in list_pins(session, "web")]
    assert (counted != ()) == (kind != "forget")
    assert pins == ([("order_completed", "n", "string")] if kind == "retype" else [])


@pytest.mark.parametrize(("kind", "parameters"), KINDS, ids=NAMES)
@pytest.mark.parametrize("stage", ["plan", "late", "publish"])
def test_a_cancelled_run_leaves_the_lake_as_it_was_until_its_commit(
    workspace: Workspace, kind: str, parameters: dict[str, Any], stage: str
) -> None:
    before = workspace.list_objects()
    number = ask(workspace, kind, parameters).id
    late = {"retype": "plan", "compact": "compact", "forget": "erase"}.get(kind, "write")

    def cancel() -> None:
        workspace.cancel(number)
        signal.raise_signal(signal.SIGTERM)

    at = AtStage(late if stage == "late" else stage, cancel)
    if parameters.get("replay") and stage == "late":
        at.stage = "write"
    [run] = workspace.work(at)
    assert at.happened
    if stage == "publish":
        assert (run.state, run.reason) == ("finished", TOO_LATE)
        assert workspace.count() == {"redrive": 21, "forget": 13}.get(kind, 20)
    else:
        assert (run.state, run.reason) == ("cancelled", "by ada")
        assert workspace.list_objects() == before
        assert list_suppressed_users(workspace.lake).hashed == 0
    assert workspace.verify() == ()


@pytest.mark.parametrize(("kind", "parameters"), KINDS, ids=NAMES)
def test_a_run_looks_for_a_cancel_right_before_its_commit(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str, parameters: dict[str, Any]
) -> None:
    monkeypatch.setattr(keeper, "BEAT_SECONDS", 3600.0)
    before = workspace.list_objects()
    number = ask(workspace, kind, parameters).id
    at = AtStage("commit", lambda: workspace.cancel(number))
    [run] = workspace.work(at)
    assert at.happened
    assert (run.state, run.reason) == ("cancelled", "by ada")
    assert workspace.list_objects() == before
    assert workspace.verify() == ()


@pytest.mark.parametrize(
    ("kind", "parameters", "stage"),
    [
        *((*one, stage) for one in KINDS for stage in ("commit", "publish")),
        *(("forget", {}, stage) for stage in ("plan", "request", "erase", "clean")),
    ],
)
def test_a_killed_run_ends_as_the_lake_says(
    workspace: Workspace, kind: str, parameters: dict[str, Any], stage: str
) -> None:
    number = ask(workspace, kind, parameters).id
    code = run_process(work_and_die, workspace.url, workspace.folder, stage)
    assert code == -signal.SIGKILL
    run = workspace.judge(number)
    # A request to forget somebody is finished, whenever its process has died.
    requested = kind == "forget" and stage in ("erase", "commit")
    committed = stage in ("publish", "clean") or requested
    if committed:
        assert (run.state, run.error) == ("finished", "")
    else:  # it is retried
        assert (run.state, run.attempt, run.error) == (
            RunState.QUEUED,
            2,
            "the process of the run is gone",
        )
        assert workspace.verify() == ()
        with workspace.database.write() as session:
            session.execute(tables.runs.update().values(not_before=None))
        [run] = workspace.work()
        assert (run.state, run.error) == ("finished", "")
    assert workspace.count() == {"redrive": 21, "forget": 13}.get(kind, 20)
    assert workspace.verify() == ()


def test_a_replay_with_other_settings_changes_the_connection(workspace: Workspace) -> None:
    rebuilt = workspace.run("replay", **WHOLE, settings={"datePartition": "day/hour"})
    assert (rebuilt.state, rebuilt.error) == ("finished", "")
    assert list(workspace.lake.glob("segment-data/data/**/hr=*"))
    with workspace.database.read() as session:
        connection = get_connection(session, "web")
        [entry] = list_audit(session, before_id=None, limit=9)
    assert (connection.settings, connection.version) == ({"date_partition": "day/hour"}, 2)
    assert (entry.action, entry.actor) == ("connection.change", "ada")
    workspace.archive("c", event(99))
    synced = workspace.run("sync")
    assert (synced.state, synced.error, workspace.count()) == ("finished", "", 21)
    assert not (synced.result or {}).get("warnings")
    assert workspace.verify() == ()


@pytest.mark.parametrize("stage", ["commit", "publish"])
def test_a_killed_replay_changes_the_connection_if_it_has_committed(
    workspace: Workspace, stage: str
) -> None:
    number = workspace.queue("replay", **WHOLE, settings={"date_partition": "day/hour"}).id
    assert run_process(work_and_die, workspace.url, workspace.folder, stage) == -signal.SIGKILL
    workspace.judge(number)
    with workspace.database.read() as session:
        kept = get_connection(session, "web").settings["date_partition"]
    assert kept == ("day" if stage == "commit" else "day/hour")


def test_corrected_lines_are_loaded_and_not_kept(workspace: Workspace) -> None:
    [line] = open_lake(workspace.lake).quarantine("web").to_pylist()
    raw = json.loads(line["raw"]) | {"messageId": "fixed", "userId": "planted-user"}
    text = json.dumps([{**line, "raw": json.dumps(raw)}], default=str)
    planned = workspace.run("redrive", dry_run=True, corrected=text)
    assert planned.plan
    assert (planned.plan["matched"], planned.plan["tables"]) == (1, {"order_completed": 1})
    done = workspace.run("redrive", corrected=text)
    assert (done.state, done.error, workspace.count()) == ("finished", "", 21)
    assert workspace.query("select user_id from web.order_completed where user_id like 'pl%'")
    assert "planted-user" not in "".join(repr(tuple(row)) for row in dump(workspace))
    number = workspace.queue("redrive", corrected=text).id
    workspace.cancel(number)
    assert workspace.show(number).parameters["corrected"] == ""
    with workspace.database.write() as session, pytest.raises(InvalidSettings, match="again"):
        retry_run(session, number, "ada", SYSTEM_CLOCK.now())
    wrong = workspace.run("redrive", corrected="[]")
    assert (wrong.state, "has no lines" in wrong.error) == ("failed", True)


def test_verify_finds_what_is_wrong(workspace: Workspace) -> None:
    run = workspace.run("verify")
    assert (run.state, run.result and run.result["ok"]) == ("finished", True)
    for path in workspace.lake.glob("segment-data/data/**/*.parquet"):
        path.unlink()
    run = workspace.run("verify")
    assert (run.state, run.result and run.result["ok"]) == ("failed", False)
    assert "difference" in run.error
    assert run.attempt == 1


def test_a_wrong_parameter_is_refused(workspace: Workspace) -> None:
    for kind, parameters, message in [
        ("replay", {}, "give since and until, or all_time"),
        ("replay", {"since": "x", "until": "2026-03-02"}, "since is 'x'"),
        ("replay", {"since": "2026-03-02", "until": "2026-03-01"}, "later than since"),
        ("replay", {**DAY, "settings": {"naming": "x"}}, "use all_time, without events"),
        ("redrive", {"corrected": "[]", "fields": ["a=b"]}, "leave reasons, since and fields out"),
        (
            "redrive",
            {"reasons": ["not_json", "nope"]},
            "'nope' is unknown: choose one of bad_type, ",
        ),
        ("compact", {"older_than": "soon"}, "a number and a unit"),
        ("retype", {"table": "t", "types": {"n": "blob"}}, "the type of n is one of"),
        ("verify", {"fast": True}, "fast is not a setting"),
    ]:
        with pytest.raises(InvalidSettings, match=message):
            workspace.queue(kind, **parameters)
    with pytest.raises(InvalidSettings, match="a verify has no plan"):
        workspace.queue("verify", dry_run=True)


def test_a_table_of_another_source_cannot_be_retyped(workspace: Workspace) -> None:
    run = workspace.run("retype", table="other.order_completed", types={"n": "string"})
    assert (run.state, run.error_code) == ("failed", "EventLake.InvalidSettings")
    assert "no table 'other.order_completed'" in run.error


def test_of_forgotten_users_the_database_has_only_hashes(workspace: Workspace) -> None:
    secret = "somebody@example.com"
    tied = "browser-of-somebody"
    calls = [
        event(50, type="identify", userId=secret, anonymousId=tied),
        event(51, userId=secret),
        event(52, userId=None, anonymousId=tied),
    ]
    workspace.archive("c", *calls)
    workspace.run("sync")
    erasure = forget(workspace, secret, also_anonymous=True)
    assert erasure.state == "running"
    assert erasure.hashes == (hash_user(secret, erasure.salt),)
    [run] = workspace.work()
    assert (run.state, run.result and run.result["ids"]) == ("finished", 2)
    erasure = show_erasure(workspace, erasure.id)
    assert (erasure.state, erasure.removed, len(erasure.receipts)) == ("finished", 6, 1)
    assert workspace.verify() == ()
    stored = "".join(repr(tuple(row)) for row in dump(workspace))  # a row itself would be cut
    assert erasure.hashes[0] in stored
    for text in (secret, tied):
        assert text not in stored
        assert not any(text.encode() in data for data in workspace.list_objects().values())


def dump(workspace: Workspace) -> list[Any]:
    """All rows of the database."""
    with workspace.database.read() as session:
        found = [session.execute(table.select()).all() for table in tables.metadata.sorted_tables]
    return [row for rows in found for row in rows]
