"""After a commit: publish, register, report, clean up. Each can be repeated after a crash."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from eventlake import reports
from eventlake.archive import bucket_address, is_address, lake_path, locate_input
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.lake import Lake
from eventlake.ledger import (
    REPORTS,
    Ledger,
    Refusal,
    add_refusals,
    list_staged_runs,
    read_refusals,
    remove_refusals,
    remove_stage,
)
from eventlake.ledger.files import LiveFile
from eventlake.model import report
from eventlake.model.commit import (
    ColumnStats,
    Commit,
    CommitKind,
    DataFile,
    Rewrite,
    TableChange,
    TableCommit,
    Transaction,
)
from eventlake.model.erasure import Erasure, Receipt
from eventlake.model.report import Problems, report_lines, stamp, to_lines
from eventlake.model.tables import table_path
from eventlake.parallel import TableWork, run_per_table
from eventlake.pipeline.register import register, register_refused, repeat_withdrawals
from eventlake.pipeline.schema_files import schema_work
from eventlake.ports import Progress
from eventlake.stores import Store


@dataclass(frozen=True)
class FinishResult:
    """The outcome of finishing a commit."""

    problems: Problems
    """Errors by table; the next run tries again."""
    report: str
    """The path of the report; empty if it could not be written."""
    notes: tuple[str, ...] = ()
    """Messages for the user that are not errors of the run."""
    needs_stage: bool = False
    """Whether the stage must stay, so that the next run can finish the commit."""


def finish_commit(lake: Lake, sequence: int, commit: Commit, progress: Progress) -> FinishResult:
    """Publish, register and report a commit. Its stage stays.

    Errors of a table are in the result's problems and leave the table to the next run. What the
    catalog refuses is recorded beside the ledger and needs no stage.
    """
    problems = Problems()
    publish(lake, sequence, commit, problems, progress)
    refused = register(lake, commit, problems, progress)
    refused |= repeat_withdrawals(lake, commit, list_later(lake, sequence, commit))
    needs_stage = bool(problems) or not _record_refusals(lake, commit, refused)
    notes = _take_notes(refused)
    problems.add({REPORT_KEY.get(name, name): error for name, error in refused.items()})
    path = write_report(lake, commit, problems, progress)
    if commit.erasure and is_receipted(commit):
        receipt = lake.layout.receipt_path(commit.settings.folder, commit.run_id)
        remaining, source = find_unchanged(lake, commit), commit.settings.source
        write_receipt(lake, receipt, commit.run_id, source, commit.erasure, remaining)
    return FinishResult(problems, path, notes, needs_stage or not path)


REPORT_KEY = {REPORTS: report.TABLE}
"""The name of the table of reports in `Problems`."""


def _record_refusals(lake: Lake, commit: Commit, refused: Mapping[str, EventLakeError]) -> bool:
    """Record the tables that the catalog refused; return False if the store cannot."""
    try:
        add_refusals(lake.ledger(commit.settings.folder), commit.run_id, refused)
    except EventLakeError:
        return False
    return True


def _take_notes(refused: dict[str, EventLakeError]) -> tuple[str, ...]:
    """Remove the error of a table of reports that belongs to others, and return it as a note.

    Changes `refused`; returns () without such an error. The lake itself is complete without it.
    """
    if not isinstance(refused.get(REPORTS), InvalidSettings):
        return ()
    return (f"the sync report is not registered in the catalog: {refused.pop(REPORTS)}",)


def finish_registration(lake: Lake, ledger: Ledger, progress: Progress) -> Mapping[str, Refusal]:
    """Register what the catalog refused earlier, and forget the refusals that have ended.

    Writes the reports of runs without further refusals again, as finished. What is refused again
    stays recorded; returns that.
    """
    refusals = read_refusals(ledger)
    registered = register_refused(lake, ledger, refusals, progress) if refusals else {}
    if not registered:
        return refusals
    state = ledger.read_state()
    remaining = {run for name in refusals.keys() - registered for run in refusals[name].runs}
    for run_id in sorted({run for one in registered.values() for run in one.runs} - remaining):
        sequence = ledger.find_sequence(run_id, state)
        if sequence is not None:
            write_report(lake, ledger.read_commit(sequence), Problems(), progress)
    remove_refusals(ledger, registered)
    return read_refusals(ledger)


def publish(
    lake: Lake, sequence: int, commit: Commit, problems: Problems, progress: Progress
) -> None:
    """Publish id index, quarantine, rewrites, files and schemas; errors go to `problems`.

    The key of all but the tables is "". Can be repeated, and done by several runs at
    once.
    """
    removed = _removed_since(lake, sequence, commit)
    errors = _publish_without(lake, sequence, commit, removed, progress)
    # Another run may have published a file for this one, and then replaced and deleted it.
    while errors and (now := _removed_since(lake, sequence, commit)) != removed:
        removed = now
        errors = _publish_without(lake, sequence, commit, removed, progress)
    problems.add(errors)


def _publish_without(
    lake: Lake, sequence: int, commit: Commit, removed: frozenset[str], progress: Progress
) -> dict[str, EventLakeError]:
    """Do `publish`, but leave out what later commits have removed; return errors by table."""
    work: list[TableWork] = [("", partial(_publish_objects, lake, commit, removed))]
    earlier = [
        _list_changes(lake, number, one, _removed_since(lake, number, one))
        for number, one in _find_unpublished(lake, sequence, commit)
    ]
    for name, change in _list_changes(lake, sequence, commit, removed).items():
        before = [changes[name] for changes in earlier if name in changes]
        work.append((name, partial(lake.format.publish, [*before, change])))
    return run_per_table("publish", [*work, *schema_work(lake, commit)], progress)


def _find_unpublished(lake: Lake, sequence: int, commit: Commit) -> list[tuple[int, Commit]]:
    """The commits before `sequence`, in order, whose runs have not ended; none without versions.

    A run removes its stage when all its tables are published, so the others are complete.
    """
    ledger = lake.ledger(commit.settings.folder)
    runs = list_staged_runs(ledger) if lake.format.versioned else []
    if runs in ([], [commit.run_id]):
        return []
    state = ledger.read_state()
    numbers = (ledger.find_sequence(run_id, state) or sequence for run_id in runs)
    return [(one, ledger.read_commit(one)) for one in sorted(numbers) if one < sequence]


def _publish_objects(lake: Lake, commit: Commit, removed: frozenset[str]) -> None:
    """Move or copy id files, quarantine, rewritten objects and new raw logs from the stage.

    Then deletes the objects that were rewritten. Paths in `removed` are not published.
    """
    id_files = (*commit.ids, *commit.removed_ids, *(merge.file for merge in commit.merges))
    objects = {one.path: one.staged for one in id_files} | commit.objects
    objects |= {lake_path(one.uri): one.staged for one in commit.inputs if one.staged}
    if commit.users:
        objects[commit.users.path] = commit.users.staged
    for path, staged in objects.items():
        if path not in removed and "://" not in path:
            lake.store.publish(staged, path)
    lake.store.delete(sorted(path for path in commit.rewritten_paths if "://" not in path))
    _publish_outside(lake, [one for one in commit.rewrites if "://" in one.path], removed)


def _publish_outside(lake: Lake, rewrites: list[Rewrite], removed: frozenset[str]) -> None:
    """Replace raw logs outside of the lake by the staged ones; tries all before it raises."""
    problems = []
    for one in rewrites:
        try:
            old_store, old = locate_outside(lake, one.path)
            store, new = locate_outside(lake, one.new_path)
            if one.new_path not in removed and not store.exists(new):
                with store.write_durably(new) as file:
                    for piece in lake.store.stream(one.staged):
                        file.write(piece)
            old_store.delete([old])
        except EventLakeError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def locate_outside(lake: Lake, address: str) -> tuple[Store, str]:
    """The store of a raw log outside of the lake, and its path there."""
    stores = {}
    if is_address(address) and lake.open_bucket:
        root = bucket_address(address)
        stores[root] = lake.open_bucket(root)
    return locate_input(address, stores)


def find_unchanged(lake: Lake, commit: Commit) -> tuple[str, ...]:
    """The raw logs outside of the lake that a commit has rewritten and that are still there."""

    def is_there(one: Rewrite) -> bool:
        try:
            store, path = locate_outside(lake, one.path)
            return store.exists(path)
        except EventLakeError:
            return True

    return tuple(one.path for one in commit.rewrites if "://" in one.path and is_there(one))


def is_receipted(commit: Commit) -> bool:
    """Whether a commit has erased events, or could not read all raw logs."""
    return commit.erasure is not None and bool(commit.erasure.files or commit.erasure.unreadable)


def write_receipt(
    lake: Lake, path: str, run_id: str, source: str, erasure: Erasure, remaining: tuple[str, ...]
) -> None:
    """Write the receipt of a run that has forgotten a user, and a page to read beside it."""
    receipt = Receipt(
        source=source,
        run_id=run_id,
        time=stamp(lake.clock.now()),
        ids=erasure.ids,
        rows_removed=sum(one.removed for one in erasure.files),
        files=erasure.files,
        remaining=(*erasure.unreadable, *remaining),
    )
    lake.store.write(path, receipt.model_dump_json(indent=1).encode())
    lake.store.write(f"{path.removesuffix('.json')}.html", receipt.to_page().encode())


def _removed_since(lake: Lake, sequence: int, commit: Commit) -> frozenset[str]:
    """Paths that later commits removed: publishing late must not add them again."""
    later = list_later(lake, sequence, commit)
    gone = (one.removed_paths | one.rewritten_paths | {*one.deletes} for one in later)
    return frozenset[str]().union(*gone)


def list_later(lake: Lake, sequence: int, commit: Commit) -> list[Commit]:
    """Read the commits that follow a commit of the same source."""
    ledger = lake.ledger(commit.settings.folder)
    return [later for _, later in ledger.commits_after(sequence)]


def _list_changes(
    lake: Lake, sequence: int, commit: Commit, removed: frozenset[str]
) -> dict[str, TableChange]:
    """The changes of a commit to publish, by table; later commits have removed `removed`."""
    transaction = _transaction(lake, sequence, commit)
    changes = (_table_change(lake, commit, one, transaction, removed) for one in commit.tables)
    return {change.table.name: change for change in changes if change.has_changes}


def _transaction(lake: Lake, sequence: int, commit: Commit) -> Transaction:
    folder, first = commit.settings.folder, commit
    if sequence > 1 and lake.format.versioned:
        first = lake.ledger(folder).read_commit(1)
    return Transaction(
        source=folder,
        ledger=first.run_id,
        run_id=commit.run_id,
        sequence=sequence,
        kind=commit.kind,
    )


def _table_change(
    lake: Lake,
    commit: Commit,
    table: TableCommit,
    transaction: Transaction,
    removed: frozenset[str],
) -> TableChange:
    """Build the change to publish from a table's commit; later commits have removed `removed`."""
    return TableChange(
        transaction=transaction,
        location=table_path(lake.layout, commit.settings, table.table),
        table=table.table,
        partition_columns=commit.settings.date_partition.columns,
        new_columns=table.new_columns,
        adds=table.adds,
        removes=table.removes,
        superseded=removed.intersection(file.path for file in table.adds),
        is_new=table.is_new,
        is_dropped=table.dropped,
        keeps_removed=commit.keeps_removed,
    )


