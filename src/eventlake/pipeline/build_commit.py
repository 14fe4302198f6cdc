"""Build the commit of a run from the results of its tasks."""

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from eventlake.errors import Internal
from eventlake.model.commit import (
    Commit,
    CommitKind,
    Counts,
    DataFile,
    IdFile,
    IdMerge,
    Input,
    Plan,
    StagedFile,
    TableCommit,
)
from eventlake.model.layout import Layout, data_path
from eventlake.model.naming import Call
from eventlake.model.schema import SchemaChange, TableSchema, new_table
from eventlake.model.tables import table_path
from eventlake.pipeline.results import (
    MAX_DUPLICATE_IDS,
    ChunkMeta,
    ChunksByTable,
    DedupeResult,
    ReadResult,
    WriteResult,
    WrittenFile,
)

HASH_BYTES = 16
"""Bytes of a packed hash."""


@dataclass(frozen=True)
class RunResults:
    """The results of a run's steps, from which its commit is built."""

    read: list[ReadResult]
    dedupe: list[DedupeResult]
    chunks: ChunksByTable
    changes: dict[str, SchemaChange]
    write: list[WriteResult]
    merges: tuple[IdMerge, ...] = ()
    removed_ids: tuple[IdFile, ...] = ()

    @cached_property
    def files(self) -> list[WrittenFile]:
        """All Parquet files in the order of tables and partitions."""
        return sort_files(self.write)

    @cached_property
    def rescued(self) -> Counter[str]:
        """The number of rescued values by table; 0 for a table without any."""
        total: Counter[str] = Counter()
        for result in self.write:
            total.update(result.rescued)
        return total

    @property
    def quarantined(self) -> int:
        """The number of invalid lines that all reading tasks wrote to the quarantine."""
        return sum(result.quarantined for result in self.read)

    @property
    def quarantine(self) -> str:
        """The path of the merged quarantine file in the stage; "" if there is none."""
        return next((result.quarantine for result in self.write if result.quarantine), "")


def sort_files(results: Iterable[WriteResult]) -> list[WrittenFile]:
    """Return the files of all results, in the order of tables and partitions."""
    files = (file for result in results for file in result.files)
    return sorted(files, key=lambda file: (file.table, file.start, file.path))


def build_commit(layout: Layout, plan: Plan, results: RunResults, dead: tuple[str, ...]) -> Commit:
    """Build the commit of what is in the stage; it abandons the `dead` runs. Writes nothing.

    Raises `Internal` if the rows that were written are not those that were to land.
    """
    quarantine = layout.quarantine_path(plan.settings.folder, plan.run_id)
    tables = tuple(_table_commits(layout, plan, results))
    rejected = Counts(received=results.quarantined, quarantined=results.quarantined)
    return Commit(
        run_id=plan.run_id,
        settings=plan.settings,
        kind=CommitKind.REPLAY if plan.replaces else CommitKind.LOAD,
        inputs=plan.inputs if plan.replaces else _inputs_with_spans(plan, results.read),
        counts=sum((table.counts for table in tables), rejected),
        tables=tables,
        ids=_new_id_files(layout, plan, results),
        removed_ids=results.removed_ids,
        duplicate_ids=_duplicate_ids(results),
        merges=results.merges,
        deletes=plan.deletes,
        quarantine=StagedFile(staged=results.quarantine, path=quarantine)
        if results.quarantine
        else None,
        abandons=dead,
        renamed=plan.renamed,
        replaces=plan.replaces,
        pins=plan.retyped,
    )


