"""What every table format does with committed files: one suite, run over each backend."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eventlake.errors import EventLakeError
from eventlake.formats.parquet import ParquetFormat
from eventlake.model.commit import Move
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
def moves(store: Store) -> list[Move]:
    """Three files in the stage."""
    made = []
    for number in range(3):
        staged = f"segment-stage/7/write/orders-{number}.parquet"
        final = f"{TABLE}/day=2026-11-01/hr={number:02}/7-{number}.parquet"
        store.write(staged, b"rows %d" % number)
        made.append(Move(staged=staged, final=final))
    return made


def published(store: Store) -> dict[str, bytes]:
    return {found.path: store.read(found.path) for found in store.objects("segment-data")}


def expected(moves: list[Move]) -> dict[str, bytes]:
    return {move.final: b"rows %d" % number for number, move in enumerate(moves)}


def test_whether_partitions_must_be_told_is_a_fact(table_format: TableFormat) -> None:
    assert isinstance(table_format.needs_partitions, bool)


def test_before_it_is_published_nothing_is_there(
    table_format: TableFormat, store: Store, moves: list[Move]
) -> None:
    assert published(store) == {}
    table_format.publish([])
    assert published(store) == {}


def test_published_files_are_in_place_unchanged(
    table_format: TableFormat, store: Store, moves: list[Move]
) -> None:
    table_format.publish(moves)
    assert published(store) == expected(moves)
    assert list(store.objects("segment-stage")) == []


def test_publishing_may_be_repeated(
    table_format: TableFormat, store: Store, moves: list[Move]
) -> None:
    for _ in range(3):
        table_format.publish(moves)
    assert published(store) == expected(moves)


@pytest.mark.parametrize("done", [0, 1, 2])
def test_what_an_earlier_try_has_left_is_done(
    table_format: TableFormat, store: Store, moves: list[Move], done: int
) -> None:
    table_format.publish(moves[:done])
    table_format.publish(moves)
    assert published(store) == expected(moves)


def test_a_try_that_stopped_between_copy_and_removal(
    table_format: TableFormat, store: Store, moves: list[Move]
) -> None:
    store.write(moves[0].final, store.read(moves[0].staged))
    table_format.publish(moves)
    assert published(store) == expected(moves)


def test_other_files_of_the_table_stay(
    table_format: TableFormat, store: Store, moves: list[Move]
) -> None:
    store.write(f"{TABLE}/day=2026-11-01/hr=00/6-0.parquet", b"before")
    table_format.publish(moves)
    assert published(store) == {
        f"{TABLE}/day=2026-11-01/hr=00/6-0.parquet": b"before",
        **expected(moves),
    }


def test_a_file_that_is_in_neither_place(
    table_format: TableFormat, store: Store, moves: list[Move]
) -> None:
    store.delete([moves[1].staged])
    with pytest.raises(EventLakeError, match=moves[1].staged):
        table_format.publish(moves)
