"""Parquet files as rows to query, a few columns of them."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from pyarrow.dataset import FileSystemDataset, ParquetFileFormat, ParquetFileFragment, field

from eventlake.verify.check import Check
from eventlake.verify.place import AT_ONCE, FAILURES

_GROUP = 100
"""Files whose footers are in memory at once; one of a wide table takes megabytes."""
_MARKS = pa.schema([("__number", pa.int32()), ("__table", pa.string())])
_PARQUET = ParquetFileFormat()


class File(NamedTuple):
    """A Parquet file of the lake; its rows are marked with its number and its table."""

    path: str
    number: int = 0
    table: str = ""


def query_parquet(check: Check, query: str, files: Iterable[File], columns: pa.Schema) -> list[Any]:
    """What a query over `rows` gives, asked of some files at a time, which are read as a stream.

    A file that cannot be read, or lacks a column, is a problem and is left out.
    """
    found: list[Any] = []
    left = iter(files)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while group := list(islice(left, _GROUP)):
            fragments = [_fragment(check, file) for file in group]
            flaws = pool.map(partial(_flaw, check, columns), fragments)
            sound = list(_sound(check, fragments, flaws))
            found += _asked(check, query, sound, columns)
    return found


def _fragment(check: Check, file: File) -> ParquetFileFragment:
    number = field("__number") == pa.scalar(file.number, pa.int32())
    # As columns that are the same in a whole file: a join by file names would hold all rows.
    marks = number & (field("__table") == file.table)
    return _PARQUET.make_fragment(
        check.place.whole(file.path), check.place.filesystem, partition_expression=marks
    )


def _flaw(check: Check, columns: pa.Schema, fragment: ParquetFileFragment) -> str:
    """What is wrong with a file, as far as its footer tells."""
    try:
        missing = set(columns.names) - set(fragment.physical_schema.names)
    except FAILURES as problem:
        return check.place.why(problem, check.place.within(fragment.path))
    return f"it has no column {min(missing)}" if missing else ""


def _sound(
    check: Check, fragments: Iterable[ParquetFileFragment], flaws: Iterable[str]
) -> Iterator[ParquetFileFragment]:
    for fragment, flaw in zip(fragments, flaws, strict=True):
        if flaw:
            _tell(check, fragment, flaw)
        else:
            yield fragment


def _tell(check: Check, fragment: ParquetFileFragment, flaw: str) -> None:
    check.problems.append(f"{check.place.within(fragment.path)} cannot be read: {flaw}")


def _asked(
    check: Check, query: str, fragments: list[ParquetFileFragment], columns: pa.Schema
) -> list[Any]:
    """Ask of all at once; when that fails, of each half, down to the file that is damaged."""
    if not fragments:
        return []
    try:
        return _answer(check, query, fragments, columns)
    except (duckdb.Error, *FAILURES) as problem:
        flaw = check.place.why(problem, check.place.within(fragments[0].path))
        if len(fragments) == 1:
            _tell(check, fragments[0], flaw)
            return []
    half = len(fragments) // 2
    first = _asked(check, query, fragments[:half], columns)
    return first + _asked(check, query, fragments[half:], columns)


def _answer(
    check: Check, query: str, fragments: list[ParquetFileFragment], columns: pa.Schema
) -> list[Any]:
    schema = pa.unify_schemas([columns, _MARKS])
    whole = FileSystemDataset(fragments, schema, _PARQUET, check.place.filesystem)
    # A bucket is slow to answer and disks are not: look ahead over files, not far into one.
    stream = whole.scanner(batch_size=1 << 15, batch_readahead=4, fragment_readahead=8)
    check.db.register("rows", stream.to_reader())
    try:
        return check.rows(query)
    finally:
        check.db.unregister("rows")
