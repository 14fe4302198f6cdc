"""Redrive: take quarantined lines out of the quarantine, corrected, into a raw log to load."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from eventlake.archive import day_folder, lake_address
from eventlake.errors import Conflict, EventLakeError, Internal
from eventlake.kernels.route import InvalidLine, Rules, validate_line
from eventlake.ledger import Ledger
from eventlake.model.commit import Commit, CommitKind, Input, Rewrite
from eventlake.model.layout import archive_path, rewritten_path
from eventlake.model.naming import Call
from eventlake.pipeline.corrections import Correction, LineKey, QuarantinedLine
from eventlake.pipeline.quarantine import QUARANTINE_SCHEMA, read_quarantine
from eventlake.pipeline.sync import Run, prepare_commit


@dataclass(frozen=True)
class Selection:
    """Which quarantined lines to redrive, and how they are corrected."""

    correction: Correction
    reasons: frozenset[str] = frozenset()
    """Empty for all reasons."""
    since: int = 0
    """Only lines of runs that were planned at this time or later, in Unix nanoseconds."""
    keys: frozenset[LineKey] | None = None
    """Only these lines; None for all."""

    def includes(self, row: QuarantinedLine) -> bool:
        if self.keys is not None and row.key not in self.keys:
            return False
        return int(row.run_id) >= self.since and (not self.reasons or row.reason in self.reasons)

    def correct(self, row: QuarantinedLine) -> bytes | None:
        """The corrected line; None if the row stays in the quarantine as it is."""
        return self.correction.correct(row) if self.includes(row) else None


@dataclass
class RedrivePreview:
    """What a redrive does with the lines of the quarantine."""

    kept: dict[str, int] = field(default_factory=dict)
    """By quarantine file with lines to redrive, the number of rows that stay in it."""
    unquarantined: defaultdict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """By run and reason, the number of lines to redrive."""
    left: Counter[str] = field(default_factory=Counter)
    """By reason, selected lines that stay as they are because the correction does not apply."""
    tables: Counter[str] = field(default_factory=Counter)
    """By table, the lines that become events of it; duplicates among them do not land."""
    failed: Counter[str] = field(default_factory=Counter)
    """By new reason, the lines that are invalid again."""
    suppressed: int = 0
    skipped: int = 0

    @property
    def lines(self) -> int:
        """The number of lines to redrive."""
        return sum(reasons.total() for reasons in self.unquarantined.values())

    @property
    def matched(self) -> int:
        """The number of selected lines."""
        return self.lines + self.left.total()


def preview_redrive(
    ledger: Ledger, paths: Iterable[str], selection: Selection, rules: Rules
) -> RedrivePreview:
    """Read quarantine files and validate the corrected lines. Writes nothing.

    Raises `Conflict` if another run rewrites one of the files meanwhile.
    """
    preview = RedrivePreview()
    for path in paths:
        kept = redriven = 0
        for row, line in _correct_file(ledger, path, selection):
            kept, redriven = kept + (line is None), redriven + (line is not None)
            if line is not None:
                preview.unquarantined[row.run_id][row.reason] += 1
                _count_outcome(preview, line, rules)
            elif selection.includes(row):
                preview.left[row.reason] += 1
        if redriven:
            preview.kept[path] = kept
    return preview


def _count_outcome(preview: RedrivePreview, line: bytes, rules: Rules) -> None:
    """Count in which table a line lands, or why it does not."""
    try:
        routing = validate_line(line)
    except InvalidLine as invalid:
        preview.failed[invalid.reason] += 1
        return
    call, event = Call(routing.type), routing.event or ""
    if routing.userId in rules.suppressed:
        preview.suppressed += 1
    elif rules.skips(call, event):
        preview.skipped += 1
    else:
        preview.tables[rules.table(call, event)] += 1


def _correct_file(
    ledger: Ledger, path: str, selection: Selection
) -> Iterator[tuple[QuarantinedLine, bytes | None]]:
    for batch in _read_batches(ledger, path):
        yield from ((row, selection.correct(row)) for row in _rows(batch))


def _read_batches(ledger: Ledger, path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a quarantine file; raises `Conflict` if another run has rewritten it."""
    try:
        yield from read_quarantine(ledger.store, path)
    except EventLakeError as problem:
        if ledger.store.exists(path):
            raise
        raise Conflict(f"another run has changed the quarantine: {problem}") from problem


def _rows(batch: pa.RecordBatch) -> list[QuarantinedLine]:
    columns = (column.to_pylist() for column in batch.columns)
    return [QuarantinedLine(*values) for values in zip(*columns, strict=True)]


def prepare_redrive(selection: Selection, preview: RedrivePreview, run: Run) -> Commit:
    """Do all steps before the commit of a redrive; return the commit to append.

    Writes the corrected lines as a raw log into the stage, and lands them as any load would. The
    log becomes part of the archive when the commit is published. Sets the input of `run.plan`.
    """
    stage, plan = f"{run.stage}/redrive", run.plan
    rewrites = tuple(
        Rewrite(
            path=path,
            new_path=rewritten_path(path, plan.run_id) if kept else "",
            staged=f"{stage}/{number}.parquet" if kept else "",
        )
        for number, (path, kept) in enumerate(preview.kept.items())
    )
    log = f"{stage}/lines.gz"
    _write_stage(run, selection, rewrites, log)
    run.plan = plan.model_copy(update={"inputs": (_staged_input(run, log),)})
    commit = prepare_commit(run)
    if commit.counts.received != preview.lines:
        raise Internal(f"redrove {commit.counts.received} lines instead of {preview.lines}")
    return commit.model_copy(
        update={
            "kind": CommitKind.REDRIVE,
            "rewrites": rewrites,
            "unquarantined": {run_id: dict(n) for run_id, n in preview.unquarantined.items()},
        }
    )


def _write_stage(
    run: Run, selection: Selection, rewrites: Iterable[Rewrite], log_path: str
) -> None:
    """Write corrected lines to a raw log, and the other rows to new quarantine files."""
    store, packer = run.lake.store, isal_zlib.compressobj(wbits=31)
    with store.write_durably(log_path) as log:
        for one in rewrites:
            with ExitStack() as stack:
                remaining = None
                if one.staged:
                    file = stack.enter_context(store.write_durably(one.staged))
                    writer = pq.ParquetWriter(file, QUARANTINE_SCHEMA, compression="zstd")
                    remaining = stack.enter_context(writer)
                for batch in _read_batches(run.ledger, one.path):
                    lines = [selection.correct(row) for row in _rows(batch)]
                    log.write(packer.compress(b"".join(b"%b\n" % line for line in lines if line)))
                    if remaining:
                        remaining.write(batch.filter(pa.array([line is None for line in lines])))
        log.write(packer.flush())


def _staged_input(run: Run, staged: str) -> Input:
    """The input for the raw log in the stage, with the address that it gets in the archive."""
    run_id, folder = run.plan.run_id, archive_path(run.plan.settings.folder)
    path = f"{folder}/{day_folder(int(run_id) // 1000)}/{run_id}-redrive.gz"
    item = run.lake.store.find(staged)
    assert item, staged
    return Input(
        uri=lake_address(path), fingerprint=f"{item.size:x}", size=item.size, staged=staged
    )
