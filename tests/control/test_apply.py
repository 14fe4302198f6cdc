"""A workspace as a file: export, plan, apply, on both databases."""

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
import tomlkit

from eventlake.control import tables
from eventlake.control.apply import Plan, Target, apply_declaration
from eventlake.control.connections import get_connection
from eventlake.control.database import Database
from eventlake.control.declaration import SET_ELSEWHERE, Declaration, read_declaration
from eventlake.control.freshness import Limits, read_freshness
from eventlake.control.lakes import add_lake, change_lake, get_lake, read_secrets
from eventlake.control.notify.channels import (
    add_channel,
    get_channel,
    read_channel_row,
    remove_channel,
)
from eventlake.control.notify.rules import add_rule, list_rules
from eventlake.control.preferences import (
    Preferences,
    read_heartbeat,
    set_heartbeat,
    show_preferences,
)
from eventlake.control.runs import make_row
from eventlake.control.schedules import get_schedule
from eventlake.control.sources import get_source
from eventlake.control.vault import Vault
from eventlake.control.workspace import ensure_workspace
from tests.clocks import SimulatedClock
from tests.control.world import KEY

VAULT = Vault([KEY])
NOW = datetime(2026, 11, 1, tzinfo=UTC)
ENTERED = ("lakes", "sources", "connections", "schedules", "write_keys", "channels", "rules")
"""The tables of what people enter, each after those that it refers to."""
WORKSPACE = """
[lakes.main]
kind = "local"
settings.path = "/lake"

[lakes.azure]
kind = "azure"
settings = {storage_account = "account", storage_container = "container"}
secrets.account_key = "env:STORAGE_KEY"

[sources.web]
id = "web1"
write_keys = ["k1", "k2"]
lake = "main"
settings.date_partition = "day"
schedule = {cron = "0 6 * * *", zone = "Europe/Berlin"}
syncs = true

[sources.ios]
accepts_events = false
lake = "main"
schedule.every_seconds = 0

[sources.draft]
limits = {late_after_seconds = 600}

[channels.ops]
kind = "email"
settings = {to = ["ops@example.com"], host = "smtp.example.com", user = "lake"}
secrets.password = "env:SMTP_PASSWORD"
rules = [{events = ["sync_failed", "stale"], sources = ["web"]}, {events = ["recovered"]}]

[settings]
quarantine_percent = 2.5
heartbeat_url = "env:HEARTBEAT"

[channels.hook]
kind = "webhook"
secrets = {url = "env:HOOK_URL", secret = "file:/run/secrets/hook"}
"""


@pytest.fixture
def target(database: Database, clock: SimulatedClock) -> "Workspace":
    with database.write() as session:
        ensure_workspace(session, clock.now())
    return Workspace(database, clock)


class Workspace:
    """A workspace to which files are applied."""

    def __init__(self, database: Database, clock: SimulatedClock) -> None:
        self.database, self.clock = database, clock

    def apply(self, text: str, *, dry_run: bool = False) -> Plan:
        declared = Declaration.model_validate(tomlkit.parse(text).unwrap())
        with self.database.write() as session:
            target = Target(session, VAULT, self.clock.now())
            return apply_declaration(target, declared, dry_run=dry_run)[0]

    def export(self) -> str:
        with self.database.read() as session:
            return tomlkit.dumps(read_declaration(session).to_values())

    def read(self) -> dict[str, list[Any]]:
        """Every row of what people enter."""
        names = (*ENTERED, "settings")
        with self.database.read() as session:
            found = {
                name: session.execute(sa.select(tables.metadata.tables[name])) for name in names
            }
            return {name: sorted(map(str, rows)) for name, rows in found.items()}


def shown(plan: Plan) -> list[tuple[str, str]]:
    return [(change.action, change.object) for change in plan.changes]


