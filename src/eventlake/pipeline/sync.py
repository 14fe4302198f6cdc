"""A sync, from plan to report: the way through, to be read aloud."""

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from time import perf_counter

import msgspec

from eventlake.archive import Holders
from eventlake.errors import (
    Conflict,
    EventLakeError,
    InsufficientPermissions,
    Internal,
    InvalidSettings,
)
from eventlake.kernels.dedupe import DAY_MICROS
from eventlake.lake import Lake
from eventlake.ledger import Ledger, Stage, remove_stage
from eventlake.model import layout
from eventlake.model.commit import Commit, IdMerge, Plan
from eventlake.model.naming import Call
from eventlake.model.report import failure_lines, to_lines
from eventlake.model.schema import new_table
from eventlake.pipeline.chunks import ReadJob, ReadResult, read_seen
from eventlake.pipeline.commit import append
from eventlake.pipeline.dedupe import DedupeJob, DedupeResult, dedupe_task, drop
from eventlake.pipeline.describe import Outcome, check_balance, chunks_by_table, describe, landing
from eventlake.pipeline.evolve import Growth, evolve, refine
from eventlake.pipeline.finish import Finished, clean, finish
from eventlake.pipeline.merge_ids import merge_ids
from eventlake.pipeline.read import GatherJob, gather_task, plan_gather, read_task
from eventlake.pipeline.tasks import Watch, run_tasks
from eventlake.pipeline.write import WriteJob, WriteResult, plan_tasks, plan_units, write_task
from eventlake.ports import Progress, SparkProvider
from eventlake.stores import Object

EVENT_BYTES = 130
"""About what an event takes in a gzip file; only the number of tasks depends on it."""
GROUP_BYTES = 128 << 20
BUCKET_EVENTS = 4_000_000
YOUNG = 200_000
"""New objects after which cycles are looked for."""
IN_CACHE = 512 << 20
"""Input whose chunks, four times as large, may stay in the page cache on their way."""


REFUSALS = (Conflict, InvalidSettings, InsufficientPermissions)
"""Errors of a commit that say for sure that it was not made."""


@dataclass
class Run:
    """One sync on its way: what it works with, and how long its stages took."""

    lake: Lake
    ledger: Ledger
    runner: SparkProvider
    plan: Plan
    progress: Progress
    suppressed: frozenset[str] = frozenset()
    dead: tuple[str, ...] = ()
    holders: Holders = field(default_factory=dict)
    """The buckets that the plan's files lie in."""
    timings: dict[str, float] = field(default_factory=dict)
    is_committing: bool = False
    """Whether the commit may have been sent to the ledger."""

    @property
    def stage(self) -> str:
        return layout.stage_path(self.plan.run_id)

    @property
    def buckets(self) -> int:
        """How many tasks share the message ids."""
        return count_buckets(self.plan, self.runner.parallelism)

    def tasks(self, name: str, count: int, work: Callable[[int], bytes], total: int) -> list[bytes]:
        """Run a stage's tasks on Spark, telling how many rows are through."""

        def look() -> None:
            with suppress(EventLakeError):  # what is wrong, the work itself will meet and tell
                rows = _rows_in(self.lake.store.objects(f"{self.stage}/{name}"))
                self.progress.step(name, min(rows, total), total, rows)

        watch = Watch(look, 1.0 if self.lake.store.is_local else 5.0)  # each look lists the stage
        return run_tasks(self.runner.session(), count, work, watch)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        began = perf_counter()
        self.progress.step(stage, 0, 0, 0)
        yield
        self.timings[stage] = perf_counter() - began


