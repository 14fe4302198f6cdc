"""Partition projection: Athena finds every partition by the table's parameters alone."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import product
from string import Template

import pytest

from eventlake.model.catalog import CatalogTable
from eventlake.model.layout import DatePartition
from tests.aws.glue import Glue
from tests.aws.test_glue import COUPON, ORDERS, PLACE, columns, raw, raw_partitions, update
from tests.catalogs import add_columns, add_partitions, register

DAY = 86_400_000_000
"""Microseconds."""
MOMENT = 1_696_842_000_000_000
"""2023-10-09 09:00."""


def table(layout: DatePartition, *moments: int) -> CatalogTable:
    partitions = tuple(layout.values(moment) for moment in moments)
    shape = {"partition_columns": layout.columns, "partitions": partitions}
    return ORDERS.model_copy(update=shape)


def projected(glue: Glue) -> set[str]:
    """The folders that Athena would look into, by what its manual says of the parameters."""
    found = raw(glue)
    assert found["Parameters"]["projection.enabled"] == "true"
    names = [key["Name"] for key in found["PartitionKeys"]]
    values = [_values(name, found["Parameters"]) for name in names]
    place = Template(found["Parameters"]["storage.location.template"])
    return {place.substitute(dict(zip(names, one, strict=True))) for one in product(*values)}


def _values(name: str, parameters: Mapping[str, str]) -> list[str]:
    prefix = f"projection.{name}."
    given = {k.removeprefix(prefix): v for k, v in parameters.items() if k.startswith(prefix)}
    first, last = given.pop("range").split(",")
    if given["type"] == "integer":
        digits = int(given["digits"])
        return [f"{number:0{digits}}" for number in range(int(first), int(last) + 1)]
    unit = {"interval": "1", "interval.unit": "DAYS", "format": "yyyy-MM-dd", "type": "date"}
    assert given == unit
    assert last == "NOW+1DAY"
    begin, end = date.fromisoformat(first), datetime.now(UTC).date() + timedelta(1)
    return [str(begin + timedelta(number)) for number in range((end - begin).days + 1)]


def folder(layout: DatePartition, moment: int) -> str:
    values = layout.values(moment)
    return PLACE + "/".join(f"{name}={value}" for name, value in values.items()) + "/"


@pytest.mark.parametrize("layout", DatePartition)
def test_athena_finds_every_partition_and_none_is_registered(
    glue: Glue, layout: DatePartition
) -> None:
    catalog = glue.catalog(projection=True)
    register(catalog, table(layout, MOMENT, MOMENT + 3 * DAY))
    for moment in (MOMENT, MOMENT + DAY, MOMENT + 3 * DAY):
        assert folder(layout, moment) in projected(glue)
    assert folder(layout, MOMENT - 400 * DAY) not in projected(glue)
    assert raw_partitions(glue) == []
    known = catalog.table("web", "orders")
    assert known == table(layout).model_copy(update={"projected": True})


@pytest.mark.parametrize("layout", DatePartition)
def test_the_ranges_grow_with_what_is_registered(glue: Glue, layout: DatePartition) -> None:
    catalog = glue.catalog(projection=True)
    register(catalog, table(layout, MOMENT))
    glue.asked.clear()
    add_partitions(catalog, table(layout), [layout.values(MOMENT)])
    assert glue.of("UpdateTable") == []
    late = [layout.values(MOMENT - 400 * DAY), layout.values(MOMENT + 200 * DAY)]
    add_partitions(catalog, table(layout), late)
    assert folder(layout, MOMENT - 400 * DAY) in projected(glue)
    assert folder(layout, MOMENT + 200 * DAY) in projected(glue)
    assert len(glue.of("UpdateTable")) == 1
    assert raw_partitions(glue) == []


@pytest.mark.parametrize("layout", DatePartition)
def test_a_table_without_partitions_begins_today(glue: Glue, layout: DatePartition) -> None:
    register(glue.catalog(projection=True), table(layout))
    now = int(datetime.now(UTC).timestamp()) * 1_000_000
    assert folder(layout, now) in projected(glue)


def test_columns_are_added_as_ever(glue: Glue) -> None:
    layout = DatePartition.DAY
    register(glue.catalog(projection=True), table(layout, MOMENT))
    before = raw(glue)["Parameters"]
    add_columns(glue.catalog(projection=True), table(layout), [COUPON])
    assert columns(raw(glue))[-1] == ("coupon", "string")
    assert raw(glue)["Parameters"] == before


@pytest.mark.parametrize("layout", DatePartition)
def test_projection_may_be_set_later(glue: Glue, layout: DatePartition) -> None:
    register(glue.catalog(), table(layout, MOMENT))
    assert "projection.enabled" not in raw(glue)["Parameters"]
    later = [layout.values(MOMENT + 400 * DAY)]
    add_partitions(glue.catalog(projection=True), table(layout), later)
    assert {folder(layout, MOMENT), folder(layout, MOMENT + 400 * DAY)} <= projected(glue)
    assert len(raw_partitions(glue)) == 1


@pytest.mark.parametrize(
    "theirs",
    [
        {"projection.enabled": "false"},
        {"projection.day.range": "NOW-3YEARS,NOW", "projection.hr.range": "8,17"},
    ],
)
def test_what_others_set_stays(glue: Glue, theirs: dict[str, str]) -> None:
    layout = DatePartition.DAY_HOUR
    register(glue.catalog(projection=True), table(layout, MOMENT))
    update(glue, Parameters={**raw(glue)["Parameters"], **theirs})
    before = raw(glue)["Parameters"]
    early = [layout.values(MOMENT - 400 * DAY)]
    add_partitions(glue.catalog(projection=True), table(layout), early)
    assert raw(glue)["Parameters"] == before
