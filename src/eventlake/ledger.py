"""The append-only log of a source's commits: the only place where something becomes true."""

import os
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Self

from pydantic import Field

from eventlake.errors import Damaged, EventLakeError, InvalidSettings
from eventlake.model.commit import Commit, IdFile, Input
from eventlake.model.layout import LEDGER, STAGE, stage_path
from eventlake.model.schema import TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.model.values import Value
from eventlake.stores import Store
from eventlake.stores.damage import read_value

SNAPSHOT_EVERY = 50
NAMED = 20
"""Objects that one error names."""
AT_ONCE = 16
"""Ledgers that are listed at a time."""

_INDEXED = re.compile(r"(\d{19})-\d+\.parquet", re.ASCII)
_NUMBERED = re.compile(r"(?!0{12})\d{12}\.json", re.ASCII)


class State(Value):
    """All that the commits up to a sequence say, folded."""

    sequence: int = 0
    settings: SourceSettings | None = None
    inputs: frozenset[tuple[str, str]] = frozenset()
    tables: dict[str, TableSchema] = Field(default_factory=dict)
    ids: tuple[IdFile, ...] = ()
    runs: dict[str, int] = Field(default_factory=dict)

    def after(self, sequence: int, commit: Commit) -> "State":
        loaded = {identity for one in commit.inputs for identity in one.identities}
        # A table begins with its first row; one whose events were all left out is not there yet.
        made = [
            done
            for done in commit.tables
            if done.files or done.adopted or done.table.name in self.tables
        ]
        return State(
            sequence=sequence,
            settings=commit.settings,
            inputs=self.inputs | loaded,
            tables=self.tables | {done.table.name: done.table for done in made},
            ids=self.ids + commit.ids,
            runs={**self.runs, commit.run_id: sequence},
        )

    def has_loaded(self, one: Input) -> bool:
        return any(identity in self.inputs for identity in one.identities)


@dataclass(frozen=True)
class Ledger:
    """The commits of one source in one lake."""

    store: Store
    folder: str

    @property
    def path(self) -> str:
        return f"{LEDGER}/{self.folder}"

    def state(self) -> State:
        """What is true now; raises `Damaged` if commits are gone, also the last ones."""
        index = self._index()  # before the commits: a run publishes its part after its own
        snapshots, commits = self.sequences()
        state = self._newest(snapshots)
        for sequence in commits[state.sequence :]:
            state = state.after(sequence, self.commit(sequence))
        unknown = [name for run_id, name in index if run_id not in state.runs]
        if unknown:
            names = ", ".join(f"{self.path}/ids/{name}" for name in unknown[:NAMED])
            raise Damaged(
                f"the ledger of {self.folder} has lost its last commits: no commit names {names}; "
                f"restore {self.store.root}/{self._name(state.sequence + 1)} and what follows it "
                "from a backup, or from earlier versions in the bucket"
            )
        return state

    def since(self, sequence: int) -> list[tuple[int, Commit]]:
        """The commits after a sequence, in order."""
        _, commits = self.sequences()
        return [(number, self.commit(number)) for number in commits[sequence:]]

    def settings(self) -> SourceSettings | None:
        """The settings of the last commit."""
        _, commits = self.sequences()
        return self.commit(commits[-1]).settings if commits else None

    def commit(self, sequence: int) -> Commit:
        return read_value(self.store, self._name(sequence), Commit)

    def append(self, sequence: int, commit: Commit) -> bool:
        """Make a commit true; False if its sequence is taken."""
        made = self.store.create(self._name(sequence), commit.to_json())
        if made:
            self.store.secure(self._name(sequence))
        return made

    def snapshot(self) -> None:
        """Write the folded state down now and then, so that nobody has to fold from the start."""
        snapshots, commits = self.sequences()
        if commits and commits[-1] - self._newest(snapshots).sequence >= SNAPSHOT_EVERY:
            state = self.state()
            self.store.write(self._snapshot_name(state.sequence), state.to_json())

    def sequences(self) -> tuple[list[int], list[int]]:
        """The sequences of the snapshots and of the commits, in order.

        Commits are never deleted. Where one is missing, what it loaded would be loaded again:
        raises `Damaged`, with the names of those that are gone.
        """
        # Snapshots first: another run may commit and make one between the two listings.
        _, snapshots = self._numbers("/snapshots")
        folders, commits = self._numbers()
        # The index of ids is published after the first commit.
        last = max([*commits, *snapshots, int("ids" in folders)], default=0)
        if len(commits) < last:
            raise self._holes(set(commits), last)
        return snapshots, commits

    def _holes(self, commits: set[int], last: int) -> Damaged:
        gone = (number for number in range(1, last + 1) if number not in commits)
        names = ", ".join(f"{self.store.root}/{self._name(n)}" for n in islice(gone, NAMED))
        unnamed = last - len(commits) - NAMED
        more = f" and {unnamed} more" if unnamed > 0 else ""
        return Damaged(
            f"the ledger of {self.folder} has lost {names}{more}: restore what is gone from a "
            "backup, or from earlier versions in the bucket; until then nothing can be loaded"
        )

    def _numbers(self, below: str = "") -> tuple[list[str], list[int]]:
        """The folders, and the sequences that are written down; other objects are not ours."""
        folders, names = self.store.names(self.path + below)
        return folders, [int(name[:12]) for name in names if _NUMBERED.fullmatch(name)]

    def _index(self) -> list[tuple[str, str]]:
        """The files of the id index, each with its run."""
        _, names = self.store.names(f"{self.path}/ids")
        matches = (_INDEXED.fullmatch(name) for name in names)
        return [(match[1], match[0]) for match in matches if match]

    def _newest(self, snapshots: list[int]) -> State:
        """The newest snapshot that can be read: one that is damaged only costs time."""
        for sequence in reversed(snapshots):
            with suppress(Damaged):
                state = read_value(self.store, self._snapshot_name(sequence), State)
                if state.sequence == sequence:
                    return state
        return State()

    def _name(self, sequence: int) -> str:
        return f"{self.path}/{sequence:012d}.json"

    def _snapshot_name(self, sequence: int) -> str:
        return f"{self.path}/snapshots/{sequence:012d}.json"


