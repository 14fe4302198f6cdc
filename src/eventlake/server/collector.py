"""The collector of the sources in the database: it follows their changes within a second."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from eventlake.collect.app import App
from eventlake.collect.keys import SourceKeys
from eventlake.collect.server import RELOAD_SECONDS, create_spool_folder
from eventlake.collect.settings import CollectorSettings, ServedSource
from eventlake.collect.source_file import SourceAccess
from eventlake.collect.source_runtime import SourceRuntime
from eventlake.collect.suppression_watch import SuppressionWatch
from eventlake.control.connections import list_connections
from eventlake.control.database import Database
from eventlake.control.lake_access import open_access
from eventlake.control.lakes import RegisteredLake, has_landed, list_lakes
from eventlake.control.runs import find_asked_syncs
from eventlake.control.sources import Source, list_sources
from eventlake.control.vault import Vault
from eventlake.errors import EventLakeError
from eventlake.lakes import open_store
from eventlake.model.settings import SourceSettings
from eventlake.server.collected import CollectedEvents
from eventlake.stores import Store

ARCHIVE_SECONDS = 5.0
"""The time that a sync on request waits for a lake that does not take the events."""


class Place(NamedTuple):
    """Where a source's events go. If this changes, the source is served anew."""

    source_id: str
    lake_id: str
    lake_version: int
    folder: str


class Collected(NamedTuple):
    """A source as the database has it."""

    source: Source
    settings: SourceSettings
    lake: RegisteredLake


Snapshot = Mapping[Place, Collected]


@dataclass
class OpenLake:
    """A lake's store, its suppression list, and the settings of its sources' collector."""

    settings: CollectorSettings
    suppression: SuppressionWatch