def test_a_file_makes_the_workspace_and_a_second_time_nothing(target: Workspace) -> None:
    plan = target.apply(WORKSPACE)
    assert plan.is_applied
    assert shown(plan) == [
        ("add", "lake:azure"),
        ("add", "lake:main"),
        ("add", "source:draft"),
        ("add", "source:ios"),
        ("add", "source:web"),
        ("add", "channel:hook"),
        ("add", "channel:ops"),
        ("change", "settings"),
    ]
    with target.database.read() as session:
        assert get_source(session, "web").write_keys == ("k1", "k2")
        assert get_schedule(session, "web").next_slot
        assert not get_source(session, "ios").enabled
        assert not get_schedule(session, "ios").schedule.every_seconds
        assert read_freshness(session, "draft", NOW).limits == Limits(late_after_seconds=600)
        general = show_preferences(session)
        assert general.preferences == Preferences(quarantine_percent=2.5)
        assert general.heartbeat_url == "env:HEARTBEAT"
        assert get_channel(session, "ops").secrets == {"password": "env:SMTP_PASSWORD"}
        rules = {(one.channel, one.events, one.sources) for one in list_rules(session)}
    assert rules == {("ops", ("stale", "sync_failed"), ("web",)), ("ops", ("recovered",), ())}
    before = target.read()
    assert target.apply(WORKSPACE) == Plan(changes=(), refused=(), is_applied=True)
    assert target.read() == before  # not even a version or a schedule's beginning


def test_what_is_exported_makes_the_same_workspace(target: Workspace) -> None:
    target.apply(WORKSPACE)
    exported, before = target.export(), target.read()
    assert '"0 6 * * *"' in exported
    assert target.apply(exported).changes == ()
    assert target.read() == before
    with target.database.write() as session:
        for name in ("settings", *reversed(ENTERED)):
            session.execute(tables.metadata.tables[name].delete())
    target.apply(exported)
    assert target.export() == exported


def test_a_plan_changes_nothing_and_shows_each_field(target: Workspace) -> None:
    target.apply(WORKSPACE)
    before = target.read()
    text = WORKSPACE.replace('"k2"', '"k3"').replace("0 6 *", "0 7 *")
    text = text.replace("accepts_events = false", "accepts_events = true")
    text = text.replace("settings.date_partition", "#")
    plan = target.apply(text, dry_run=True)
    assert not plan.is_applied
    assert target.read() == before
    fields = {
        (change.object, one.field): (one.before, one.after)
        for change in plan.changes
        for one in change.fields
    }
    assert fields == {
        ("source:web", "write_keys"): (["k1", "k2"], ["k1", "k3"]),
        ("source:web", "schedule.cron"): ("0 6 * * *", "0 7 * * *"),
        ("source:web", "settings.date_partition"): ("day", None),
        ("source:ios", "accepts_events"): (False, True),
    }
    assert target.apply(text).changes == plan.changes
    with target.database.read() as session:
        assert get_connection(session, "web").settings == {}
        assert get_source(session, "web").write_keys == ("k1", "k3")


def test_random_ids_and_keys_are_not_in_a_plan(target: Workspace) -> None:
    plan = target.apply("[sources.new]", dry_run=True)
    assert {one.field: one.after for one in plan.changes[0].fields} == {
        "id": "(random)",
        "accepts_events": True,
        "write_keys": "(random)",
    }


def test_what_is_not_in_the_file_stays(target: Workspace) -> None:
    target.apply(WORKSPACE)
    before = target.read()
    plan = target.apply("[sources.draft]")
    assert plan.changes == ()
    [note] = plan.notes
    left_out = "lakes azure, main; sources ios, web; channels hook, ops"
    assert note == f"not in the file, left as they are: {left_out}"
    assert target.read() == before


def test_a_disabled_source_stays_disabled_if_the_file_does_not_say(target: Workspace) -> None:
    target.apply(WORKSPACE)
    plan = target.apply(WORKSPACE.replace("accepts_events = false", ""))
    assert plan.changes == ()
    with target.database.read() as session:
        assert not get_source(session, "ios").enabled
        assert get_source(session, "draft").enabled