def _duplicate_ids(results: RunResults) -> str:
    """Return the hashes of all duplicates in Base64; "" if there are too many for a commit."""
    count = sum(len(rows) // 4 for one in results.dedupe for _, _, rows in one.duplicate_rows)
    packed = b"".join(one.duplicate_ids for one in results.dedupe)
    is_complete = count <= MAX_DUPLICATE_IDS and len(packed) == count * HASH_BYTES
    return b64encode(packed).decode() if is_complete else ""


def build_compaction(
    layout: Layout, plan: Plan, files: list[WrittenFile], dead: tuple[str, ...]
) -> Commit:
    """Build the commit that replaces the plan's files by the merged ones in the stage.

    Raises `Internal` if these do not have as many rows.
    """
    merged = _data_files(layout, plan, files, plan.tables)
    for name, removed in plan.removes.items():
        rows, written = (sum(one.rows or 0 for one in of) for of in (removed, merged[name]))
        if rows != written:
            raise Internal(f"{name}: merged {rows} rows to {written}")
    return Commit(
        run_id=plan.run_id,
        settings=plan.settings,
        kind=CommitKind.COMPACT,
        inputs=(),
        counts=Counts(),
        tables=tuple(
            TableCommit(
                table=plan.tables[name],
                counts=Counts(),
                adds=tuple(merged[name]),
                removes=tuple(one.model_copy(update={"stats": {}}) for one in removed),
            )
            for name, removed in sorted(plan.removes.items())
        ),
        abandons=dead,
    )


def _inputs_with_spans(plan: Plan, results: list[ReadResult]) -> tuple[Input, ...]:
    """Return the plan's inputs with the first and last time of receipt of their events.

    An input without events stays as it is.
    """
    spans = {file: (first, last) for result in results for file, first, last in result.spans}
    return tuple(
        one.model_copy(update=dict(zip(("first", "last"), spans[file], strict=True)))
        if file in spans
        else one
        for file, one in enumerate(plan.inputs)
    )


def _new_id_files(layout: Layout, plan: Plan, results: RunResults) -> tuple[IdFile, ...]:
    """Return the index files of landed ids, staged and final path; empty buckets get no number."""
    return tuple(
        IdFile(
            path=layout.ids_path(plan.settings.folder, plan.run_id, number),
            rows=result.rows,
            first=result.first,
            last=result.last,
            staged=result.path,
        )
        for number, result in enumerate(one for one in results.dedupe if one.rows)
    )


def _data_files(
    layout: Layout, plan: Plan, files: Iterable[WrittenFile], schemas: Mapping[str, TableSchema]
) -> defaultdict[str, list[DataFile]]:
    """Return the data files by table, with staged and final path, numbered through all tables."""
    by = plan.settings.date_partition
    tables: defaultdict[str, list[DataFile]] = defaultdict(list)
    for number, file in enumerate(files):
        partition = by.values(file.start)
        table = table_path(layout, plan.settings, schemas[file.table])
        tables[file.table].append(
            DataFile(
                path=data_path(table, partition, plan.run_id, number),
                rows=file.rows,
                bytes=file.bytes,
                partition=partition,
                staged=file.path,
                stats=file.stats,
            )
        )
    return tables


def _table_commits(layout: Layout, plan: Plan, results: RunResults) -> list[TableCommit]:
    """Build the commits of all tables with chunks, excluded events, removed files or new types.

    Of a run that replaces all rows, those of all tables. Sorted by name. Raises `Internal` as
    `_table_commit` does.
    """
    schemas = {name: change.schema for name, change in results.changes.items()}
    files = _data_files(layout, plan, results.files, schemas)
    chunks, excluded = results.chunks, _count_excluded(results.read)
    names = chunks.keys() | excluded.keys() | plan.removes.keys() | plan.retyped.keys()
    if plan.replaces and plan.replaces.is_whole:
        names |= plan.tables.keys()  # those without rows are dropped
    return [
        _table_commit(plan, results, name, chunks.get(name, []), excluded.get(name), files[name])
        for name in sorted(names)
    ]


def _table_commit(
    plan: Plan,
    results: RunResults,
    table: str,
    chunks: list[ChunkMeta],
    excluded: tuple[Call, int, int] | None,
    files: list[DataFile],
) -> TableCommit:
    """Build one table's commit; raises `Internal` unless `files` have as many rows as land."""
    existing = plan.tables.get(table)
    call, suppressed, skipped = excluded or (_call_of(existing, chunks), 0, 0)
    rows, landed = sum(chunk.rows for chunk in chunks), sum(chunk.landed_rows for chunk in chunks)
    written = sum(file.rows or 0 for file in files)
    if landed != written:
        raise Internal(f"{table}: wrote {written} rows instead of {landed}")
    change = results.changes.get(table)
    if change is None or (existing is None and not landed):
        start = plan.starting_table(table)
        change = SchemaChange(start or new_table(table, call, plan.settings.columns))
    if results.rescued[table]:
        change = change.with_rescued()
    types = existing.types if existing else {}
    return TableCommit(
        table=change.schema,
        counts=Counts(
            received=rows + suppressed + skipped,
            landed=landed,
            duplicates=rows - landed,
            suppressed=suppressed,
            skipped=skipped,
            rescued=results.rescued[table],
        ),
        new_columns=tuple(c for c in change.added if c.name not in types),
        retyped=tuple(c for c in change.schema.columns if types.get(c.name, c.type) is not c.type),
        is_new=existing is None and landed > 0,
        dropped=plan.replaces is not None and plan.replaces.is_whole and not files,
        adds=tuple(files),
        removes=plan.removes.get(table, ()),
    )


def _call_of(existing: TableSchema | None, chunks: list[ChunkMeta]) -> Call:
    """The call of a table: that of its schema, or of its first chunk if it is new."""
    return existing.call if existing else chunks[0].call


def _count_excluded(results: list[ReadResult]) -> dict[str, tuple[Call, int, int]]:
    """Return by table its call and how many of its events were suppressed and skipped."""
    tables: dict[str, tuple[Call, int, int]] = {}
    for result in results:
        for table, call, suppressed, skipped in result.excluded:
            _, suppressed_before, skipped_before = tables.get(table, (call, 0, 0))
            tables[table] = (call, suppressed_before + suppressed, skipped_before + skipped)
    return tables


def check_counts(commit: Commit) -> None:
    """Raise `Internal` if the counts of the commit or of a table do not add up."""
    unbalanced = [table.table.name for table in commit.tables if not table.counts.balanced]
    if unbalanced or not commit.counts.balanced:
        raise Internal(f"the counts do not add up: {commit.counts} {', '.join(unbalanced)}")