def list_complete_changes(lake: Lake, ledger: Ledger) -> list[TableChange]:
    """For each table of a source, the change that adds all its live files to an empty table."""
    state, files = ledger.read_state_and_files()
    settings = state.settings
    if settings is None:
        return []
    newest = ledger.read_commit(state.sequence)
    transaction = _transaction(lake, state.sequence, newest)
    unfinished = (*_find_unpublished(lake, state.sequence, newest), (state.sequence, newest))
    tables = (table for _, commit in unfinished for table in commit.tables)
    staged = {file.path: file.staged for table in tables for file in table.adds}
    return [
        TableChange(
            transaction=transaction.model_copy(update={"kind": CommitKind.LOAD}),
            location=table_path(lake.layout, settings, schema),
            table=schema,
            partition_columns=settings.date_partition.columns,
            adds=tuple(_data_file(one, staged.get(one.path, "")) for one in files.get(name, ())),
        )
        for name, schema in state.tables.items()
    ]


def _data_file(file: LiveFile, staged: str) -> DataFile:
    stats: dict[str, ColumnStats] = {}
    if file.received:
        stats[RECEIVED_AT] = (0, *file.received)
    return DataFile(
        path=file.path,
        rows=file.rows,
        bytes=file.bytes,
        partition=file.partition,
        staged=staged,
        stats=stats,
    )


