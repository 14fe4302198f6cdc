"""Erase the events of users from the files of one source, in one commit."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

import numpy as np

from eventlake import archive
from eventlake.errors import Conflict, InsufficientPermissions, InvalidSettings
from eventlake.kernels.dedupe import Ids
from eventlake.kernels.erase import ErasedIds
from eventlake.kernels.user_hashes import Hashes
from eventlake.lake import Lake
from eventlake.ledger import Ledger, has_ended, list_staged_runs, remove_stage
from eventlake.model.commit import (
    Commit,
    CommitKind,
    Counts,
    DataFile,
    IdFile,
    Input,
    Plan,
    Rewrite,
    StagedFile,
    TableCommit,
)
from eventlake.model.erasure import ErasedFile, Erasure, FileKind
from eventlake.model.layout import rewritten_path
from eventlake.pipeline.commit import detect_changes
from eventlake.pipeline.erase import (
    EventCounts,
    RewrittenFile,
    rewrite_lines,
    rewrite_quarantine,
    rewrite_rows,
)
from eventlake.pipeline.finish import find_unchanged, is_receipted, write_receipt
from eventlake.pipeline.id_files import write_id_file
from eventlake.pipeline.recover import recover
from eventlake.pipeline.removed_ids import removed_id_files
from eventlake.pipeline.stage_paths import new_path
from eventlake.pipeline.sync import Run, sync
from eventlake.pipeline.user_index import input_key, stage_index
from eventlake.ports import Progress
from eventlake.runners.local import LocalSpark
from eventlake.services.replay import retry_on_conflict
from eventlake.services.user_files import SourceFiles, UserFile, read_source_files

NOT_COUNTED = EventCounts(0, 0)
BATCH_ENTRIES = 1000
"""Entries of the user index that are written at once."""


@dataclass
class Matches:
    """The files of a source with events of users."""

    files: list[tuple[UserFile, EventCounts]] = field(default_factory=list)
    opened: int = 0
    """Files that were searched."""
    unreadable: list[str] = field(default_factory=list)
    """Raw logs that could not be read."""
    gone: list[str] = field(default_factory=list)
    """Raw logs that do not exist any more: they were deleted, or another run has rewritten them."""


@dataclass(frozen=True)
class SourceErasure:
    """What was erased of one source."""

    files: tuple[ErasedFile, ...] = ()
    opened: int = 0
    receipt: str = ""
    remaining: tuple[str, ...] = ()
    """Raw logs that may still have events, because they cannot be read or changed."""
    message: str = ""
    """The first problem after the commit; the next command tries again."""


def find_matches(files: SourceFiles, ids: ErasedIds) -> Matches:
    """Search the files that may have events of the ids, and count these. Writes nothing.

    Raises `Conflict` if another run replaces one of the files meanwhile.
    """
    matches = Matches()
    with detect_changes(files.parts.ledger(files.folder), files.state.sequence):
        for one in files.list_candidates(ids):
            _search(files, one, ids, matches)
    return matches


def _find_files(files: SourceFiles, ids: ErasedIds) -> Matches:
    """Do `find_matches`, but do not read raw logs twice that the index names.

    They are returned without counts, unless no other file has events: then there may be nothing
    to commit.
    """
    matches, logs = Matches(), list[UserFile]()
    for one in files.list_candidates(ids):
        if one.input and input_key(one.input.uri, one.input.fingerprint) in files.index:
            logs.append(one)
        else:
            _search(files, one, ids, matches)
    for one in logs:
        if not matches.files or not files.is_readable(one):
            _search(files, one, ids, matches)
        else:
            matches.opened += 1
            matches.files.append((one, NOT_COUNTED))
    return matches


def _search(files: SourceFiles, one: UserFile, ids: ErasedIds, matches: Matches) -> None:
    """Count the events of a file; add it to `matches` if it has some, or cannot be read."""
    matches.opened += 1
    try:
        counts = files.count(one, ids)
    except (Conflict, InvalidSettings, InsufficientPermissions):
        if one.kind is not FileKind.RAW_LOG:
            raise
        (matches.gone if files.is_gone(one) else matches.unreadable).append(one.path)
        return
    if counts.erased:
        matches.files.append((one, counts))


def erase_source(
    parts: Lake, folder: str, ids: ErasedIds, hashed: tuple[str, ...], progress: Progress
) -> SourceErasure:
    """Erase the events of the ids from one source; `hashed` are their keyed hashes.

    First finishes crashed runs. If runs have a stage, or replaced files were kept, it commits even
    if it finds nothing: the kept files and the stages of dead runs are removed then, which may have
    events of the ids, and live runs that have read such events cannot commit. On a conflict with
    another run it starts again.
    """
    ledger = parts.ledger(folder)

    def attempt() -> SourceErasure:
        dead, state, _ = recover(parts, ledger, progress)
        files = read_source_files(parts, folder, state)
        with detect_changes(ledger, state.sequence):
            matches = _find_files(files, ids)
        if matches.gone and ledger.has_commits_after(state.sequence):
            raise Conflict(f"another run has changed {matches.gone[0]}")
        found, staged = [one for one, _ in matches.files], list_staged_runs(ledger)
        run_id = f"{parts.clock.time_ns():019d}"
        if not found and not ((staged or state.kept_files) and state.settings):
            unsearched = [] if state.settings else _remove_ended_stages(parts, ledger, staged)
            remaining = (*matches.unreadable, *unsearched, *_find_unpublished(files))
            return SourceErasure(opened=matches.opened, remaining=remaining)
        if state.settings is None:
            progress.step("publish", 0, 1, 0)
            return _erase_without_ledger(files, matches, ids, hashed, run_id)
        tables = defaultdict[str, list[DataFile]](list)
        for one in found:
            if one.file:
                tables[one.table].append(one.file)
        plan = Plan(
            run_id=run_id,
            settings=state.settings,
            base=state.sequence,
            inputs=(),
            tables=state.tables,
            removes={name: tuple(of_table) for name, of_table in tables.items()},
        )
        run = Run(parts, ledger, LocalSpark(), plan, progress, dead=dead)
        prepare = partial(_prepare_commit, files, matches, ids, hashed)
        commit, finished = sync(run, prepare)
        unchanged = find_unchanged(parts, commit) if found else _find_unpublished(files)
        problem = finished.problems.first
        return SourceErasure(
            files=commit.erasure.files if commit.erasure else (),
            opened=matches.opened,
            receipt=parts.layout.receipt_path(folder, run_id) if is_receipted(commit) else "",
            remaining=(*matches.unreadable, *unchanged),
            message=problem[0] if problem else "",
        )

    return retry_on_conflict(attempt)


def _remove_ended_stages(parts: Lake, ledger: Ledger, staged: Sequence[str]) -> list[str]:
    """Remove the stages of runs of a source without commits that have surely ended.

    Returns the others, which may have events of users: such a run may yet make the first commit.
    """
    remaining = []
    for run_id in staged:
        if parts.store.is_local and has_ended(ledger, run_id):
            remove_stage(ledger, run_id)
        else:
            remaining.append(parts.layout.stage_path(run_id))
    return remaining


def _find_unpublished(files: SourceFiles) -> Iterator[str]:
    """Yield the raw logs outside of the lake that earlier commits could not replace."""
    for _, commit in files.parts.ledger(files.folder).commits_after(0):
        yield from find_unchanged(files.parts, commit)


@dataclass
class _Rewriting:
    """Rewrites files into a stage, and collects what the commit needs."""

    files: SourceFiles
    ids: ErasedIds
    run_id: str
    stage: str
    adds: defaultdict[str, list[DataFile]] = field(default_factory=lambda: defaultdict(list))
    rewrites: list[Rewrite] = field(default_factory=list)
    erased: list[ErasedFile] = field(default_factory=list)
    removed_ids: list[Ids] = field(default_factory=list)
    index: dict[str, Hashes] = field(default_factory=dict)
    """The user index of the new files."""

    def rewrite(self, one: UserFile) -> None:
        """Write a file without the erased events into the stage."""
        if one.file:
            self._rewrite_data_file(one, one.file)
        else:
            self._rewrite_object(one)

    def _rewrite_data_file(self, one: UserFile, file: DataFile) -> None:
        folder = PurePosixPath(one.path).parent
        path = f"{folder}/{self.run_id}-{len(self.erased)}.parquet"
        staged = new_path(f"{self.stage}/erase", one.table, ".parquet")
        settings, adopted = self.files.state.settings, self.files.history.adopted
        assert settings
        id_column = None if one.path in adopted else settings.columns.id_column
        done = rewrite_rows(self.files.parts.store, one.path, staged, self.ids, id_column)
        if done.removed_ids:
            self.removed_ids.append(done.removed_ids)
        if done.erased.new_rows:
            self.adds[one.table].append(
                DataFile(
                    path=path,
                    rows=done.erased.new_rows,
                    bytes=done.erased.new_bytes,
                    partition=file.partition,
                    staged=staged,
                    stats=done.stats,
                )
            )
        self._record(one, done, path if done.erased.new_rows else "", path)

    def _rewrite_object(self, one: UserFile) -> None:
        path = rewritten_path(one.path, self.run_id)
        staged = new_path(f"{self.stage}/erase", len(self.erased))
        store = self.files.parts.store
        if one.kind is FileKind.QUARANTINE:
            done = rewrite_quarantine(store, one.path, staged, self.ids)
            path = path if done.erased.new_rows else ""
        else:
            opener = self.files.opener(one)
            done = rewrite_lines(opener, one.kind, one.path, (store, staged), self.ids)
            if not done.erased.removed:
                return
        new = _rewritten_input(one.input, path, done.erased.new_bytes) if one.input else None
        staged = staged if path else ""
        self.rewrites.append(Rewrite(path=one.path, new_path=path, staged=staged, input=new))
        self._record(one, done, path, input_key(new.uri, new.fingerprint) if new else "")

    def _record(self, one: UserFile, done: RewrittenFile, path: str, name: str) -> None:
        update = {"new_path": path, "table": one.table}
        self.erased.append(done.erased.model_copy(update=update))
        if path and name:
            self.index[name] = done.hashes


def _rewritten_input(old: Input, path: str, size: int) -> Input:
    uri = archive.object_address(path)
    return old.model_copy(update={"uri": uri, "fingerprint": f"{size:x}", "size": size})


def _prepare_commit(
    files: SourceFiles, matches: Matches, ids: ErasedIds, hashed: tuple[str, ...], run: Run
) -> Commit:
    """Write the files without the erased events into the stage; return the commit to append."""
    work = _Rewriting(files, ids, run.plan.run_id, run.stage)
    for number, (one, _) in enumerate(matches.files):
        run.progress.step("erase", number, len(matches.files), 0)
        work.rewrite(one)
    return Commit(
        run_id=run.plan.run_id,
        settings=run.plan.settings,
        kind=CommitKind.FORGET,
        inputs=(),
        counts=Counts(),
        tables=tuple(
            TableCommit(
                table=run.plan.tables[name],
                counts=Counts(),
                adds=tuple(work.adds[name]),
                removes=removes,
            )
            for name, removes in sorted(run.plan.removes.items())
        ),
        removed_ids=_write_removed_ids(run, work.removed_ids),
        rewrites=tuple(work.rewrites),
        users=_write_user_index(run, files, work),
        # Replaced files that were kept may have rows of the ids, too.
        deletes=(*files.index_objects, *files.state.kept_files),
        abandons=run.dead,
        erasure=_describe(work, matches, hashed),
    )


def _describe(work: _Rewriting, matches: Matches, hashed: tuple[str, ...]) -> Erasure:
    return Erasure(ids=hashed, files=tuple(work.erased), unreadable=tuple(matches.unreadable))


def _write_removed_ids(run: Run, parts: Sequence[Ids]) -> tuple[IdFile, ...]:
    if not parts:
        return ()
    ids = Ids(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    result = write_id_file(run.lake.store, run.stage, "removed", ids)
    folder = run.plan.settings.folder
    return removed_id_files(run.lake.layout, folder, run.plan.run_id, [result])


def _write_user_index(run: Run, files: SourceFiles, work: _Rewriting) -> StagedFile | None:
    """Write the index of all files that remain, which replaces the objects of earlier runs.

    So the index loses the hashes of the erased ids, too.
    """
    gone = {one.path for one in work.erased}
    names = {path for of_table in files.history.files.values() for path in of_table}
    names |= {
        input_key(*identity)
        for identity, one in files.history.inputs.items()
        if archive.display_address(one.uri) not in gone and one.uri not in gone
    }
    entries = {n: h for n, h in files.index.items() if n in names and n not in gone} | work.index
    path = run.lake.layout.users_path(run.plan.settings.folder, run.plan.run_id)
    items = sorted(entries.items())
    batches = [items[at : at + BATCH_ENTRIES] for at in range(0, len(items), BATCH_ENTRIES)]
    return stage_index(run.lake.store, run.stage, path, batches)


def _erase_without_ledger(
    files: SourceFiles, matches: Matches, ids: ErasedIds, hashed: tuple[str, ...], run_id: str
) -> SourceErasure:
    """Erase events from the raw logs of a source that has never landed any.

    No commit names them, so each is replaced by itself; a crash leaves some to the next command.
    """
    parts = files.parts
    work = _Rewriting(files, ids, run_id, parts.layout.stage_path(run_id))
    for one, _ in matches.files:
        work.rewrite(one)
        parts.store.publish(work.rewrites[-1].staged, work.rewrites[-1].new_path)
        parts.store.delete([one.path])
    parts.store.delete([one.staged for one in work.rewrites])
    parts.store.remove_folder(work.stage)
    erasure = Erasure(ids=hashed, files=tuple(work.erased), unreadable=tuple(matches.unreadable))
    receipt = parts.layout.receipt_path(files.folder, run_id)
    write_receipt(parts, receipt, run_id, files.folder, erasure, ())
    return SourceErasure(
        files=erasure.files,
        opened=matches.opened,
        receipt=receipt,
        remaining=erasure.unreadable,
    )
