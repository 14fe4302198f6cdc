"""A job for reading tasks, as small as can be."""

import gzip
from collections.abc import Sequence
from pathlib import Path

from eventlake.model.settings import source_settings
from eventlake.pipeline.chunks import ReadJob
from eventlake.stores import Disk


def read_job(folder: Path, logs: Sequence[Sequence[str]], groups: tuple[range, ...]) -> ReadJob:
    """The lines of some gzip files, to be read into a lake that is empty."""
    uris = []
    for number, lines in enumerate(logs):
        path = folder / f"{number}.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode()))
        uris.append(path.as_uri())
    return ReadJob(
        store=Disk(str(folder / "lake")),
        stage="stage",
        run_id=str(folder),
        settings=source_settings(source="web"),
        table_types={},
        suppressed=frozenset(),
        files=tuple(uris),
        stores={},
        groups=groups,
        buckets=1,
        compression=None,
    )
