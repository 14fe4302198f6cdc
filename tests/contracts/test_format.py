"""What every table format does with committed files: one suite, run over each backend."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from eventlake.errors import EventLakeError
from eventlake.formats.parquet import ParquetFormat
from eventlake.model.commit import DataFile, TableChange, Transaction
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import new_table
from eventlake.ports import TableFormat
from eventlake.stores import Disk, Store

BACKENDS: dict[str, Callable[[Store], TableFormat]] = {"parquet": ParquetFormat}
TABLE = "segment-data/data/web/segment_type=orders"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Disk(str(tmp_path))


@pytest.fixture(params=BACKENDS)
def table_format(request: pytest.FixtureRequest, store: Store) -> TableFormat:
    return BACKENDS[request.param](store)


@pytest.fixture
def files(store: Store) -> list[DataFile]:
    """Three files in the stage."""
    made = []
    for number in range(3):
        staged = f"segment-stage/7/write/orders-{number}.parquet"
        hour = {"day": "2026-11-01", "hr": f"{number:02}"}
        path = f"{TABLE}/day=2026-11-01/hr={number:02}/7-{number}.parquet"
        store.write(staged, b"rows %d" % number)
        made.append(DataFile(path=path, rows=1, bytes=6, partition=hour, staged=staged))
    return made


def publish(
    table_format: TableFormat,
    adds: Sequence[DataFile],
    removes: Sequence[DataFile] = (),
    sequence: int = 1,
) -> None:
    change = TableChange(
        location=TABLE,
        table=new_table("orders", Call.TRACK, Naming.WAREHOUSE),
        partition_columns=("day", "hr"),
        adds=tuple(adds),
        removes=tuple(removes),
    )
    transaction = Transaction(source="web", run_id=f"{sequence:019d}", sequence=sequence)
    table_format.publish(change, transaction)


def published(store: Store) -> dict[str, bytes]:
    return {found.path: store.read(found.path) for found in store.objects("segment-data")}


def expected(files: list[DataFile]) -> dict[str, bytes]:
    return {file.path: b"rows %d" % number for number, file in enumerate(files)}


def test_whether_partitions_must_be_told_is_a_fact(table_format: TableFormat) -> None:
    assert isinstance(table_format.needs_partitions, bool)


def test_before_it_is_published_nothing_is_there(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    assert published(store) == {}
    publish(table_format, [])
    assert published(store) == {}


def test_published_files_are_in_place_unchanged(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, files)
    assert published(store) == expected(files)
    assert list(store.objects("segment-stage")) == []


def test_publishing_may_be_repeated(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    for _ in range(3):
        publish(table_format, files)
    assert published(store) == expected(files)


@pytest.mark.parametrize("done", [0, 1, 2])
def test_what_an_earlier_try_has_left_is_done(
    table_format: TableFormat, store: Store, files: list[DataFile], done: int
) -> None:
    publish(table_format, files[:done])
    publish(table_format, files)
    assert published(store) == expected(files)


def test_a_try_that_stopped_between_copy_and_removal(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    store.write(files[0].path, store.read(files[0].staged))
    publish(table_format, files)
    assert published(store) == expected(files)


def test_other_files_of_the_table_stay(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    store.write(f"{TABLE}/day=2026-11-01/hr=00/6-0.parquet", b"before")
    publish(table_format, files)
    assert published(store) == {
        f"{TABLE}/day=2026-11-01/hr=00/6-0.parquet": b"before",
        **expected(files),
    }


def test_a_file_that_is_in_neither_place(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    store.delete([files[1].staged])
    with pytest.raises(EventLakeError, match=files[1].staged):
        publish(table_format, files)


def test_removed_files_go_after_the_new_ones_are_in_place(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, files[:2])
    for _ in range(2):  # also when it is repeated after a crash
        publish(table_format, files[2:], files[:1], sequence=2)
    assert published(store) == {
        file.path: b"rows %d" % number for number, file in enumerate(files) if number
    }


def test_a_file_that_was_never_published_is_removed_from_the_stage_too(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, [], files[:1], sequence=2)
    assert not store.exists(files[0].staged)
