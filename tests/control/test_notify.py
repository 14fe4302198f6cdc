"""Notices on their way: channels, rules, the outbox, real receivers."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from eventlake.control import tables
from eventlake.control.database import Database
from eventlake.control.endings import end_runs
from eventlake.control.notify import tables as notify_tables
from eventlake.control.notify.channels import (
    NewChannel,
    add_channel,
    change_channel,
    get_channel,
    list_channels,
    remove_channel,
    rotate_secret,
)
from eventlake.control.notify.deliveries import (
    BACK_OFF,
    LEASE,
    Delivery,
    DeliveryState,
    claim_next,
    list_deliveries,
    redeliver,
)
from eventlake.control.notify.events import EVENTS
from eventlake.control.notify.messages import _TEXTS
from eventlake.control.notify.outbox import Outbox, send_test
from eventlake.control.notify.rules import add_rule, list_rules, remove_rule
from eventlake.control.preferences import set_server_url
from eventlake.control.results import Outcome
from eventlake.control.runs import RunState
from eventlake.control.vault import Vault
from eventlake.errors import Changed, Conflict, InvalidSettings, NotFound
from tests.clocks import SimulatedClock
from tests.control.receivers import HookServer, MailServer, hook_server, mail_server
from tests.control.world import KEY, World

DENIED = "EventLake.InsufficientPermissions"
URL = "https://lake.example.com"


class Office:
    """A world with a source, and an outbox that a test has send what is due."""

    def __init__(self, database: Database, clock: SimulatedClock) -> None:
        self.world = World(database, clock)
        self.world.add("web")
        self.database, self.clock, self.vault = database, clock, Vault([KEY])
        self.tries: list[tuple[str, bool]] = []
        self.outbox = Outbox(
            database, self.vault, clock, on_try=lambda kind, ok: self.tries.append((kind, ok))
        )
        with database.write() as session:
            set_server_url(session, URL)

    def add(self, kind: Any, name: str = "", **settings: Any) -> NewChannel:
        with self.database.write() as session:
            now = self.clock.now()
            return add_channel(session, name or kind, kind, settings, self.vault, now)

    def fail(self, code: str = DENIED, error: str = "no s3:PutObject on the bucket") -> int:
        """Have the next sync of the source fail; return its number."""
        self.clock.advance(timedelta(hours=2))
        self.world.tick()
        [run] = self.world.start()
        ended = self.world.end(run, "failed", code, error)
        assert ended
        return ended.id

    def succeed(self) -> int:
        self.clock.advance(timedelta(hours=2))
        return self.world.sync().id

    def send(self) -> None:
        """Send what is due."""
        self.outbox.step()
        self.outbox.join(30)

    def deliveries(self) -> list[Delivery]:
        """All, oldest first."""
        with self.database.read() as session:
            return list_deliveries(session, limit=1000)[::-1]

    def states(self) -> list[tuple[str, str, int]]:
        return [(one.notice.event, one.state.value, one.tries) for one in self.deliveries()]


@pytest.fixture
def office(database: Database, clock: SimulatedClock) -> Office:
    return Office(database, clock)


@pytest.fixture(scope="module")
def shared_hooks() -> Iterator[HookServer]:
    with hook_server() as hooks:
        yield hooks


@pytest.fixture
def hooks(shared_hooks: HookServer) -> HookServer:
    fresh = HookServer(port=shared_hooks.port)
    vars(shared_hooks).update(vars(fresh))
    return shared_hooks


@pytest.fixture(scope="module")
def shared_mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture
def mail(shared_mail: MailServer) -> MailServer:
    vars(shared_mail).update(vars(MailServer(port=shared_mail.port)))
    return shared_mail


# What arrives


def test_a_failure_arrives_as_mail_with_cause_and_fix(office: Office, mail: MailServer) -> None:
    office.add("email", to=["ops@example.com", "dev@example.com"], host="127.0.0.1", port=mail.port)
    run = office.fail()
    office.send()
    [got] = mail.mails
    assert mail.recipients == [["ops@example.com", "dev@example.com"]]
    assert got["Subject"] == "[EventLake] web: sync failed"
    text = got.get_content()
    assert "Source:     web" in text
    assert f"Error:      {DENIED}" in text
    assert "Cause:      no s3:PutObject on the bucket" in text
    assert "What to do: Grant the permission that the message names" in text
    assert f"Run:        {URL}/runs/{run}" in text
    [one] = office.deliveries()
    assert (one.state, one.answer, one.tries) == ("delivered", "250 OK, kept", 1)


def test_failures_1_5_20_then_daily_and_recovery_are_sent(office: Office, mail: MailServer) -> None:
    office.add("email", to=["ops@example.com"], host="127.0.0.1", port=mail.port)
    for _ in range(32):
        office.fail()
        office.send()
    subjects = [one["Subject"].removeprefix("[EventLake] web: ") for one in mail.mails]
    wanted = ["sync failed", *(f"{n} syncs failed in a row" for n in (5, 20))]
    assert subjects[:3] == wanted
    assert len(subjects) in (5, 6)  # failures 21 to 32 are on two or three days
    mail.mails.clear()
    office.clock.advance(timedelta(hours=1))
    office.succeed()
    office.send()
    [got] = mail.mails
    assert "web recovered after 32 failures, 2 d 17 h, 0 rows caught up." in got.get_content()
    assert "Error" not in got.get_content()


def test_slack_gets_the_text_escaped(office: Office, hooks: HookServer) -> None:
    office.add("slack", url=f"{hooks.url}/services/T0/planted")
    office.fail(error="<!channel> & more")
    office.send()
    [posted] = hooks.requests
    text = json.loads(posted.body)["text"]
    assert (posted.method, posted.path) == ("POST", "/services/T0/planted")
    assert text.startswith("*[EventLake] web: sync failed*\n")
    assert "*Cause:* &lt;!channel&gt; &amp; more" in text


def verify_by_hand(posted: Any, secret: str, now: datetime) -> dict[str, Any]:
    """Check a request by the rules of Standard Webhooks; return its body."""
    headers = posted.headers
    identity, stamp = headers["webhook-id"], headers["webhook-timestamp"]
    assert abs(int(stamp) - now.timestamp()) <= 300
    assert "." not in identity
    key = base64.b64decode(secret.split("_", 1)[1])
    signed = identity.encode() + b"." + stamp.encode() + b"." + posted.body
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = [one.split(",", 1) for one in headers["webhook-signature"].split(" ")]
    matches = [
        one for version, one in given if version == "v1" and hmac.compare_digest(one, wanted)
    ]
    assert len(matches) == 1
    body: dict[str, Any] = json.loads(posted.body)
    return body


def test_a_webhook_is_signed_by_the_rules_of_standard_webhooks(
    office: Office, hooks: HookServer
) -> None:
    made = office.add("webhook", url=f"{hooks.url}/hook")
    assert made.secret
    run = office.fail()
    office.send()
    [posted] = hooks.requests
    body = verify_by_hand(posted, made.secret, office.clock.now())
    assert (body["type"], body["data"]["source"]) == ("sync_failed", "web")
    assert body["timestamp"] == office.clock.now().isoformat()
    assert body["data"]["details"]["run"] == run
    assert body["data"]["facts"]["What to do"].startswith("Grant the permission")
    with pytest.raises(AssertionError):
        verify_by_hand(posted, "whsec_" + base64.b64encode(b"x" * 32).decode(), office.clock.now())


def test_both_secrets_sign_while_one_is_rotated(office: Office, hooks: HookServer) -> None:
    old = office.add("webhook", url=f"{hooks.url}/hook").secret
    with office.database.write() as session:
        new = rotate_secret(session, "webhook", office.vault).secret
    assert old
    assert new
    office.fail()
    office.send()
    for secret in (old, new):
        verify_by_hand(hooks.requests[0], secret, office.clock.now())
    with office.database.write() as session:
        change_channel(session, "webhook", {"old_secret": None}, 2, office.vault)
    office.succeed()
    office.send()
    verify_by_hand(hooks.requests[1], new, office.clock.now())
    with pytest.raises(AssertionError):
        verify_by_hand(hooks.requests[1], old, office.clock.now())


def test_every_event_has_words() -> None:
    assert _TEXTS.keys() == EVENTS.keys()


# Who gets what


def test_a_channel_gets_problems_and_recoveries_unless_rules_say_otherwise(office: Office) -> None:
    office.world.add("ios")
    for name in ("everything", "recoveries", "other"):
        office.add("slack", name, url="http://127.0.0.1:9/x")
    office.add("slack", "plain", url="http://127.0.0.1:9/x")
    with office.database.write() as session:
        now = office.clock.now()
        add_rule(session, "everything", ["*"], [], now)
        add_rule(session, "recoveries", ["recovered"], ["web"], now)
        add_rule(session, "other", ["default"], ["ios"], now)
        with pytest.raises(InvalidSettings, match="event is 'nope'"):
            add_rule(session, "other", ["nope"], [], now)
        with pytest.raises(NotFound):
            add_rule(session, "nobody", ["*"], [], now)
    office.clock.advance(timedelta(hours=2))
    office.world.tick()
    for run in office.world.start():
        office.world.end(run, "failed" if run.source_id == "id-web" else "finished", DENIED)
    office.clock.advance(timedelta(hours=2))
    office.world.tick()
    for run in office.world.start():
        office.world.end(run)
    got = {(one.channel, one.notice.event) for one in office.deliveries()}
    assert got == {
        ("everything", "sync_failed"),
        ("everything", "recovered"),
        ("recoveries", "recovered"),
        ("plain", "sync_failed"),
        ("plain", "recovered"),
    }
    with office.database.write() as session:
        rules = list_rules(session)
        assert [(one.channel, one.sources) for one in rules] == [
            ("everything", ()),
            ("recoveries", ("web",)),
            ("other", ("ios",)),
        ]
        remove_rule(session, rules[0].id)
        assert len(list_rules(session)) == 2


def test_a_notice_and_its_deliveries_are_stored_together_or_not_at_all(office: Office) -> None:
    office.add("slack", url="http://127.0.0.1:9/x")
    office.clock.advance(timedelta(hours=2))
    office.world.tick()
    [run] = office.world.start()

    def end(stop: bool) -> None:
        outcome = Outcome(state=RunState.FAILED, error_code=DENIED, error="x")
        with office.database.write() as session:
            end_runs(session, {(run.id, run.attempt): outcome}, office.clock.now())
            if stop:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        end(stop=True)
    assert (office.world.events(), office.deliveries()) == ([], [])
    end(stop=False)
    [(_, key)] = office.world.events()
    [one] = office.deliveries()
    assert one.key.startswith(f"{key}/")


# Tries


def test_a_delivery_is_tried_for_a_day_with_growing_pauses(
    office: Office, hooks: HookServer
) -> None:
    office.add("webhook", url=f"{hooks.url}/hook")
    hooks.status, hooks.reply = 503, b"busy\x00\n" + b"x" * 5000
    office.fail()
    begun = office.clock.now()
    pauses = []
    while office.deliveries()[0].state is DeliveryState.PENDING:
        office.send()
        one = office.deliveries()[0]
        if one.next_at:
            pauses.append(one.next_at - office.clock.now())
            office.clock.advance(pauses[-1])
    assert tuple(pauses[: len(BACK_OFF)]) == BACK_OFF
    assert timedelta(hours=22) < office.clock.now() - begun <= timedelta(hours=24)
    [one] = office.deliveries()
    assert (one.state, one.tries) == ("failed", len(hooks.requests))
    assert one.answer.startswith("503 Service Unavailable busy  xxx")
    assert len(one.answer) == 500
    assert len({posted.headers["webhook-id"] for posted in hooks.requests}) == 1
    assert office.tries == [("webhook", False)] * one.tries


def test_a_receiver_says_when_to_come_again(office: Office, hooks: HookServer) -> None:
    office.add("slack", url=f"{hooks.url}/hook")
    hooks.status, hooks.headers = 429, {"retry-after": "120"}
    office.fail()
    office.send()
    [one] = office.deliveries()
    assert one.next_at == office.clock.now() + timedelta(seconds=120)


def test_a_broken_channel_does_not_hold_up_another(
    office: Office, hooks: HookServer, mail: MailServer
) -> None:
    hooks.status = 500
    office.add("webhook", url=f"{hooks.url}/hook")
    office.add("email", to=["ops@example.com"], host="127.0.0.1", port=mail.port)
    for _ in range(5):
        office.fail()
    office.send()
    assert len(mail.mails) == 2  # of failures 1 and 5
    assert len(hooks.requests) == 1


def test_a_delivery_is_sent_again_on_request_with_the_same_id(
    office: Office, hooks: HookServer, mail: MailServer
) -> None:
    office.add("webhook", url=f"{hooks.url}/hook")
    office.add("email", to=["ops@example.com"], host="127.0.0.1", port=mail.port)
    office.fail()
    with office.database.write() as session, pytest.raises(Conflict, match="is pending already"):
        redeliver(session, office.deliveries()[0].id, office.clock.now())
    office.send()
    for one in office.deliveries():
        with office.database.write() as session:
            redeliver(session, one.id, office.clock.now())
    office.send()
    first, second = hooks.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert mail.mails[0]["Message-ID"] == mail.mails[1]["Message-ID"]
    assert office.states() == [("sync_failed", "delivered", 2)] * 2


def test_a_test_says_what_the_receiver_answered(office: Office, mail: MailServer) -> None:
    office.add("email", to=["ops@example.com"], host="127.0.0.1", port=mail.port)
    one = send_test(office.outbox, "email", "user:ada")
    assert (one.state, one.answer, one.notice.event) == ("delivered", "250 OK, kept", "test")
    assert "test of the channel email, sent by user:ada" in mail.mails[0].get_content()
    mail.answer = "554 mailbox full"
    one = send_test(office.outbox, "email", "user:ada")
    assert (one.state, one.answer) == ("pending", "127.0.0.1 answered 554 mailbox full")


def test_two_outboxes_never_claim_the_same_delivery(office: Office) -> None:
    made = office.add("slack", url="http://127.0.0.1:9/x").channel
    office.fail()
    claims = []
    for _ in range(2):
        with office.database.write() as session:
            now = office.clock.now()
            claims.append(claim_next(office.database, session, made.id, now))
    assert [bool(claim) for claim in claims] == [True, False]
    office.clock.advance(LEASE + timedelta(seconds=1))
    with office.database.write() as session:
        again = claim_next(office.database, session, made.id, office.clock.now())
    assert again
    assert again.delivery.tries == 2


def test_an_outbox_that_was_late_does_not_change_another_try(
    office: Office, hooks: HookServer
) -> None:
    """It comes back after its lease has ended, when another try has been accepted."""
    made = office.add("webhook", url=f"{hooks.url}/hook").channel
    office.fail()
    with office.database.write() as session:
        late = claim_next(office.database, session, made.id, office.clock.now())
    assert late
    office.clock.advance(LEASE + timedelta(seconds=1))
    office.send()
    hooks.status = 500
    office.outbox.send(late)
    assert office.states() == [("sync_failed", "delivered", 2)]


# Channels


def test_secrets_are_sealed_and_never_shown(office: Office) -> None:
    office.add("slack", url="https://hooks.slack.com/services/planted")
    office.add("webhook", url="env:HOOK_URL")
    with office.database.read() as session:
        shown = {one.name: (one.settings, one.secrets) for one in list_channels(session)}
    assert shown == {
        "slack": ({"target": "https://hooks.slack.com"}, {"url": "set"}),
        "webhook": ({"target": "reference"}, {"url": "env:HOOK_URL", "secret": "set"}),
    }
    dump = str(office.world.read(notify_tables.channels))
    assert "planted" not in dump
    assert "whsec" not in dump


def test_a_reference_is_read_when_a_notice_is_sent(
    office: Office, hooks: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.add("slack", url="env:HOOK_URL")
    office.fail()
    office.send()
    assert "the environment has no such variable" in office.deliveries()[0].answer
    monkeypatch.setenv("HOOK_URL", f"{hooks.url}/of-the-environment")
    office.clock.advance(timedelta(minutes=1))
    office.send()
    assert hooks.requests[0].path == "/of-the-environment"


def test_channels_change_with_their_version(office: Office) -> None:
    office.add("email", to=["ops@example.com"], host="mx.example.com", user="me", password="p" * 9)
    with office.database.write() as session:
        changed = change_channel(
            session, "email", {"to": ["dev@example.com"], "port": 2525}, 1, office.vault
        )
        assert changed.settings["to"] == ["dev@example.com"]
        assert (changed.version, changed.secrets) == (2, {"password": "set"})
        with pytest.raises(Changed):
            change_channel(session, "email", {"port": None}, 1, office.vault)


def test_a_removed_channel_keeps_its_log_and_nothing_secret(office: Office) -> None:
    office.add("slack", url="http://127.0.0.1:9/x")
    office.fail()
    with office.database.write() as session:
        remove_channel(session, "slack", office.clock.now())
        with pytest.raises(NotFound):
            get_channel(session, "slack")
    assert office.states() == [("sync_failed", "cancelled", 0)]
    assert office.world.read(notify_tables.channels)[0]["secrets"] == {}
    office.add("slack", url="http://127.0.0.1:9/x")  # the name is free again
    office.fail()
    assert len(office.world.read(tables.notices)) == 1


@pytest.mark.parametrize(
    ("kind", "settings", "problem"),
    [
        ("email", {}, "to is missing"),
        ("email", {"to": ["nobody"]}, "an e-mail address"),
        ("email", {"to": ["a@b.c\nBcc: x@y.z"]}, "an e-mail address"),
        ("email", {"to": ["a@b.c"], "user": "u"}, "user and password"),
        ("email", {"to": ["a@b.c"], "host": "169.254.169.254"}, "link-local"),
        (
            "email",
            {"to": ["a@b.c"], "host": "m.b.c", "user": "u", "password": "p", "security": "none"},
            "only sent with tls",
        ),
        ("slack", {}, "url is missing"),
        ("slack", {"url": "ftp://x/y"}, "https://example.com/hook"),
        ("slack", {"url": "https://u:p@x/y"}, "https://example.com/hook"),
        ("slack", {"url": "http://x:99999/"}, "cannot be parsed"),
        ("webhook", {"url": "https://x/y", "secret": "short"}, "whsec_"),
        ("webhook", {"url": "https://x/y", "color": "red"}, "color is not a setting"),
        ("webhook", {"url": "http://[fe80::1]/"}, "link-local"),
    ],
)
def test_wrong_settings_are_refused_by_name(
    office: Office, kind: Any, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidSettings, match=problem):
        office.add(kind, **settings)
