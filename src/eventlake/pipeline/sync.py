"""A run's sync, from plan to report."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise

import msgspec

from eventlake.archive import InputStores, lake_address
from eventlake.errors import (
    Cancelled,
    Conflict,
    EventLakeError,
    InsufficientPermissions,
    Internal,
    InvalidSettings,
)
from eventlake.kernels.dedupe import DAY_MICROS
from eventlake.lake import Lake
from eventlake.ledger import Ledger, Stage, remove_stage
from eventlake.ledger.state import leave_out
from eventlake.model.commit import Commit, IdFile, Plan, StagedFile
from eventlake.model.naming import Call
from eventlake.model.report import failure_lines, stamp, to_lines
from eventlake.model.schema import SchemaChange, new_table
from eventlake.model.tables import renamed_tables
from eventlake.model.tunables import Tunables
from eventlake.pipeline.build_commit import (
    RunResults,
    build_commit,
    build_compaction,
    check_counts,
    sort_files,
)
from eventlake.pipeline.chunks import ReadJob
from eventlake.pipeline.commit import append_commit, detect_changes
from eventlake.pipeline.compact import CompactJob, compact_task, plan_merges
from eventlake.pipeline.dedupe import DedupeJob, dedupe_task
from eventlake.pipeline.evolve import evolve, refine
from eventlake.pipeline.finish import FinishResult, clean_up, finish_commit
from eventlake.pipeline.merge_ids import merge_ids
from eventlake.pipeline.observations import read_more_observations
from eventlake.pipeline.read import GatherJob, gather_task, plan_gather, read_task
from eventlake.pipeline.removed_ids import (
    RemovedIdsJob,
    group_files_by_rows,
    removed_id_files,
    removed_ids_task,
)
from eventlake.pipeline.results import (
    ChunksByTable,
    DedupeResult,
    ReadResult,
    UserPart,
    WriteResult,
    group_chunks,
)
from eventlake.pipeline.stage_paths import count_rows
from eventlake.pipeline.table_format import check_tables, list_known, list_skipped, with_format
from eventlake.pipeline.tasks import Packed, Watch, Work, plan_tasks, run_tasks
from eventlake.pipeline.user_index import input_key, join_parts
from eventlake.pipeline.write import WriteJob, plan_units, write_task
from eventlake.ports import Progress, SparkProvider
from eventlake.reports import write_report
from eventlake.suppression import read_suppression_list

EVENT_BYTES = 130
"""Estimated size of an event in a gzip file, used to choose the number of tasks."""
GROUP_BYTES = 128 << 20
"""Compressed input per reading task, at most."""
BUCKET_EVENTS = 4_000_000
"""Message ids per deduplication task, at most."""
PAGE_CACHE_BYTES = 512 << 20
"""Input size up to which chunks, about four times as large, stay in the page cache."""


COMMIT_REFUSALS = (Conflict, InvalidSettings, InsufficientPermissions)
"""Errors of a commit which prove that it was not made."""


@dataclass
class Run:
    """The state of one run: its plan, what it works with, and how long its steps took."""

    lake: Lake
    ledger: Ledger
    runner: SparkProvider
    plan: Plan
    progress: Progress
    dead: tuple[str, ...] = ()
    """Runs that died without a commit; this run's commit abandons them."""
    stores: InputStores = field(default_factory=dict)
    """The stores of the plan's inputs, by address prefix."""
    tunables: Tunables = field(default_factory=Tunables)
    timings: dict[str, float] = field(default_factory=dict)
    is_committing: bool = False
    """Whether the commit may have been sent to the ledger."""

    @property
    def stage(self) -> str:
        """The path of the run's stage."""
        return self.lake.layout.stage_path(self.plan.run_id)

    @property
    def report(self) -> str:
        """The path of the run's report."""
        return self.lake.layout.report_path(self.plan.settings.folder, self.plan.run_id)

    @property
    def buckets(self) -> int:
        """The number of deduplication tasks."""
        return count_id_buckets(self.plan, self.runner.parallelism)

    def run_tasks(self, name: str, count: int, work: Work, total: int) -> list[bytes]:
        """Run the tasks of a step on Spark and return their results, in order of their numbers.

        Meanwhile reports the rows in the stage's folder `name` to `progress`; `total` is the number
        to expect, 0 if it is unknown. Raises as `tasks.run_tasks` does.
        """

        def report_rows() -> None:
            """Report the rows that the step's objects in the stage have by their names."""
            with suppress(EventLakeError):  # the tasks fail with the same error and report it
                objects = self.lake.store.objects(f"{self.stage}/{name}")
                rows = count_rows(one.path for one in objects)
                self.progress.step(name, min(rows, total), total, rows)

        # Each call lists the stage, which takes longer in a bucket.
        watch = Watch(report_rows, 1.0 if self.lake.store.is_local else 5.0)
        return run_tasks(self.runner, count, work, watch)

    @contextmanager
    def time_step(self, step: str) -> Iterator[None]:
        """Announce a step to `progress` and, unless it raises, set its duration in `timings`."""
        began = self.lake.clock.monotonic()
        self.progress.step(step, 0, 0, 0)
        yield
        self.timings[step] = self.lake.clock.monotonic() - began


