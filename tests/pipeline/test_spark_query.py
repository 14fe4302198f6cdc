"""Queries with Spark: names that are SQL keywords, mistakes, damaged files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.unit.test_query import WORDS, orders, table

from eventlake.errors import Damaged, InvalidSettings
from eventlake.query import QueryTable, run_spark_query
from eventlake.runners.local import LocalSpark

__all__ = ["orders"]

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return LocalSpark("local[1]").session()


def test_spark_answers_for_the_same_names(spark: SparkSession, orders: QueryTable) -> None:
    for database in WORDS:
        for name in ("2fa_enabled", "select"):
            odd = table(orders.files, name=name, database=database)
            found = run_spark_query(spark, [odd], f"select count(*) n from `{database}`.`{name}`")
            assert found.to_pylist() == [{"n": 3}]
    for database in ("global_temp", "spark_catalog"):
        with pytest.raises(InvalidSettings):
            run_spark_query(spark, [table(orders.files, database=database)], "table orders")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("", "Syntax error"),
        ("select raise_error('no')", "no"),
        ("select cast('a' as int)", "cannot be cast"),
        ("select array(1)[5]", "out of bounds"),
        ("select " + "(" * 3000 + "1" + ")" * 3000, "StackOverflowError"),
        ("select * from web.ordrs", "Did you mean: web.orders"),
        ("select '\udcff'", "not valid UTF-8"),
    ],
)
def test_a_mistake_in_a_query_for_spark(
    spark: SparkSession, orders: QueryTable, sql: str, said: str
) -> None:
    with pytest.raises(InvalidSettings, match=said):
        run_spark_query(spark, [orders], sql)


@pytest.mark.parametrize("content", [b"nonsense", b"PAR1" + bytes(100)])
def test_a_damaged_file_is_named_with_spark_too(
    spark: SparkSession, orders: QueryTable, content: bytes
) -> None:
    path, _ = orders.files[0]
    Path(path).write_bytes(content)
    with pytest.raises(Damaged, match=path):
        run_spark_query(spark, [orders], "select * from web.orders")


def test_spark_names_a_column_whose_type_was_changed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"price": [5]}), path)
    files = [(str(path), {"day": "2026-11-01"})]
    mixed = QueryTable("web", "paid", [("price", "string")], ("day",), files, retyped=["price"])
    with pytest.raises(InvalidSettings, match=r"web\.paid\.price was changed.*eventlake replay"):
        run_spark_query(spark, [mixed], "select price from web.paid")
