"""What every catalog does: one suite, run over each backend."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventlake.catalogs.files import FilesCatalog
from eventlake.catalogs.hive import HiveCatalog
from eventlake.catalogs.hive_calls import HiveCalls
from eventlake.catalogs.private_metastore import PrivateMetastore
from eventlake.errors import InvalidSettings, MissingTable
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column
from eventlake.model.types import Type
from eventlake.ports import Catalog, NoProgress
from eventlake.stores import Disk
from tests.aws.glue import aws, glue
from tests.azure.azurite import azure
from tests.azure.metastores import Metastore, hive, hive_4, mariadb, private
from tests.catalogs import MemoryCatalog, add_columns, add_partitions, register
from tests.databricks.catalogs import AsDelta, api_catalog, sql_catalog
from tests.databricks.standin import StandIn, databricks
from tests.databricks.unity_server import IS_WANTED, server_catalog, unity_server
from tests.lakes import Recorder

__all__ = [
    "aws",
    "azure",
    "databricks",
    "glue",
    "hive",
    "hive_4",
    "mariadb",
    "private",
    "unity_server",
]

Connect = Callable[[], Catalog]


def _files(request: pytest.FixtureRequest) -> Connect:
    lake = request.getfixturevalue("tmp_path")
    return lambda: FilesCatalog(Disk(str(lake)))


def _glue(request: pytest.FixtureRequest) -> Connect:
    connect: Connect = request.getfixturevalue("glue").catalog
    return connect


def _memory(_: pytest.FixtureRequest) -> Connect:
    catalog = MemoryCatalog()
    return lambda: catalog


def _hive(request: pytest.FixtureRequest) -> Connect:
    server: Metastore = request.getfixturevalue("hive")
    return lambda: server.catalog(f"file:{request.getfixturevalue('tmp_path')}")


def _hive_4(request: pytest.FixtureRequest) -> Connect:
    server: Metastore = request.getfixturevalue("hive_4")
    return lambda: server.catalog(f"file:{request.getfixturevalue('tmp_path')}")


def _private(request: pytest.FixtureRequest) -> Connect:
    server: PrivateMetastore = request.getfixturevalue("private")
    return lambda: HiveCatalog(HiveCalls(server.addresses), server.root)


def _unity(request: pytest.FixtureRequest) -> Connect:
    here: StandIn = request.getfixturevalue("databricks")
    return lambda: sql_catalog(here, f"file:{request.getfixturevalue('tmp_path')}")


def _unity_api(request: pytest.FixtureRequest) -> Connect:
    here: StandIn = request.getfixturevalue("databricks")
    return lambda: AsDelta(api_catalog(here, f"file:{request.getfixturevalue('tmp_path')}"))


def _unity_server(request: pytest.FixtureRequest) -> Connect:
    url: str = request.getfixturevalue("unity_server")
    return lambda: AsDelta(server_catalog(url, f"file://{request.getfixturevalue('tmp_path')}"))


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Connect]] = {
    "files": _files,
    "glue": _glue,
    "hive": _hive,
    "hive-4": _hive_4,
    "hive-private": _private,
    "memory": _memory,
    "unity": _unity,
    "unity-api": _unity_api,
    **({"unity-server": _unity_server} if IS_WANTED else {}),
}


@pytest.fixture(params=BACKENDS)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Makes a new client of one and the same catalog."""
    return BACKENDS[request.param](request)


@pytest.fixture
def catalog(connect: Connect) -> Catalog:
    return connect()


def column(name: str, kind: Type = Type.STRING) -> Column:
    return Column(name=name, type=kind)


ID, WHEN = column("id"), column("received_at", Type.TIMESTAMP)
ORDERS = CatalogTable(
    database="web",
    name="orders",
    source="web",
    location="segment-data/data/web/segment_type=orders",
    columns=(ID, WHEN),
    partition_columns=("day", "hr"),
)