def write_report(lake: Lake, commit: Commit, problems: Problems, progress: Progress) -> str:
    """Write a commit's report as JSON lines, and a copy for the table of reports; return its path.

    Replaces that of an earlier attempt. If it fails, returns "" and adds the error to `problems`.
    `progress` is only told of the step.
    """
    progress.step("report", 0, 1, 0)
    path = lake.layout.report_path(commit.settings.folder, commit.run_id)
    try:
        finished = stamp(lake.clock.now())
        lines = to_lines(report_lines(commit, finished, problems, lake.facts))
        reports.write_report(lake.store, lake.layout, path, lines)
    except EventLakeError as problem:
        problems.setdefault(report.TABLE, (str(problem), problem.code))
        path = ""
    progress.step("report", 1, 1, 0)
    return path


def clean_up(
    lake: Lake, sequence: int, commit: Commit, finished: FinishResult, progress: Progress
) -> None:
    """Delete `commit.deletes`, remove the run's and dead runs' stages, write a due snapshot.

    `commit.deletes` are files that nothing needs any more, such as index files that earlier merges
    replaced. Does nothing if the commit needs its stage. An error is added to the result's
    problems, and the next run tries again.
    """
    if finished.needs_stage:
        return
    progress.step("clean", 0, 1, 0)
    ledger = lake.ledger(commit.settings.folder)
    try:
        lake.store.delete(commit.deletes)
        for run_id in (*commit.abandons, commit.run_id):
            remove_stage(ledger, run_id)
        ledger.snapshot_if_due(sequence)
    except EventLakeError as problem:
        finished.problems[""] = (str(problem), problem.code)
    progress.step("clean", 1, 1, 0)
