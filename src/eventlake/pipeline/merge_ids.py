"""Merge files of the id index, so that a run opens few of them however many runs came before."""

from collections.abc import Sequence

import numpy as np

from eventlake.kernels.dedupe import Ids
from eventlake.ledger import Ledger
from eventlake.model.commit import IdFile, IdMerge
from eventlake.pipeline.id_files import read_index_file, write_ids
from eventlake.pipeline.stage_paths import new_path
from eventlake.stores import Store


def merge_ids(
    ledger: Ledger, stage: str, run_id: str, groups: Sequence[Sequence[IdFile]]
) -> tuple[IdMerge, ...]:
    """Merge each group of index files into one file in the stage; return the merges.

    The files are numbered from `FIRST_MERGED`, with a final path for the commit to publish them to.
    """
    return tuple(
        _merge_group(ledger.store, new_path(f"{stage}/kept", "merged", ".parquet"), path, group)
        for number, group in enumerate(groups, FIRST_MERGED)
        if (path := ledger.layout.ids_path(ledger.folder, run_id, number))
    )


FIRST_MERGED = 900_000
"""Number of a run's first merged file; the files of its own ids have lower numbers."""


def _merge_group(store: Store, staged: str, path: str, group: Sequence[IdFile]) -> IdMerge:
    """Write all ids of a group, but those removed since, into `staged`; repeated ids stay."""
    parts = [read_index_file(store, file) for file in group]
    ids = Ids(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    write_ids(store, staged, ids)
    store.fsync(staged)
    file = IdFile(
        path=path,
        rows=len(ids.high),
        first=int(ids.received.min()) if len(ids.high) else group[0].first,
        last=int(ids.received.max()) if len(ids.high) else group[0].last,
        staged=staged,
    )
    return IdMerge(file=file, replaces=tuple(one.path for one in group))
