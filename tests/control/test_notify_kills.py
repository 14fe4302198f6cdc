"""Whatever step a sender is killed at, no notice is lost, and none arrives twice but in one gap.

The gap is between the receiver's answer and the commit that stores it: neither SMTP nor Slack can
say whether a message has arrived before. There a notice is sent again, with the id that it had.
`EVENTLAKE_KILLS` changes the number of kills.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

from eventlake.control.database import open_database
from eventlake.control.notify.channels import EmailSettings, add_channel
from eventlake.control.notify.deliveries import list_deliveries
from eventlake.control.notify.email import make_message_id
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.notify.webhook import message_id
from eventlake.control.vault import Vault
from tests.clocks import SimulatedClock
from tests.control.receivers import hook_server, mail_server
from tests.control.world import KEY, World

KILLS = int(os.environ.get("EVENTLAKE_KILLS", "200"))


def test_no_notice_is_lost_and_none_sent_twice(url: str, clock: SimulatedClock) -> None:
    database = open_database(url)
    world = World(database, clock)
    world.add("web")
    with mail_server() as mail, hook_server() as hooks:
        email = {"to": ["ops@example.com"], "host": "127.0.0.1", "port": mail.port}
        with database.write() as session:
            for kind, values in (("email", email), ("webhook", {"url": f"{hooks.url}/hook"})):
                add_channel(session, kind, kind, values, Vault([KEY]), clock.now())
            data = {"failures": 1, "error_code": "EventLake.Internal", "error": "x", "run": 1}
            write_notices(
                session,
                [
                    make_notice("sync_failed", f"n{number}", "id-web", data, clock.now())
                    for number in range(KILLS // 4)
                ],
            )
        command = [sys.executable, "-m", "tests.control.killed_sender", url, str(KILLS)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stderr
        kills = [json.loads(line) for line in ended.stdout.splitlines()]
    with database.read() as session:
        deliveries = list_deliveries(session, limit=10_000)
    database.close()
    killed = [one for one in kills if one["killed"]]
    assert len(killed) >= KILLS * 0.98
    assert len(deliveries) == 2 * (KILLS // 4)
    assert {one.state.value for one in deliveries} == {"delivered"}
    arrived = Counter(one["Message-ID"] for one in mail.mails)
    arrived += Counter(one.headers["webhook-id"] for one in hooks.requests)
    wanted = {
        one.key: message_id(one.key)
        if one.channel == "webhook"
        else make_message_id(EmailSettings.model_validate(email), one.key)
        for one in deliveries
    }
    assert arrived.keys() == set(wanted.values())  # none is lost
    in_gap = Counter(one["delivery"] for one in killed if stage_of(one) == "gap")
    repeated = {key: arrived[name] - 1 for key, name in wanted.items() if arrived[name] > 1}
    assert all(count <= in_gap[key] for key, count in repeated.items()), (repeated, in_gap)
    # Kills came at all stages, and few of them in the gap.
    stages = Counter(stage_of(one) for one in killed)
    assert stages.keys() == {"unclaimed", "claimed", "connected", "gap", "settled"}
    assert stages["gap"] <= len(killed) // 3


def stage_of(one: dict[str, Any]) -> str:
    """How far a sender came with the delivery that it claimed last, before it was killed."""
    if not one["delivery"]:
        return "unclaimed"
    if one["is_settled"]:
        return "settled"
    if one["sends"] >= one["accepted_after"]:
        return "gap"
    return "connected" if one["sends"] else "claimed"
