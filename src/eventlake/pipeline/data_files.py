"""Build Parquet files of tables in memory and put them into the stage."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.kernels.chunk import RECEIVED_AT
from eventlake.kernels.stats import file_stats, format_bound
from eventlake.model.commit import ColumnStats
from eventlake.model.settings import Compression
from eventlake.pipeline.results import WrittenFile
from eventlake.pipeline.stage_paths import new_path_with_rows
from eventlake.stores import Store

MAX_UPLOADS = 8
"""Files that are uploaded or fsynced at a time."""


@dataclass
class UploadQueue:
    """Uploads files into the stage while the next ones are made."""

    store: Store
    pool: ThreadPoolExecutor
    uploads: deque[Future[None]] = field(default_factory=deque)

    def put(self, path: str, data: pa.Buffer) -> None:
        """Upload a file in the background, after waiting if `MAX_UPLOADS` are pending.

        Writes it at once on a local disk. Raises the error of an earlier upload that it waited for.
        """
        if self.store.is_local:
            self.store.write_staged(path, data)  # on a local disk a thread only costs time
            return
        self.wait(MAX_UPLOADS)
        self.uploads.append(self.pool.submit(self.store.write_staged, path, data))

    def wait(self, max_pending: int) -> None:
        """Wait until at most `max_pending` uploads remain; raises the error of a failed one."""
        while len(self.uploads) > max_pending:
            self.uploads.popleft().result()


class OpenFile:
    """A Parquet file of a table in memory: rows in order of receipt, a row group for each write."""

    def __init__(self, first: pa.Table, compression: Compression, small_file_rows: int) -> None:
        """Begin a file for the rows `first`, which are not written yet.

        If they are fewer than `small_file_rows`, the file gets neither dictionaries nor statistics
        but those of the time of receipt.
        """
        self.schema, self._rows = first.schema, 0
        self._is_small = len(first) < small_file_rows
        self._first_received = self._last_received = first[RECEIVED_AT][0]
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            first.schema,
            compression=compression,
            use_dictionary=False if self._is_small else _dictionary_columns(first.schema),
            write_statistics=[RECEIVED_AT] if self._is_small else True,
            store_schema=False,  # the Parquet schema is enough
        )

    @property
    def size(self) -> int:
        """The bytes written so far, without the footer."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write rows as a row group; they must not be received before those written earlier."""
        self._writer.write_table(rows)
        self._last_received = rows[RECEIVED_AT][-1]
        self._rows += len(rows)

    def finish(self, queue: UploadQueue, folder: str, table: str, start: int) -> WrittenFile:
        """Complete the file, put it into a folder of the stage, and return its description.

        `start` is that of its partition. The file can only be read after `queue.wait(0)`.
        """
        self._writer.close()
        if self._is_small:  # rows are sorted; reading the footer would take as long as writing it
            first = format_bound(self._first_received.as_py())
            last = format_bound(self._last_received.as_py())
            stats: dict[str, ColumnStats] = {RECEIVED_AT: (0, first, last)}
        else:
            stats = file_stats(self._writer.writer.metadata)
        data = self._sink.getvalue()
        path = new_path_with_rows(folder, table, self._rows, ".parquet")
        queue.put(path, data)
        return WrittenFile(table, start, path, self._rows, data.size, stats)


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Columns to dictionary-encode: all strings except the first, which is the message id."""
    return [field.name for field in schema if pa.types.is_string(field.type)][1:]