def test_a_plan_warns_that_a_key_is_revoked_for_ever(target: Workspace) -> None:
    target.apply(WORKSPACE)
    warning = "source:web: 1 write key revoked for ever: a revoked key cannot come back"
    for dry_run in (True, False):
        plan = target.apply(WORKSPACE.replace('"k1", "k2"', '"k1"'), dry_run=dry_run)
        assert plan.notes == (warning,)
    [refusal] = target.apply(WORKSPACE).refused
    assert "this write key of web was revoked on" in refusal.reason
    assert "cannot come back" in refusal.reason


def test_a_connected_source_needs_no_lake_in_the_file(target: Workspace) -> None:
    target.apply(WORKSPACE)
    plan = target.apply("[sources.web]\nschedule.every_seconds = 60")
    assert [one.field for one in plan.changes[0].fields] == [
        "schedule.cron",
        "schedule.zone",
        "schedule.every_seconds",
    ]
    plan = target.apply('[sources.web]\nsettings.compression = "snappy"')
    assert {one.field: one.after for one in plan.changes[0].fields} == {
        "settings.date_partition": None,
        "settings.compression": "snappy",
    }
    target.apply("[sources.web]\nsettings = {}")
    with target.database.read() as session:
        found = get_connection(session, "web")
    assert (found.lake, found.settings) == ("main", {})


def test_a_source_cannot_be_renamed(target: Workspace) -> None:
    target.apply(WORKSPACE)
    [refusal] = target.apply(WORKSPACE.replace("[sources.web]", "[sources.shop]")).refused
    assert refusal.object == "source:shop"
    assert "id is 'web1', which is that of the source web: a source cannot be renamed" in (
        refusal.reason
    )


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('id = "web1"', 'id = "web2"', "ids cannot change"),
        ('kind = "local"', 'kind = "aws"', "cannot become 'aws'"),
        ('path = "/lake"', 'path = "/other"', "whose tables are there"),
        ('lake = "main"\nsettings', 'lake = "azure"\nsettings', "cannot move to another lake"),
        ('date_partition = "day"', 'date_partition = "day/hour"', "rebuild the source"),
        ('"env:STORAGE_KEY"', '"hunter2-secret"', "does not belong in a file"),
        ('{storage_account = "account",', '{account_key = "hunter2-secret",', "as a reference"),
        ("secrets.account_key", "secrets.other", "not a secret of a lake"),
        ("[sources.draft]", "[sources.draft]\nsettings.date_partition = 'day'", "need a `lake`"),
        ("[sources.draft]", "[sources.draft]\nschedule.every_seconds = 60", "need a `lake`"),
        ('["k1", "k2"]', '["k1", "a:b"]', "write key"),
        ('kind = "email"', 'kind = "slack"', "is not a secret of a channel"),
        ('"env:SMTP_PASSWORD"', '"hunter2-secret"', "does not belong in a file"),
        ('{to = ["ops@example.com"],', '{password = "hunter2-secret",', "as a reference"),
        ('user = "lake"', "port = 0", "port"),
        ('"stale"', '"nothing"', "event is 'nothing'"),
        ('"env:HEARTBEAT"', '"https://example.com/hunter2"', "does not belong in a file"),
        ('sources = ["web"]', 'sources = ["none"]', "no such source"),
        ("[channels.hook]", '[channels.new]\nkind = "webhook"\n[channels.hook]', "random one"),
    ],
)
def test_what_cannot_change_is_refused_with_the_reason(
    target: Workspace, old: str, new: str, reason: str
) -> None:
    target.apply(WORKSPACE)
    land(target, "web1")
    before = target.read()
    text = WORKSPACE.replace(old, new, 1) + '\n[sources.fine]\nlake = "main"\n'
    assert old in WORKSPACE
    plan = target.apply(text)
    assert [reason in one.reason for one in plan.refused] == [True], plan.refused
    assert "hunter2" not in plan.model_dump_json()
    assert not plan.is_applied
    assert target.read() == before  # the others are not changed either