def another(name: str, database: str = "web") -> CatalogTable:
    """A table in a folder of its own: Unity Catalog refuses a second one in a folder."""
    place = f"segment-data/data/{database}/segment_type={name}"
    changes = {"database": database, "source": database, "name": name, "location": place}
    return ORDERS.model_copy(update=changes)


SEVEN, EIGHT = {"day": "2026-11-01", "hr": "07"}, {"day": "2026-11-01", "hr": "08"}


def found(catalog: Catalog, table: CatalogTable = ORDERS) -> CatalogTable:
    known = catalog.table(table.database, table.name)
    assert known is not None
    return known


def as_kept(catalog: Catalog, table: CatalogTable) -> CatalogTable:
    """A table as a catalog keeps it: some do not register partitions."""
    if getattr(catalog, "follows_tables", False):
        return table.model_copy(update={"partitions": ()})
    return table


def kept(catalog: Catalog, *partitions: dict[str, str]) -> tuple[dict[str, str], ...]:
    return as_kept(catalog, ORDERS.with_partitions(partitions)).partitions


def test_a_new_catalog_has_no_tables(connect: Connect) -> None:
    assert list(connect().tables()) == []
    assert connect().table("web", "orders") is None


def test_a_table_is_found_as_it_was_registered(catalog: Catalog, connect: Connect) -> None:
    register(catalog, ORDERS)
    assert found(catalog) == ORDERS
    assert found(connect()) == ORDERS


def test_every_type_survives(catalog: Catalog) -> None:
    every = tuple(column(f"c{number}", kind) for number, kind in enumerate(Type))
    table = ORDERS.model_copy(update={"columns": (ID, *every)})
    register(catalog, table)
    assert found(catalog).columns == (ID, *every)


def test_long_names(catalog: Catalog) -> None:
    update = {"name": "t" * 127, "columns": (column("c" * 250), column("_rescued_data"))}
    table = ORDERS.model_copy(update=update)
    register(catalog, table)
    assert found(catalog, table) == table


