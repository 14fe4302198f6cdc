"""Compact: merge the small files of partitions that get no more events."""

import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, list_ledgers
from eventlake.model.commit import Commit
from eventlake.model.durations import parse_duration
from eventlake.model.lake import LakeSettings
from eventlake.model.tunables import Tunables, WriteTunables
from eventlake.pipeline.compact import select_merges
from eventlake.pipeline.finish import FinishResult
from eventlake.pipeline.sync import Run
from eventlake.ports import NoProgress, Progress
from eventlake.services.compaction import (
    Compactor,
    CompactResult,
    compact_all,
    estimate,
    find_small_files,
    make_result,
)
from eventlake.services.load import Where, execute, open_runner, spark_provider
from eventlake.services.replay import find_ledger, retry_on_conflict

T = TypeVar("T")


def plan_compaction(
    source: str | None = None,
    *,
    lake: str | Path | LakeSettings | Lake,
    older_than: str | timedelta = "2h",
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[CompactResult, ...]:
    """Plan a compaction of a source, or of all, without writing anything."""
    limit = _parse_limit(older_than)
    parts = open_parts(lake, clock=clock)
    file_bytes = WriteTunables().file_bytes

    def plan(ledger: Ledger) -> CompactResult:
        found = find_small_files(parts, ledger, limit, file_bytes)
        selected = select_merges(found.files, sys.maxsize, sys.maxsize)
        tables = [estimate(*item, file_bytes) for item in selected.items()]
        return make_result(parts, found, tables, status="planned" if tables else "nothing")

    return _for_each_source(parts, source, plan)


def compact(  # noqa: PLR0913 - each is an option of the command
    source: str | None = None,
    *,
    lake: str | Path | LakeSettings | Lake,
    older_than: str | timedelta = "2h",
    where: Where = "local[*]",
    temporary_cluster: bool = False,
    progress: Progress | None = None,
    on_planned: Callable[[str], object] = str,
    tunables: Tunables = Tunables(),  # noqa: B008 - it is frozen
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[CompactResult, ...]:
    """Merge the small files of partitions whose newest event is older than a limit.

    The rows of a source, or of all sources, stay as they are. A commit merges many files; if
    another run replaces one of them first, that commit is planned again. `on_planned` is called
    with the id of the run of each commit before it begins.
    """
    limit = _parse_limit(older_than)
    parts = open_parts(lake, clock=clock)
    spark = spark_provider(where, parts)
    listener = progress or NoProgress()

    def run_here(run: Run) -> tuple[Commit, FinishResult]:
        on_planned(run.plan.run_id)
        return execute(run, open_runner(lake, parts.store, where, temporary_cluster))

    def run(ledger: Ledger) -> CompactResult:
        compactor = Compactor(parts, ledger, limit, spark, run_here, listener, tunables)
        return compact_all(partial(retry_on_conflict, compactor.compact_once))

    return _for_each_source(parts, source, run)


def _parse_limit(older_than: str | timedelta) -> timedelta:
    if isinstance(older_than, timedelta):
        return older_than
    try:
        return parse_duration(older_than)
    except ValueError as problem:
        raise InvalidSettings(f"older_than is {older_than!r}: {problem}") from problem


def _for_each_source(parts: Lake, source: str | None, work: Callable[[Ledger], T]) -> tuple[T, ...]:
    """The results of `work` for the source, or for all that have landed events."""
    if source is not None:
        return (work(find_ledger(parts, source)),)
    ledgers = list_ledgers(parts.store, parts.layout)
    return tuple(work(ledger) for ledger in ledgers if ledger.read_settings())