def sync(run: Run, prepare: Callable[[Run], Commit] | None = None) -> tuple[Commit, FinishResult]:
    """Land all of the plan's inputs with one commit, or raise and land nothing.

    Returns the commit as appended, and the outcome of publishing, registering and reporting it,
    where errors of tables are not raised. `prepare` takes the place of `prepare_commit` for runs
    that read no inputs; a compaction has `compact_files`. A failed run gets a failure report. If
    the answer to the commit was lost, the run raises and may still have landed: the next run
    finishes it.
    """
    with ExitStack() as stack:
        try:
            check_tables(run.lake, run.plan)
            stack.enter_context(Stage(run.ledger, run.plan.run_id))
            usual = compact_files if run.plan.compacts else prepare_commit
            with detect_changes(run.ledger, run.plan.base):
                prepared = (prepare or usual)(run)
            sequence, commit = commit_run(run, prepared)
        except BaseException as problem:
            fail_run(run, problem)
            raise
        finished = finish_commit(run.lake, sequence, commit, run.progress)
    clean_up(run.lake, sequence, commit, finished, run.progress)
    return commit, finished


def prepare_commit(run: Run) -> Commit:
    """Do all steps before the commit: write everything that the run lands into its stage.

    Returns the commit to append; the ledger and the tables do not change.
    """
    read_results = read(run)
    removed_ids = collect_removed_ids(run)
    dedupe_results = dedupe(run, read_results, removed_ids)
    merges = merge_ids(run.ledger, run.stage, run.plan.run_id, run.plan.merges)
    chunks = group_chunks(read_results, dedupe_results)
    changes = evolve_tables(run, chunks, read_results)
    quarantine = tuple(part for result in read_results for part in result.quarantine)
    write_results = write(run, chunks, changes, quarantine)
    results = RunResults(
        read_results, dedupe_results, chunks, changes, write_results, merges, removed_ids
    )
    commit = build_commit(run.lake.layout, run.plan, results, run.dead)
    parts = [one.users for one in read_results] + [one.users for one in write_results]
    return commit.model_copy(update={"users": join_user_index(run, commit, parts)})


def join_user_index(run: Run, commit: Commit, parts: Iterable[UserPart]) -> StagedFile | None:
    """Join the parts of the user index that tasks wrote; return the object to publish, if any.

    `commit` has the final paths of the files, and the run's inputs by number.
    """
    names = {file.staged: file.path for table in commit.tables for file in table.adds}
    names |= {str(n): input_key(one.uri, one.fingerprint) for n, one in enumerate(run.plan.inputs)}
    path = run.lake.layout.users_path(run.plan.settings.folder, run.plan.run_id)
    return join_parts(run.lake.store, run.stage, path, parts, names.__getitem__)


def compact_files(run: Run) -> Commit:
    """Merge the files that the plan removes, by partition, into new ones in the stage.

    Returns the commit to append; the ledger and the tables do not change.
    """
    plan, tunables = run.plan, run.tunables.write
    units = plan_merges(plan.tables, plan.removes, plan.settings.date_partition)
    tasks = tuple(Packed.pack(task) for task in plan_tasks(units, run.runner.parallelism))
    job = CompactJob(run.lake.store, run.stage, tasks, tunables, plan.settings.compression)
    rows = sum(file.rows or 0 for files in plan.removes.values() for file in files)
    with run.time_step("compact"):
        answers = run.run_tasks("compact", len(tasks), partial(compact_task, job), rows)
        results = [msgspec.json.decode(answer, type=WriteResult) for answer in answers]
    return build_compaction(run.lake.layout, plan, sort_files(results), run.dead)


