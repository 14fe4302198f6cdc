"""The outbox, a loop of a server: sends deliveries, each channel in a thread of its own.

A delivery is claimed in one transaction, sent, and settled in another one right after the receiver
has accepted it. So none is lost. If the process is killed after that and before the transaction
ends, it is sent again with the same id when the claim's lease has ended.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Database
from eventlake.control.notify.channels import EmailSettings, get_channel
from eventlake.control.notify.deliveries import (
    LEASE,
    Claim,
    Delivery,
    Result,
    claim_next,
    claim_one,
    find_due_channels,
    get_delivery,
    settle,
)
from eventlake.control.notify.email import make_mail, sending_mail
from eventlake.control.notify.events import TEST
from eventlake.control.notify.http import requesting
from eventlake.control.notify.messages import write_message
from eventlake.control.notify.notices import make_delivery, make_notice
from eventlake.control.notify.tables import deliveries
from eventlake.control.notify.targets import parse_target
from eventlake.control.notify.webhook import make_slack, make_webhook, read_retry_after
from eventlake.control.preferences import read_server_url
from eventlake.control.tables import notices
from eventlake.control.vault import Vault
from eventlake.control.workspace import new_id
from eventlake.errors import EventLakeError, Unavailable

POLL_SECONDS = 1.0
THREADS = 8
PAUSE_SECONDS = 5.0
"""How long the database is left alone when it does not answer."""
STOP_SECONDS = 5.0
SETTLE_TRIES = 5


class Observer(Protocol):
    """Is told of each try."""

    def __call__(self, kind: str, is_delivered: bool) -> None: ...


def _ignore(kind: str, is_delivered: bool) -> None:  # noqa: ARG001
    return


@dataclass
class Outbox:
    """Sends what is due; call `step` about once a second."""

    database: Database
    vault: Vault
    clock: Clock = SYSTEM_CLOCK
    on_try: Observer = _ignore
    lease: timedelta = LEASE
    _busy: dict[str, threading.Thread] = field(default_factory=dict, init=False)
    """By channel."""

    def run(self, is_ended: Callable[[], bool]) -> None:
        """Step until `is_ended`. While the database does not answer, it is asked again.

        What is being sent then has a few seconds; the rest is sent by the next server.
        """
        while not is_ended():
            try:
                self.step()
            except Unavailable:
                self.clock.sleep(PAUSE_SECONDS)
            self.clock.sleep(POLL_SECONDS)
        self.join(STOP_SECONDS)

    def step(self) -> None:
        """Begin to send what is due of each channel that is not being sent to."""
        self._busy = {channel: one for channel, one in self._busy.items() if one.is_alive()}
        with self.database.read() as session:
            due = find_due_channels(self.database, session, self.clock.now())
        free = [channel for channel in due if channel not in self._busy]
        for channel in free[: THREADS - len(self._busy)]:
            # A daemon: a receiver that does not answer must not keep the server from ending.
            thread = threading.Thread(target=self._send_safely, args=(channel,), daemon=True)
            self._busy[channel] = thread
            thread.start()

    def join(self, seconds: float) -> None:
        """Wait until everything that is being sent is sent, each channel at most so long."""
        for thread in self._busy.values():
            thread.join(seconds)

    def _send_safely(self, channel_id: str) -> None:
        try:
            self.send_channel(channel_id)
        except EventLakeError as problem:  # the claim ends by itself
            sys.stderr.write(f"warning: outbox: {problem}\n")

    def send_channel(self, channel_id: str) -> None:
        """Send what is due of a channel in order, until one is not accepted."""
        while True:
            with self.database.write() as session:
                now = self.clock.now()
                claim = claim_next(self.database, session, channel_id, now, self.lease)
            if claim is None or not self.send(claim).is_delivered:
                return

    def send(self, claim: Claim) -> Result:
        """Send a delivery that was claimed, and store what came of it."""
        result: Result | None = None
        try:
            with self.sending(claim) as result:
                self._settle(claim, result)
        except EventLakeError as problem:
            if result is not None:
                raise  # the receiver has answered, and the database does not
            result = Result(False, str(problem))
            self._settle(claim, result)
        self.on_try(claim.kind, result.is_delivered)
        return result

    @contextmanager
    def sending(self, claim: Claim) -> Iterator[Result]:
        """Send; give the result when the receiver has answered, before connections are closed."""
        delivery, now = claim.delivery, self.clock.now()
        secrets = {name: self.vault.resolve(name, one) for name, one in claim.secrets.items()}
        with self.database.read() as session:
            url = read_server_url(session)
        message = write_message(delivery.notice, url)
        if claim.kind == "email":
            settings = EmailSettings.model_validate(claim.settings)
            mail = make_mail(message, settings, delivery.key, delivery.notice.created_at)
            with sending_mail(mail, settings, secrets.get("password", "")) as answer:
                yield Result(True, answer)
            return
        if claim.kind == "slack":
            content, headers = make_slack(message)
        else:
            used = [secrets[name] for name in ("secret", "old_secret") if name in secrets]
            content, headers = make_webhook(delivery, message, used, now)
        target = parse_target("url", secrets["url"])
        with requesting(target, "POST", content, headers) as reply:
            text = f"{reply.status} {reply.reason} {reply.body}".strip()
            is_accepted = 200 <= reply.status < 300
            yield Result(is_accepted, text, read_retry_after(reply.retry_after))

    def _settle(self, claim: Claim, result: Result) -> None:
        """Store a result; if the database does not answer, try again before the lease ends."""
        for _ in range(SETTLE_TRIES):
            try:
                return self._settle_once(claim, result)
            except Unavailable:
                self.clock.sleep(PAUSE_SECONDS)
        return self._settle_once(claim, result)

    def _settle_once(self, claim: Claim, result: Result) -> None:
        with self.database.write() as session:
            settle(session, claim, result, self.clock.now())


def send_test(outbox: Outbox, channel: str, actor: str) -> Delivery:
    """Send a test to a channel now, whatever its rules; return the delivery with the answer.

    Raises NotFound. A test that is not accepted is not an error: the delivery says so, and it is
    tried again as others are.
    """
    now = outbox.clock.now()
    with outbox.database.write() as session:
        found = get_channel(session, channel)
        key = f"test/{new_id()}"
        row = make_notice(TEST, key, None, {"channel": found.name, "actor": actor}, now)
        notice = session.execute(notices.insert().values(row).returning(notices.c.id)).scalar_one()
        sent = make_delivery(notice, key, found.id, now)
        made = session.execute(
            deliveries.insert().values(sent).returning(deliveries.c.id)
        ).scalar_one()
        claim = claim_one(outbox.database, session, made)
    assert claim is not None
    outbox.send(claim)
    with outbox.database.read() as session:
        return get_delivery(session, made)
