"""A process that has children send notices, and each of them killed between two of its steps.

    python -m tests.control.killed_sender <database> <kills>

Every call of a Python or C function is a step. The kills are spread over all steps of two
deliveries of the channels `email` and `webhook`, from the claim of the first to the end of the
second. In the end, what is left is sent without kills. Prints a line of JSON for each kill.
"""

import json
import os
import random
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from types import CodeType, FrameType
from typing import Any

import sqlalchemy as sa

from eventlake.clock import SYSTEM_CLOCK
from eventlake.control.database import open_database
from eventlake.control.notify.deliveries import claim_next
from eventlake.control.notify.outbox import Outbox
from eventlake.control.notify.tables import channels
from eventlake.control.vault import Vault
from tests.control.conftest import without_fsync
from tests.control.world import KEY

NO_LEASE = timedelta(microseconds=1)
"""The process that had a claim is gone when the next one looks."""


@dataclass
class Steps:
    """Counts calls; kills the process before the one with the number `last`."""

    last: int
    pipe: int
    count: int = 0
    delivery: str = ""
    """The one that was claimed last."""
    sends: int = 0
    """Calls since then that handed bytes to a socket."""
    accepted_after: int = 0
    """How many of these there were when the receiver had answered."""
    is_settled: bool = False

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        if event == "return":
            self._return_from(frame.f_code, value)
        if event not in ("call", "c_call"):
            return
        self.count += 1
        if self.count == self.last:
            sys.setprofile(None)
            os.write(self.pipe, json.dumps(vars(self)).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "c_call" and value.__name__ in ("send", "sendall"):
            self.sends += 1

    def _return_from(self, code: CodeType, value: Any) -> None:
        if code is claim_next.__code__ and value:
            self.delivery, self.sends, self.is_settled = value.delivery.key, 0, False
        if code is Outbox._settle.__code__:
            self.accepted_after, self.is_settled = self.sends, True


def send_two(url: str, channel: str, steps: Steps) -> None:
    """Send two deliveries, each as the outbox of a server does."""
    database = open_database(url)
    if database.engine.dialect.name == "sqlite":
        sa.event.listen(database.engine, "connect", without_fsync)
    database.engine.connect().close()  # the time before that is of no interest
    outbox = Outbox(database, Vault([KEY]))
    sys.setprofile(steps)
    for _ in range(2):
        with database.write() as session:
            claim = claim_next(database, session, channel, SYSTEM_CLOCK.now(), NO_LEASE)
        if claim:
            outbox.send(claim)
    sys.setprofile(None)
    database.close()


def send_in_child(url: str, channel: str, last: int) -> dict[str, Any]:
    """Send in a child that is killed before the call `last`; return how far it came."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        steps = Steps(last, writer)
        send_two(url, channel, steps)
        os.write(writer, json.dumps(vars(steps)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = json.loads(pipe.read())
    _, status = os.waitpid(child, 0)
    return {**told, "killed": os.WIFSIGNALED(status)}


def main(url: str, kills: int) -> None:
    database = open_database(url)
    with database.read() as session:
        ids = {row.name: row.id for row in session.execute(sa.select(channels))}
    database.close()
    names = ("email", "webhook")
    for name in names:  # fill the caches that children share
        send_two(url, ids[name], Steps(0, -1))
    whole = {name: send_in_child(url, ids[name], 0) for name in names}
    points = [(name, number) for name in names for number in range(kills // 2)]
    random.Random(7).shuffle(points)
    for name, number in points:
        last = 1 + whole[name]["count"] * number // (kills // 2)
        told = send_in_child(url, ids[name], last)
        told["accepted_after"] = whole[name]["accepted_after"]
        sys.stdout.write(json.dumps(told) + "\n")
    for name in names:
        while send_in_child(url, ids[name], 0)["delivery"]:
            pass


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