def test_secrets_stay_elsewhere(target: Workspace) -> None:
    with target.database.write() as session:
        values = {"storage_account": "account", "storage_container": "container"}
        sealed = {**values, "account_key": "hunter2-secret"}
        add_lake(session, "azure", "azure", sealed, VAULT, target.clock.now())
    exported = target.export()
    assert "hunter2" not in exported
    assert f'account_key = "{SET_ELSEWHERE}"' in exported
    assert target.apply(exported).changes == ()
    with target.database.read() as session:
        assert list(read_secrets(session, "azure", VAULT).values()) == ["hunter2-secret"]
    changed = target.apply(exported.replace(SET_ELSEWHERE, "env:NEW"))
    assert changed.changes[0].fields[0].after == "env:NEW"
    with target.database.write() as session:
        assert get_lake(session, "azure").secrets == {"account_key": "env:NEW"}
        change_lake(session, "azure", {"account_key": None}, 2, VAULT)
    missing = target.apply(exported)
    assert missing.notes == (
        "lake:azure needs its account_key: eventlake lake set azure --set account_key=…",
    )


def test_secrets_of_channels_stay_elsewhere(target: Workspace) -> None:
    with target.database.write() as session:
        values = {"url": "https://example.com/hunter2-secret"}
        made = add_channel(session, "hook", "webhook", values, VAULT, target.clock.now())
        add_rule(session, "hook", ["stale"], [], target.clock.now())
    assert made.secret
    exported = target.export()
    assert "hunter2" not in exported
    assert made.secret not in exported
    assert exported.count(SET_ELSEWHERE) == 2
    assert target.apply(exported).changes == ()
    changed = target.apply(exported.replace(f'url = "{SET_ELSEWHERE}"', 'url = "env:HOOK"'))
    assert [(one.before, one.after) for one in changed.changes[0].fields] == [
        (SET_ELSEWHERE, "env:HOOK")
    ]
    with target.database.write() as session:
        stored = read_channel_row(session, "hook").secrets["secret"]
        assert VAULT.resolve("secret", stored) == made.secret
        remove_channel(session, "hook", target.clock.now())
    missing = target.apply(exported)
    assert missing.is_applied
    [note] = missing.notes
    assert note.startswith("channel:hook needs its url and secret: eventlake notify add webhook …")


def test_settings_of_the_workspace_stay_if_they_are_left_out(target: Workspace) -> None:
    target.apply(WORKSPACE)
    with target.database.write() as session:
        set_heartbeat(session, "https://example.com/hunter2-secret", VAULT)
    exported = target.export()
    assert f'heartbeat_url = "{SET_ELSEWHERE}"' in exported
    assert "hunter2" not in exported
    assert target.apply("[sources.draft]").changes == ()
    plan = target.apply("settings = {late_after_seconds = 600}")
    fields = {one.field: (one.before, one.after) for one in plan.changes[0].fields}
    assert fields == {"quarantine_percent": (2.5, None), "late_after_seconds": (None, 600)}
    with target.database.read() as session:
        assert read_heartbeat(session, VAULT) == "https://example.com/hunter2-secret"


def test_rules_of_a_channel_are_those_of_the_file_or_stay(target: Workspace) -> None:
    target.apply(WORKSPACE)
    ops = WORKSPACE[WORKSPACE.index("[channels.ops]") : WORKSPACE.index("[channels.hook]")]
    without, _, _ = ops.partition("rules")
    assert target.apply(without).changes == ()
    with target.database.read() as session:
        kept = next(one.id for one in list_rules(session) if one.events == ("recovered",))
    plan = target.apply(without + 'rules = [{events = ["recovered", "recovered"]}]')
    assert [one.field for one in plan.changes[0].fields] == ["rules"]
    with target.database.read() as session:
        assert [one.id for one in list_rules(session)] == [kept]
    by_id = without + 'rules = [{events = ["stale"], sources = ["web1"]}]'
    assert target.apply(by_id).changes
    assert target.apply(by_id).changes == ()


def land(target: Workspace, source_id: str) -> None:
    """Add a run that has landed something."""
    row = make_row(source_id, "sync", target.clock.now(), state="finished", lake_run="1")
    with target.database.write() as session:
        session.execute(tables.runs.insert().values(row))
