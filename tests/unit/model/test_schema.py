"""The standard columns: their order and types, for six calls and both namings (section 4)."""

import pytest

from eventlake.model.catalog import CatalogTable
from eventlake.model.naming import RESCUED, Call, Naming
from eventlake.model.schema import Column, TableSchema, budget_used, new_table, standard_columns
from eventlake.model.types import Type

OWN = {
    Call.TRACK: ["event"],
    Call.IDENTIFY: [],
    Call.PAGE: ["name", "category"],
    Call.SCREEN: ["name", "category"],
    Call.GROUP: ["group_id"],
    Call.ALIAS: ["previous_id"],
}
SOURCES = {
    "id": "messageId",
    "message_id": "messageId",
    "anonymous_id": "anonymousId",
    "user_id": "userId",
    "group_id": "groupId",
    "previous_id": "previousId",
    "project_id": "projectId",
    "received_at": "receivedAt",
    "sent_at": "sentAt",
    "original_timestamp": "originalTimestamp",
}


@pytest.mark.parametrize("call", Call)
@pytest.mark.parametrize(
    ("naming", "identity"), [(Naming.WAREHOUSE, "id"), (Naming.NATIVE, "message_id")]
)
def test_the_standard_columns(call: Call, naming: Naming, identity: str) -> None:
    strings = [identity, "anonymous_id", "user_id", *OWN[call]]
    strings += ["type", "channel", "version", "project_id"]
    times = ["received_at", "sent_at", "original_timestamp", "timestamp"]
    columns = standard_columns(call, naming)
    assert [one.column for one in columns] == strings + times
    assert [one.type for one in columns] == [Type.STRING] * len(strings) + [Type.TIMESTAMP] * 4
    assert [one.key for one in columns] == [SOURCES.get(name, name) for name in strings + times]
    table = new_table("t", call, naming)
    assert (table.name, table.call) == ("t", call)
    assert [(c.name, c.type) for c in table.columns] == [(c.column, c.type) for c in columns]


def test_the_budget_leaves_rescued_data_aside() -> None:
    table = new_table("t", Call.IDENTIFY, Naming.WAREHOUSE)
    more = (Column(name="a", type=Type.BIGINT), Column(name=RESCUED, type=Type.STRING))
    assert budget_used(table.types) == 11
    assert budget_used(table.with_columns(more).types) == 12


def test_new_columns_come_last() -> None:
    table = new_table("t", Call.IDENTIFY, Naming.WAREHOUSE)
    wider = table.with_columns((Column(name="a", type=Type.BIGINT),))
    assert wider.columns == (*table.columns, Column(name="a", type=Type.BIGINT))
    assert wider.types["a"] is Type.BIGINT
    assert TableSchema.from_json(wider.to_json()) == wider


def catalog_table() -> CatalogTable:
    return CatalogTable(
        database="web",
        name="page",
        source="web",
        location="segment-data/data/web/segment_type=page",
        columns=(Column(name="id", type=Type.STRING),),
        partition_columns=("day",),
    )


def test_a_catalogs_table_takes_a_column_once() -> None:
    again = [Column(name="id", type=Type.BIGINT), Column(name="b", type=Type.STRING)]
    wider = catalog_table().with_columns(again).with_columns(again)
    assert wider.columns == (Column(name="id", type=Type.STRING), again[1])


def test_a_catalogs_table_has_each_partition_once_and_in_order() -> None:
    days = [{"day": "2026-11-02"}, {"day": "2026-11-01"}, {"day": "2026-11-02"}]
    table = catalog_table().with_partitions(days[:1]).with_partitions(days)
    assert table.partitions == ({"day": "2026-11-01"}, {"day": "2026-11-02"})
    assert CatalogTable.from_json(table.to_json()) == table
