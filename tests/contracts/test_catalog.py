"""What every catalog does: one suite, run over each backend."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventlake.catalogs.files import FilesCatalog
from eventlake.errors import InvalidSettings, MissingTable
from eventlake.model.catalog import CatalogTable
from eventlake.model.schema import Column
from eventlake.model.types import Type
from eventlake.ports import Catalog
from eventlake.stores import Disk
from tests.aws.glue import aws, glue

__all__ = ["aws", "glue"]

Connect = Callable[[], Catalog]


def _files(request: pytest.FixtureRequest) -> Connect:
    lake = request.getfixturevalue("tmp_path")
    return lambda: FilesCatalog(Disk(str(lake)))


def _glue(request: pytest.FixtureRequest) -> Connect:
    connect: Connect = request.getfixturevalue("glue").catalog
    return connect


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Connect]] = {"files": _files, "glue": _glue}


@pytest.fixture(params=BACKENDS)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Makes a new client of one and the same catalog."""
    return BACKENDS[request.param](request)


@pytest.fixture
def catalog(connect: Connect) -> Catalog:
    found = connect()
    for database in ("web", "app"):
        found.database(database)
    return found


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
SEVEN, EIGHT = {"day": "2026-11-01", "hr": "07"}, {"day": "2026-11-01", "hr": "08"}


def found(catalog: Catalog, table: CatalogTable = ORDERS) -> CatalogTable:
    known = catalog.table(table.database, table.name)
    assert known is not None
    return known


def test_a_new_catalog_has_no_tables(connect: Connect) -> None:
    assert list(connect().tables()) == []
    assert connect().table("web", "orders") is None


def test_a_database_may_be_asked_for_again(catalog: Catalog) -> None:
    catalog.database("web")
    catalog.create(ORDERS)
    catalog.database("web")
    assert found(catalog) == ORDERS


def test_a_table_is_found_as_it_was_registered(catalog: Catalog, connect: Connect) -> None:
    catalog.create(ORDERS)
    assert found(catalog) == ORDERS
    assert found(connect()) == ORDERS


def test_every_type_survives(catalog: Catalog) -> None:
    every = tuple(column(f"c{number}", kind) for number, kind in enumerate(Type))
    table = ORDERS.model_copy(update={"columns": (ID, *every)})
    catalog.create(table)
    assert found(catalog).columns == (ID, *every)


def test_long_names(catalog: Catalog) -> None:
    update = {"name": "t" * 127, "columns": (column("c" * 250), column("_rescued_data"))}
    table = ORDERS.model_copy(update=update)
    catalog.create(table)
    assert found(catalog, table) == table


def test_a_table_that_is_not_there(catalog: Catalog) -> None:
    catalog.create(ORDERS)
    assert catalog.table("web", "order") is None
    assert catalog.table("app", "orders") is None
    assert catalog.table("nowhere", "orders") is None


def test_tables_of_all_databases(catalog: Catalog) -> None:
    other = ORDERS.model_copy(update={"database": "app", "source": "app"})
    pages = ORDERS.model_copy(update={"name": "page"})
    for table in (ORDERS, other, pages):
        catalog.create(table)
    names = sorted((table.database, table.name) for table in catalog.tables())
    assert names == [("app", "orders"), ("web", "orders"), ("web", "page")]
    assert found(catalog, other).source == "app"


def test_registering_again_changes_nothing(catalog: Catalog) -> None:
    catalog.create(ORDERS)
    catalog.add_columns(ORDERS, [column("coupon")])
    catalog.add_partitions(ORDERS, [SEVEN])
    before = found(catalog)
    catalog.create(ORDERS)
    assert found(catalog) == before


def test_registering_again_adds_what_was_lacking(catalog: Catalog) -> None:
    first = ORDERS.model_copy(update={"partitions": (EIGHT,)})
    more = {"columns": (ID, column("total"), WHEN), "partitions": (SEVEN,)}
    catalog.create(first)
    catalog.create(ORDERS.model_copy(update=more))
    assert found(catalog).columns == (ID, WHEN, column("total"))
    assert found(catalog).partitions == (SEVEN, EIGHT)


def test_adding_a_column_keeps_the_others(catalog: Catalog) -> None:
    catalog.create(ORDERS)
    catalog.add_columns(ORDERS, [column("coupon"), column("total", Type.DECIMAL)])
    catalog.add_columns(ORDERS, [column("b", Type.BIGINT)])
    added = (column("coupon"), column("total", Type.DECIMAL), column("b", Type.BIGINT))
    assert found(catalog).columns == (ID, WHEN, *added)


def test_a_column_that_is_there_stays_as_it_is(catalog: Catalog) -> None:
    catalog.create(ORDERS)
    for _ in range(2):
        catalog.add_columns(ORDERS, [column("id", Type.BIGINT), WHEN, column("coupon")])
    assert found(catalog).columns == (ID, WHEN, column("coupon"))


def test_no_columns_and_no_partitions(catalog: Catalog) -> None:
    catalog.create(ORDERS)
    catalog.add_columns(ORDERS, [])
    catalog.add_partitions(ORDERS, [])
    assert found(catalog) == ORDERS


def test_partitions_are_known_once_and_in_order(catalog: Catalog) -> None:
    catalog.create(ORDERS)
    catalog.add_partitions(ORDERS, [EIGHT])
    catalog.add_partitions(ORDERS, [EIGHT, SEVEN, EIGHT])
    assert found(catalog).partitions == (SEVEN, EIGHT)


