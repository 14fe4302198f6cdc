"""Count the events of users in files, and write the files again without them, into the stage."""

from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from isal import isal_zlib

from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.dedupe import Ids, hash_ids
from eventlake.kernels.erase import ErasedIds, LineFilter, match_rows
from eventlake.kernels.line_ids import list_ids, list_rejected_ids
from eventlake.kernels.lines import OpenFile, read_blocks, suffix_of
from eventlake.kernels.stats import file_stats
from eventlake.kernels.times import as_micros
from eventlake.kernels.user_hashes import HashCollector, Hashes
from eventlake.model.commit import ColumnStats
from eventlake.model.erasure import ID_COLUMNS, ErasedFile, FileKind
from eventlake.stores import Store
from eventlake.stores.damage import reading_parquet

CUT_BYTES = 3
"""A gzip file without its checksum, or a zstd file without its last block, is damaged."""


class EventCounts(NamedTuple):
    """The rows or lines of a file, and how many of them are to be erased."""

    rows: int
    erased: int


class RewrittenFile(NamedTuple):
    """A file in the stage without the erased events; `erased.new_path` is left to the caller."""

    erased: ErasedFile
    hashes: Hashes
    """The users' ids that the file still has."""
    removed_ids: Ids | None = None
    """The message ids of the removed rows."""
    stats: dict[str, ColumnStats] = {}  # noqa: RUF012 - it is never changed


def count_rows(store: Store, path: str, ids: ErasedIds) -> EventCounts:
    """Count the erased rows of a data file; raises `Damaged` if it is corrupt."""
    with reading_parquet(store, path), pq.ParquetFile(store.open(path)) as file:
        names = [name for name in ID_COLUMNS if name in file.schema_arrow.names]
        groups = range(file.metadata.num_row_groups)
        matches = (match_rows(file.read_row_group(n, columns=names), ids).sum() for n in groups)
        return EventCounts(file.metadata.num_rows, int(sum(matches)))


def count_lines(open_file: OpenFile, kind: FileKind, ids: ErasedIds) -> EventCounts:
    """Count the erased lines of a raw log or rejected log."""
    lines = _line_filter(kind, ids)
    for _ in lines.filter(read_blocks(open_file)):
        continue
    return EventCounts(lines.lines, lines.removed)


def count_quarantined(store: Store, path: str, ids: ErasedIds) -> EventCounts:
    """Count the erased lines of a quarantine file; raises `Damaged` if it is corrupt."""
    rows = _read_quarantine(store, path)
    return EventCounts(len(rows), int(_match_quarantined(rows, ids).sum()))


def _line_filter(kind: FileKind, ids: ErasedIds) -> LineFilter:
    return LineFilter(ids, list_rejected_ids if kind is FileKind.REJECTED else list_ids)


def _read_quarantine(store: Store, path: str) -> pa.Table:
    with reading_parquet(store, path), store.open(path) as file:
        return pq.read_table(file, partitioning=None)


def _match_quarantined(rows: pa.Table, ids: ErasedIds) -> np.ndarray:
    erased = (any(one in ids.exact for one in list_ids(raw)) for raw in rows["raw"].to_pylist())
    return np.fromiter(erased, np.bool_, len(rows))


def rewrite_rows(
    store: Store, path: str, staged: str, ids: ErasedIds, id_column: str | None
) -> RewrittenFile:
    """Write a data file to `staged` without the erased rows, and with the options that it has.

    Writes nothing if no rows remain. Collects the message ids of the removed rows, unless
    `id_column` is None.
    """
    data, sink, users = store.read(path), pa.BufferOutputStream(), HashCollector()
    removed, stats, rows = [], {}, 0
    with reading_parquet(store, path), pq.ParquetFile(pa.BufferReader(data)) as file:
        writer = pq.ParquetWriter(sink, file.schema_arrow, **_writer_options(file))
        for number in range(file.metadata.num_row_groups):
            group = file.read_row_group(number)
            matches = match_rows(group, ids)
            if id_column:
                removed.append(_message_ids(group.filter(pa.array(matches)), id_column))
            kept = group.filter(pa.array(~matches))
            if len(kept):
                writer.write_table(kept)
                users.add_table(0, kept)
                rows += len(kept)
        writer.close()
        before = file.metadata.num_rows
    content = sink.getvalue()
    if rows:
        stats = file_stats(writer.writer.metadata)
        store.write_staged(staged, content)
        store.fsync(staged)
    erased = _erased_file(FileKind.TABLE, path, data, before).model_copy(
        update=_new_content(content, rows) if rows else {}
    )
    message_ids = _concatenate(removed) if removed else None
    return RewrittenFile(erased, _only_hashes(users), message_ids, stats)


