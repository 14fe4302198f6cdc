"""Statistics of a Parquet file's columns, as its footer has them, in values that go into JSON."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from eventlake.model.commit import Bound, ColumnStats

MAX_TEXT = 32
"""Longer least and greatest strings are left out: they would fill the commit and prune little."""


def file_stats(footer: pq.FileMetaData, columns: Iterable[int]) -> dict[str, ColumnStats]:
    """Null count, minimum and maximum of these columns, where every row group has statistics."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = {}
    for column in columns:
        chunks = [group.column(column) for group in groups]
        stats = [chunk.statistics for chunk in chunks]
        if all(one is not None for one in stats):  # "None in" compares, and crashes in Arrow
            found[chunks[0].path_in_schema] = _merged(stats)
    return found


def _merged(stats: list[Any]) -> ColumnStats:
    nulls = sum(one.null_count or 0 for one in stats)
    bounded = [one for one in stats if one.has_min_max]
    if len(bounded) < len([one for one in stats if one.num_values]) or not bounded:
        return nulls, None, None  # a row group has values and does not say between which
    return nulls, _bound(min(_each(bounded, "min"))), _bound(max(_each(bounded, "max")))


def _each(stats: list[Any], name: str) -> Iterator[Any]:
    return (getattr(one, name) for one in stats)


def _bound(value: Any) -> Bound:
    if isinstance(value, bool):
        return None  # which says next to nothing
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else None
    return int(value)
