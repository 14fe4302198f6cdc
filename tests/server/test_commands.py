"""The commands of the control plane, on the database and on a running server."""

import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from eventlake.cli.main import main
from eventlake.clock import SYSTEM_CLOCK
from eventlake.control.database import Database, open_database
from eventlake.control.preferences import set_server_url
from eventlake.control.replicas import Heartbeat
from eventlake.control.roles import Scope
from eventlake.control.tables import runs
from tests.lakes import load, small_sample
from tests.server.servers import Api, serving

Run = Callable[..., Any]
PLAN = [
    "+ source:ios",
    "    + id = '(random)'",
    "    + accepts_events = True",
    "    + write_keys = '(random)'",
    "~ source:web",
    "    - schedule.every_seconds = 7200",
    "    + schedule.every_seconds = 3600",
    "2 changes to make",
]


@pytest.fixture(params=["database", "server"])
def run(
    request: pytest.FixtureRequest,
    migrated_sqlite: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Run a command in a new folder; give its exit code and its JSON, or its text."""
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENTLAKE_PASSWORD", "correct horse")

    def run_command(*words: str, as_json: bool = True) -> tuple[int, Any]:
        code = main([*words, *(["--json"] if as_json else [])])
        shown = capsys.readouterr()
        return code, json.loads(shown.out) if as_json else shown.out + shown.err

    if request.param == "database":
        yield run_command
        return
    with serving(str(path)) as api:
        monkeypatch.setenv("EVENTLAKE_URL", api.url)
        monkeypatch.setenv("EVENTLAKE_TOKEN", api.make_token(Scope.ADMIN))
        yield run_command


@pytest.fixture
def web(run: Run) -> Any:
    """A source that is connected to a lake."""
    assert run("lake", "add", "main", "--kind", "local", "--set", "path=lake")[0] == 0
    code, source = run("source", "add", "web", "--write-key", "k1")
    assert (code, source["lake"], source["write_keys"]) == (0, "main", ["k1"])
    return source


def test_sources_and_lakes(run: Run, web: Any) -> None:
    assert [one["slug"] for one in run("source", "list")[1]] == ["web"]
    assert [one["slug"] for one in run("lake", "list")[1]] == ["main"]
    assert "k1" in run("source", "list", as_json=False)[1]
    text = run("source", "add", "ios", "--lake", "", as_json=False)[1]
    assert "connect it: eventlake connect ios LAKE" in text
    options = ("--copy-from", "web", "--set", "date_partition=day", "--set", 'skip_events=["a"]')
    code, made = run("connect", "ios", "main", *options)
    assert (code, made["resolved"]["skip_events"]) == (0, ["a"])


def test_schedules_runs_and_health(run: Run, web: Any) -> None:
    assert "every 7200 seconds, disabled" in run("schedule", "web", as_json=False)[1]
    assert run("schedule", "web", "--every", "15m")[1]["schedule"]["every_seconds"] == 900
    cron = ("--cron", "0 6 * * *", "--zone", "Europe/Berlin")
    assert run("schedule", "web", *cron)[1]["schedule"]["zone"] == "Europe/Berlin"
    assert run("enable", "web")[1]["next_slot"]
    (state,) = run("health")[1]
    assert (state["source"], state["lake"], state["syncs"]) == ("web", "main", True)
    assert run("disable", "web")[1]["next_slot"] is None
    assert run("schedule", "web", "--manual")[1]["schedule"]["every_seconds"] == 0
    assert run("history", "web") == (0, [])
    assert run("runs", "show", "1")[0] == 2
    assert run("runs", "start", "other")[0] == 2
    assert run("runs", "start", "web")[1]["state"] == "queued"
    assert run("runs", "cancel", "1")[1]["state"] == "cancelled"
    assert "disabled" in run("health", as_json=False)[1]


def test_a_source_without_a_lake_accepts_no_events(run: Run, web: Any) -> None:
    assert run("source", "add", "ios", "--lake", "")[0] == 0
    for words in (("source", "list"), ("health",)):
        lines = run(*words, as_json=False)[1].splitlines()
        rows = {line.split()[0]: line for line in lines if line.strip()}
        assert (" no " in rows["ios"], " yes " in rows["web"]) == (True, True)


def test_a_line_to_try_has_the_address_of_the_server(run: Run, web: Any, tmp_path: Path) -> None:
    default = os.environ.get("EVENTLAKE_URL", "http://127.0.0.1:8400")
    database = open_database(str(tmp_path / "eventlake.db"))
    with database.write() as session:
        set_server_url(session, "http://127.0.0.1:18417")
    assert f" {default}/v1/track" in run("source", "add", "a", as_json=False)[1]
    Heartbeat(database, "host:1", ["collector"], "1").beat()
    running = os.environ.get("EVENTLAKE_URL", "http://127.0.0.1:18417")
    assert f" {running}/v1/track" in run("source", "add", "b", as_json=False)[1]
    database.close()


def test_a_schedule_keeps_what_is_not_named(run: Run, web: Any) -> None:
    options = ("--quiet-hours", "22:00-06:00", "--spread", "10m", "--limit", "2h")
    cron = ("--cron", "0 6 * * *", "--zone", "Europe/Berlin")
    assert run("schedule", "web", *cron, *options)[0] == 0
    kept = {"quiet": "22:00-06:00", "zone": "Europe/Berlin", "max_seconds": 7200}
    for words in (("--every", "15m"), ("--manual",), ("--cron", "0 7 * * *")):
        assert kept.items() <= run("schedule", "web", *words)[1]["schedule"].items()
    assert run("schedule", "web", "--zone", "Asia/Tokyo", as_json=False)[1] == (
        "web: at 0 7 * * * (Asia/Tokyo), quiet hours 22:00-06:00 (Asia/Tokyo), "
        "spread over 600 seconds, limit 7200 seconds, disabled, no sync is due\n"
    )
    none = ("--quiet-hours", "", "--spread", "", "--limit", "")
    assert "at 0 7 * * * (Asia/Tokyo), disabled" in run("schedule", "web", *none, as_json=False)[1]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--zone", "Europe/Berlin"), "--zone is for --cron or --quiet-hours, and web has neither"),
        (("--every", ""), "--every is '': give a time such as 15m, 2h or 1d"),
        (("--every", "0s"), "use --manual"),
        (("--cron", ""), "--cron is empty"),
        (("--limit", "long"), "--limit is 'long'"),
        (("--cron", "61 * * * *"), "error: cron: the minute, the first field, should be 0 to 59"),
        (("--cron", "0 0 30 2 *"), "error: cron: the day, the third field, should be 1 to 31"),
        (("--quiet-hours", "00:00-24:00"), "error: quiet: two times from 00:00 to 23:59, such as"),
    ],
)
def test_a_schedule_that_cannot_be(run: Run, web: Any, words: tuple[str, ...], part: str) -> None:
    code, text = run("schedule", "web", *words, as_json=False)
    assert (code, part in text) == (2, True), text


def test_the_workspace_as_a_file(run: Run, web: Any, tmp_path: Path) -> None:
    file = tmp_path / "workspace.toml"
    exported = run("export", as_json=False)[1]
    assert "[sources.web]" in exported
    assert run("export")[1]["sources"]["web"]["write_keys"] == ["k1"]
    assert run("export", "--out", str(file), as_json=False) == (0, "")
    assert file.read_text() == exported
    assert run("apply", str(file), as_json=False) == (0, "no changes\n")
    file.write_text(exported.replace("7200", "3600") + "[sources.ios]\n")
    code, plan = run("apply", str(file), "--dry-run", as_json=False)
    assert (code, plan.splitlines()) == (0, PLAN)
    assert "every 7200 seconds" in run("schedule", "web", as_json=False)[1]
    assert "2 changes made" in run("apply", str(file), "--yes", as_json=False)[1]
    assert "every 3600 seconds" in run("schedule", "web", as_json=False)[1]
    file.write_text('[sources.web]\nid = "other"\n')
    code, refused = run("apply", str(file), "--yes", as_json=False)
    assert (code, "! source:web: id is" in refused) == (1, True)
    for text, part in {
        "[source.web]\n": "source: it is not a setting; did you mean sources?",
        "sources = 3\n": "sources: it should have names and values: an object in JSON, a table",
        "[sources.web]\nwrite_keys = 3\n": "sources.web.write_keys: it should be a list",
    }.items():
        file.write_text(text)
        code, refused = run("apply", str(file), "--yes", as_json=False)
        assert (code, f"error: {file}: {part}" in refused) == (2, True), refused
    file.write_text("[sources.web\n")
    assert "is not TOML" in run("apply", str(file), as_json=False)[1]


def test_a_lake_is_changed(run: Run, web: Any) -> None:
    options = ("--kind", "azure", "--set", "storage_account=account", "--set")
    assert run("lake", "add", "az", *options, "storage_container=events")[0] == 0
    code, lake = run("lake", "set", "az", "--set", "account_key=env:KEY")
    assert (code, lake["secrets"], lake["version"]) == (0, {"account_key": "env:KEY"}, 2)
    assert run("lake", "set", "az", "--set", "account_key=")[1]["secrets"] == {}


def test_a_replay_with_settings_and_a_redrive_of_a_file(run: Run, web: Any, tmp_path: Path) -> None:
    code, replay = run("replays", "add", "web", "--all", "--set", "date_partition=day")
    assert (code, replay["parameters"]["settings"]) == (0, {"date_partition": "day"})
    assert run("replays", "cancel", str(replay["id"]))[0] == 0
    (tmp_path / "lines.json").write_text('[{"raw": "planted-value"}]', "utf-8")
    words = ("runs", "start", "web", "--kind", "redrive", "--from-file", "lines.json")
    code, started = run(*words)
    assert (code, started["kind"], started["parameters"]["corrected"]) == (0, "redrive", "")
    (tmp_path / "lines.json").write_bytes(b"\xff")
    assert "it is not UTF-8" in run(*words, as_json=False)[1]


def test_keys_are_rotated_by_a_command(run: Run, tmp_path: Path) -> None:
    place = ("--set", "storage_account=account", "--set", "storage_container=container")
    assert (
        run("lake", "add", "az", "--kind", "azure", *place, "--set", "account_key=hunter2")[0] == 0
    )
    assert run("notify", "add", "slack", "https://example.com/hunter2")[0] == 0
    file = tmp_path / "eventlake.key"
    if file.exists():  # else the server has its own
        file.write_text(f"{Fernet.generate_key().decode()}\n{file.read_text()}")
    assert run("reseal") == (0, {"resealed": 2, "unreadable": []})
    if not file.exists():
        return
    file.write_text(file.read_text().split()[0])
    assert run("reseal", as_json=False) == (0, "2 secrets encrypted with the newest key\n")
    file.write_text(Fernet.generate_key().decode())
    code, text = run("reseal", as_json=False)
    assert (code, "! lake:az account_key: none of the keys opens it" in text) == (1, True)


def test_a_workspace_is_recovered_from_its_lake(run: Run, tmp_path: Path) -> None:
    load(small_sample(tmp_path / "raw"), tmp_path / "lake")
    code, found = run("recover", "--lake", "lake")
    if code:
        assert "unset EVENTLAKE_URL" in str(found)  # a server has the database
        return
    assert [(one["source"], one["runs"]) for one in found["sources"]] == [("web", 1)]
    assert "runs added" in run("recover", "--lake", "lake", as_json=False)[1]
    (shown,) = run("history", "web")[1]
    assert (shown["state"], shown["trigger"]) == ("finished", "recovered")


def test_people(run: Run) -> None:
    code, user = run("user", "add", "ada@example.com", "--role", "admin")
    assert (code, user["role"]) == (0, "admin")
    assert [one["email"] for one in run("user", "list")[1]] == ["ada@example.com"]
    made = run("token", "add", "ci", "--scope", "write", "--days", "30")[1]
    assert made["secret"].startswith("el_")
    listed = run("token", "list")[1]
    assert {"ci"} <= {one["name"] for one in listed}
    assert made["secret"] not in str(listed)
    assert run("token", "remove", made["token"]["id"])[0] == 0
    assert made["token"]["id"] not in str(run("token", "list")[1])


def test_a_user_without_a_password(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("user", "add", "ada@example.com")[0] == 0
    monkeypatch.delenv("EVENTLAKE_PASSWORD")
    for email, part in {
        "nope": "give an address such as name@example.com",
        "Ada@example.com": "there is such a user already",
        "bob@example.com": "set EVENTLAKE_PASSWORD",
    }.items():
        code, text = run("user", "add", email, as_json=False)
        assert (code, len(text.splitlines()), part in text) == (2, 1, True), text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("source", "add", "Web Shop"), "error: slug: it should have no spaces, and only ASCII"),
        (("notify", "add", "email", "nope"), "error: to.0 is 'nope': an e-mail address such as"),
        (("replays", "add", "web"), "give --from and --to, or --all"),
        (("replays", "add", "web", "--all", "--from", "2026-02-01"), "leave --from and --to out"),
        (("replays", "add", "web", "--set", "naming=native"), "use --all, without --event"),
        (("runs", "start", "web", "--kind", "forget"), "use `eventlake erasures add`"),
        (("runs", "start", "web", "--kind", "replay"), "use `eventlake replays add`"),
        (("lake", "add", "x", "--kind", "moon"), "choose one of"),
        (("lake", "add", "x", "--kind", "local", "--set", "path"), "NAME=VALUE"),
        (("lake", "add", "x", "--kind", "local", "--set", "path=[1"), "not valid JSON"),
        (("connect", "none", "none"), "no such source"),
        (("enable", "a/b?c"), "no such path"),
        (("schedule", "web", "--every", "soon"), "such as 15m"),
        (("schedule", "web", "--every", "15m", "--manual"), "set one of them"),
        (("schedule", "none", "--every", "15m"), "no such source"),
        (("token", "remove", "none"), "no such token"),
    ],
)
def test_mistakes_end_with_2_and_one_line(run: Run, words: tuple[str, ...], part: str) -> None:
    code, text = run(*words, as_json=False)
    assert (code, len(text.splitlines())) == (2, 1)
    assert part in text


def test_a_server_that_is_away_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLAKE_URL", "http://127.0.0.1:9")
    code, text = run("health", as_json=False)
    assert (code, "does not answer" in text) == (1, True)
    monkeypatch.setenv("EVENTLAKE_URL", "lake.example.com")
    assert run("health", as_json=False)[0] == 2


def test_a_wrong_token_ends_with_1(
    migrated_sqlite: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "eventlake.db"
    path.write_bytes(migrated_sqlite)
    with serving(str(path)) as api:
        assert isinstance(api, Api)
        monkeypatch.setenv("EVENTLAKE_URL", api.url)
        monkeypatch.setenv("EVENTLAKE_TOKEN", "el_wrong")
        assert main(["health"]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("health",),
        ("source", "add", "web"),
        ("token", "add", "ci"),
        ("export",),
        ("runs", "show", "1"),
    ],
)
def test_no_database_is_made_at_a_wrong_path(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nosuch.db"
    assert main([*words, "--database", str(path)]) == 2
    sentence = f"no database at {path}: start `eventlake up` there, or give --database"
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("user", "add", "ada@example.com", "--role", "admin"),
        ("lake", "add", "main", "--kind", "local", "--set", "path=lake"),
        ("apply", "workspace.toml"),
    ],
)
def test_the_first_start_is_prepared_without_a_database(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENTLAKE_PASSWORD", "correct horse")
    (tmp_path / "workspace.toml").write_text("")
    assert main(list(words)) == 0
    assert (tmp_path / "eventlake.db").exists()


def test_changes_of_commands_are_in_the_audit_log(run: Run, web: Any, tmp_path: Path) -> None:
    with serving(str(tmp_path / "eventlake.db")) as api:
        api.use_token(Scope.ADMIN)
        entries = api.get("/audit")["items"]
    actions = {entry["action"]: entry["actor"] for entry in entries}
    assert actions["source.add"].startswith(("cli:", "token:admin"))
    assert {"lake.add", "source.add", "connection.add"} <= actions.keys()


def test_kinds_of_runs(run: Run, web: Any) -> None:
    code, synced = run("sync", "web")
    assert (code, synced["kind"], synced["state"]) == (0, "sync", "queued")
    assert run("runs", "cancel", str(synced["id"]))[1]["state"] == "cancelled"
    code, again = run("runs", "retry", str(synced["id"]))
    assert (code, again["retry_of"]) == (0, synced["id"])
    assert run("runs", "report", str(again["id"])) == (0, [])
    retype = ("--kind", "retype", "--set", "table=hello", "--set", 'types={"n":"string"}')
    code, planned = run("runs", "start", "web", *retype, "--dry-run")
    assert (code, planned["dry_run"], planned["parameters"]["types"]) == (0, True, {"n": "string"})
    assert run("runs", "start", "web", "--kind", "verify")[1]["kind"] == "verify"
    assert run("runs", "start", "web", "--kind", "forget", as_json=False)[0] == 2
    assert "give --source" in run("sync", as_json=False)[1]


@pytest.mark.parametrize("words", [("runs", "start", "web"), ("sync", "web")])
def test_a_run_without_a_server(run: Run, web: Any, words: tuple[str, ...]) -> None:
    place = os.environ.get("EVENTLAKE_URL", "eventlake.db")
    sentence = f"no server runs on {place}: start `eventlake up`\n"
    code, text = run(*words, as_json=False)
    assert (code, text.endswith(sentence)) == (0, True)
    run("runs", "cancel", "1")
    code, text = run(*words, "--wait", as_json=False)
    assert (code, text.endswith(sentence)) == (1, True)
    assert run("history", "web")[1][0]["state"] == "queued"


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "retry", "1"),
        ("replays", "add", "web", "--all"),
        ("erasures", "add", "u1", "--yes"),
    ],
)
def test_work_without_a_server(run: Run, web: Any, words: tuple[str, ...]) -> None:
    run("sync", "web")
    run("runs", "cancel", "1")
    place = os.environ.get("EVENTLAKE_URL", "eventlake.db")
    code, text = run(*words, as_json=False)
    assert code == 0
    assert f"no server runs on {place}: start `eventlake up`\n" in text


def test_a_run_with_a_server_is_waited_for(run: Run, web: Any, tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "eventlake.db"))
    Heartbeat(database, "host:1", ["worker"], "1").beat()
    waiting = threading.Timer(1, lambda: _end_run(database, "a cause, " * 20 + "and what to do"))
    waiting.start()
    code, text = run("runs", "start", "web", "--wait", as_json=False)
    waiting.join()
    database.close()
    assert code == 1
    assert text.splitlines()[-1].endswith("a cause, and what to do")
    assert "and what to do" in run("runs", "show", "1", as_json=False)[1]
    for words in (("history", "web"), ("health",)):
        assert "… see eventlake runs show 1" in run(*words, as_json=False)[1]


def _end_run(database: Database, error: str) -> None:
    ended = {"state": "failed", "error": error, "ended_at": SYSTEM_CLOCK.now()}
    with database.write() as session:
        session.execute(runs.update().values(ended))


def test_replays(run: Run, web: Any) -> None:
    window = ("--from", "2026-02-01", "--to", "2026-02-03", "--event", "Hello")
    code, replay = run("replays", "add", "web", *window)
    assert (code, replay["state"], replay["chunks"]) == (0, "running", 2)
    number = str(replay["id"])
    assert run("replays", "cancel", number)[1]["state"] == "cancelled"
    assert run("replays", "resume", number)[1]["state"] == "running"
    assert run("replays", "cancel", number)[0] == 0
    planned = run("replays", "add", "web", "--all", "--dry-run")[1]
    assert run("replays", "start", str(planned["id"]))[1]["state"] == "running"
    assert "0 of 2" in run("replays", "list", as_json=False)[1]
    assert "chunks: 2" in run("replays", "show", number, as_json=False)[1]


def test_erasures(run: Run, web: Any, tmp_path: Path) -> None:
    code, erasure = run("erasures", "add", "u1", "u2", "--also", "anonymous", "--yes")
    assert (code, erasure["state"], len(erasure["hashes"])) == (0, "running", 2)
    number = str(erasure["id"])
    assert run("erasures", "list")[1] == [run("erasures", "show", number)[1]]
    assert run("erasures", "receipt", number, as_json=False)[0] == 0
    assert run("erasures", "receipt", number, "--out", "receipt.json", as_json=False)[0] == 0
    assert json.loads((tmp_path / "receipt.json").read_text())["receipts"] == []


def test_an_erasure_is_confirmed(
    run: Run, web: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "new.toml").write_text("[sources.ios]\n")
    for words in (("erasures", "add", "u1"), ("apply", "new.toml")):
        code, text = run(*words, as_json=False)
        assert (code, "give --yes" in text) == (2, True), text
    assert run("erasures", "add", "u1", "--dry-run")[0] == 0
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, text = run("erasures", "add", "u1", as_json=False)
    assert (code, "Remove all events of 1 user, for good?" in text) == (1, True)
    assert [one["dry_run"] for one in run("erasures", "list")[1]] == [True]
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert run("erasures", "add", "u1", as_json=False)[0] == 0


class Terminal(io.StringIO):
    """What somebody types."""

    def isatty(self) -> bool:
        return True