def commit_run(run: Run, commit: Commit) -> tuple[int, Commit]:
    """Append the commit to the ledger; return its sequence and the commit as appended.

    Raises `Internal` if its counts do not add up, `Conflict` or `InvalidSettings` as
    `append_commit`.
    """
    with run.time_step("commit"):
        check_counts(commit)
        run.is_committing = True
        return append_commit(run.ledger, run.plan.base, with_format(run.lake, commit))


def fail_run(run: Run, problem: BaseException) -> None:
    """Remove the stage and write a failure report, unless the run's commit is in the ledger.

    The stage stays if the commit may still be applied. Raises no `EventLakeError`, so that the
    caller can raise `problem`.
    """
    with suppress(EventLakeError):
        if run.ledger.find_sequence(run.plan.run_id, run.ledger.read_state()) is not None:
            return  # only the answer was lost: the next run finishes the commit
        # A commit without an answer may still be applied, and would need the stage. The next run
        # takes its sequence with a commit of its own and then removes the stage.
        if not run.is_committing or isinstance(problem, COMMIT_REFUSALS):
            remove_stage(run.ledger, run.plan.run_id)
        code = Internal.code
        if isinstance(problem, EventLakeError | Cancelled):
            code = problem.code
        reason = str(problem) or type(problem).__name__
        finished = stamp(run.lake.clock.now())
        lines = failure_lines(
            run.plan.run_id, run.plan.settings, reason, code, finished, run.lake.facts
        )
        write_report(run.lake.store, run.lake.layout, run.report, to_lines(lines))


def read(run: Run) -> list[ReadResult]:
    """Parse the inputs into chunks in the stage: first by input, then the spilled rare tables.

    Returns the results of the reading tasks, then those of the gathering tasks.
    """
    plan = run.plan
    job = ReadJob(
        store=run.lake.store,
        stage=run.stage,
        run_id=plan.run_id,
        settings=plan.settings,
        skip=list_skipped(plan),
        known=list_known(plan),
        renamed=renamed_tables(plan.tables.values()),
        table_types={
            name: table.types for name in plan.tables if (table := plan.starting_table(name))
        },
        suppressed=read_suppression_list(run.lake.store).matcher(),
        replaces=plan.replaces,
        files=tuple(one.uri for one in plan.inputs),
        staged_files={one.uri: lake_address(one.staged) for one in plan.inputs if one.staged},
        stores=dict(run.stores),
        groups=group_files([one.size for one in plan.inputs], run.runner.parallelism),
        buckets=run.buckets,
        compression=None if _fits_page_cache(run) else "lz4",
        tunables=run.tunables.read,
    )
    with run.time_step("read"):
        rows = sum(file.rows or 0 for files in plan.removes.values() for file in files)
        answers = run.run_tasks("read", len(job.groups), partial(read_task, job), rows)
        results = [msgspec.json.decode(answer, type=ReadResult) for answer in answers]
        gather = GatherJob(job, plan_gather(results, run.runner.parallelism))
        answers = run.run_tasks("read", len(gather.tasks), partial(gather_task, gather), rows)
        return results + [msgspec.json.decode(answer, type=ReadResult) for answer in answers]


def _fits_page_cache(run: Run) -> bool:
    """Whether the chunks are on a local disk and probably stay in memory, by the inputs' size."""
    return run.lake.store.is_local and sum(one.size for one in run.plan.inputs) <= PAGE_CACHE_BYTES


