"""Lines of one table to rows of its schema: conflicts, rescued values, column limit, order."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from eventlake.kernels.chunk import (
    Chunk,
    ColumnObservation,
    TableReader,
    build_chunk,
    merge_observations,
)
from eventlake.kernels.chunk_format import OVERFLOW, received_times
from eventlake.kernels.land import MaskedChunk, land_chunks, split_chunks
from eventlake.model.layout import DatePartition
from eventlake.model.naming import RESCUED, Call, Naming
from eventlake.model.schema import Column, TableSchema, budget_used, new_table
from eventlake.model.types import Type, timestamp
from eventlake.pipeline.evolve import evolve
from tests import regular

NOON, LATER = "2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z"
HEAD = {"type": "track", "event": "Order Completed", "messageId": "m1", "receivedAt": NOON}


class Landed(NamedTuple):
    """The rows of a table, and the table."""

    rows: pa.Table
    schema: TableSchema
    rescued: int

    def cells(self, *columns: str) -> list[Any]:
        """The columns' values, row by row; one column's alone come bare."""
        values = [self.rows[column].to_pylist() for column in columns]
        return values[0] if len(columns) == 1 else [*zip(*values, strict=True)]

    @property
    def rescues(self) -> list[str | None]:
        return self.cells(RESCUED)


def event(**fields: Any) -> bytes:
    return json.dumps(HEAD | fields, ensure_ascii=False).encode()


def track(**properties: Any) -> bytes:
    return event(properties=properties)


def reader_for(
    schema: TableSchema,
    naming: Naming = Naming.WAREHOUSE,
    by: DatePartition = DatePartition.DAY_HOUR,
    max_columns: int = 2000,
    known: bool = True,
    **limit: int,
) -> TableReader:
    types = schema.types if known else {}
    room = max_columns - budget_used(schema.types)
    return TableReader(schema.call, naming, by, types, room, **limit)


def chunk_of(lines: list[bytes], reader: TableReader) -> Chunk:
    moments = [timestamp(json.loads(line)["receivedAt"]) for line in lines]
    return build_chunk(lines, np.array(moments, np.int64), reader)


def lands(
    *groups: Iterable[bytes],
    schema: TableSchema | None = None,
    max_columns: int = 2000,
    keep: Iterable[bool] | None = None,
    **settings: Any,
) -> Landed:
    """Land groups of lines, each a chunk, in one table."""
    call = Call(json.loads(next(iter(groups[0])))["type"])
    naming = settings.get("naming", Naming.WAREHOUSE)
    before = schema or new_table("t", call, naming)
    reader = reader_for(before, max_columns=max_columns, known=schema is not None, **settings)
    chunks = [chunk_of(list(lines), reader) for lines in groups]
    growth = evolve(before, (one for chunk in chunks for one in chunk.observations), max_columns)
    masks = [np.ones(len(chunk.batch), np.bool_) for chunk in chunks]
    if keep is not None:
        masks = [np.array([*keep])]
    parts = [MaskedChunk(chunk.batch, mask) for chunk, mask in zip(chunks, masks, strict=True)]
    rows, rescued = land_chunks(parts, growth.schema, len(growth.added))
    grown = growth.with_rescued() if rescued else growth
    assert rows.column_names == [column.name for column in grown.schema.columns]
    return Landed(rows, grown.schema, rescued)


# Rescued values


@pytest.mark.parametrize(
    ("line", "rescued"),
    [
        (track(user_id=5), '{"properties.user_id":5}'),
        (track(id="other"), '{"properties.id":"other"}'),
        (track(type="x", version=[1]), '{"properties.type":"x","properties.version":[1]}'),
        (event(user_id="u2", userId="u1"), '{"user_id":"u2"}'),
        (track(day="2026-11-02"), '{"properties.day":"2026-11-02"}'),
        (track(hr=12.5), '{"properties.hr":12.5}'),
        (track(timestamp=NOON), f'{{"properties.timestamp":"{NOON}"}}'),
        (event(sentAt="soon"), '{"sentAt":"soon"}'),
        (event(timestamp=5), '{"timestamp":5}'),
        # A value equal to the column's is not a conflict, however it is written.
        (event(userId="u1", properties={"user_id": "u1"}), None),
        (event(userId=5, properties={"user_id": "5", "UserId": 5}), None),
        (event(userId="5", properties={"user_id": 5.0}), None),
        (track(received_at="2026-11-01T13:00:00+01:00"), None),
        (track(received_at="2026-11-01 12:00:00"), None),
        (track(day="2026-11-01", hr="12", event="Order Completed", type="track"), None),
        (track(hr=12, id="m1"), None),
        (track(hr="12.0"), '{"properties.hr":"12.0"}'),
        (event(sentAt=NOON, properties={"sent_at": LATER}), f'{{"properties.sent_at":"{LATER}"}}'),
        # Exact paths go before others, then dotted paths in the order of code points.
        (track(x_y=1, xY=2, XY=3, X_Y=4), '{"properties.X_Y":4,"properties.xY":2}'),
        (track(a={"b": 1}, a_b=2), '{"properties.a_b":2}'),
        (event(c={"ip": "x"}, properties={"c_ip": "y"}), '{"properties.c_ip":"y"}'),
        (track(unit_price=None, unitPrice=2), None),
        (track(A=[1], a={}), None),
    ],
)  # fmt: skip
def test_conflicting_values_are_rescued(line: bytes, rescued: str | None) -> None:
    landed = lands([line])
    assert (landed.rescues if RESCUED in landed.schema.types else [None]) == [rescued]
    assert landed.rescued == (len(json.loads(rescued)) if rescued else 0)


def test_the_best_path_of_a_row_need_not_be_the_tables_best() -> None:
    landed = lands([track(x_y=1), track(xY=2, X_Y=4), track(xY=3)])
    assert landed.cells("x_y") == [1, 4, 3]
    assert landed.rescues == [None, '{"properties.xY":2}', None]


def test_rescued_paths_are_in_the_order_of_code_points() -> None:
    names = [
        "user_id",
        "User Id",
        "USER_ID",
        "\ufffd user id",
        "\U00010000user id",
        'user"id',
        "Type",
    ]
    landed = lands([event(userId="u", properties=dict.fromkeys(names, 1))])
    text = landed.rescues[0] or ""
    assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    assert list(json.loads(text)) == sorted(f"properties.{name}" for name in names)
    assert landed.rescued == len(names)


def test_numbers_are_rescued_as_they_were_sent() -> None:
    lines = [track()[:-2] + b'"user_id":%s}}' % n for n in (b"1.50", b"1e1", b"-0.0")]
    assert lands(lines).rescues == [
        '{"properties.user_id":1.50}',
        '{"properties.user_id":1e1}',
        '{"properties.user_id":-0.0}',
    ]


def test_a_value_that_does_not_cast_is_rescued() -> None:
    schema = new_table("t", Call.TRACK, Naming.WAREHOUSE).with_columns(
        (Column(name="n", type=Type.BIGINT), Column(name="at", type=Type.TIMESTAMP))
    )
    lines = [
        track(n=5, at=NOON),
        track(n=5.7),
        track(n="x", at="soon"),
        track(n="6", at="2026-11-02"),
    ]
    landed = lands(lines, schema=schema)
    assert landed.cells("n") == [5, 5, None, 6]
    assert landed.rescues == [
        None,
        '{"properties.n":5.7}',
        '{"properties.at":"soon","properties.n":"x"}',
        None,
    ]
    assert landed.rescued == 3
    assert [column.name for column in landed.schema.columns[-3:]] == ["n", "at", RESCUED]


def test_in_native_naming_no_property_meets_a_standard_column() -> None:
    landed = lands([track(user_id=5, id="x")], naming=Naming.NATIVE)
    assert landed.cells("properties_user_id", "properties_id") == [(5, "x")]
    assert landed.rescued == 0


@pytest.mark.parametrize(
    ("by", "values"),
    [
        (DatePartition.YEAR_MONTH_DAY, {"year": "2026", "month": 11, "day": "01"}),
        (DatePartition.DAY, {"day": "2026-11-01"}),
    ],
)
def test_a_property_may_repeat_the_partition(by: DatePartition, values: dict[str, Any]) -> None:
    assert lands([track(**values)], by=by).rescued == 0
    wrong = lands([track(**dict.fromkeys(values, "7"))], by=by)
    assert wrong.rescued == len(values)


def test_a_partition_column_of_another_layout_is_an_ordinary_column() -> None:
    assert lands([track(year=2026, hr="x")], by=DatePartition.DAY).cells("year", "hr") == [
        (2026, "x")
    ]


def test_a_property_called_rescued_data_is_a_column() -> None:
    landed = lands([track(_rescued_data="x", user_id=5)])
    assert landed.cells("rescued_data") == ["x"]
    assert landed.rescues == ['{"properties.user_id":5}']


# The budget


def test_new_columns_are_added_in_order_of_their_paths() -> None:
    room = budget_used(new_table("t", Call.TRACK, Naming.WAREHOUSE).types) + 2
    landed = lands([track(b=1, c=2), track(**{"A a": 3, "a": 4})], max_columns=room)
    assert landed.cells("a", "b") == [(None, 1), (4, None)]
    assert landed.rescues == ['{"properties.c":2}', '{"properties.A a":3}']
    assert [column.name for column in landed.schema.columns[-3:]] == [RESCUED, "a", "b"]


@pytest.mark.parametrize("spare", [0, -5])
def test_a_full_table_rescues_every_new_column(spare: int) -> None:
    full = budget_used(new_table("t", Call.TRACK, Naming.WAREHOUSE).types) + spare
    landed = lands([track(b=1.50, c=[1])], [track(c="x")], max_columns=full)
    assert landed.rescues == ['{"properties.b":1.5,"properties.c":[1]}', '{"properties.c":"x"}']


def test_a_known_column_needs_no_room() -> None:
    table = new_table("t", Call.TRACK, Naming.WAREHOUSE)
    schema = table.with_columns((Column(name="b", type=Type.BIGINT),))
    landed = lands([track(b=1, c=2)], schema=schema, max_columns=budget_used(schema.types))
    assert landed.cells("b") == [1]
    assert landed.rescues == ['{"properties.c":2}']


# Many rare columns


@pytest.mark.parametrize(("seed", "room"), [(1, 2000), (2, 16)])
def test_overflow_values_land_the_same_as_columns(seed: int, room: int) -> None:
    lines = [line for line in regular.events(seed, 60) if b'"track"' in line and b'"q"' not in line]
    groups = [lines[:20] or [track()], lines[20:] or [track()]]
    in_columns = lands(*groups, max_columns=room)
    overflowed = lands(*groups, max_columns=room, max_sparse_columns=0)
    assert overflowed.schema == in_columns.schema
    assert overflowed.rows.equals(in_columns.rows)
    assert overflowed.rescued == in_columns.rescued


def test_values_of_many_rare_columns_overflow() -> None:
    wide = track(**{f"k{n}": [n] for n in range(21)}, K0="x")
    schema = new_table("t", Call.TRACK, Naming.WAREHOUSE)
    chunk = chunk_of([track(a=1), wide], reader_for(schema, known=False, max_sparse_columns=20))
    kinds = [kind for *_, kind in json.loads(chunk.batch.schema.metadata[b"columns"])]
    assert OVERFLOW in kinds
    assert len(kinds) < 15
    landed = lands([track(a=1), wide], max_sparse_columns=20)
    assert landed.cells("k0", "k20") == [(None, None), ("[0]", "[20]")]
    assert landed.rescues == [None, '{"properties.K0":"x"}']


# Order, and dropped rows


def test_rows_are_in_order_of_receipt_over_all_chunks() -> None:
    def at(minute: int, n: int) -> bytes:
        return event(receivedAt=f"2026-11-01T12:{minute:02}:00Z", properties={"n": n})

    groups = [(5, 0), (1, 1), (5, 2)], [(0, 3), (5, 4), (1, 5)], [(9, 6)], [(4, 7), (4, 8)]
    landed = lands(*([at(*one) for one in group] for group in groups))
    found = [(moment.minute, n) for moment, n in landed.cells("received_at", "n")]
    assert sorted(found) == sorted(one for group in groups for one in group)
    assert [minute for minute, _ in found] == sorted(minute for minute, _ in found)


def test_dropped_rows_have_no_rescued_values() -> None:
    lines = [track(n=1, user_id=5), track(n=2), track(n=3, id="x")]
    landed = lands(lines, keep=[False, True, True])
    assert landed.cells("n") == [2, 3]
    assert (landed.rescues, landed.rescued) == ([None, '{"properties.id":"x"}'], 1)
    quiet = lands(lines, keep=[False, True, False])
    assert (quiet.cells("n"), quiet.rescued) == ([2], 0)
    assert RESCUED not in quiet.rows.column_names


@pytest.mark.parametrize("order", ["as they came", "shuffled"])
@pytest.mark.parametrize("dropped", [[], [0], [199], [7, 8, 90], range(0, 200, 3), range(199)])
def test_all_rows_land_but_the_dropped_ones(dropped: Iterable[int], order: str) -> None:
    out = set(dropped)
    minutes = [n // 4 if order == "as they came" else n * 7 % 60 for n in range(200)]
    lines = [
        event(receivedAt=f"2026-11-01T12:{minute:02}:00Z", properties={"n": n, "text": f"t{n}"})
        for n, minute in enumerate(minutes)
    ]
    landed = lands(lines, keep=[n not in out for n in range(200)])
    kept = sorted((n for n in range(200) if n not in out), key=lambda n: minutes[n])
    assert landed.cells("n", "text") == [(n, f"t{n}") for n in kept]


def test_chunks_of_different_columns_make_one_table() -> None:
    landed = lands([track(a=1)], [track(b="x", user_id=7)], [track(a=2.5)])
    assert [str(value) for value in landed.cells("a")] == ["1.000000", "None", "2.500000"]
    assert landed.cells("b") == [None, "x", None]
    assert landed.rows.schema.field("received_at").type == pa.timestamp("us", "UTC")


# Observations


def observations_of(
    groups: list[list[bytes]], readers: list[TableReader]
) -> dict[str, ColumnObservation]:
    found: dict[str, ColumnObservation] = {}
    for lines, reader in zip(groups, readers, strict=True):
        merge_observations(chunk_of(lines, reader).observations, found)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_reused_reader_observes_the_same(seed: int) -> None:
    lines = [line for line in regular.events(seed, 60) if b'"track"' in line and b'"q"' not in line]
    groups = [part for part in (lines[:15], lines[15:30], lines[30:]) if part]
    schema = new_table("t", Call.TRACK, Naming.WAREHOUSE)
    one = reader_for(schema, known=False)
    others = [reader_for(schema, known=False) for _ in groups]
    assert observations_of(groups, [one] * len(groups)) == observations_of(groups, others)


def test_two_columns_of_one_dotted_path_stay_separate() -> None:
    groups = [[track(**{"注.文": "x"}), track(注={"文": 5})], [track(注={"文": "y"})]]
    landed = lands(*groups)
    assert landed.rescued == 0


def test_a_chunk_reports_the_types_of_new_columns() -> None:
    schema = new_table("t", Call.TRACK, Naming.WAREHOUSE)
    known = schema.with_columns((Column(name="old", type=Type.STRING),))
    lines = [
        track(old=5, n=1, x=1.5, unitPrice="a", when=NOON, nothing=None, user_id=5),
        track(n=2, x=2, unit_price=True, when=NOON, tags=["a"], o={"p": {}}),
    ]
    assert sorted(chunk_of(lines, reader_for(known)).observations) == [
        ("n", Type.BIGINT, (False, "properties.n")),
        ("tags", Type.STRING, (False, "properties.tags")),
        ("unit_price", Type.BOOLEAN, (False, "properties.unit_price")),
        ("unit_price", Type.STRING, (True, "properties.unitPrice")),
        ("when", Type.TIMESTAMP, (False, "properties.when")),
        ("x", Type.DECIMAL, (False, "properties.x")),
    ]


# Batches


def part(times: list[int], keep: list[bool] | None = None) -> MaskedChunk:
    """A chunk of rows that were received at these moments, and which of them land."""
    received = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([received], ["0"])
    return MaskedChunk(batch, np.array(keep if keep is not None else [True] * len(times)))


def moments(batches: Iterable[Sequence[MaskedChunk]]) -> list[list[int]]:
    return [
        [int(at) for one in batch for at in received_times(one.batch)[one.keep]]
        for batch in batches
    ]


def test_few_rows_are_one_batch() -> None:
    parts = [part([3, 1]), part([2])]
    assert list(split_chunks(parts, 3)) == [parts]
    assert list(split_chunks([], 3)) == []


def test_many_rows_are_split_by_time_of_receipt() -> None:
    parts = [part([9, 1, 5]), part([2, 8, 3], [True, False, True])]
    assert [sorted(found) for found in moments(split_chunks(parts, 2))] == [[1, 2], [3, 5], [9]]


def test_rows_of_one_instant_are_split_too() -> None:
    batches = moments(split_chunks([part([7] * 5), part([7] * 5)], 3))
    assert [len(found) for found in batches] == [3, 3, 3, 1]
    assert {at for found in batches for at in found} == {7}
