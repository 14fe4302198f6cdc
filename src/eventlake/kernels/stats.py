"""Read column statistics from a Parquet footer, as values that JSON can hold."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from eventlake.model.commit import Bound, ColumnStats


def file_stats(footer: pq.FileMetaData) -> dict[str, ColumnStats]:
    """Return null count, minimum and maximum of the columns with statistics in every row group.

    By column; a bound is None if it is not known or of no use.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    by_column = {}
    for column in range(footer.num_columns):
        chunks = [group.column(column) for group in groups]
        stats = [chunk.statistics for chunk in chunks]
        # Not `None in stats`: comparing statistics with None crashes in Arrow.
        if all(one is not None for one in stats):
            by_column[chunks[0].path_in_schema] = _merge_groups(stats)
    return by_column


def _merge_groups(stats: list[Any]) -> ColumnStats:
    """Merge the statistics of a column's row groups; no bounds if a group lacks them."""
    nulls = sum(one.null_count or 0 for one in stats)
    bounded = [one for one in stats if one.has_min_max]
    if len(bounded) < len([one for one in stats if one.num_values]) or not bounded:
        return nulls, None, None  # a row group has values but no bounds
    least, greatest = min(one.min for one in bounded), max(one.max for one in bounded)
    return nulls, format_bound(least), format_bound(greatest)


def format_bound(value: Any) -> Bound:
    """Return a minimum or maximum as JSON can hold it; None for booleans and strings.

    Timestamps become ISO text in UTC, decimals text; numbers stay integers. Strings are left out
    because commits are never rewritten, and a user must be able to be forgotten.
    """
    if isinstance(value, bool | str):
        return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, Decimal):
        return str(value)
    return int(value)
