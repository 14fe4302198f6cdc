"""What every table format does with committed files: one suite, run over each backend."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlake.errors import EventLakeError
from eventlake.formats.delta import DeltaFormat
from eventlake.formats.parquet import ParquetFormat
from eventlake.model.commit import DataFile, TableChange, Transaction
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import new_table
from eventlake.ports import TableFormat
from eventlake.stores import Disk, Store
from eventlake.verify import LakeFiles
from eventlake.verify.delta import read_log

BACKENDS: dict[str, Callable[[Store], TableFormat]] = {
    "parquet": ParquetFormat,
    "delta": DeltaFormat,
}
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
        path = f"{TABLE}/day=2026-11-01/hr={number:02}/{7:019}-{number}.parquet"
        store.write(staged, rows(number))
        size = len(rows(number))
        made.append(DataFile(path=path, rows=1, bytes=size, partition=hour, staged=staged))
    return made


def rows(number: int) -> pa.Buffer:
    """A Parquet file of one row."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [f"row {number}"]}), sink)
    return sink.getvalue()


def change_of(
    adds: Sequence[DataFile],
    removes: Sequence[DataFile] = (),
    sequence: int = 1,
    **options: object,
) -> TableChange:
    values = {"is_new": sequence == 1, **options}
    return TableChange(
        transaction=Transaction(
            source="web", ledger="1", run_id=f"{sequence:019d}", sequence=sequence
        ),
        location=TABLE,
        table=new_table("orders", Call.TRACK, Naming.WAREHOUSE),
        partition_columns=("day", "hr"),
        adds=tuple(adds),
        removes=tuple(removes),
        **values,
    )


def publish(
    table_format: TableFormat,
    adds: Sequence[DataFile],
    removes: Sequence[DataFile] = (),
    sequence: int = 1,
) -> None:
    table_format.publish([change_of(adds, removes, sequence)])


def published(table_format: TableFormat, store: Store) -> dict[str, bytes]:
    """The files that readers see: those of the table's log, if it has one."""
    paths = {one.path for one in store.objects("segment-data") if "/_delta_log/" not in one.path}
    if isinstance(table_format, DeltaFormat):
        seen = read_log(LakeFiles(*store.filesystem()), f"{TABLE}/_delta_log")
        paths &= {f"{TABLE}/{path}" for path in seen}
        assert len(paths) == len(seen)
    return {path: store.read(path) for path in paths}


def expected(files: list[DataFile]) -> dict[str, bytes]:
    return {file.path: bytes(rows(number)) for number, file in enumerate(files)}


def test_its_facts(table_format: TableFormat) -> None:
    assert isinstance(table_format.needs_partitions, bool)
    assert isinstance(table_format.versioned, bool)
    assert BACKENDS[table_format.name] is type(table_format)


def test_before_it_is_published_nothing_is_there(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    assert published(table_format, store) == {}
    publish(table_format, [])
    assert list(store.objects("segment-data")) == []


def test_published_files_are_in_place_unchanged(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, files)
    assert published(table_format, store) == expected(files)
    assert list(store.objects("segment-stage")) == []
    table_format.check({"web.orders": TABLE})


def test_publishing_may_be_repeated(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    for _ in range(3):
        publish(table_format, files)
    assert published(table_format, store) == expected(files)


@pytest.mark.parametrize("done", [0, 1, 2])
def test_what_an_earlier_try_has_left_is_done(
    table_format: TableFormat, store: Store, files: list[DataFile], done: int
) -> None:
    """It was killed after some of the files were in place."""
    for file in files[:done]:
        store.publish(file.staged, file.path)
    publish(table_format, files)
    assert published(table_format, store) == expected(files)


def test_a_try_that_stopped_between_copy_and_removal(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    store.write(files[0].path, store.read(files[0].staged))
    publish(table_format, files)
    assert published(table_format, store) == expected(files)


def test_other_files_of_the_table_stay(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, files[:1])
    publish(table_format, files[1:], sequence=2)
    assert published(table_format, store) == expected(files)


def test_a_file_that_is_in_neither_place(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    store.delete([files[1].staged])
    with pytest.raises(EventLakeError, match=files[1].staged):
        publish(table_format, files)


def test_a_file_that_is_gone_because_a_later_commit_removed_it(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    store.delete([files[1].staged])
    table_format.publish([change_of(files, superseded=frozenset([files[1].path]))])
    assert published(table_format, store).keys() == {files[0].path, files[2].path}


def test_removed_files_go_after_the_new_ones_are_in_place(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, files[:2])
    for _ in range(2):  # also when it is repeated after a crash
        publish(table_format, files[2:], files[:1], sequence=2)
    assert published(table_format, store) == {
        file.path: bytes(rows(number)) for number, file in enumerate(files) if number
    }
    assert not store.exists(files[0].path)


def test_a_file_that_was_never_published_is_removed_from_the_stage_too(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, files[1:])
    publish(table_format, [], files[:1], sequence=2)
    assert not store.exists(files[0].staged)


def test_a_dropped_table_is_gone_and_can_come_back(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    publish(table_format, files[:1])
    for _ in range(2):
        table_format.publish([change_of([], files[:1], sequence=2, is_dropped=True)])
    assert list(store.objects("segment-data")) == []
    table_format.publish([change_of(files[1:], sequence=3, is_new=True)])
    assert published(table_format, store).keys() == {file.path for file in files[1:]}


def test_earlier_changes_come_first(
    table_format: TableFormat, store: Store, files: list[DataFile]
) -> None:
    """A newer commit is published before an older one, which then has nothing to do."""
    first, second = change_of(files[:2]), change_of(files[2:], files[:1], sequence=2)
    table_format.publish([first, second])
    late = first.model_copy(update={"superseded": frozenset([files[0].path])})
    table_format.publish([late])
    assert published(table_format, store).keys() == {file.path for file in files[1:]}