def sources(store: Store) -> list[str]:
    """The folders of every source that has a ledger."""
    return store.names(LEDGER)[0]


def check_ledgers(store: Store) -> None:
    """Raise `Damaged` if a ledger of the lake has lost a commit."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda folder: Ledger(store, folder).sequences(), sources(store)):
            pass


def find_source(store: Store, name: str) -> SourceSettings | None:
    """The last settings of the source with an id or a slug; None if it has never landed events.

    An id goes before a slug. Two sources may have one slug, and then neither is meant by it.
    """
    known = known_sources(store)
    for field in ("source_id", "source"):
        matches = [settings for settings in known if getattr(settings, field) == name]
        if len(matches) > 1:
            ids = " and ".join(sorted(settings.source_id for settings in matches))
            raise InvalidSettings(
                f"source is {name!r}, the slug of {len(matches)} sources: give the id of one "
                f"of them, {ids}"
            )
        if matches:
            return matches[0]
    return None


def known_sources(store: Store) -> list[SourceSettings]:
    """The last settings of every source that has landed events."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda folder: Ledger(store, folder).settings(), sources(store)))
    return [settings for settings in found if settings]


class Lease(Value):
    """Says whose a stage is, and where its process runs."""

    folder: str
    host: str
    pid: int


NOBODY = 0
HEARTBEAT = timedelta(seconds=30)
DEAD_AFTER = timedelta(minutes=10)


class Stage:
    """A run's own folder, with a lease that is renewed while the run lives."""

    def __init__(self, store: Store, folder: str, run_id: str) -> None:
        self.store, self.run_id, self.path = store, run_id, stage_path(run_id)
        self._lease = Lease(folder=folder, host=socket.gethostname(), pid=os.getpid())
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._renew()
        self._heart.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._heart.join()  # or a last beat would bring back a stage that was removed
        with suppress(EventLakeError):  # what ends the run may be that the store is gone
            if self.store.exists(lease_path(self.run_id)):
                # The process may live on, but this run does not: whoever comes next may take over.
                self._lease = self._lease.model_copy(update={"pid": NOBODY})
                self._renew()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT.total_seconds()):
            with suppress(EventLakeError):  # the run itself will meet what is wrong, and tell
                self._renew()

    def _renew(self) -> None:
        self.store.write(lease_path(self.run_id), self._lease.to_json())


def lease_path(run_id: str) -> str:
    return f"{stage_path(run_id)}/lease.json"


def remove_stage(store: Store, run_id: str) -> None:
    """Remove a run's stage, the lease last: while it is there, the stage is accounted for."""
    lease = lease_path(run_id)
    store.delete(sorted(o.path for o in store.objects(stage_path(run_id)) if o.path != lease))
    store.delete([lease])
    store.prune(stage_path(run_id))


def staged_runs(store: Store, folder: str) -> list[str]:
    """The runs of a source whose stage is there, also those without a lease."""
    folders, _ = store.names(STAGE)
    runs = [name for name in folders if name.isdecimal()]
    return [run for run in runs if _folder_of(store, run) in (folder, None)]


def _folder_of(store: Store, run_id: str) -> str | None:
    lease = read_lease(store, run_id)
    return lease.folder if lease else None


def read_lease(store: Store, run_id: str) -> Lease | None:
    try:
        return Lease.from_json(store.read(lease_path(run_id)))
    except InvalidSettings:  # there is none, or none any more
        return None


def is_dead(store: Store, run_id: str) -> bool:
    """Whether a run's process is gone for all that can be told from here."""
    lease = read_lease(store, run_id)
    if lease is None:  # it may be about to be written: a run begins with it
        return _age(run_id) > DEAD_AFTER
    if lease.pid == NOBODY:
        return True
    if lease.host == socket.gethostname() and not _is_running(lease.pid):
        return True
    renewed = max((o.modified for o in store.objects(stage_path(run_id))), default=None)
    return renewed is None or datetime.now(UTC) - renewed > DEAD_AFTER


def _age(run_id: str) -> timedelta:
    """How long ago a run was planned; its id says so."""
    return datetime.now(UTC) - datetime.fromtimestamp(int(run_id) // 10**9, UTC)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
