"""A minimal job for reading tasks."""

import gzip
from collections.abc import Sequence
from pathlib import Path

from eventlake.model.settings import source_settings
from eventlake.model.tunables import ReadTunables
from eventlake.pipeline.chunks import ReadJob
from eventlake.stores import Disk


def read_job(folder: Path, logs: Sequence[Sequence[str]], groups: tuple[range, ...]) -> ReadJob:
    """A job that reads gzip files with these lines into an empty lake."""
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
        skip=frozenset(),
        renamed={},
        table_types={},
        suppressed=frozenset(),
        files=tuple(uris),
        stores={},
        groups=groups,
        buckets=1,
        compression=None,
        tunables=ReadTunables(),
    )
