"""Merge files of the message-id index, so that a run opens few of them whatever came before it."""

import uuid
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from eventlake.kernels.dedupe import DAY_MICROS, Ids
from eventlake.model.commit import IdFile, IdMerge
from eventlake.model.layout import ids_path
from eventlake.pipeline.dedupe import read_ids, write_ids
from eventlake.stores import Store

MERGE = 8
"""Files of about one size that are merged into one."""
MAX_ROWS = 4_000_000
"""Files with more ids than this are left as they are: a merge happens in memory."""
WEEK = 7 * DAY_MICROS


def plan_merges(files: Sequence[IdFile]) -> tuple[tuple[IdFile, ...], ...]:
    """Groups of files to merge: many of one size whose ids were received in the same week.

    Only files of one week meet, so that a merged file is not opened for a window that few of its
    ids are in.
    """
    groups: defaultdict[tuple[int, int], list[IdFile]] = defaultdict(list)
    for file in files:
        if file.first // WEEK == file.last // WEEK:
            groups[file.first // WEEK, _size(file.rows)].append(file)
    full = (group[:MERGE] for group in groups.values() if len(group) >= MERGE)
    return tuple(tuple(group) for group in full if sum(one.rows for one in group) <= MAX_ROWS)


def _size(rows: int) -> int:
    """The power of eight that a number of rows is closest below."""
    return (rows.bit_length() - 1) // 3


def merge_ids(
    store: Store, stage: str, folder: str, run_id: str, groups: Sequence[Sequence[IdFile]]
) -> tuple[IdMerge, ...]:
    """Write each group as one file into the stage."""
    return tuple(
        _merge(store, f"{stage}/kept/merged-{uuid.uuid4().hex}.parquet", path, group)
        for number, group in enumerate(groups)
        if (path := ids_path(folder, run_id, FIRST_MERGED + number))
    )


FIRST_MERGED = 900_000
"""The number of the first merged file in its run; those of the run's own ids come before."""


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