def test_many_partitions_at_once(catalog: Catalog) -> None:
    many = [
        {"day": f"2026-11-{day:02}", "hr": f"{hr:02}"} for day in range(1, 11) for hr in range(24)
    ]
    catalog.create(ORDERS)
    catalog.add_partitions(ORDERS, many)
    assert list(found(catalog).partitions) == many


def test_an_old_view_of_a_table_undoes_nothing(connect: Connect, catalog: Catalog) -> None:
    catalog.create(ORDERS)
    view = found(connect())
    catalog.add_columns(ORDERS, [column("coupon")])
    catalog.add_partitions(ORDERS, [SEVEN])
    connect().add_columns(view, [column("total")])
    connect().add_partitions(view, [EIGHT])
    assert found(catalog).columns == (ID, WHEN, column("coupon"), column("total"))
    assert found(catalog).partitions == (SEVEN, EIGHT)


def test_a_dropped_table_is_forgotten_and_its_files_are_not(
    catalog: Catalog, tmp_path: Path
) -> None:
    kept = tmp_path / ORDERS.location / "day=2026-11-01" / "x.parquet"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"rows")
    pages = ORDERS.model_copy(update={"name": "page"})
    catalog.create(ORDERS)
    catalog.create(pages)
    for _ in range(2):
        catalog.drop(ORDERS)
    assert catalog.table("web", "orders") is None
    assert [table.name for table in catalog.tables()] == ["page"]
    assert kept.read_bytes() == b"rows"


def test_a_dropped_table_may_come_back(catalog: Catalog) -> None:
    catalog.create(ORDERS)
    catalog.add_partitions(ORDERS, [SEVEN])
    catalog.drop(ORDERS)
    again = ORDERS.model_copy(update={"columns": (WHEN, ID)})
    catalog.create(again)
    assert found(catalog) == again


def test_two_runs_may_register_at_once(connect: Connect, catalog: Catalog) -> None:
    catalog.create(ORDERS)
    days = [
        [{"day": f"2026-{month:02}-{day:02}", "hr": "00"} for day in range(1, 21)]
        for month in (1, 2)
    ]

    def register(mine: list[dict[str, str]]) -> None:
        client = connect()
        for partition in mine:
            client.add_partitions(ORDERS, [partition])

    with ThreadPoolExecutor(2) as both:
        list(both.map(register, days))
    assert list(found(catalog).partitions) == days[0] + days[1]


def test_a_list_of_tables_leaves_their_partitions_out(catalog: Catalog) -> None:
    catalog.create(ORDERS.model_copy(update={"partitions": (SEVEN, EIGHT)}))
    assert list(catalog.tables()) == [ORDERS]


def test_tables_of_one_database(catalog: Catalog) -> None:
    other = ORDERS.model_copy(update={"database": "app", "source": "app"})
    for table in (ORDERS, other):
        catalog.create(table)
    assert list(catalog.tables("app")) == [other]
    assert list(catalog.tables("nowhere")) == []


@pytest.mark.parametrize("change", ["add_columns", "add_partitions"])
def test_a_table_that_is_not_there_cannot_be_changed(catalog: Catalog, change: str) -> None:
    catalog.create(ORDERS)
    catalog.drop(ORDERS)
    more = {"add_columns": [column("coupon")], "add_partitions": [SEVEN]}
    with pytest.raises(MissingTable, match=r"web\.orders"):
        getattr(catalog, change)(ORDERS, more[change])
    assert catalog.table("web", "orders") is None


@pytest.mark.parametrize("change", ["create", "add_columns", "add_partitions"])
def test_a_table_of_this_name_with_other_files_is_left_alone(catalog: Catalog, change: str) -> None:
    catalog.create(ORDERS)
    other = ORDERS.model_copy(update={"location": "segment-data/data/app/segment_type=orders"})
    more = {"create": (), "add_columns": ([column("coupon")],), "add_partitions": ([SEVEN],)}
    with pytest.raises(InvalidSettings, match=r"web\.orders .*location.*table_prefix"):
        getattr(catalog, change)(other, *more[change])
    assert found(catalog) == ORDERS


# Replacing


def test_replacing_makes_a_table_that_is_not_there(catalog: Catalog) -> None:
    wanted = ORDERS.model_copy(update={"partitions": (SEVEN, EIGHT)})
    catalog.replace(wanted)
    assert found(catalog) == wanted


def test_replacing_corrects_location_and_partitions(catalog: Catalog) -> None:
    elsewhere = {"location": "segment-data/data/old/segment_type=orders", "partitions": (SEVEN,)}
    catalog.create(ORDERS.model_copy(update=elsewhere))
    wanted = ORDERS.model_copy(update={"partitions": (EIGHT,)})
    catalog.replace(wanted)
    assert found(catalog) == wanted


def test_replacing_removes_partitions_that_there_are_not(catalog: Catalog) -> None:
    many = [{"day": f"2026-10-{day:02}", "hr": "00"} for day in range(1, 31)]
    catalog.create(ORDERS.model_copy(update={"partitions": (SEVEN, EIGHT, *many)}))
    wanted = ORDERS.model_copy(update={"partitions": (SEVEN,)})
    catalog.replace(wanted)
    assert found(catalog) == wanted