def group_files(sizes: Sequence[int], parallelism: int) -> tuple[range, ...]:
    """Group neighbouring files by size into groups of about equal size; return their indexes.

    At most the smallest multiple of `parallelism` with which a group has about `GROUP_BYTES`: each
    group makes a chunk of every table in its files. There are fewer if files are large, and one
    empty group without files.
    """
    groups = parallelism * max(1, -(-sum(sizes) // (GROUP_BYTES * parallelism)))
    # A file belongs to the group that its middle falls into.
    middles = (2 * end - size for end, size in zip(accumulate(sizes), sizes, strict=True))
    numbers = [middle * groups // (2 * sum(sizes) + 1) for middle in middles]
    cuts = [at for at, (one, other) in enumerate(pairwise(numbers), 1) if one != other]
    return tuple(range(start, end) for start, end in pairwise([0, *cuts, len(sizes)]))


def count_id_buckets(plan: Plan, parallelism: int) -> int:
    """Choose the number of deduplication tasks from the run's events and the recent id index."""
    events = sum(one.size for one in plan.inputs) // EVENT_BYTES
    newest = max((file.last for file in plan.ids), default=0)
    since = newest - 2 * plan.settings.dedup_days * DAY_MICROS
    indexed = sum(file.rows for file in plan.ids if file.last >= since)
    spread = min(parallelism, (events + indexed) // 200_000)
    return max(1, spread, (events + indexed // 4) // BUCKET_EVENTS)


def removed_ids_job(run: Run) -> RemovedIdsJob:
    """Build, but do not run, the job that collects the message ids of the plan's removed rows."""
    files = (file for _, of_table in sorted(run.plan.removes.items()) for file in of_table)
    column = run.plan.settings.columns.id_column
    return RemovedIdsJob(run.lake.store, run.stage, column, group_files_by_rows(files))


def collect_removed_ids(run: Run) -> tuple[IdFile, ...]:
    """Write the message ids of the rows that the run replaces into the stage; return their files.

    Returns () for a run that replaces nothing, and for one that replaces all rows of the source:
    its commit starts a new index.
    """
    plan = run.plan
    if plan.replaces is None or plan.replaces.is_whole:
        return ()
    job = removed_ids_job(run)
    with run.time_step("index"):
        answers = run.run_tasks("index", len(job.tasks), partial(removed_ids_task, job), 0)
        results = [msgspec.json.decode(answer, type=DedupeResult) for answer in answers]
        return removed_id_files(run.lake.layout, plan.settings.folder, plan.run_id, results)


def dedupe(
    run: Run, read_results: list[ReadResult], removed_ids: tuple[IdFile, ...]
) -> list[DedupeResult]:
    """Find the duplicate rows of the chunks; write the message ids of the others into the stage.

    Ids of rows that the run removes do not count as landed. Returns a result for each bucket; none
    if nothing was read.
    """
    staged = (file.model_copy(update={"path": file.staged}) for file in removed_ids)
    parts = tuple((task, part) for task, result in enumerate(read_results) for part in result.ids)
    job = DedupeJob(
        store=run.lake.store,
        stage=run.stage,
        days=run.plan.settings.dedup_days,
        buckets=run.buckets,
        parts=parts,
        index=leave_out(staged, run.plan.ids),
    )
    with run.time_step("dedupe"):
        answers = run.run_tasks("dedupe", run.buckets if parts else 0, partial(dedupe_task, job), 0)
        return [msgspec.json.decode(answer, type=DedupeResult) for answer in answers]


def evolve_tables(
    run: Run, chunks: ChunksByTable, read_results: list[ReadResult]
) -> dict[str, SchemaChange]:
    """Return the schema change of every table that has chunks, by table."""
    with run.time_step("evolve"):
        return {
            table: _evolve_table(run, read_results, table, of_table[0].call)
            for table, of_table in chunks.items()
        }


def _evolve_table(run: Run, read_results: list[ReadResult], table: str, call: Call) -> SchemaChange:
    """Return a table's schema change: its new columns; `call` is used if the table is new.

    Reads the observations in the stage only if some did not fit into the tasks' results.
    """
    settings = run.plan.settings
    before = run.plan.starting_table(table) or new_table(table, call, settings.columns)
    observations = [one for result in read_results for one in result.observations.get(table, ())]
    change = evolve(before, observations, settings.max_columns)
    if any(part.table == table for result in read_results for part in result.more_observations):
        more = read_more_observations(run.lake.store, read_results, table)
        change = refine(change, before, observations, more)
    return change


def write(
    run: Run,
    chunks: ChunksByTable,
    changes: dict[str, SchemaChange],
    quarantine: tuple[str, ...],
) -> list[WriteResult]:
    """Write chunks to Parquet files in the stage, all tables in one Spark job.

    Duplicate rows are left out. `quarantine` are the parts that the reading tasks wrote; if there
    are any, one more task merges them, and its result comes last.
    """
    settings, tunables = run.plan.settings, run.tunables.write
    by = settings.date_partition
    units = (
        unit
        for table, of_table in chunks.items()
        for unit in plan_units(changes[table], of_table, by, tunables.unit_bytes)
    )
    tasks = tuple(Packed.pack(task) for task in plan_tasks(units, run.runner.parallelism))
    job = WriteJob(run.lake.store, run.stage, by, tasks, quarantine, tunables, settings.compression)
    count = len(tasks) + bool(quarantine)
    rows = sum(chunk.landed_rows for of_table in chunks.values() for chunk in of_table)
    with run.time_step("write"):
        answers = run.run_tasks("write", count, partial(write_task, job), rows)
        return [msgspec.json.decode(answer, type=WriteResult) for answer in answers]