def sync(run: Run) -> tuple[Commit, Finished]:
    """Land the plan's files: all of them, or nothing and an error."""
    with _few_collections(), ExitStack() as held:
        try:
            held.enter_context(Stage(run.lake.store, run.ledger.folder, run.plan.run_id))
            sequence, commit = committed(run, staged(run))
        except BaseException as problem:
            give_up(run, problem)
            raise
        finished = finish(run.lake, sequence, commit, run.progress)
    clean(run.lake, sequence, commit, finished, run.progress)
    return commit, finished


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for cycles less often: many tables are many small values, and none of these."""
    usual = gc.get_threshold()
    gc.set_threshold(usual[0] and max(usual[0], YOUNG), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def staged(run: Run) -> Commit:
    """Everything up to the commit: what is in the stage, and what it will mean."""
    found = read(run)
    kept = dedupe(run, found)
    merges = merge_index(run)
    growth = grow(run, found)
    written = write(run, found, growth)
    return describe(run.plan, Outcome(found, kept, growth, written, merges), run.dead)


def committed(run: Run, commit: Commit) -> tuple[int, Commit]:
    with run.timed("commit"):
        check_balance(commit)
        run.is_committing = True
        return append(run.ledger, run.plan.base, commit)


def give_up(run: Run, problem: BaseException) -> None:
    """Remove the stage and write a report that says why."""
    with suppress(EventLakeError):
        if run.ledger.sequence_of(run.plan.run_id, run.ledger.state()) is not None:
            return  # only the answer was lost: the commit stands, and the next run carries it out
        # A put without an answer may still be applied, and would need the stage. The next run
        # removes it with a commit of its own, which takes the sequence that the put asked for.
        if not run.is_committing or isinstance(problem, REFUSALS):
            remove_stage(run.lake.store, run.plan.run_id)
        code = problem.code if isinstance(problem, EventLakeError) else Internal.code
        why = str(problem) or type(problem).__name__
        lines = failure_lines(run.plan.run_id, run.plan.settings, why, code, run.lake.facts)
        path = layout.report_path(run.plan.settings.folder, run.plan.run_id)
        run.lake.store.write(path, to_lines(lines))


def read(run: Run) -> list[ReadResult]:
    """Archive files to chunks in the stage: by groups of files, then what they have few of."""
    plan = run.plan
    job = ReadJob(
        store=run.lake.store,
        stage=run.stage,
        run_id=plan.run_id,
        settings=plan.settings,
        known={name: table.types for name, table in plan.tables.items()},
        suppressed=run.suppressed,
        files=tuple(one.uri for one in plan.inputs),
        holders=dict(run.holders),
        groups=group_files([one.size for one in plan.inputs], run.runner.parallelism),
        buckets=run.buckets,
        compression=None if _stays_in_cache(run) else "lz4",
    )
    with run.timed("read"):
        answers = run.tasks("read", len(job.groups), partial(read_task, job), 0)
        found = [msgspec.json.decode(answer, type=ReadResult) for answer in answers]
        rest = GatherJob(job, plan_gather(found, run.runner.parallelism))
        answers = run.tasks("read", len(rest.tasks), partial(gather_task, rest), 0)
        return found + [msgspec.json.decode(answer, type=ReadResult) for answer in answers]


def _stays_in_cache(run: Run) -> bool:
    return run.lake.store.is_local and sum(one.size for one in run.plan.inputs) <= IN_CACHE


def group_files(sizes: Sequence[int], parallelism: int) -> tuple[range, ...]:
    """Neighbouring files in groups of about equal size: one for each core, or two, or three.

    No more than their size asks for: a group makes a chunk of every table that it meets.
    """
    groups = parallelism * max(1, -(-sum(sizes) // (GROUP_BYTES * parallelism)))
    # A file belongs to the group that its middle falls into.
    middles = (2 * end - size for end, size in zip(accumulate(sizes), sizes, strict=True))
    numbers = [middle * groups // (2 * sum(sizes) + 1) for middle in middles]
    cuts = [at for at, (one, other) in enumerate(pairwise(numbers), 1) if one != other]
    return tuple(range(start, end) for start, end in pairwise([0, *cuts, len(sizes)]))


def count_buckets(plan: Plan, parallelism: int) -> int:
    """By the number of the run's own ids, and of those that the recent index holds."""
    events = sum(one.size for one in plan.inputs) // EVENT_BYTES
    newest = max((file.last for file in plan.ids), default=0)
    recent = newest - 2 * plan.settings.dedup_days * DAY_MICROS
    known = sum(file.rows for file in plan.ids if file.last >= recent)
    spread = min(parallelism, (events + known) // 200_000)
    return max(1, spread, (events + known // 4) // BUCKET_EVENTS)


def dedupe(run: Run, found: list[ReadResult]) -> list[DedupeResult]:
    """Which rows are duplicates, noted at each chunk; the ids that are kept, in the stage."""
    parts = tuple((task, part) for task, result in enumerate(found) for part in result.ids)
    job = DedupeJob(
        store=run.lake.store,
        stage=run.stage,
        days=run.plan.settings.dedup_days,
        buckets=run.buckets,
        parts=parts,
        index=run.plan.ids,
    )
    with run.timed("dedupe"):
        answers = run.tasks("dedupe", run.buckets if parts else 0, partial(dedupe_task, job), 0)
        results = [msgspec.json.decode(answer, type=DedupeResult) for answer in answers]
        drop([result.chunks for result in found], results)
        return results


def merge_index(run: Run) -> tuple[IdMerge, ...]:
    """Merge small files of the id index, where the plan asks for it."""
    plan = run.plan
    folder = plan.settings.folder
    return merge_ids(run.lake.store, run.stage, folder, plan.run_id, plan.merges)


def grow(run: Run, found: list[ReadResult]) -> dict[str, Growth]:
    """Every table as its events ask for it."""
    with run.timed("evolve"):
        return {
            table: _grow_table(run, found, table, chunks[0].call)
            for table, chunks in chunks_by_table(found).items()
        }


def _grow_table(run: Run, found: list[ReadResult], table: str, call: Call) -> Growth:
    settings = run.plan.settings
    before = run.plan.tables.get(table) or new_table(table, call, settings.naming)
    seen = [seen for result in found for seen in result.seen.get(table, ())]
    growth = evolve(before, seen, settings.max_columns)
    if any(part.table == table for result in found for part in result.seen_more):
        growth = refine(growth, before, seen, read_seen(run.lake.store, found, table))
    return growth


def write(run: Run, found: list[ReadResult], growth: dict[str, Growth]) -> list[WriteResult]:
    """Chunks to Parquet files in the stage, all tables in one job."""
    by = run.plan.settings.date_partition
    units = [
        unit
        for table, chunks in chunks_by_table(found).items()
        for unit in plan_units(growth[table], chunks, by)
    ]
    parts = tuple(part for result in found for part in result.quarantine)
    tasks = plan_tasks(units, run.runner.parallelism)
    job = WriteJob(run.lake.store, run.stage, by, tuple(map(pickle.dumps, tasks)), parts)
    rows = sum(landing(chunk) for result in found for chunk in result.chunks)
    with run.timed("write"):
        answers = run.tasks("write", len(tasks) + bool(parts), partial(write_task, job), rows)
        return [msgspec.json.decode(answer, type=WriteResult) for answer in answers]


def _rows_in(objects: Iterable[Object]) -> int:
    """The rows of staged files so far; their names end in them."""
    names = (found.path.rpartition(".")[0] for found in objects)
    return sum(int(name.rpartition("-")[2]) for name in names)
