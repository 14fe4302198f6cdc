"""Merge files of the id index, so that a run opens few of them however many runs came before."""

import uuid
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from eventlake.kernels.dedupe import DAY_MICROS, Ids
from eventlake.ledger import Ledger
from eventlake.model.commit import IdFile, IdMerge
from eventlake.pipeline.dedupe import read_ids, write_ids
from eventlake.stores import Store

MERGE_FILES = 8
"""Files of similar size that are merged into one."""
MAX_MERGED_ROWS = 4_000_000
"""Ids of a merged file, at most: a merge happens in memory."""
WEEK = 7 * DAY_MICROS


def plan_merges(files: Sequence[IdFile]) -> tuple[tuple[IdFile, ...], ...]:
    """Choose groups of index files to merge: similar in size, ids received in the same week.

    A merged file of several weeks would be opened for windows that few of its ids are in.
    """
    groups: defaultdict[tuple[int, int], list[IdFile]] = defaultdict(list)
    for file in files:
        if file.first // WEEK == file.last // WEEK:
            groups[file.first // WEEK, _size_class(file.rows)].append(file)
    full = (group[:MERGE_FILES] for group in groups.values() if len(group) >= MERGE_FILES)
    return tuple(
        tuple(group) for group in full if sum(one.rows for one in group) <= MAX_MERGED_ROWS
    )


def _size_class(rows: int) -> int:
    """The exponent of the largest power of eight that is at most `rows`."""
    return (rows.bit_length() - 1) // 3


def merge_ids(
    ledger: Ledger, stage: str, run_id: str, groups: Sequence[Sequence[IdFile]]
) -> tuple[IdMerge, ...]:
    """Merge each group into one file in the stage; the merges name its final path."""
    return tuple(
        _merge(ledger.store, f"{stage}/kept/merged-{uuid.uuid4().hex}.parquet", path, group)
        for number, group in enumerate(groups, FIRST_MERGED)
        if (path := ledger.layout.ids_path(ledger.folder, run_id, number))
    )


FIRST_MERGED = 900_000
"""Number of a run's first merged file; the files of its own ids have lower numbers."""


def _merge(store: Store, staged: str, path: str, group: Sequence[IdFile]) -> IdMerge:
    parts = [read_ids(store, file.path) for file in group]
    ids = Ids(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    write_ids(store, staged, ids)
    store.fsync(staged)
    file = IdFile(
        path=path,
        rows=len(ids.high),
        first=min(one.first for one in group),
        last=max(one.last for one in group),
        staged=staged,
    )
    return IdMerge(file=file, replaces=tuple(one.path for one in group))
