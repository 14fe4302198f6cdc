"""Statistics of a file's columns, for the commit."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.kernels.stats import file_stats
from eventlake.model.commit import ColumnStats

MICROS = pa.timestamp("us", tz="UTC")
COLUMN_DECIMAL = pa.decimal128(38, 6)


def stats(*groups: list[Any], kind: pa.DataType, **options: Any) -> dict[str, ColumnStats]:
    """The statistics of a file with one column, a row group for each list."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, pa.schema([("c", kind)]), **options) as writer:
        for values in groups:
            writer.write_table(pa.table({"c": pa.array(values, kind)}))
    return file_stats(pq.read_metadata(pa.BufferReader(sink.getvalue())))


def test_numbers_over_several_row_groups() -> None:
    assert stats([5, None], [-(2**63), 2**63 - 1], kind=pa.int64()) == {
        "c": (1, -(2**63), 2**63 - 1)
    }


def test_decimals_are_exact_text() -> None:
    large = Decimal("12345678901234567890.123456")
    assert stats([large, Decimal("-0.000001")], kind=COLUMN_DECIMAL) == {
        "c": (0, "-0.000001", "12345678901234567890.123456")
    }


def test_times_are_utc_with_microseconds() -> None:
    ancient = -62_135_596_800_000_000
    assert stats([ancient, 1], kind=MICROS) == {
        "c": (0, "0001-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000001Z")
    }


def test_strings_have_null_counts_alone() -> None:
    assert stats(["ada@example.com", None], kind=pa.string()) == {"c": (1, None, None)}


def test_booleans_have_null_counts_alone() -> None:
    assert stats([True, None, False], kind=pa.bool_()) == {"c": (1, None, None)}


def test_a_column_of_nulls() -> None:
    assert stats([None, None], kind=pa.string()) == {"c": (2, None, None)}
    assert stats([None], [7], kind=pa.int64()) == {"c": (1, 7, 7)}


def test_a_column_without_statistics_is_left_out() -> None:
    assert stats([1], kind=pa.int64(), write_statistics=False) == {}