def _writer_options(file: pq.ParquetFile) -> dict[str, Any]:
    """The options with which a Parquet file was written, by its first row group."""
    first = file.metadata.row_group(0)
    columns = [first.column(number) for number in range(first.num_columns)]
    metadata = file.metadata.metadata or {}
    return {
        "compression": {c.path_in_schema: c.compression.lower() for c in columns},
        "use_dictionary": [c.path_in_schema for c in columns if c.has_dictionary_page],
        "write_statistics": [c.path_in_schema for c in columns if c.is_stats_set],
        "store_schema": b"ARROW:schema" in metadata,
        "use_deprecated_int96_timestamps": any(c.physical_type == "INT96" for c in columns),
    }


def _message_ids(rows: pa.Table, id_column: str) -> Ids:
    """The hashed message ids of rows; those without an id have none in the index either."""
    rows = rows.filter(rows[id_column].is_valid())
    high, low = hash_ids(rows[id_column].to_pylist())
    return Ids(high, low, as_micros(rows[RECEIVED_AT].combine_chunks()))


def _concatenate(parts: list[Ids]) -> Ids:
    return Ids(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _only_hashes(users: HashCollector) -> Hashes:
    return users.finish().get(0, np.empty(0, np.uint32))


def _erased_file(kind: FileKind, path: str, data: bytes, rows: int) -> ErasedFile:
    digest = sha256(data).hexdigest()
    return ErasedFile(kind=kind, path=path, bytes=len(data), rows=rows, sha256=digest)


def _new_content(data: bytes | pa.Buffer, rows: int) -> dict[str, object]:
    size = len(memoryview(data))
    return {"new_bytes": size, "new_rows": rows, "new_sha256": sha256(data).hexdigest()}


def rewrite_quarantine(store: Store, path: str, staged: str, ids: ErasedIds) -> RewrittenFile:
    """Write a quarantine file to `staged` without the erased lines; nothing if none remain."""
    rows = _read_quarantine(store, path)
    matches = _match_quarantined(rows, ids)
    kept, sink = rows.filter(pa.array(~matches)), pa.BufferOutputStream()
    reasons = Counter(rows["reason"].filter(pa.array(matches)).to_pylist())
    erased = _erased_file(FileKind.QUARANTINE, path, store.read(path), len(rows))
    changes: dict[str, object] = {"reasons": dict(sorted(reasons.items()))}
    if len(kept):
        pq.write_table(kept, sink, compression="zstd")
        store.write(staged, sink.getvalue())
        store.fsync(staged)
        changes |= _new_content(sink.getvalue(), len(kept))
    return RewrittenFile(erased.model_copy(update=changes), np.empty(0, np.uint32))


def rewrite_lines(
    open_file: OpenFile, kind: FileKind, path: str, target: tuple[Store, str], ids: ErasedIds
) -> RewrittenFile:
    """Write a raw log or rejected log to `target`, a store and a path, without the erased lines.

    They become empty lines, so that the others keep their numbers. The file is compressed as
    before; a damaged one stays damaged after the last line.
    """
    (store, staged), lines = target, _line_filter(kind, ids)
    before, size, head = sha256(), 0, b""
    for piece in open_file():
        before.update(piece)
        size, head = size + len(piece), head + piece if len(head) < 4 else head
    after, new_size = sha256(), 0
    with store.open_staged(staged) as out:
        for piece in _compress(lines, read_blocks(open_file), suffix_of(head)):
            out.write(piece)
            after.update(piece)
            new_size += len(piece)
    store.fsync(staged)
    users = HashCollector()
    users.add(0, pa.array(sorted(lines.kept_ids), pa.string()))
    erased = ErasedFile(
        kind=kind,
        path=path,
        bytes=size,
        rows=lines.lines,
        sha256=before.hexdigest(),
        new_bytes=new_size,
        new_rows=lines.lines - lines.removed,
        new_sha256=after.hexdigest(),
        reasons=dict(sorted(lines.reasons.items())),
    )
    return RewrittenFile(erased, _only_hashes(users))


def _compress(lines: LineFilter, blocks: Iterator[Any], suffix: str) -> Iterator[bytes]:
    """Yield filtered blocks as gzip, zstd or plain text, by the suffix.

    Without the last bytes if the file was damaged: it then counts as truncated after its lines.
    """
    pack = _PACKERS[suffix]()
    for block in lines.filter(blocks):
        yield pack.compress(block)
    end = pack.flush()
    yield end[:-CUT_BYTES] if lines.is_damaged else end


class _PlainText:
    """Has the methods of a compressor and changes nothing."""

    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _Zstd:
    """A compressor whose last block is empty, and so can be cut without loss of lines."""

    def __init__(self) -> None:
        self._frame = zstandard.ZstdCompressor().compressobj()

    def compress(self, data: bytes) -> bytes:
        return self._frame.compress(data)

    def flush(self) -> bytes:
        return self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + self._frame.flush()


_PACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: isal_zlib.compressobj(level=2, wbits=31),
    ".zst": _Zstd,
    "": _PlainText,
}