class ManagedCollector:
    """Serves every source of the database that is connected to a lake.

    `spool` of the settings is required; each lake has a folder in it. The store of the settings is
    not used.
    """

    def __init__(self, settings: CollectorSettings, database: Database, vault: Vault, app: App):
        self._settings, self._database, self._vault, self.app = settings, database, vault, app
        self._snapshot: Snapshot = {}
        self._known_keys: frozenset[str] = frozenset()
        """The keys of all sources that accept events, also of those that cannot be served."""
        self._runtimes: dict[Place, SourceRuntime] = {}
        self._lakes: dict[tuple[str, int], OpenLake] = {}
        self._warned: set[str] = set()
        self._asked: set[int] = set()
        """The syncs on request that the last look at the database found."""
        self._list_has_changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def watch(self) -> None:
        """Follow the database; never returns."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await self.refresh()

    async def refresh(self) -> None:
        """Serve what the database has now; on an error, warn once and keep what there is."""
        try:
            snapshot, known, asked = await asyncio.to_thread(self._read_database)
            is_new = (snapshot, known) != (self._snapshot, self._known_keys)
            if is_new or snapshot.keys() != self._runtimes.keys():
                self._known_keys = known
                await self._apply(snapshot)
            self._archive_asked(asked)
            self._warned.discard("database")
        except EventLakeError as problem:
            self._warn("database", str(problem))

    async def watch_suppression_lists(self) -> None:
        """Apply changes of the lakes' suppression lists; never returns."""
        self._loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._list_has_changed.wait(), RELOAD_SECONDS)
            self._list_has_changed.clear()
            for key, lake in list(self._lakes.items()):
                if await asyncio.to_thread(lake.suppression.poll):
                    self._suppress(key)

    def reload_suppression_lists(self) -> None:
        """Read the lists again at once; may be called from any thread."""
        if self._loop:
            self._loop.call_soon_threadsafe(self._list_has_changed.set)

    def archive(self, source: str) -> timedelta:
        """Archive the events that a source, named by its slug or id, has acknowledged so far.

        Returns when the lake has them, or after a few seconds: a sync need not wait longer. Threads
        of the API call this.
        """
        for one in list(self._runtimes.values()):
            if source in (one.source.name, one.source.project):
                one.archive(ARCHIVE_SECONDS)
        return timedelta(0)

    def _archive_asked(self, asked: Mapping[int, str]) -> None:
        """Archive the events of each source for which a sync was requested since the last look."""
        new = {asked[run] for run in asked.keys() - self._asked}
        for place, runtime in self._runtimes.items():
            if place.source_id in new:
                runtime.archive_soon()
        self._asked = set(asked)

    async def close(self) -> None:
        """Stop all sources; segments that the stores do not accept stay in the spool."""
        await self._stop(list(self._runtimes))

    def _read_database(self) -> tuple[Snapshot, frozenset[str], dict[int, str]]:
        """What is to be served, the keys of all sources, and the source of each sync on request."""
        with self._database.read() as session:
            asked = find_asked_syncs(session)
            sources = {one.slug: one for one in list_sources(session)}
            lakes = {one.slug: one for one in list_lakes(session)}
            connections = list_connections(session)
        found = [
            Collected(sources[one.source], one.resolved, lakes[one.lake])
            for one in connections
            if one.source in sources
        ]
        snapshot = {
            Place(one.source.id, one.lake.id, one.lake.version, one.settings.folder): one
            for one in found
        }
        enabled = (one for one in sources.values() if one.enabled)
        return snapshot, frozenset(key for one in enabled for key in one.write_keys), asked

    async def _apply(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        await self._stop([place for place in self._runtimes if place not in snapshot])
        self._set_keys(snapshot)
        for place, one in snapshot.items():
            if place in self._runtimes or not one.source.write_keys:
                continue
            try:
                await self._start(place, one)
                self._set_keys(snapshot)
                self._warned.discard(place.source_id)
            except (EventLakeError, OSError) as problem:
                self._warn(place.source_id, f"source {one.source.slug} is not served: {problem}")

    def _set_keys(self, snapshot: Snapshot) -> None:
        for place, runtime in self._runtimes.items():
            source = snapshot[place].source
            runtime.access = SourceAccess(source.write_keys, source.enabled)
        keys = (key for runtime in self._runtimes.values() for key in runtime.list_keys())
        self.app.keys = SourceKeys(keys, waiting=self._known_keys)

    async def _start(self, place: Place, one: Collected) -> None:
        key = (place.lake_id, place.lake_version)
        if key not in self._lakes:
            self._lakes[key] = await asyncio.to_thread(self._open_lake, one.lake)
        settings = self._lakes[key].settings
        served = ServedSource(one.settings, one.source.write_keys)
        await asyncio.to_thread(create_spool_folder, served.spool_root(settings))
        self._runtimes[place] = SourceRuntime(settings, served)
        self._suppress(key)

    def _open_lake(self, lake: RegisteredLake) -> OpenLake:
        with self._database.read() as session:
            access = open_access(session, lake.id, self._vault)
            is_used = has_landed(session, lake.id)
        store: Store = open_store(lake.model, make=True, secrets=access.secrets)
        if is_used:
            store.check_not_gone()
        suppression = SuppressionWatch(store)
        suppression.load_changes()
        assert self._settings.spool is not None
        spool = self._settings.spool / lake.id
        return OpenLake(replace(self._settings, store=store, spool=spool), suppression)

    def _suppress(self, key: tuple[str, int]) -> None:
        for place, runtime in self._runtimes.items():
            if (place.lake_id, place.lake_version) == key:
                runtime.suppress(self._lakes[key].suppression.current)

    async def _stop(self, places: list[Place]) -> None:
        stopped = [self._runtimes.pop(place) for place in places]
        await asyncio.gather(*(runtime.close_writers() for runtime in stopped))
        seconds = self._settings.limits.drain_seconds
        await asyncio.gather(*(asyncio.to_thread(one.close, seconds) for one in stopped))
        used = {(place.lake_id, place.lake_version) for place in self._snapshot}
        self._lakes = {key: lake for key, lake in self._lakes.items() if key in used}

    def _warn(self, key: str, message: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            sys.stderr.write(f"warning: {' '.join(message.split())}\n")


def read_collected(app: App) -> dict[str, CollectedEvents]:
    """What the collector has received since it started, by the source's slug."""
    return {
        one.name: CollectedEvents(
            accepted=one.counts.accepted,
            rejected=one.counts.rejected.total(),
            lag_seconds=one.get_gauges()["archive_lag_seconds"],
        )
        for one in app.keys.sources
    }
