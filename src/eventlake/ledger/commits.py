"""The append-only log of a source's commits: the only place where something becomes true."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from eventlake.errors import Damaged
from eventlake.ledger.files import (
    FileList,
    LiveFile,
    by_table,
    list_files,
    merge_manifests,
    read_manifest,
    write_manifest,
)
from eventlake.ledger.state import State
from eventlake.model.commit import Commit
from eventlake.model.layout import LEDGER
from eventlake.model.settings import SourceSettings
from eventlake.stores import Store
from eventlake.stores.damage import read_value

SNAPSHOT_EVERY = 20
"""Commits after which the state is written down; a plan reads no more of them than this."""
KEPT_SNAPSHOTS = 3
"""Older ones are deleted, with the manifests that only they name."""
MAX_NAMES = 20
"""Objects that one error names."""
MAX_REQUESTS = 16
"""Objects that are read at a time."""

_INDEX_FILE = re.compile(r"\d{19}-\d+\.parquet", re.ASCII)
_NUMBERED = re.compile(r"(?!0{12})\d{12}\.json", re.ASCII)


@dataclass(frozen=True)
class Ledger:
    """The commits of one source in one lake."""

    store: Store
    folder: str

    @property
    def path(self) -> str:
        return f"{LEDGER}/{self.folder}"

    # Commits

    def commit(self, sequence: int) -> Commit:
        return read_value(self.store, self._name(sequence), Commit)

    def append(self, sequence: int, commit: Commit) -> bool:
        """Make a commit true; False if its sequence is taken."""
        made = self.store.create(self._name(sequence), commit.to_json())
        if made:
            self.store.fsync_with_parents(self._name(sequence))
        return made

    def since(self, sequence: int) -> list[tuple[int, Commit]]:
        """The commits after a sequence, in order; Damaged if one is missing."""
        numbers = self._numbers_after(sequence)
        last = numbers[-1] if numbers else sequence
        if len(numbers) < last - sequence:
            raise self._lost(set(numbers), sequence, last)
        return list(zip(numbers, self._read_commits(numbers), strict=True))

    def _read_commits(self, numbers: list[int]) -> list[Commit]:
        if self.store.is_local or len(numbers) < 2:
            return list(map(self.commit, numbers))
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:  # in a bucket, each is some waiting
            return list(pool.map(self.commit, numbers))

    def settings(self) -> SourceSettings | None:
        """The settings of the last commit."""
        return self.state().settings

    # State

    def state(self) -> State:
        """What is true now; Damaged if commits are gone, also the last ones."""
        state, _ = self._folded()
        if unknown := self._index_after(state):
            # Another run may have committed and published since, so look again.
            state, _ = self._folded()
            self._check_index(state, unknown)
        return state

    def _folded(self) -> tuple[State, list[tuple[int, Commit]]]:
        """The state, and the commits since the snapshot that it was made from."""
        snapshots = self._snapshots()
        state = self._read_snapshot(snapshots)
        newer = self.since(max(0, state.sequence - 1))
        reached = newer[-1][0] if newer else max(0, state.sequence - 1)
        if snapshots and reached < snapshots[-1]:  # the last commits are gone
            raise self._lost(set(), reached, snapshots[-1])
        newer = [(sequence, commit) for sequence, commit in newer if sequence > state.sequence]
        return state.after(newer), newer

    def _index_after(self, state: State) -> list[str]:
        """Index files of runs that were planned after every run that the state knows."""
        last = max(state.runs, default="")
        own = f"{last}~" if last else ""  # sorts after the files of that run
        names = self.store.names_after(f"{self.path}/ids", own)
        return [name for name in names if _INDEX_FILE.fullmatch(name)]

    def _check_index(self, state: State, unknown: list[str]) -> None:
        """Index files are published after their commit, so a commit of each must be there."""
        lost = [name for name in unknown if name[:19] > max(state.runs, default="")]
        if lost:
            names = ", ".join(f"{self.path}/ids/{name}" for name in lost[:MAX_NAMES])
            raise Damaged(
                f"the ledger of {self.folder} has lost its last commits: no commit names {names}; "
                f"restore {self.store.root}/{self._name(state.sequence + 1)} and what follows it "
                "from a backup, or from earlier versions in the bucket"
            )

    def sequence_of(self, run_id: str, state: State) -> int | None:
        """The sequence of a run's commit; None if it has not committed."""
        if run_id in state.runs or not state.manifests:
            return state.runs.get(run_id)
        for manifest in reversed(state.manifests):
            found = read_manifest(self.store, manifest.path).runs.get(run_id)
            if found is not None:
                return found
        return None

    def live_files(self) -> dict[str, list[LiveFile]]:
        """The data files of every table, in order of their paths."""
        state, newer = self._folded()
        total = FileList({}, set(), {})
        for manifest in state.manifests:
            total.then(read_manifest(self.store, manifest.path))
        total.then(list_files(newer))
        return by_table(total.adds)

    # Snapshots

    def snapshot(self, sequence: int) -> None:
        """Write the state down if the last snapshot is some commits before this one."""
        snapshots = self._snapshots()
        if sequence - (snapshots[-1] if snapshots else 0) < SNAPSHOT_EVERY:
            return
        state, newer = self._folded()
        if len(newer) >= SNAPSHOT_EVERY:  # else another run has just done it
            self.write_snapshot(state, newer)

    def write_snapshot(self, state: State, newer: list[tuple[int, Commit]]) -> None:
        added = write_manifest(
            self.store, self.path, newer[0][0], state.sequence, list_files(newer)
        )
        manifests = merge_manifests(self.store, self.path, (*state.manifests, added))
        whole = state.model_copy(update={"manifests": manifests})
        self.store.write(self._snapshot_name(state.sequence), whole.to_json())
        self._delete_old_snapshots()

    def rebuild(self) -> None:
        """Write a snapshot from all commits, and remove those that there were."""
        _, names = self.store.names(f"{self.path}/snapshots")
        _, manifests = self.store.names(f"{self.path}/manifests")
        commits = self.since(0)
        self.store.delete(f"{self.path}/snapshots/{name}" for name in names)
        self.store.delete(f"{self.path}/manifests/{name}" for name in manifests)
        if len(commits) >= SNAPSHOT_EVERY:
            self.write_snapshot(State().after(commits), commits)

    def _delete_old_snapshots(self) -> None:
        """Delete all but the newest snapshots, and the manifests that none of those names."""
        numbers = self._snapshots()
        kept, old = numbers[-KEPT_SNAPSHOTS:], numbers[:-KEPT_SNAPSHOTS]
        if not old:
            return
        named = {one.path for number in kept for one in self._read_snapshot([number]).manifests}
        _, names = self.store.names(f"{self.path}/manifests")
        paths = {f"{self.path}/manifests/{name}" for name in names}
        self.store.delete([*map(self._snapshot_name, old), *sorted(paths - named)])

    def _snapshots(self) -> list[int]:
        _, names = self.store.names(f"{self.path}/snapshots")
        return [int(name[:12]) for name in names if _NUMBERED.fullmatch(name)]

    def _read_snapshot(self, numbers: list[int]) -> State:
        """The newest snapshot that can be read: a damaged one only costs time."""
        for sequence in reversed(numbers):
            with suppress(Damaged):
                state = read_value(self.store, self._snapshot_name(sequence), State)
                if state.sequence == sequence:
                    return state
        return State()

    # Names

    def _numbers_after(self, sequence: int) -> list[int]:
        after = self._name(sequence).rpartition("/")[2] if sequence else ""
        names = self.store.names_after(self.path, after)
        return [int(name[:12]) for name in names if _NUMBERED.fullmatch(name)]

    def _lost(self, found: set[int], after: int, last: int) -> Damaged:
        """The error for commits between two sequences that are not there."""
        gone = (number for number in range(after + 1, last + 1) if number not in found)
        names = ", ".join(f"{self.store.root}/{self._name(n)}" for n in islice(gone, MAX_NAMES))
        unnamed = last - after - len(found) - MAX_NAMES
        more = f" and {unnamed} more" if unnamed > 0 else ""
        return Damaged(
            f"the ledger of {self.folder} has lost {names}{more}: restore what is gone from a "
            "backup, or from earlier versions in the bucket; until then nothing can be loaded"
        )

    def _name(self, sequence: int) -> str:
        return f"{self.path}/{sequence:012d}.json"

    def _snapshot_name(self, sequence: int) -> str:
        return f"{self.path}/snapshots/{sequence:012d}.json"
