"""SQL over a lake's files, without a lake: tables are what the catalog would say."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlake.errors import InvalidSettings, LimitExceeded
from eventlake.kernels.cast import ARROW_BY_TYPE
from eventlake.model.contents import QueryLimits
from eventlake.model.settings import RESERVED
from eventlake.model.types import Type
from eventlake.query import QueryTable, run_query, similar_tables

NOON = datetime(2026, 11, 1, 12, 30, 0, 123456, tzinfo=UTC)
BIG = Decimal("123456789012345678.123456")

COLUMNS = [
    ("id", "string"),
    ("received_at", "timestamp"),
    ("price", "decimal(38,6)"),
    ("quantity", "bigint"),
    ("gift", "boolean"),
    ("coupon", "string"),
]
OLD = pa.schema(
    [
        ("id", pa.string()),
        ("received_at", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(38, 6)),
        ("quantity", pa.int64()),
        ("gift", pa.bool_()),
    ]
)
NEW = OLD.append(pa.field("coupon", pa.string()))


def table(
    files: Sequence[tuple[str, dict[str, str]]] = (), name: str = "orders", database: str = "web"
) -> QueryTable:
    return QueryTable(database, name, COLUMNS, ("day", "hr"), files)


def write(
    root: Path, hour: str, rows: list[list[Any]], schema: pa.Schema
) -> tuple[str, dict[str, str]]:
    path = root / f"day=2026-11-01/hr={hour}/1.parquet"
    path.parent.mkdir(parents=True)
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    pq.write_table(pa.Table.from_pylist(named, schema=schema), path)
    return str(path), {"day": "2026-11-01", "hr": hour}


@pytest.fixture
def orders(tmp_path: Path) -> QueryTable:
    """Two hours: the first was written before the column `coupon` was seen."""
    early = write(tmp_path, "07", [["a", NOON, BIG, 2**63 - 1, True]], OLD)
    late = write(
        tmp_path,
        "12",
        [["b", NOON, Decimal("1.5"), 1, None, "SPRING"], ["c", NOON, None, None, False, None]],
        NEW,
    )
    return table([early, late])


def answer(tables: Sequence[QueryTable], sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run_query(tables, sql).to_pylist()
    return rows


def test_columns_have_the_catalogs_types_and_the_partition_comes_last(orders: QueryTable) -> None:
    found = run_query([orders], "select * from web.orders")
    assert found.schema == pa.schema([*NEW, ("day", pa.string()), ("hr", pa.string())])


def test_a_column_that_an_old_file_does_not_have_is_null(orders: QueryTable) -> None:
    found = answer([orders], "select id, coupon from web.orders order by id")
    assert [row["coupon"] for row in found] == [None, "SPRING", None]


def test_values_arrive_exactly(orders: QueryTable) -> None:
    [found] = answer([orders], "select * from web.orders where hr = '07'")
    assert found == {
        "id": "a",
        "received_at": NOON,
        "price": BIG,
        "quantity": 2**63 - 1,
        "gift": True,
        "coupon": None,
        "day": "2026-11-01",
        "hr": "07",
    }


def test_partitions_are_strings_from_the_path(orders: QueryTable) -> None:
    found = answer(
        [orders], "select day, hr, count(*) as n from web.orders group by all order by hr"
    )
    assert found == [
        {"day": "2026-11-01", "hr": "07", "n": 1},
        {"day": "2026-11-01", "hr": "12", "n": 2},
    ]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("price > 1.25", ["a", "b"]),
        ("price = 123456789012345678.123456", ["a"]),
        ("quantity = 9223372036854775807", ["a"]),
        ("gift", ["a"]),
        ("not gift", ["c"]),
        ("gift is null", ["b"]),
        ("received_at = '2026-11-01 12:30:00.123456Z'", ["a", "b", "c"]),
        ("received_at > '2026-11-01 12:30:00.123456Z'", []),
        ("coupon in ('SPRING', 'X') and hr between '08' and '20'", ["b"]),
        ("day < '2026-11-01'", []),
    ],
)
def test_filters_reach_the_files_and_are_exact(
    orders: QueryTable, where: str, ids: list[str]
) -> None:
    found = answer([orders], f"select id from web.orders where {where} order by id")
    assert [row["id"] for row in found] == ids


def test_a_filter_on_the_partition_opens_only_its_files(orders: QueryTable) -> None:
    gone = table([*orders.files, ("/nowhere/1.parquet", {"day": "2026-11-01", "hr": "13"})])
    assert answer([gone], "select count(*) as n from web.orders where hr < '13'") == [{"n": 3}]


def test_a_table_without_files_is_empty_and_typed() -> None:
    found = run_query([table()], "select * from web.orders")
    assert found.num_rows == 0
    assert found.schema.field("price").type == pa.decimal128(38, 6)


def test_moments_are_in_utc(orders: QueryTable) -> None:
    sql = (
        "select received_at::varchar as at, date_trunc('hour', received_at) as hour from web.orders"
    )
    found = answer([orders], f"{sql} limit 1")
    assert found == [
        {"at": "2026-11-01 12:30:00.123456+00", "hour": datetime(2026, 11, 1, 12, tzinfo=UTC)}
    ]


def test_tables_of_several_databases_join(orders: QueryTable) -> None:
    app = table(orders.files, database="app")
    sql = "select count(*) as n from web.orders join app.orders using (id)"
    assert answer([orders, app], sql) == [{"n": 3}]


WORDS = ("default", "group", "main", "memory", "null", "order", "select", "table", "user", "2fa")
"""Slugs that mean something in SQL."""


@pytest.mark.parametrize("database", [*WORDS, "lake", "sys", "__segment_datalake"])
def test_odd_database_names_work(orders: QueryTable, database: str) -> None:
    odd = table(orders.files, name="2fa_enabled", database=database)
    assert answer([odd], f'select count(*) as n from "{database}"."2fa_enabled"') == [{"n": 3}]


def test_a_database_that_the_engine_reserves_is_a_mistake(orders: QueryTable) -> None:
    """Settings refuse them; a catalog that others fill may have one."""
    for database in RESERVED:
        if "DuckDB" in RESERVED[database]:
            with pytest.raises(InvalidSettings, match="Binder Error"):
                run_query([table(orders.files, database=database)], f"table {database}.orders")


def test_names_may_be_in_any_case(orders: QueryTable) -> None:
    assert answer([orders], "SELECT count(*) AS n FROM Web.ORDERS") == [{"n": 3}]


def test_only_tables_that_the_query_mentions_are_opened(orders: QueryTable) -> None:
    # A type that no lake has: opening this table would fail.
    broken = QueryTable("web", "refunds", [("id", "float")], ("day",), [])
    assert answer([orders, broken], "select count(*) as n from web.orders") == [{"n": 3}]


def test_questions_about_the_tables_see_all_of_them(orders: QueryTable) -> None:
    sql = "select table_name from information_schema.tables where table_schema = 'web' order by 1"
    found = answer([orders, table(name="refunds")], sql)
    assert [row["table_name"] for row in found] == ["orders", "refunds"]


@pytest.mark.parametrize(
    "sql",
    [
        "with x as (select 1 as n) select n from x",
        "describe web.orders",
        "explain select * from web.orders",
        "pivot web.orders on hr using count(*) group by day",
        "select 1 as n; -- a remark",
    ],
)
def test_every_kind_of_query_is_answered(orders: QueryTable, sql: str) -> None:
    assert run_query([orders], sql).num_rows > 0


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("selec 1", 'Parser Error: syntax error at or near "selec"'),
        ("select colour from web.orders", 'Referenced column "colour" not found'),
        ("select id::int from web.orders", "Could not convert string"),
        (
            "select * from web.ordrs",
            "Table with name ordrs does not exist! Did you mean: web.orders",
        ),
        ("select * from orders", "Did you mean: web.orders"),
        ("select * from shop.orders", "Did you mean: web.orders"),
        ("select * from web.xyz", "The lake has 1 table; run `eventlake tables` to list them"),
        ("", "0 statements; give one query"),
        ("\0", "Parser Error"),
        ("select '\udcff'", "not valid UTF-8"),
        ("select error('no')", "no"),
        ("select 1; select 2", "2 statements; give one query"),
        ("create table x (a int)", "a CREATE statement; give a query that reads"),
        ("set TimeZone = 'CET'", "a SET statement"),
    ],
)
def test_a_mistake_is_told_in_one_line(orders: QueryTable, sql: str, said: str) -> None:
    with pytest.raises(InvalidSettings) as problem:
        run_query([orders], sql)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('{file}')",
        "select * from '{file}'",
        "copy web.orders to '{file}'",
        "attach '{file}' as other",
        "select * from secret",
    ],
)
def test_a_query_reaches_nothing_but_the_lake(orders: QueryTable, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("a\n1\n")
    secret = pa.table({"a": [1]})
    with pytest.raises(InvalidSettings):
        run_query([orders], sql.format(file=file))
    assert (file.read_text(), secret.num_rows) == ("a\n1\n", 1)


def test_nearest_names_are_full_names() -> None:
    tables = [table(name="order_completed"), table(name="order_completed", database="app")]
    assert similar_tables("web.order_complete", tables) == [
        "web.order_completed",
        "app.order_completed",
    ]
    assert similar_tables("`web`.`order_complete`", tables)[0] == "web.order_completed"
    assert similar_tables("zebra", tables) == []


# Columns whose type was changed

STORED: dict[Type, list[Any]] = {
    Type.BOOLEAN: [True],
    Type.BIGINT: [7, 1, 0],
    Type.DECIMAL: [Decimal("-1.500000"), Decimal("1.000000"), Decimal(10) ** 20],
    Type.STRING: ["abc", "+12", "-1.5", "TRUE", "2026-11-01T12:30:00.123456Z"],
    Type.TIMESTAMP: [NOON],
}
CASTS: dict[tuple[Type, Type], list[Any]] = {
    (Type.BOOLEAN, Type.STRING): ["true"],
    (Type.BIGINT, Type.BOOLEAN): [None, True, False],
    (Type.BIGINT, Type.DECIMAL): [Decimal(7), Decimal(1), Decimal(0)],
    (Type.BIGINT, Type.STRING): ["7", "1", "0"],
    (Type.DECIMAL, Type.BOOLEAN): [None, True, None],
    (Type.DECIMAL, Type.BIGINT): [-1, 1, None],
    (Type.DECIMAL, Type.STRING): ["-1.5", "1", "1" + "0" * 20],
    (Type.STRING, Type.BOOLEAN): [None, None, None, True, None],
    (Type.STRING, Type.BIGINT): [None, 12, None, None, None],
    (Type.STRING, Type.DECIMAL): [None, Decimal(12), Decimal("-1.5"), None, None],
    (Type.STRING, Type.TIMESTAMP): [None, None, None, None, NOON],
    (Type.TIMESTAMP, Type.STRING): ["2026-11-01 12:30:00.123456+00"],
}
"""Casts by stored and new type; all others give nulls."""


@pytest.mark.parametrize(("before", "now"), list(permutations(Type, 2)))
def test_old_files_are_cast_to_the_new_type_of_a_column(
    tmp_path: Path, before: Type, now: Type
) -> None:
    files = []
    for kind in (before, now):
        path = str(tmp_path / f"{kind.name}.parquet")
        pq.write_table(pa.table({"x": pa.array(STORED[kind], ARROW_BY_TYPE[kind])}), path)
        files.append((path, {"day": kind.name}))
    mixed = QueryTable("web", "t", [("x", str(now))], ("day",), files, retyped=["x"])
    old, new = (
        run_query([mixed], f"select x from web.t where day = '{kind.name}'").column("x").to_pylist()
        for kind in (before, now)
    )
    assert old == CASTS.get((before, now), [None] * len(STORED[before]))
    assert new == STORED[now]


# Limits


def test_a_limited_query_returns_one_row_more_than_allowed(orders: QueryTable) -> None:
    """So that whoever asks can say that there are more."""
    assert run_query([orders], "select * from range(9)", QueryLimits(max_rows=5)).num_rows == 6


def test_a_limited_query_without_enough_memory() -> None:
    large = "select list(a.range || 'xxxxxxxxxxxxxxxxxxxxxx') as x from range(3000000) a"
    with pytest.raises(LimitExceeded, match="more memory than 50MB: read fewer rows"):
        run_query([], large, QueryLimits(memory="50MB"))


@pytest.mark.parametrize(
    "sql",
    [
        "select * from '/etc/hostname'",
        "select * from read_csv('/etc/hostname')",
        "select * from read_parquet('http://127.0.0.1:9/x')",
        "select * from glob('/*')",
        "attach '/tmp/x.db'",
        "install httpfs",
        "copy (select 1) to '/tmp/x'",
        "set memory_limit = '9GB'",
        "set enable_external_access = true",
        "select 1; select 2",
        "drop view web.orders",
    ],
)
def test_a_limited_query_reads_nothing_but_tables_and_sets_nothing(
    orders: QueryTable, sql: str
) -> None:
    with pytest.raises(InvalidSettings):
        run_query([orders], sql, QueryLimits())