def test_a_table_that_is_not_there(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    assert catalog.table("web", "order") is None
    assert catalog.table("app", "orders") is None
    assert catalog.table("nowhere", "orders") is None


def test_tables_of_all_databases(catalog: Catalog) -> None:
    other = another("orders", "app")
    pages = another("page")
    for table in (ORDERS, other, pages):
        register(catalog, table)
    assert {"app", "web"} <= set(catalog.databases())
    names = sorted((table.database, table.name) for table in catalog.tables())
    assert names == [("app", "orders"), ("web", "orders"), ("web", "page")]
    assert found(catalog, other).source == "app"


def test_registering_again_changes_nothing(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    add_columns(catalog, ORDERS, [column("coupon")])
    add_partitions(catalog, ORDERS, [SEVEN])
    before = found(catalog)
    register(catalog, ORDERS)
    assert found(catalog) == before


def test_registering_again_adds_what_was_lacking(catalog: Catalog) -> None:
    first = ORDERS.model_copy(update={"partitions": (EIGHT,)})
    more = {"columns": (ID, column("total"), WHEN), "partitions": (SEVEN,)}
    register(catalog, first)
    register(catalog, ORDERS.model_copy(update=more))
    assert found(catalog).columns == (ID, WHEN, column("total"))
    assert found(catalog).partitions == kept(catalog, SEVEN, EIGHT)


def test_adding_a_column_keeps_the_others(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    add_columns(catalog, ORDERS, [column("coupon"), column("total", Type.DECIMAL)])
    add_columns(catalog, ORDERS, [column("b", Type.BIGINT)])
    added = (column("coupon"), column("total", Type.DECIMAL), column("b", Type.BIGINT))
    assert found(catalog).columns == (ID, WHEN, *added)


def test_a_column_that_is_there_stays_as_it_is(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    for _ in range(2):
        add_columns(catalog, ORDERS, [column("id", Type.BIGINT), WHEN, column("coupon")])
    assert found(catalog).columns == (ID, WHEN, column("coupon"))


def test_no_columns_and_no_partitions(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    add_columns(catalog, ORDERS, [])
    add_partitions(catalog, ORDERS, [])
    assert found(catalog) == ORDERS


def test_partitions_are_known_once_and_in_order(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    add_partitions(catalog, ORDERS, [EIGHT])
    add_partitions(catalog, ORDERS, [EIGHT, SEVEN, EIGHT])
    assert found(catalog).partitions == kept(catalog, SEVEN, EIGHT)


def test_many_partitions_at_once(catalog: Catalog) -> None:
    many = [
        {"day": f"2026-11-{day:02}", "hr": f"{hr:02}"} for day in range(1, 11) for hr in range(24)
    ]
    register(catalog, ORDERS)
    add_partitions(catalog, ORDERS, many)
    assert found(catalog).partitions == kept(catalog, *many)


def test_an_old_view_of_a_table_undoes_nothing(connect: Connect, catalog: Catalog) -> None:
    register(catalog, ORDERS)
    view = found(connect())
    add_columns(catalog, ORDERS, [column("coupon")])
    add_partitions(catalog, ORDERS, [SEVEN])
    add_columns(connect(), view, [column("total")])
    add_partitions(connect(), view, [EIGHT])
    assert found(catalog).columns == (ID, WHEN, column("coupon"), column("total"))
    assert found(catalog).partitions == kept(catalog, SEVEN, EIGHT)


def test_a_dropped_table_is_forgotten_and_its_files_are_not(
    catalog: Catalog, tmp_path: Path
) -> None:
    kept = tmp_path / ORDERS.location / "day=2026-11-01" / "x.parquet"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"rows")
    pages = another("page")
    register(catalog, ORDERS)
    register(catalog, pages)
    for _ in range(2):
        catalog.drop(ORDERS)
    assert catalog.table("web", "orders") is None
    assert [table.name for table in catalog.tables()] == ["page"]
    assert kept.read_bytes() == b"rows"


def test_a_dropped_table_may_come_back(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    add_partitions(catalog, ORDERS, [SEVEN])
    catalog.drop(ORDERS)
    again = ORDERS.model_copy(update={"columns": (WHEN, ID)})
    register(catalog, again)
    assert found(catalog) == again


def test_two_runs_may_register_at_once(connect: Connect, catalog: Catalog) -> None:
    register(catalog, ORDERS)
    days = [
        [{"day": f"2026-{month:02}-{day:02}", "hr": "00"} for day in range(1, 21)]
        for month in (1, 2)
    ]

    def add_one_by_one(mine: list[dict[str, str]]) -> None:
        client = connect()
        for partition in mine:
            add_partitions(client, ORDERS, [partition])

    with ThreadPoolExecutor(2) as both:
        list(both.map(add_one_by_one, days))
    assert found(catalog).partitions == kept(catalog, *days[0], *days[1])


def test_a_list_of_tables_leaves_their_partitions_out(catalog: Catalog) -> None:
    register(catalog, ORDERS.model_copy(update={"partitions": (SEVEN, EIGHT)}))
    assert list(catalog.tables()) == [ORDERS]


def test_tables_of_one_database(catalog: Catalog) -> None:
    other = another("orders", "app")
    for table in (ORDERS, other):
        register(catalog, table)
    assert list(catalog.tables("app")) == [other]
    assert list(catalog.tables("nowhere")) == []


def test_a_table_that_is_not_there_is_not_created_from_a_change(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    catalog.drop(ORDERS)
    for change in (
        lambda: add_columns(catalog, ORDERS, [column("coupon")]),
        lambda: add_partitions(catalog, ORDERS, [SEVEN]),
    ):
        with pytest.raises(MissingTable, match=r"web\.orders"):
            change()
    assert catalog.table("web", "orders") is None


def test_a_database_that_is_not_there_is_created_with_its_tables(catalog: Catalog) -> None:
    partial = ORDERS.model_copy(update={"is_partial": True})
    pages = another("pages")
    errors = catalog.ensure([partial, pages], NoProgress())
    assert {name: type(error) for name, error in errors.items()} == {"web.orders": MissingTable}
    assert list(catalog.tables()) == [pages]


def test_a_table_of_this_name_with_other_files_is_left_alone(catalog: Catalog) -> None:
    register(catalog, ORDERS)
    other = ORDERS.model_copy(update={"location": "segment-data/data/app/segment_type=orders"})
    for change in (
        lambda: register(catalog, other),
        lambda: add_columns(catalog, other, [column("coupon")]),
        lambda: add_partitions(catalog, other, [SEVEN]),
    ):
        with pytest.raises(InvalidSettings, match=r"web\.orders .*location.*table_prefix"):
            change()
    assert found(catalog) == ORDERS


def test_a_refused_table_does_not_hinder_the_others(catalog: Catalog) -> None:
    """There are more tables than are registered at a time."""
    register(catalog, ORDERS)
    refused = ORDERS.model_copy(update={"location": "segment-data/data/app/segment_type=orders"})
    others = [another(f"t{number}") for number in range(18)]
    steps = Recorder()
    errors = catalog.ensure([*others[:9], refused, *others[9:]], steps)
    assert {name: type(error) for name, error in errors.items()} == {"web.orders": InvalidSettings}
    assert {table.name for table in catalog.tables()} == {"orders", *(one.name for one in others)}
    assert steps.steps[-1] == ("register", 19)


# Replacing


def test_replacing_makes_a_table_that_is_not_there(catalog: Catalog) -> None:
    wanted = ORDERS.model_copy(update={"partitions": (SEVEN, EIGHT)})
    catalog.replace(wanted)
    assert found(catalog) == as_kept(catalog, wanted)


def test_replacing_corrects_location_and_partitions(catalog: Catalog) -> None:
    elsewhere = {"location": "segment-data/data/old/segment_type=orders", "partitions": (SEVEN,)}
    register(catalog, ORDERS.model_copy(update=elsewhere))
    wanted = ORDERS.model_copy(update={"partitions": (EIGHT,)})
    catalog.replace(wanted)
    assert found(catalog) == as_kept(catalog, wanted)


def test_replacing_removes_partitions_that_there_are_not(catalog: Catalog) -> None:
    many = [{"day": f"2026-10-{day:02}", "hr": "00"} for day in range(1, 31)]
    register(catalog, ORDERS.model_copy(update={"partitions": (SEVEN, EIGHT, *many)}))
    wanted = ORDERS.model_copy(update={"partitions": (SEVEN,)})
    catalog.replace(wanted)
    assert found(catalog) == as_kept(catalog, wanted)


def test_retyping_changes_no_other_column(catalog: Catalog) -> None:
    total = column("total", Type.BIGINT)
    register(catalog, ORDERS.with_columns([total]).with_partitions([SEVEN]))
    catalog.retype(ORDERS.with_columns([column("total", Type.DECIMAL), column("new")]))
    assert found(catalog).columns == (ID, WHEN, column("total", Type.DECIMAL))
    assert found(catalog).partitions == kept(catalog, SEVEN)


@pytest.mark.parametrize("kind", [Type.BIGINT, Type.TIMESTAMP, Type.BOOLEAN])
def test_retyping_to_a_type_that_does_not_hold_all_values(catalog: Catalog, kind: Type) -> None:
    table = ORDERS.with_columns([column("total")]).with_partitions([SEVEN, EIGHT])
    register(catalog, table)
    catalog.retype(ORDERS.with_columns([column("total", kind)]))
    assert found(catalog).columns == (ID, WHEN, column("total", kind))
    assert found(catalog).partitions == kept(catalog, SEVEN, EIGHT)


def test_removing_partitions_leaves_the_others(catalog: Catalog) -> None:
    register(catalog, ORDERS.with_partitions([SEVEN, EIGHT]))
    for _ in range(2):
        catalog.remove_partitions(ORDERS.with_partitions([SEVEN]))
        assert found(catalog).partitions == kept(catalog, EIGHT)
