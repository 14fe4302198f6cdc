"""Commits to the logs of Delta tables: each once, in the order of the ledger, whatever happens."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake import Transaction as AppTransaction
from deltalake.transaction import AddAction

from eventlake.errors import InvalidSettings
from eventlake.formats.delta import DeltaFormat
from eventlake.formats.delta_stats import delta_stats
from eventlake.model.commit import DataFile, TableChange, Transaction
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import Column, new_table
from eventlake.model.types import Type
from eventlake.stores import Disk
from tests.unit.pipeline.test_durable import Recording

TABLE = "segment-data/data/web/segment_type=orders"
PRICE = Column(name="price", type=Type.DECIMAL)


def change(sequence: int, path: str, **options: Any) -> TableChange:
    """The change of a commit that adds one file, which is in place."""
    hour = {"day": "2026-11-01", "hr": "00"}
    file = DataFile(path=f"{TABLE}/{path}", rows=1, bytes=9, partition=hour)
    values = {"is_new": sequence == 1, "adds": (file,), **options}
    columns = values.pop("columns", ())
    return TableChange(
        transaction=Transaction(
            source="web", ledger="1", run_id=f"{sequence:019}", sequence=sequence
        ),
        location=TABLE,
        table=new_table("orders", Call.TRACK, Naming.SEGMENT).with_columns(columns),
        partition_columns=("day", "hr"),
        new_columns=columns,
        **values,
    )


def own_path(number: int) -> str:
    return f"day=2026-11-01/hr=00/{number:019}-0.parquet"


def live(folder: Path) -> list[str]:
    actions = DeltaTable(f"{folder}/{TABLE}").get_add_actions(flatten=True)
    paths: list[str] = actions.column("path").to_pylist()
    return sorted(paths)


# What deltalake does, and DeltaFormat must not rely on


def test_a_transaction_id_alone_does_not_prevent_a_second_add(tmp_path: Path) -> None:
    """The trap: the library adds a file again with an id that it has. The format does not."""
    tables = DeltaFormat(Disk(str(tmp_path)))
    tables.publish([change(1, own_path(1))])
    tables.publish([change(1, own_path(2))])
    assert live(tmp_path) == [own_path(1)]
    table = DeltaTable(f"{tmp_path}/{TABLE}")
    add = AddAction(own_path(2), 9, {"day": "d", "hr": "h"}, 0, True, "{}")
    mark = CommitProperties(app_transactions=[AppTransaction("eventlake/web/1", 1)])
    table.create_write_transaction(
        [add], "append", table.schema(), ["day", "hr"], commit_properties=mark
    )
    assert live(tmp_path) == [own_path(1), own_path(2)]


def test_a_new_column_is_added_before_the_file_that_has_it(tmp_path: Path) -> None:
    """The trap: an append ignores columns that the table lacks."""
    tables = DeltaFormat(Disk(str(tmp_path)))
    tables.publish([change(1, own_path(1))])
    for _ in range(2):
        tables.publish([change(2, own_path(2), columns=(PRICE,))])
    table = DeltaTable(f"{tmp_path}/{TABLE}")
    assert "price" in [field.name for field in table.schema().fields]
    assert [one["operation"] for one in table.history()] == ["WRITE", "ADD COLUMN", "CREATE TABLE"]


def test_a_publish_that_was_killed_after_the_column(tmp_path: Path) -> None:
    tables = DeltaFormat(Disk(str(tmp_path)))
    tables.publish([change(1, own_path(1))])
    tables.publish([change(2, own_path(2), columns=(PRICE,), adds=())])
    tables.publish([change(2, own_path(2), columns=(PRICE,))])
    assert DeltaTable(f"{tmp_path}/{TABLE}").version() == 2
    assert live(tmp_path) == [own_path(1), own_path(2)]


def test_every_version_is_settled(tmp_path: Path) -> None:
    """A log that a power failure leaves without one of its versions cannot be read."""
    store = Recording(str(tmp_path))
    DeltaFormat(store).publish([change(1, own_path(1)), change(2, own_path(2), columns=(PRICE,))])
    log = f"{TABLE}/_delta_log"
    assert {f"{log}/{version:020}.json" for version in range(3)} <= store.settled.keys()


def test_a_column_that_somebody_added_with_another_type(tmp_path: Path) -> None:
    tables = DeltaFormat(Disk(str(tmp_path)))
    tables.publish([change(1, own_path(1), columns=(Column(name="price", type=Type.STRING),))])
    with pytest.raises(InvalidSettings, match=r"has price as string, not decimal\(38,6\)"):
        tables.publish([change(2, own_path(2), columns=(PRICE,))])


def test_a_table_of_another_ledger_is_not_taken_for_our_own(tmp_path: Path) -> None:
    """Its sequences say nothing of ours: nothing may be skipped because of them."""
    tables = DeltaFormat(Disk(str(tmp_path)))
    tables.publish([change(1, own_path(1))])
    tables.publish([change(7, own_path(7))])
    other = Transaction(source="web", ledger="2", run_id=f"{8:019}", sequence=1)
    with pytest.raises(InvalidSettings, match="that the ledger does not know, with 2 files"):
        tables.publish([change(1, own_path(8)).model_copy(update={"transaction": other})])


def test_protocol_and_settings_of_a_new_table(tmp_path: Path) -> None:
    DeltaFormat(Disk(str(tmp_path))).publish([change(1, own_path(1))])
    table = DeltaTable(f"{tmp_path}/{TABLE}")
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    configuration = table.metadata().configuration
    assert configuration["delta.enableExpiredLogCleanup"] == "true"
    assert configuration["delta.checkpointInterval"] == "10"
    types = {field.name: field.type.type for field in table.schema().fields}  # type: ignore[union-attr]
    assert (types["received_at"], types["id"], types["hr"]) == ("timestamp", "string", "string")


def test_checkpoints_are_written(tmp_path: Path) -> None:
    tables = DeltaFormat(Disk(str(tmp_path)))
    for number in range(1, 13):
        tables.publish([change(number, own_path(number))])
    log = tmp_path / TABLE / "_delta_log"
    assert [path.name for path in log.glob("*.checkpoint.parquet")] == [
        f"{9:020}.checkpoint.parquet"
    ]
    assert len(live(tmp_path)) == 12


@pytest.mark.parametrize(
    ("kind", "bounds", "expected"),
    [
        (Type.BIGINT, (-5, 2**63 - 1), (-5, 2**63 - 1)),
        (Type.DECIMAL, ("-1E+2", "123456789012345678.123456"), "-100|123456789012345678.123456"),
        (
            Type.TIMESTAMP,
            ("2026-11-01T00:00:00.000999Z", "2026-11-01T00:00:00.000001Z"),
            ("2026-11-01T00:00:00.000Z", "2026-11-01T00:00:00.001Z"),
        ),
        (
            Type.TIMESTAMP,
            ("1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999000Z"),
            ("1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ),
    ],
)
def test_bounds_in_the_log(kind: Type, bounds: Any, expected: Any) -> None:
    table = new_table("orders", Call.TRACK, Naming.SEGMENT)
    table = table.with_columns((Column(name="x", type=kind),))
    file = DataFile(path="p", rows=3, bytes=1, partition={}, stats={"x": (1, *bounds)})
    text = delta_stats(file, table)
    stats = json.loads(text, parse_float=str)
    assert (stats["numRecords"], stats["nullCount"]) == (3, {"x": 1})
    found = stats["minValues"]["x"], stats["maxValues"]["x"]
    assert (f"{found[0]}|{found[1]}" if isinstance(expected, str) else found) == expected


# Several writers


def publish_all(folder: str, sequences: list[int]) -> None:
    """Publish commits in a process of its own, each with those before it."""
    tables = DeltaFormat(Disk(folder))
    for number in sequences:
        tables.publish([change(one, own_path(one)) for one in range(1, number + 1)])


def test_processes_that_publish_the_same_commits_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=publish_all, args=(str(tmp_path), [n % 3 + 1, 5, 8]))
        for n in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    assert live(tmp_path) == [own_path(number) for number in range(1, 9)]
    assert DeltaTable(f"{tmp_path}/{TABLE}").version() == 7


def test_a_lost_answer_to_a_commit_that_went_through(tmp_path: Path) -> None:
    """The library tries again, finds its own commit, and says that another was faster."""
    tables = DeltaFormat(Disk(str(tmp_path)))
    tables.publish([change(1, own_path(1))])
    stale = DeltaTable(f"{tmp_path}/{TABLE}")
    tables.publish([change(2, own_path(2))])
    with pytest.raises(Exception, match="Concurrent transaction failed"):
        tables._tables.commit(stale, TABLE, [], properties(2))
    tables.publish([change(2, own_path(2))])
    assert live(tmp_path) == [own_path(1), own_path(2)]


def properties(sequence: int) -> CommitProperties:
    return CommitProperties(app_transactions=[AppTransaction("eventlake/web/1", sequence)])


def test_another_program_appends_meanwhile(tmp_path: Path) -> None:
    tables = DeltaFormat(Disk(str(tmp_path)))
    tables.publish([change(1, own_path(1))])
    mine, theirs = DeltaTable(f"{tmp_path}/{TABLE}"), DeltaTable(f"{tmp_path}/{TABLE}")
    add = AddAction("theirs.parquet", 9, {"day": "d", "hr": "h"}, 0, True, "{}")
    theirs.create_write_transaction([add], "append", theirs.schema(), ["day", "hr"])
    tables._commit(mine, change(2, own_path(2)))
    assert live(tmp_path) == [own_path(1), own_path(2), "theirs.parquet"]
