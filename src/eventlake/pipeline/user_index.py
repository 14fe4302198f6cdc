"""The user index: for each file, the hashes of the users' ids in it, in one object per run.

It says which files may have the events of a user that is to be forgotten. Tasks return parts of it,
large ones as objects in the stage, and the driver writes the run's object, an Arrow stream.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventlake.errors import EventLakeError
from eventlake.kernels.user_hashes import NO_HASHES, Hashes
from eventlake.model.commit import StagedFile
from eventlake.model.erasure import ID_COLUMNS
from eventlake.pipeline.results import UserPart
from eventlake.pipeline.stage_paths import new_path
from eventlake.stores import Store
from eventlake.stores.damage import reading_parquet

SCHEMA = pa.schema([("file", pa.string()), ("hashes", pa.binary())])
"""The path of a data file or the key of an input, and its sorted 32-bit hashes."""

MAX_INLINE_BYTES = 16 << 10
"""Size of a part up to which a task returns it instead of writing it into the stage."""

Entry = tuple[str, Hashes]


def make_part(store: Store, stage: str, label: str, entries: Mapping[str, Hashes]) -> UserPart:
    """Return the hashes of a task's files, or write them into the stage if they are many.

    Files are named as the task knows them: by staged path, or by the number of the input.
    """
    batches = [list(entries.items())]
    if sum(len(file) + hashes.nbytes for file, hashes in entries.items()) > MAX_INLINE_BYTES:
        return UserPart(path=write_entries(store, new_path(f"{stage}/users", label), batches))
    out = pa.BufferOutputStream()
    if entries:
        _write_stream(out, batches)
    return UserPart(data=out.getvalue().to_pybytes())


def write_entries(store: Store, path: str, batches: Iterable[list[Entry]]) -> str:
    """Write entries to `path`; return `path`, or "" if there are no entries."""
    filled = [batch for batch in batches if batch]
    if not filled:
        return ""
    with store.open_staged(path) as out:
        _write_stream(out, filled)
    return path


def _write_stream(out: pa.NativeFile, batches: Iterable[list[Entry]]) -> None:
    """Write batches, none of them empty, as an Arrow stream."""
    with pa.ipc.new_stream(out, SCHEMA) as stream:
        for batch in batches:
            files, hashes = zip(*batch, strict=True)
            packed = [one.astype("<u4").tobytes() for one in hashes]
            arrays = [pa.array(files, pa.string()), pa.array(packed, pa.binary())]
            stream.write_batch(pa.record_batch(arrays, schema=SCHEMA))


def _read_stream(data: bytes) -> Iterator[Entry]:
    """Yield the entries of an Arrow stream; raises Arrow's errors for a damaged one."""
    with pa.ipc.open_stream(pa.BufferReader(data)) as stream:
        for batch in stream:
            names, packed = batch.columns
            for number in range(len(batch)):
                yield names[number].as_py(), np.frombuffer(packed[number].as_buffer(), "<u4")


def join_parts(
    store: Store, stage: str, path: str, parts: Iterable[UserPart], name_file: Callable[[str], str]
) -> StagedFile | None:
    """Join the parts of a run into one object in its stage, to be published to `path`.

    `name_file` returns the final name of a file that a part names. None without parts.
    """
    batches = (
        [
            (name_file(file), hashes)
            for file, hashes in _read_stream(part.data or store.read(part.path))
        ]
        for part in parts
        if part.data or part.path
    )
    return stage_index(store, stage, path, batches)


def stage_index(
    store: Store, stage: str, path: str, batches: Iterable[list[Entry]]
) -> StagedFile | None:
    """Write the entries of a run into its stage and fsync them; None without entries."""
    staged = write_entries(store, new_path(f"{stage}/users", "all"), batches)
    if not staged:
        return None
    store.fsync(staged)
    return StagedFile(staged=staged, path=path)


def read_index(store: Store, paths: Iterable[str]) -> dict[str, Hashes]:
    """Read the objects of several runs; return the hashes of each file.

    Objects that are gone or damaged are left out: nothing is known about their files then.
    """
    parts: dict[str, list[Hashes]] = {}
    for path in paths:
        try:
            entries = list(_read_stream(store.read(path)))
        except (EventLakeError, pa.ArrowException):
            continue
        for file, hashes in entries:
            parts.setdefault(file, []).append(hashes)
    return {file: merge_hashes(several) for file, several in parts.items()}


def merge_hashes(parts: list[Hashes]) -> Hashes:
    """Return the distinct hashes of all parts, sorted."""
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate([NO_HASHES, *parts]))


def input_key(uri: str, fingerprint: str) -> str:
    """The name of an input in the index."""
    return f"{uri}\n{fingerprint}"


def list_users(store: Store, path: str) -> set[str]:
    """Read all users' ids in a data file; raises `Damaged` if it is corrupt."""
    with reading_parquet(store, path), pq.ParquetFile(store.open(path)) as file:
        names = [name for name in ID_COLUMNS if name in file.schema_arrow.names]
        columns = file.read(columns=names).columns
    return {str(one) for column in columns for one in pc.unique(column).drop_null().to_pylist()}
