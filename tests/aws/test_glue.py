"""What is Glue's own: what lands there in which shape, and what of others' is kept."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from functools import partial
from typing import Any

import pytest

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, LimitExceeded
from eventlake.model import report
from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import DEFAULT_LAYOUT, DatePartition, run_day
from eventlake.model.schema import Column
from eventlake.model.types import Type
from tests.aws.glue import Body, Glue, refusal
from tests.aws.moto import BUCKET
from tests.catalogs import add_columns, add_partitions, register

ROOT = f"s3://{BUCKET}"
ID, WHEN = Column(name="id", type=Type.STRING), Column(name="received_at", type=Type.TIMESTAMP)
COUPON = Column(name="coupon", type=Type.STRING)
SEVEN, EIGHT = {"day": "2026-11-01", "hr": "07"}, {"day": "2026-11-01", "hr": "08"}
ORDERS = CatalogTable(
    database="web",
    name="orders",
    source="web",
    location=f"{DEFAULT_LAYOUT.data}/a1b2/segment_type=orders",
    columns=(ID, WHEN),
    partition_columns=("day", "hr"),
    partitions=(SEVEN,),
)
PARQUET = "org.apache.hadoop.hive.ql.io.parquet."
PLACE = f"{ROOT}/segment-data/data/a1b2/segment_type=orders/"


@pytest.fixture
def orders(glue: Glue) -> Glue:
    """A Glue that knows `web.orders`."""
    register(glue.catalog(), ORDERS)
    glue.asked.clear()
    return glue


def raw(glue: Glue, name: str = "orders", database: str = "web") -> Body:
    found: Body = glue.client.get_table(DatabaseName=database, Name=name)["Table"]
    return found


def raw_partitions(glue: Glue, name: str = "orders", database: str = "web") -> list[Body]:
    found: list[Body] = glue.client.get_partitions(DatabaseName=database, TableName=name)[
        "Partitions"
    ]
    return found


def columns(shape: Body) -> list[tuple[str, str]]:
    return [(column["Name"], column["Type"]) for column in shape["StorageDescriptor"]["Columns"]]


def update(glue: Glue, **changes: Any) -> None:
    """Somebody else changes `web.orders`."""
    known = raw(glue)
    names = glue.client.meta.service_model.shape_for("TableInput").members
    kept = {name: value for name, value in known.items() if name in names}
    glue.client.update_table(DatabaseName="web", TableInput={**kept, **changes})


def more_columns(glue: Glue, *added: Body) -> Body:
    storage = raw(glue)["StorageDescriptor"]
    return {**storage, "Columns": [*storage["Columns"], *added]}


def hours(count: int) -> list[dict[str, str]]:
    first = date(2026, 1, 1)
    days = [str(first + timedelta(number // 24)) for number in range(count)]
    return [{"day": day, "hr": f"{number % 24:02}"} for number, day in enumerate(days)]


# What is written


def test_a_table_is_what_engines_expect(orders: Glue) -> None:
    every = tuple(Column(name=f"c{number}", type=kind) for number, kind in enumerate(Type))
    register(orders.catalog(), ORDERS.model_copy(update={"name": "every", "columns": every}))
    table = raw(orders, "every")
    storage = table["StorageDescriptor"]
    assert table["TableType"] == "EXTERNAL_TABLE"
    assert table["Parameters"]["EXTERNAL"] == "TRUE"
    assert table["Parameters"]["classification"] == "parquet"
    assert table["PartitionKeys"] == [
        {"Name": "day", "Type": "string"},
        {"Name": "hr", "Type": "string"},
    ]
    assert storage["Location"] == PLACE
    assert storage["InputFormat"] == f"{PARQUET}MapredParquetInputFormat"
    assert storage["OutputFormat"] == f"{PARQUET}MapredParquetOutputFormat"
    assert storage["SerdeInfo"]["SerializationLibrary"] == f"{PARQUET}serde.ParquetHiveSerDe"
    kinds = ["boolean", "bigint", "decimal(38,6)", "string", "timestamp"]
    assert columns(table) == [(f"c{number}", kind) for number, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("layout", "folders"),
    [
        (DatePartition.DAY_HOUR, "day=2026-11-01/hr=07"),
        (DatePartition.YEAR_MONTH_DAY_HOUR, "year=2026/month=11/day=01/hr=07"),
        (DatePartition.YEAR_MONTH_DAY, "year=2026/month=11/day=01"),
        (DatePartition.DAY, "day=2026-11-01"),
    ],
)
def test_a_partition_is_where_its_files_are(
    glue: Glue, layout: DatePartition, folders: str
) -> None:
    values = layout.values(1_793_516_400_000_000)
    shape = {"partition_columns": layout.columns, "partitions": (values,)}
    register(glue.catalog(), ORDERS.model_copy(update=shape))
    [partition] = raw_partitions(glue)
    assert partition["Values"] == list(values.values())
    table = raw(glue)["StorageDescriptor"]
    assert partition["StorageDescriptor"] == {**table, "Location": f"{PLACE}{folders}/"}


def test_the_reports_are_a_table_that_engines_read(glue: Glue) -> None:
    run = "1793516400000000000"
    kinds = report.COLUMNS.items()
    reports = CatalogTable(
        database=report.DATABASE,
        name=report.TABLE,
        source="",
        location="segment-data/reports",
        columns=tuple(Column(name=name, type=kind) for name, kind in kinds),
        partition_columns=report.PARTITIONS,
        partitions=({"source_id": "a1b2", "day": run_day(run)},),
        format="json",
    )
    catalog = glue.catalog(projection=True)
    register(catalog, reports)
    by_slug = reports.model_copy(update={"source": "ios"})
    add_partitions(catalog, by_slug, [{"source_id": "c3d4", "day": run_day(run)}])

    table = raw(glue, report.TABLE, report.DATABASE)
    first, second = raw_partitions(glue, report.TABLE, report.DATABASE)
    storage = table["StorageDescriptor"]
    assert "projection.enabled" not in table["Parameters"]
    assert table["Parameters"]["classification"] == "json"
    assert storage["Location"] == f"{ROOT}/segment-data/reports/"
    assert storage["InputFormat"] == "org.apache.hadoop.mapred.TextInputFormat"
    assert storage["SerdeInfo"]["SerializationLibrary"] == "org.openx.data.jsonserde.JsonSerDe"
    assert {"partitions", "new_columns"} <= {n for n, kind in columns(table) if kind == "string"}
    assert [key["Name"] for key in table["PartitionKeys"]] == ["source_id", "day"]
    assert first["Values"] == ["a1b2", "2026-11-01"]
    assert f"{ROOT}/{DEFAULT_LAYOUT.report_path('a1b2', run)}".startswith(
        first["StorageDescriptor"]["Location"]
    )
    assert f"{ROOT}/{DEFAULT_LAYOUT.report_path('ios', run)}".startswith(
        second["StorageDescriptor"]["Location"]
    )
    found = catalog.table(report.DATABASE, report.TABLE)
    assert found == reports.with_partitions([{"source_id": "c3d4", "day": run_day(run)}])


# Partitions


def test_partitions_go_by_the_hundred(orders: Glue) -> None:
    add_partitions(orders.catalog(), ORDERS, hours(250))
    batches = orders.of("BatchCreatePartition")
    assert [len(batch["PartitionInputList"]) for batch in batches] == [100, 100, 50]
    assert len(raw_partitions(orders)) == 251


def test_partitions_are_read_without_their_columns(orders: Glue) -> None:
    add_partitions(orders.catalog(), ORDERS, hours(250))
    known = orders.catalog().table("web", "orders")
    assert known == ORDERS.with_partitions(hours(250))
    pages = orders.of("GetPartitions")
    assert len(pages) > 1
    assert all(page["ExcludeColumnSchema"] for page in pages)


def test_partitions_that_are_there_do_not_hinder_new_ones(orders: Glue) -> None:
    add_partitions(orders.catalog(), ORDERS, hours(120))
    add_partitions(orders.catalog(), ORDERS, hours(130))
    assert len(raw_partitions(orders)) == 131


def test_a_partition_that_glue_refuses_is_told(orders: Glue) -> None:
    detail = {"ErrorCode": "ResourceNumberLimitExceededException", "ErrorMessage": "too many"}
    errors = [{"PartitionValues": ["2026-11-01", "08"], "ErrorDetail": detail}]
    orders.instead("BatchCreatePartition", (200, {"Errors": errors}))
    with pytest.raises(LimitExceeded, match="too many"):
        add_partitions(orders.catalog(), ORDERS, [EIGHT])


def test_new_columns_go_to_every_partition(orders: Glue) -> None:
    add_partitions(orders.catalog(), ORDERS, hours(250))
    orders.asked.clear()
    add_columns(orders.catalog(), ORDERS, [*ORDERS.columns, COUPON])
    wanted = [("id", "string"), ("received_at", "timestamp"), ("coupon", "string")]
    assert columns(raw(orders)) == wanted
    assert [columns(one) for one in raw_partitions(orders)] == [wanted] * 251
    batches = orders.of("BatchUpdatePartition")
    assert [len(batch["Entries"]) for batch in batches] == [100, 100, 51]


def test_what_a_crash_left_of_new_columns_is_still_to_be_done(orders: Glue) -> None:
    catalog = orders.catalog()
    orders.instead("UpdateTable", refusal("InvalidInputException"))
    with pytest.raises(EventLakeError):
        add_columns(catalog, ORDERS, [COUPON])
    known = catalog.table("web", "orders")
    assert known is not None
    assert known.missing_columns([COUPON])  # so it is asked for again
    add_columns(catalog, ORDERS, [COUPON])
    assert columns(raw(orders)) == columns(raw_partitions(orders)[0])
    assert len(orders.of("BatchUpdatePartition")) == 1  # those that have it are left alone


def test_a_partition_keeps_what_others_put_there(orders: Glue) -> None:
    [known] = raw_partitions(orders)
    storage = {
        **known["StorageDescriptor"],
        "Location": f"{ROOT}/elsewhere/",
        "Columns": [
            {"Name": "id", "Type": "bigint", "Comment": "theirs"},
            {"Name": "more", "Type": "int"},
        ],
    }
    theirs = {
        "Values": known["Values"],
        "StorageDescriptor": storage,
        "Parameters": {"numRows": "5"},
    }
    glue = orders.client
    glue.update_partition(
        DatabaseName="web",
        TableName="orders",
        PartitionValueList=known["Values"],
        PartitionInput=theirs,
    )
    add_columns(orders.catalog(), ORDERS, [COUPON])
    [now] = raw_partitions(orders)
    added = [{"Name": "received_at", "Type": "timestamp"}, {"Name": "coupon", "Type": "string"}]
    assert now["Parameters"] == {"numRows": "5"}
    assert now["StorageDescriptor"] == {**storage, "Columns": [*storage["Columns"], *added]}


# What others put into a table


def test_what_others_put_into_a_table_stays(orders: Glue) -> None:
    theirs = [
        {"Name": "id", "Type": "bigint", "Comment": "the key"},
        {"Name": "received_at", "Type": "timestamp", "Parameters": {"pii": "no"}},
        {"Name": "tags", "Type": "array<string>"},
    ]
    known = raw(orders)
    storage = {
        **known["StorageDescriptor"],
        "Columns": theirs,
        "Parameters": {"crawler": "5"},
        "SortColumns": [{"Column": "id", "SortOrder": 1}],
    }
    update(
        orders,
        Description="who bought what",
        Owner="analysts",
        Retention=7,
        Parameters={**known["Parameters"], "comment": "ours", "projection.enabled": "false"},
        StorageDescriptor=storage,
    )
    before = raw(orders)
    register(orders.catalog(), ORDERS.with_columns([COUPON]).with_partitions([EIGHT]))
    now = raw(orders)
    assert now["StorageDescriptor"] == {
        **storage,
        "Columns": [*theirs, {"Name": "coupon", "Type": "string"}],
    }
    changed = {"StorageDescriptor", "VersionId", "UpdateTime"}
    kept = [{n: v for n, v in one.items() if n not in changed} for one in (before, now)]
    assert kept[0] == kept[1]
    # a new partition reads as the table does, which is others' too
    assert columns(raw_partitions(orders)[1])[0] == ("id", "bigint")


def test_a_change_between_our_look_and_our_update_is_kept(orders: Glue) -> None:
    def theirs(name: str) -> None:
        update(orders, StorageDescriptor=more_columns(orders, {"Name": name, "Type": "string"}))

    for name in ("first", "second"):
        orders.before("UpdateTable", partial(theirs, name))
    add_columns(orders.catalog(), ORDERS, [COUPON])
    names = [name for name, _ in columns(raw(orders))]
    assert names == ["id", "received_at", "first", "second", "coupon"]
    assert len(orders.of("UpdateTable")) == 3


def test_many_writers_lose_no_column(orders: Glue) -> None:
    wanted = [Column(name=f"c{number}", type=Type.STRING) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda one: add_columns(orders.catalog(), ORDERS, [one]), wanted))
    names = [name for name, _ in columns(raw(orders))]
    assert names[:2] == ["id", "received_at"]
    assert sorted(names[2:]) == [one.name for one in wanted]


def test_no_version_is_archived(orders: Glue) -> None:
    for number in range(3):
        more = Column(name=f"c{number}", type=Type.STRING)
        add_columns(orders.catalog(), ORDERS, [more])
    assert [asked["SkipArchive"] for asked in orders.of("UpdateTable")] == [True] * 3


def test_nothing_is_written_when_nothing_is_lacking(orders: Glue) -> None:
    add_columns(orders.catalog(), ORDERS, [WHEN, ID])
    add_partitions(orders.catalog(), ORDERS, [])
    assert {action for action, _ in orders.asked} == {"GetTable", "GetDatabase"}


def test_a_change_of_columns_and_partitions_reads_the_table_once(orders: Glue) -> None:
    change = {"columns": (*ORDERS.columns, COUPON), "partitions": (EIGHT,), "is_partial": True}
    register(orders.catalog(), ORDERS.model_copy(update=change))
    assert [action for action, _ in orders.asked] == [
        "GetDatabase",
        "GetTable",
        "GetPartitions",
        "BatchUpdatePartition",
        "UpdateTable",
        "BatchCreatePartition",
    ]


# Whose tables


def foreign(glue: Glue, name: str, **changes: Any) -> None:
    """A table as Segment or a crawler makes one."""
    made = {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "PartitionKeys": [{"Name": "day", "Type": "string"}, {"Name": "hr", "Type": "string"}],
        "StorageDescriptor": {
            "Location": f"s3a://{BUCKET}/segment-data/data/src1/segment_type={name}",
            "Columns": [
                {"Name": "id", "Type": "string"},
                {"Name": "total", "Type": "decimal(38, 6)"},
                {"Name": "ratio", "Type": "double"},
                {"Name": "price", "Type": "decimal(10,2)"},
                {"Name": "count", "Type": "int"},
                {"Name": "at", "Type": "timestamp"},
                {"Name": "tags", "Type": "array<string>"},
                {"Name": "untyped"},
            ],
            "SerdeInfo": {"SerializationLibrary": f"{PARQUET}serde.ParquetHiveSerDe"},
        },
    }
    glue.client.create_table(DatabaseName="web", TableInput={**made, **changes})


def test_a_table_that_segment_made_is_read(glue: Glue) -> None:
    glue.client.create_database(DatabaseInput={"Name": "web"})
    foreign(glue, "page")
    [table] = glue.catalog().tables("web")
    assert table == glue.catalog().table("web", "page")
    assert table.format == "parquet"
    assert table.location == "segment-data/data/src1/segment_type=page"
    assert {column.name: str(column.type) for column in table.columns} == {
        "id": "string",
        "total": "decimal(38,6)",
        "ratio": "decimal(38,6)",
        "price": "decimal(38,6)",
        "count": "bigint",
        "at": "timestamp",
        "tags": "string",
        "untyped": "string",
    }
    add_columns(glue.catalog(), table, [COUPON])
    add_partitions(glue.catalog(), table, [SEVEN])
    [partition] = raw_partitions(glue, "page")
    added = {"Name": "coupon", "Type": "string"}
    assert partition["StorageDescriptor"]["Columns"][-1] == added


@pytest.mark.parametrize(
    "storage",
    [
        {"Location": "s3://another/segment-data/data/a1b2/segment_type=orders/", "Columns": []},
        {"Location": f"{ROOT}-2/segment-data/data/a1b2/segment_type=orders/", "Columns": []},
        {},
    ],
)
def test_tables_elsewhere_are_none_of_ours(glue: Glue, storage: Body) -> None:
    glue.client.create_database(DatabaseInput={"Name": "web"})
    foreign(glue, "orders", StorageDescriptor=storage)
    before = raw(glue)
    assert list(glue.catalog().tables("web")) == []
    assert glue.catalog().table("web", "orders") is None
    for change in (
        lambda: register(glue.catalog(), ORDERS),
        lambda: add_partitions(glue.catalog(), ORDERS, [EIGHT]),
        lambda: glue.catalog().drop(ORDERS),
    ):
        with pytest.raises(InvalidSettings, match=f"web.orders has .*{PLACE}.*table_prefix"):
            change()
    assert raw(glue) == before


def test_another_sources_table_is_not_written_to(orders: Glue) -> None:
    place = f"{DEFAULT_LAYOUT.data}/other/segment_type=orders"
    other = ORDERS.model_copy(update={"location": place})
    with pytest.raises(InvalidSettings, match="set another database or a table_prefix"):
        register(orders.catalog(), other)


def test_other_partition_keys_are_refused(orders: Glue) -> None:
    layout = DatePartition.YEAR_MONTH_DAY
    other = ORDERS.model_copy(update={"partition_columns": layout.columns})
    with pytest.raises(InvalidSettings, match="partitioned by day, hr, and date_partition asks"):
        register(orders.catalog(), other)


def test_databases_of_others_are_not_looked_into(orders: Glue) -> None:
    for number in range(60):
        orders.client.create_database(DatabaseInput={"Name": f"theirs_{number}"})
    inside = {"Name": "inside", "LocationUri": f"{ROOT}/segment-data/data"}
    orders.client.create_database(DatabaseInput=inside)
    assert [table.name for table in orders.catalog().tables()] == ["orders"]
    assert [asked["DatabaseName"] for asked in orders.of("GetTables")] == ["web", "inside"]


def test_a_database_that_was_there_keeps_what_it_has(glue: Glue) -> None:
    theirs = {
        "Name": "web",
        "Description": "of the web team",
        "LocationUri": "s3://elsewhere/web",
        "Parameters": {"team": "web"},
    }
    glue.client.create_database(DatabaseInput=theirs)
    for _ in range(2):
        register(glue.catalog(), ORDERS)
    now = glue.client.get_database(Name="web")["Database"]
    parameters = now.pop("Parameters")
    assert {name: now[name] for name in ("Name", "Description", "LocationUri")}.items() <= (
        theirs.items()
    )
    assert parameters == {"team": "web", "eventlake.tables": "true"}
    assert len(glue.of("UpdateDatabase")) == 1


def test_a_database_that_may_not_be_marked_is_used_all_the_same(glue: Glue) -> None:
    glue.client.create_database(DatabaseInput={"Name": "web"})
    glue.instead("UpdateDatabase", refusal("AccessDeniedException"))
    register(glue.catalog(), ORDERS)
    assert glue.catalog().table("web", "orders") == ORDERS


# Asked again


def test_every_answer_may_be_lost(glue: Glue) -> None:
    catalog = glue.catalog()
    for action in ("CreateDatabase", "CreateTable", "BatchCreatePartition"):
        glue.lost(action)
    register(catalog, ORDERS)
    for action in ("BatchUpdatePartition", "UpdateTable", "BatchCreatePartition"):
        glue.lost(action)
    add_columns(catalog, ORDERS, [COUPON])
    add_partitions(catalog, ORDERS, [EIGHT])
    assert catalog.table("web", "orders") == ORDERS.with_columns([COUPON]).with_partitions([EIGHT])
    glue.lost("DeleteTable")
    catalog.drop(ORDERS)
    assert catalog.table("web", "orders") is None
    actions = [action for action, _ in glue.asked]
    assert actions.count("DeleteTable") == 2
    assert actions.count("CreateTable") == 2


def test_a_full_catalog_is_a_limit(orders: Glue) -> None:
    full = refusal("ResourceNumberLimitExceededException", message="200000 tables")
    orders.instead("CreateTable", full)
    with pytest.raises(LimitExceeded, match=r"table/web/more.*200000 tables"):
        register(orders.catalog(), ORDERS.model_copy(update={"name": "more"}))
    register(orders.catalog(), ORDERS.model_copy(update={"name": "others"}))


def test_a_refusal_names_the_permission(orders: Glue) -> None:
    catalog = orders.catalog(catalog_id="210987654321")
    orders.instead("GetTable", refusal("AccessDeniedException"))
    arn = "arn:aws:glue:us-east-1:210987654321:table/web/orders"
    with pytest.raises(InsufficientPermissions, match=f"glue:GetTable on {arn}, its database and"):
        catalog.table("web", "orders")
    required = "Insufficient Lake Formation permission(s): Required Create Table on web"
    orders.instead("CreateTable", refusal("AccessDeniedException", message=required))
    with pytest.raises(InsufficientPermissions, match="Required Create Table on web"):
        register(catalog, ORDERS)


def test_every_call_names_the_catalog_that_was_set(glue: Glue) -> None:
    catalog = glue.catalog(catalog_id="210987654321")
    glue.client.create_database(DatabaseInput={"Name": "web"})
    register(catalog, ORDERS)
    register(catalog, ORDERS.model_copy(update={"database": "app"}))
    add_columns(catalog, ORDERS, [COUPON])
    assert len(catalog.tables()) == 2
    catalog.drop(ORDERS)
    assert len({action for action, _ in glue.asked}) == 12
    assert {body.get("CatalogId") for _, body in glue.asked} == {"210987654321"}


def test_many_may_ask_at_once(orders: Glue) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: orders.catalog().table("web", "orders"), range(64)))
    assert found == [ORDERS] * 64
