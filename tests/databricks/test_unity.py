"""Unity Catalog: statements that Spark executes, refusals with the statement that grants."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from eventlake.catalogs.unity_tables import create_table_statement, unity_table
from eventlake.databricks.grants import find_grant, quote_name, quote_text
from eventlake.databricks.sql import SqlError, Warehouse
from eventlake.databricks.unity import UnityApi
from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    InvalidSettings,
    LimitExceeded,
    Unavailable,
)
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column
from eventlake.model.types import Type
from eventlake.ports import NoProgress
from tests.catalogs import add_columns, register
from tests.databricks.catalogs import api_catalog, sql_catalog, workspace
from tests.databricks.standin import PRINCIPAL, StandIn, databricks
from tests.databricks.unity import CATALOG

__all__ = ["databricks"]

HOSTILE = "a`b'c\"d;--\\ e"
ORDERS = CatalogTable(
    database="web",
    name="orders",
    source="web",
    location="segment-data/data/web/segment_type=orders",
    columns=(
        Column(name="id", type=Type.STRING),
        Column(name="total", type=Type.DECIMAL),
        Column(name="received_at", type=Type.TIMESTAMP),
    ),
    partition_columns=("day", "hr"),
)
COUPON = Column(name="coupon", type=Type.STRING)


@pytest.fixture
def root(tmp_path: object) -> str:
    return f"file:{tmp_path}"


def query(here: StandIn, statement: str) -> list[list[str]]:
    found = here.engine.ask(sql=statement)
    assert "rows" in found, found
    rows: list[list[str]] = found["rows"]
    return rows


def make_delta(here: StandIn, root: str, columns: str) -> None:
    """A Delta table as the format leaves it, before it is registered."""
    place = f"{root}/{ORDERS.location}"
    query(here, f"CREATE TABLE delta.`{place}` ({columns}) USING DELTA PARTITIONED BY (day, hr)")


DELTA = ORDERS.model_copy(update={"format": "delta"})
FIELDS = "id STRING, total DECIMAL(38,6), received_at TIMESTAMP, day STRING, hr STRING"


def test_a_delta_table_is_registered_with_what_its_log_says(databricks: StandIn, root: str) -> None:
    make_delta(databricks, root, FIELDS)
    before = query(databricks, f"DESCRIBE HISTORY delta.`{root}/{ORDERS.location}`")
    catalog = sql_catalog(databricks, root)
    register(catalog, DELTA)
    assert catalog.table("web", "orders") == DELTA
    assert query(databricks, f"SELECT count(*) FROM {CATALOG}.web.orders") == [["0"]]
    after = query(databricks, f"DESCRIBE HISTORY delta.`{root}/{ORDERS.location}`")
    assert after == before, "registering writes nothing into the log"


def test_a_new_column_of_a_delta_table_is_read_from_its_log(databricks: StandIn, root: str) -> None:
    make_delta(databricks, root, FIELDS)
    catalog = sql_catalog(databricks, root)
    register(catalog, DELTA)
    query(databricks, f"ALTER TABLE delta.`{root}/{ORDERS.location}` ADD COLUMNS (coupon STRING)")
    add_columns(catalog, DELTA, [COUPON])
    found = catalog.table("web", "orders")
    assert found is not None
    assert found.columns == (*DELTA.columns, COUPON)
    assert databricks.warehouses.statements[-1] == (
        "MSCK REPAIR TABLE `spark_catalog`.`web`.`orders` SYNC METADATA"
    )


def test_tables_have_comments(databricks: StandIn, root: str) -> None:
    register(sql_catalog(databricks, root), ORDERS)
    found = UnityApi(workspace(databricks), CATALOG).table("web", "orders")
    assert found is not None
    assert found.comment == "Events of the source web, written by EventLake"
    assert found.columns[0].comment == "The id of the message"


def test_hostile_names_are_quoted(databricks: StandIn, root: str) -> None:
    table = ORDERS.model_copy(
        update={
            "name": "select",
            "source": HOSTILE,
            "location": "segment-data/data/it's/x",
            "columns": (Column(name=HOSTILE, type=Type.STRING),),
        }
    )
    catalog = sql_catalog(databricks, root)
    register(catalog, table)
    add_columns(catalog, table, [Column(name="`; DROP TABLE x", type=Type.BIGINT)])
    (found,) = catalog.tables("web")
    assert [one.name for one in found.columns] == [HOSTILE, "`; DROP TABLE x"]
    assert (found.name, found.source, found.location) == (
        table.name,
        HOSTILE,
        "segment-data/data/it's/x",
    )


def test_quotes() -> None:
    hostile = ORDERS.model_copy(
        update={"database": "a`.b", "name": "x`; DROP TABLE y", "source": ""}
    )
    statement = create_table_statement("c`d", unity_table("s3://it's", hostile))
    assert statement.startswith("CREATE TABLE IF NOT EXISTS `c``d`.`a``.b`.`x``; DROP TABLE y` (")
    assert "LOCATION 's3://it\\'s/" in statement
    assert quote_name("a`b") == "`a``b`"
    assert quote_text("it's \\") == "'it\\'s \\\\'"


# Requests


def test_nothing_is_asked_of_the_warehouse_for_tables_that_are_there(
    databricks: StandIn, root: str
) -> None:
    register(sql_catalog(databricks, root), ORDERS)
    statements = len(databricks.warehouses.statements)
    assert statements == 2
    again = sql_catalog(databricks, root)
    register(again, ORDERS)
    assert len(databricks.warehouses.statements) == statements


def test_columns_that_another_run_has_added_are_no_error(databricks: StandIn, root: str) -> None:
    catalog = sql_catalog(databricks, root)
    register(catalog, ORDERS)
    lost = databricks.fault("POST .*sql/statements", after=True)
    add_columns(catalog, ORDERS, [COUPON])
    assert lost.times == 0
    found = catalog.table("web", "orders")
    assert found is not None
    assert found.columns == (*ORDERS.columns, COUPON)


def test_throttled_and_lost_answers(databricks: StandIn, root: str) -> None:
    databricks.fault("unity-catalog/tables", status=429, times=2)
    databricks.fault("POST .*sql/statements", after=True)
    databricks.warehouses.is_slow = True
    catalog = sql_catalog(databricks, root)
    register(catalog, ORDERS)
    assert catalog.table("web", "orders") == ORDERS


def test_a_statement_that_is_wrong_fails_with_sparks_words(databricks: StandIn) -> None:
    with pytest.raises(SqlError, match="PARSE_SYNTAX_ERROR") as raised:
        Warehouse(workspace(databricks)).execute("CREATE TABEL x")
    assert raised.value.sql_code == "PARSE_SYNTAX_ERROR"


# Warehouses


def test_the_smallest_warehouse_is_used(databricks: StandIn) -> None:
    every = databricks.warehouses.every
    every["a"] = {"id": "a", "name": "large", "state": "RUNNING", "cluster_size": "Large"}
    every["b"] = {"id": "b", "name": "old", "state": "STOPPED", "cluster_size": "2X-Small"}
    assert Warehouse(workspace(databricks)).id == "small1"
    del every["small1"]
    assert Warehouse(workspace(databricks)).id == "b"
    del every["b"]
    made = Warehouse(workspace(databricks)).id
    assert every[made]["name"] == "eventlake"
    assert (every[made]["cluster_size"], every[made]["auto_stop_mins"]) == ("2X-Small", 10)
    assert Warehouse(workspace(databricks)).id == made


def test_a_new_warehouse_is_created_once(databricks: StandIn) -> None:
    databricks.warehouses.every.clear()
    lost = databricks.fault("POST .*sql/warehouses", after=True)
    with ThreadPoolExecutor(4) as pool:
        warehouse = Warehouse(workspace(databricks))
        ids = set(pool.map(lambda _: warehouse.id, range(4)))
    assert lost.times == 0
    assert ids == set(databricks.warehouses.every)
    assert len(ids) == 1


def test_a_warehouse_that_is_not_there(databricks: StandIn) -> None:
    with pytest.raises(InvalidSettings, match="warehouse_id is 'gone': the workspace has no such"):
        Warehouse(workspace(databricks), "gone").execute("SELECT 1")


def test_a_warehouse_that_may_not_be_used(databricks: StandIn) -> None:
    databricks.warehouses.usable = False
    with pytest.raises(InsufficientPermissions, match=f"give {PRINCIPAL}.*'Can use'"):
        Warehouse(workspace(databricks), "small1").execute("SELECT 1")


# Grants


@pytest.mark.parametrize(
    ("privilege", "statement"),
    [
        ("USE CATALOG", f"GRANT USE CATALOG ON CATALOG `{CATALOG}` TO `{PRINCIPAL}`"),
        ("CREATE SCHEMA", f"GRANT CREATE SCHEMA ON CATALOG `{CATALOG}` TO `{PRINCIPAL}`"),
        (
            "CREATE EXTERNAL TABLE",
            f"GRANT CREATE EXTERNAL TABLE ON EXTERNAL LOCATION `lake` TO `{PRINCIPAL}`",
        ),
    ],
)
def test_a_missing_grant_is_named_with_its_statement(
    databricks: StandIn, root: str, privilege: str, statement: str
) -> None:
    databricks.unity.missing = {privilege}
    errors = sql_catalog(databricks, root).ensure([ORDERS], NoProgress())
    problem = errors["web.orders"]
    assert isinstance(problem, InsufficientPermissions)
    assert statement in str(problem)


@pytest.mark.parametrize("privilege", ["EXTERNAL USE LOCATION", "EXTERNAL USE SCHEMA"])
def test_a_grant_that_only_the_api_needs(databricks: StandIn, root: str, privilege: str) -> None:
    databricks.unity.missing = {privilege}
    errors = api_catalog(databricks, root).ensure([DELTA], NoProgress())
    assert f"GRANT {privilege} ON" in str(errors["web.orders"])
    assert isinstance(errors["web.orders"], InsufficientPermissions)
    databricks.unity.missing = set()
    assert api_catalog(databricks, root).ensure([DELTA], NoProgress()) == {}


@pytest.mark.parametrize(
    ("message", "statement"),
    [
        (
            "PERMISSION_DENIED: User does not have USE SCHEMA on Schema 'main.web'.",
            "GRANT USE SCHEMA ON SCHEMA `main`.`web` TO `me`",
        ),
        (
            "User does not have CREATE_TABLE permission on Schema 'main.web'",
            "GRANT CREATE TABLE ON SCHEMA `main`.`web` TO `me`",
        ),
        ("something else", ""),
    ],
)
def test_what_workspaces_say(message: str, statement: str) -> None:
    assert find_grant(message, "me") == statement


def test_a_limit_of_the_catalog(databricks: StandIn) -> None:
    warehouse = Warehouse(workspace(databricks))
    problem = warehouse._failure("CREATE", "[QUOTA_EXCEEDED] Cannot create 1 Table(s) in Schema")
    assert isinstance(problem, LimitExceeded)


def test_a_catalog_that_does_not_answer(databricks: StandIn, root: str) -> None:
    databricks.fault("unity-catalog", times=1000)
    api = UnityApi(workspace(databricks, retry_seconds=1), CATALOG)
    with pytest.raises(Unavailable, match="could not list the schemas"):
        api.schemas()


# The API alone


def test_new_columns_by_the_api_keep_the_grants(databricks: StandIn, root: str) -> None:
    catalog = api_catalog(databricks, root)
    register(catalog, DELTA)
    databricks.unity.grants["web.orders"] = [{"principal": "readers", "privileges": ["SELECT"]}]
    add_columns(catalog, DELTA, [COUPON])
    assert databricks.unity.grants["web.orders"] == [
        {"principal": "readers", "privileges": ["SELECT"]}
    ]
    assert not databricks.warehouses.statements


def test_the_api_refuses_other_tables_than_delta(databricks: StandIn, root: str) -> None:
    with pytest.raises(InvalidSettings, match="without a SQL warehouse only Delta tables"):
        register(api_catalog(databricks, root), ORDERS)


def test_an_endpoint_that_the_stand_in_does_not_know_fails(databricks: StandIn) -> None:
    calls = workspace(databricks)
    with pytest.raises(EventLakeError, match="No API found"), calls.errors("list"):
        list(calls.client.volumes.list(CATALOG, "web"))


def test_every_column_type_is_spelled_as_spark_spells_it(root: str) -> None:
    kinds = [Column(name=str(kind), type=kind) for kind in Type]
    every = ORDERS.model_copy(update={"columns": tuple(kinds)})
    assert {one.type for one in unity_table(root, every).columns} == {str(kind) for kind in Type}
