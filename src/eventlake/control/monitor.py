"""The monitor, a loop of a server: notices what no run says. One server at a time has its lease.

Every minute it judges the freshness of sources and looks for slow runs; then it pings the
heartbeat, so that somebody else notices if it stops.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.control.database import Database, Session, insert_if_absent
from eventlake.control.digest import write_digests
from eventlake.control.freshness import Facts, Freshness, judge, read_facts
from eventlake.control.incidents import close_incident, open_incident, read_open
from eventlake.control.leases import RENEW_EVERY, Lease, release_lease, renew_lease, take_lease
from eventlake.control.monitor_tables import freshness
from eventlake.control.notify.http import requesting
from eventlake.control.notify.notices import make_notice, write_notices
from eventlake.control.notify.targets import parse_target
from eventlake.control.preferences import read_heartbeat, read_preferences
from eventlake.control.retention import prune
from eventlake.control.slow_runs import note_slow_runs
from eventlake.control.tables import leases
from eventlake.control.vault import Vault
from eventlake.errors import EventLakeError, Unavailable

LEASE = "monitor"
POLL_SECONDS = 1.0
JUDGE_SECONDS = 60.0
DIGEST_SECONDS = 600.0
PRUNE_SECONDS = 3600.0
AWAY = timedelta(minutes=5)
"""How long no server may run before there is a notice."""
FIXES = {
    Freshness.STALE: "Look at its last runs: they are queued, fail, or are not started at all.",
    Freshness.SILENT: "Look whether the site or app still sends, with a write key that is valid.",
}


@dataclass
class Monitor:
    """Judges while this server has the lease; call `step` about once a second."""

    database: Database
    vault: Vault
    holder: str
    """The server's name, which no other has."""
    clock: Clock = SYSTEM_CLOCK
    is_alone: bool = False
    """Whether no other server can use the database, as with SQLite."""
    lease: Lease | None = None
    up_since: datetime | None = None
    """When the server came back after it was away."""
    _done: dict[str, float] = field(default_factory=dict, init=False)
    """When each thing was done last."""

    def run(self, is_ended: Callable[[], bool]) -> None:
        """Step until `is_ended`, then let another server have the lease."""
        while not is_ended():
            try:
                self.step()
            except Unavailable:
                self.lease = None
            self.clock.sleep(POLL_SECONDS)
        if self.lease:
            release_lease(self.database, self.lease)

    def step(self) -> bool:
        """Do what is due; return whether sources were judged."""
        if not self._is_due("renew", RENEW_EVERY.total_seconds()):
            return False
        if self.lease is None:
            self._take_lease()
        judged = self.lease is not None and self._judge(self.lease)
        if judged:
            self._ping()
        return judged

    def _take_lease(self) -> None:
        with self.database.write() as session:
            now = self.database.clock_of(session)
            until = session.execute(
                sa.select(leases.c.until).where(leases.c.name == LEASE)
            ).scalar()
            is_free = until is None or until < now or self.is_alone
            if is_free and until and now - until > AWAY:
                self.up_since = now
                write_notices(session, [_note_absence(until, now)])
        self.lease = take_lease(self.database, LEASE, self.holder, is_alone=self.is_alone)

    def _judge(self, lease: Lease) -> bool:
        """Renew the lease, and once a minute judge everything in the same transaction."""
        with self.database.write() as session:
            if not renew_lease(self.database, session, lease):
                self.lease = None
                return False
            if not self._is_due("judge", JUDGE_SECONDS):
                return False
            now = self.clock.now()
            judge_sources(session, now, self.up_since)
            note_slow_runs(session, now)
            if self._is_due("digest", DIGEST_SECONDS):
                write_digests(session, now)
            if self._is_due("prune", PRUNE_SECONDS):
                prune(session, now)
        return True

    def _ping(self) -> None:
        """Ask the URL of the heartbeat; a failure goes to stderr, without the URL."""
        try:
            with self.database.read() as session:
                url = read_heartbeat(session, self.vault)
            if url is None:
                return
            with requesting(parse_target("heartbeat_url", url), "GET", b"", {}) as reply:
                if reply.status >= 300:
                    raise Unavailable(f"it answered {reply.status}")
        except EventLakeError as problem:
            sys.stderr.write(f"warning: heartbeat: {problem}\n")

    def _is_due(self, name: str, seconds: float) -> bool:
        now = self.clock.monotonic()
        if name in self._done and now - self._done[name] < seconds:
            return False
        self._done[name] = now
        return True


def judge_sources(session: Session, now: datetime, up_since: datetime | None = None) -> None:
    """Store the state of each source whose state changed, and write the notices."""
    general = read_preferences(session)
    states = {one: judge(one, general, now, up_since) for one in read_facts(session)}
    changed = {one: state for one, state in states.items() if state is not one.state}
    if not changed:
        return
    open_kinds = read_open(session, [one.source_id for one in changed])
    for one, state in changed.items():
        row = {"source_id": one.source_id, "table": "", "state": state.value, "since": now}
        if not insert_if_absent(session, freshness, [row]):
            is_it = sa.and_(freshness.c.source_id == one.source_id, freshness.c.table == "")
            session.execute(freshness.update().where(is_it).values(state=state.value, since=now))
        for kind in FIXES:
            if kind is not state and (one.source_id, kind.value) in open_kinds:
                # A person who disables a source, or is told that it is silent, needs no more.
                is_news = one.is_enabled and state is not Freshness.SILENT
                close_incident(session, one.source_id, kind.value, now, notify=is_news)
        if state in FIXES and one.is_enabled:
            open_incident(session, one.source_id, state.value, _describe(one, state), now)


def _describe(facts: Facts, state: Freshness) -> dict[str, str | None]:
    times = {"due": facts.due, "succeeded_at": facts.succeeded_at, "newest": facts.newest}
    shown = {name: moment.isoformat() if moment else None for name, moment in times.items()}
    return {**shown, "fix": FIXES[state]}


def _note_absence(since: datetime, now: datetime) -> dict[str, object]:
    data = {"since": since.isoformat(), "until": now.isoformat()}
    return make_notice("server_away", f"server/{since.isoformat()}", None, data, now)
