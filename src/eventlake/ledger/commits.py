"""The append-only log of a source's commits, with snapshots and manifests."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from pydantic import ConfigDict

from eventlake.errors import Damaged
from eventlake.ledger.files import (
    FileList,
    LiveFile,
    group_by_table,
    last_sequence,
    list_files,
    merge_manifests,
    read_manifest,
    write_manifest,
)
from eventlake.ledger.state import State
from eventlake.model.commit import Commit, CommitKind
from eventlake.model.layout import Layout
from eventlake.model.settings import SourceSettings
from eventlake.model.tunables import LedgerTunables
from eventlake.model.values import FrozenModel
from eventlake.stores import Store
from eventlake.stores.damage import read_value

MAX_SNAPSHOTS = 3
"""Older snapshots are deleted, with the manifests that only they name."""
MAX_NAMES = 20
"""Paths that an error lists."""
MAX_REQUESTS = 16
"""Objects that are read in parallel."""

_INDEX_FILE = re.compile(r"\d{19}-\d+\.parquet", re.ASCII)
_NUMBERED = re.compile(r"(?!0{12})\d{12}\.json", re.ASCII)


class CommitHead(FrozenModel):
    """The fields of a commit that say which run made it, and what for."""

    model_config = ConfigDict(extra="ignore")

    run_id: str
    kind: CommitKind = CommitKind.LOAD


@dataclass(frozen=True)
class Ledger:
    """The commits of one source in one lake."""

    store: Store
    layout: Layout
    folder: str
    tunables: LedgerTunables = field(default_factory=LedgerTunables)

    @property
    def path(self) -> str:
        return self.layout.ledger_path(self.folder)

    # Commits

    def read_commit(self, sequence: int) -> Commit:
        return read_value(self.store, self._commit_path(sequence), Commit)

    def append(self, sequence: int, commit: Commit) -> bool:
        """Create the commit with a sequence; return False if the sequence is taken."""
        is_created = self.store.create(self._commit_path(sequence), commit.to_json())
        if is_created:
            self.store.fsync_with_parents(self._commit_path(sequence))
        return is_created

    def commits_after(self, sequence: int) -> list[tuple[int, Commit]]:
        """Read the commits after a sequence, in order; raises `Damaged` if one is missing."""
        numbers = self._sequences_after(sequence)
        self._check_missing(numbers, sequence, numbers[-1] if numbers else sequence)
        return list(zip(numbers, self._read_commits(numbers), strict=True))

    def _check_missing(self, numbers: list[int], after: int, last: int) -> None:
        """Raise `Damaged` if `numbers` are not all sequences between two."""
        if len(numbers) < last - after:
            raise self._lost_commits_error(set(numbers), after, last)

    def has_commits_after(self, sequence: int) -> bool:
        """Whether there are commits after a sequence, without reading them."""
        return bool(self._sequences_after(sequence))

    def read_commit_heads(self) -> dict[str, tuple[CommitKind, int]]:
        """The kind and the sequence of the commit of each run, without the rest of the commits."""
        numbers = self._sequences_after(0)

        def read(sequence: int) -> CommitHead:
            return read_value(self.store, self._commit_path(sequence), CommitHead)

        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            heads = zip(numbers, pool.map(read, numbers), strict=True)
            return {head.run_id: (head.kind, number) for number, head in heads}

    def _read_commits(self, numbers: list[int]) -> list[Commit]:
        if self.store.is_local or len(numbers) < 2:
            return list(map(self.read_commit, numbers))
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # reads from a bucket mostly wait
            return list(pool.map(self.read_commit, numbers))

    def read_settings(self) -> SourceSettings | None:
        """The settings of the last commit; None without commits. Raises as `read_state` does."""
        return self.read_state().settings

    def peek_settings(self) -> SourceSettings | None:
        """As `read_settings` with fewer requests, for callers that read the state after it.

        Lost last commits are not noticed.
        """
        snapshots = self._list_snapshots()
        first = max(0, snapshots[-1] - 1) if snapshots else 0
        numbers = self._sequences_after(first)
        last = max([*numbers[-1:], *snapshots[-1:]], default=0)
        self._check_missing(numbers, first, last)
        return self.read_commit(last).settings if last else None

    # State

    def read_state(self) -> State:
        """Read the current state; raises `Damaged` if commits are missing, even the last ones."""
        state, _ = self._read_since_snapshot()
        if newer := self._find_newer_index_files(state):
            # Another run may have committed and published meanwhile, so read again.
            state, _ = self._read_since_snapshot()
            self._check_index_files(state, newer)
        return state

    def _read_since_snapshot(self) -> tuple[State, list[tuple[int, Commit]]]:
        """Read the state, and the commits since the snapshot that it is based on."""
        snapshots = self._list_snapshots()
        state = self._read_snapshot(snapshots)
        newer = self.commits_after(max(0, state.sequence - 1))
        last = newer[-1][0] if newer else max(0, state.sequence - 1)
        if snapshots and last < snapshots[-1]:  # the last commits are missing
            raise self._lost_commits_error(set(), last, snapshots[-1])
        newer = [(sequence, commit) for sequence, commit in newer if sequence > state.sequence]
        return state.apply_commits(newer, self.tunables.recent_runs), newer

    def _find_newer_index_files(self, state: State) -> list[str]:
        """List index files of runs planned after every run that the state knows."""
        last = max(state.runs, default="")
        after = f"{last}~" if last else ""  # sorts after the files of that run
        names = self.store.names_after(f"{self.path}/ids", after)
        return [name for name in names if _INDEX_FILE.fullmatch(name)]

    def _check_index_files(self, state: State, names: list[str]) -> None:
        """Raise `Damaged` if index files have no commit: they are published after it.

        A run that was planned by a clock in the future stays later than all others, so the files
        that the state names are looked up as well.
        """
        known = {file.path for file in state.ids} | state.retired.keys()
        last = max(state.runs, default="")
        newer = [name for name in names if name[:19] > last]
        lost = [name for name in newer if f"{self.path}/ids/{name}" not in known]
        if lost:
            paths = ", ".join(f"{self.path}/ids/{name}" for name in lost[:MAX_NAMES])
            first = f"{self.store.root}/{self._commit_path(state.sequence + 1)}"
            raise Damaged(
                f"the ledger of {self.folder} has lost its last commits: no commit names {paths}; "
                f"restore {first} and the following commits from a backup, or from earlier object "
                "versions in the bucket"
            )

    def find_sequence(self, run_id: str, state: State) -> int | None:
        """The sequence of a run's commit; None if it has not committed."""
        if run_id in state.runs or not state.manifests:
            return state.runs.get(run_id)
        for manifest in reversed(state.manifests):
            sequence = read_manifest(self.store, manifest.path).runs.get(run_id)
            if sequence is not None:
                return sequence
        return None

    def list_live_files(self) -> dict[str, list[LiveFile]]:
        """The live data files of every table, sorted by path."""
        return self.read_state_and_files()[1]

    def read_state_and_files(self) -> tuple[State, dict[str, list[LiveFile]]]:
        """Read the current state, and the live data files of every table at that state."""
        state, total = self._read_file_list()
        return state, group_by_table(total.adds)

    def list_quarantine(self) -> dict[str, str]:
        """The live quarantine files, sorted: by path, the path in the stage until published."""
        folder = f"{self.layout.quarantine}/{self.folder}/"
        objects = sorted(self._read_file_list()[1].objects.items())
        return {path: staged for path, staged in objects if path.startswith(folder)}

    def _read_file_list(self) -> tuple[State, FileList]:
        """Read the state, and what all commits have added without what they have removed."""
        state, newer = self._read_since_snapshot()
        total = FileList()
        for manifest in state.manifests:
            total.apply(read_manifest(self.store, manifest.path))
        total.apply(list_files(newer))
        return state, total

    # Snapshots

    def snapshot_if_due(self, sequence: int) -> None:
        """Write a snapshot if `sequence` is `snapshot_every` commits after the last one."""
        every = self.tunables.snapshot_every
        snapshots = self._list_snapshots() if sequence >= every else []
        if sequence - (snapshots[-1] if snapshots else 0) < every:
            return
        state, newer = self._read_since_snapshot()
        if len(newer) >= every:  # otherwise another run has just written one
            self.write_snapshot(state, newer)

    def write_snapshot(self, state: State, newer: list[tuple[int, Commit]]) -> None:
        """Write a snapshot, and a manifest of the `newer` commits; delete old snapshots."""
        added = write_manifest(
            self.store, self.path, newer[0][0], state.sequence, list_files(newer)
        )
        manifests = merge_manifests(
            self.store, self.path, (*state.manifests, added), self.tunables.merge_manifests
        )
        snapshot = state.model_copy(update={"manifests": manifests})
        self.store.write(self._snapshot_path(state.sequence), snapshot.to_json())
        self._delete_old_snapshots()

    def rebuild_snapshot(self) -> None:
        """Delete all snapshots and manifests, and write them again from all commits."""
        _, names = self.store.names(f"{self.path}/snapshots")
        _, manifests = self.store.names(f"{self.path}/manifests")
        commits = self.commits_after(0)
        self.store.delete(f"{self.path}/snapshots/{name}" for name in names)
        self.store.delete(f"{self.path}/manifests/{name}" for name in manifests)
        if len(commits) >= self.tunables.snapshot_every:
            state = State().apply_commits(commits, self.tunables.recent_runs)
            self.write_snapshot(state, commits)

    def _delete_old_snapshots(self) -> None:
        """Delete all but the newest snapshots, and older manifests that these do not name.

        A newer manifest may be of a snapshot that another run is about to write.
        """
        numbers = self._list_snapshots()
        newest, old = numbers[-MAX_SNAPSHOTS:], numbers[:-MAX_SNAPSHOTS]
        if not old:
            return
        named = {one.path for number in newest for one in self._read_snapshot([number]).manifests}
        _, names = self.store.names(f"{self.path}/manifests")
        older = [name for name in names if last_sequence(name) <= newest[0]]
        paths = {f"{self.path}/manifests/{name}" for name in older}
        self.store.delete([*map(self._snapshot_path, old), *sorted(paths - named)])

    def _list_snapshots(self) -> list[int]:
        _, names = self.store.names(f"{self.path}/snapshots")
        return [int(name[:12]) for name in names if _NUMBERED.fullmatch(name)]

    def _read_snapshot(self, numbers: list[int]) -> State:
        """Read the newest undamaged snapshot; an empty state if there is none."""
        for sequence in reversed(numbers):
            with suppress(Damaged):
                state = read_value(self.store, self._snapshot_path(sequence), State)
                if state.sequence == sequence:
                    return state
        return State()

    # Names

    def _sequences_after(self, sequence: int) -> list[int]:
        after = self._commit_path(sequence).rpartition("/")[2] if sequence else ""
        names = self.store.names_after(self.path, after)
        return [int(name[:12]) for name in names if _NUMBERED.fullmatch(name)]

    def _lost_commits_error(self, present: set[int], after: int, last: int) -> Damaged:
        """The error for commits between two sequences that are missing."""
        missing = (number for number in range(after + 1, last + 1) if number not in present)
        names = ", ".join(
            f"{self.store.root}/{self._commit_path(n)}" for n in islice(missing, MAX_NAMES)
        )
        unnamed = last - after - len(present) - MAX_NAMES
        more = f" and {unnamed} more" if unnamed > 0 else ""
        return Damaged(
            f"the ledger of {self.folder} has lost {names}{more}: restore them from a backup, or "
            "from earlier object versions in the bucket; until then nothing can be loaded"
        )

    def _commit_path(self, sequence: int) -> str:
        return f"{self.path}/{sequence:012d}.json"

    def _snapshot_path(self, sequence: int) -> str:
        return f"{self.path}/snapshots/{sequence:012d}.json"
