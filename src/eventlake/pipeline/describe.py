"""Describe: from what the tasks did, the commit that will make it true."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from eventlake.errors import Internal
from eventlake.model import layout
from eventlake.model.commit import (
    Commit,
    Counts,
    DataFile,
    IdFile,
    IdMerge,
    Plan,
    StagedFile,
    TableCommit,
)
from eventlake.model.naming import Call
from eventlake.model.schema import new_table
from eventlake.pipeline.chunks import ChunkMeta, ReadResult
from eventlake.pipeline.dedupe import DedupeResult
from eventlake.pipeline.evolve import Growth, with_rescued
from eventlake.pipeline.write import WriteResult, Written


@dataclass(frozen=True)
class Outcome:
    """What the stages of a run gave."""

    found: list[ReadResult]
    kept: list[DedupeResult]
    growth: dict[str, Growth]
    written: list[WriteResult]
    merges: tuple[IdMerge, ...] = ()

    @cached_property
    def files(self) -> list[Written]:
        """Every Parquet file in the order of tables and partitions."""
        files = (file for result in self.written for file in result.files)
        return sorted(files, key=lambda file: (file.table, file.start, file.path))

    @cached_property
    def rescued(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for result in self.written:
            total.update(result.rescued)
        return total

    @property
    def quarantined(self) -> int:
        return sum(result.quarantined for result in self.found)

    @property
    def quarantine(self) -> str:
        return next((result.quarantine for result in self.written if result.quarantine), "")


def describe(plan: Plan, outcome: Outcome, dead: tuple[str, ...]) -> Commit:
    """The commit that makes what is in the stage true."""
    quarantine = layout.quarantine_path(plan.settings.folder, plan.run_id)
    data = _place_files(plan, outcome)
    tables = tuple(_tables(plan, outcome, data))
    rejected = Counts(received=outcome.quarantined, quarantined=outcome.quarantined)
    return Commit(
        run_id=plan.run_id,
        settings=plan.settings,
        inputs=plan.inputs,
        counts=sum((done.counts for done in tables), rejected),
        tables=tables,
        ids=_place_ids(plan, outcome),
        merges=outcome.merges,
        deletes=plan.deletes,
        quarantine=StagedFile(staged=outcome.quarantine, path=quarantine)
        if outcome.quarantine
        else None,
        abandons=dead,
        renamed=plan.renamed,
    )


def _place_ids(plan: Plan, outcome: Outcome) -> tuple[IdFile, ...]:
    return tuple(
        IdFile(
            path=layout.ids_path(plan.settings.folder, plan.run_id, number),
            rows=one.rows,
            first=one.first,
            last=one.last,
            staged=one.kept,
        )
        for number, one in enumerate(one for one in outcome.kept if one.rows)
    )


def _place_files(plan: Plan, outcome: Outcome) -> dict[str, list[DataFile]]:
    by, folder = plan.settings.date_partition, plan.settings.folder
    tables: defaultdict[str, list[DataFile]] = defaultdict(list)
    for number, file in enumerate(outcome.files):
        partition = by.values(file.start)
        table = layout.table_path(folder, file.table)
        final = layout.data_path(table, partition, plan.run_id, number)
        tables[file.table].append(
            DataFile(
                path=final,
                rows=file.rows,
                bytes=file.bytes,
                partition=partition,
                staged=file.path,
                stats=file.stats,
            )
        )
    return tables


def _tables(plan: Plan, outcome: Outcome, data: dict[str, list[DataFile]]) -> list[TableCommit]:
    chunks, aside = chunks_by_table(outcome.found), _aside(outcome.found)
    return [
        _table(plan, outcome, table, chunks.get(table, []), aside.get(table), data.get(table, []))
        for table in sorted(chunks.keys() | aside.keys())
    ]


def _table(
    plan: Plan,
    outcome: Outcome,
    table: str,
    chunks: list[ChunkMeta],
    aside: tuple[Call, int, int] | None,
    files: list[DataFile],
) -> TableCommit:
    call, suppressed, skipped = aside or (chunks[0].call, 0, 0)
    rows, landed = sum(chunk.rows for chunk in chunks), sum(map(landing, chunks))
    if landed != sum(file.rows or 0 for file in files):
        raise Internal(f"{table}: {landed} rows should have been written, and were not")
    known = plan.tables.get(table)
    growth = outcome.growth.get(table)
    if growth is None or (known is None and not landed):
        growth = Growth(known or new_table(table, call, plan.settings.naming))
    if outcome.rescued[table]:
        growth = with_rescued(growth)
    return TableCommit(
        table=growth.schema,
        counts=Counts(
            received=rows + suppressed + skipped,
            landed=landed,
            duplicates=rows - landed,
            suppressed=suppressed,
            skipped=skipped,
            rescued=outcome.rescued[table],
        ),
        new_columns=growth.added,
        is_new=known is None and landed > 0,
        adds=tuple(files),
    )


def _aside(found: list[ReadResult]) -> dict[str, tuple[Call, int, int]]:
    """Events of each table that were suppressed and skipped."""
    tables: dict[str, tuple[Call, int, int]] = {}
    for result in found:
        for table, call, suppressed, skipped in result.aside:
            _, before, skipped_before = tables.get(table, (call, 0, 0))
            tables[table] = (call, before + suppressed, skipped_before + skipped)
    return tables


def chunks_by_table(found: list[ReadResult]) -> dict[str, list[ChunkMeta]]:
    """The chunks of each table, tables in order."""
    tables: defaultdict[str, list[ChunkMeta]] = defaultdict(list)
    for result in found:
        for chunk in result.chunks:
            tables[chunk.table].append(chunk)
    return dict(sorted(tables.items()))


def landing(chunk: ChunkMeta) -> int:
    """The rows of a chunk that are no duplicates."""
    return chunk.rows - len(chunk.drops) // 4


def check_balance(commit: Commit) -> None:
    """A sync whose books do not balance has failed."""
    unbalanced = [done.table.name for done in commit.tables if not done.counts.balanced]
    if unbalanced or not commit.counts.balanced:
        raise Internal(f"the books do not balance: {commit.counts} {', '.join(unbalanced)}")
