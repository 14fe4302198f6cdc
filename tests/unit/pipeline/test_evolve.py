"""Schema evolution, which does not depend on the order of observations."""

from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.kernels.chunk import ColumnObservation
from eventlake.model.naming import RESCUED, Call, Naming
from eventlake.model.schema import Column, SchemaChange, TableSchema, budget_used, new_table
from eventlake.model.types import Type
from eventlake.pipeline.evolve import evolve

TABLE = new_table("t", Call.TRACK, Naming.WAREHOUSE)
USED = budget_used(TABLE.types)


def seen(column: str, kind: Type, exact: bool = True, path: str = "") -> ColumnObservation:
    return ColumnObservation(column, kind, (not exact, path or f"properties.{column}"))


def table(*columns: tuple[str, Type]) -> TableSchema:
    return TABLE.with_columns(tuple(Column(name=name, type=kind) for name, kind in columns))


def added(change: SchemaChange) -> list[tuple[str, Type]]:
    return [(column.name, column.type) for column in change.added]


MANY = st.lists(
    st.builds(
        seen,
        st.sampled_from(["a", "b", "c", "d", "e_f"]),
        st.sampled_from(Type),
        st.booleans(),
    ),
    max_size=8,
)


@given(MANY, st.integers(0, 6), st.randoms(use_true_random=False))
def test_the_order_in_which_chunks_were_seen_does_not_matter(
    found: list[ColumnObservation], room: int, rng: Random
) -> None:
    expected = evolve(TABLE, found, USED + room)
    for _ in range(2):
        rng.shuffle(found)
        assert evolve(TABLE, found, USED + room) == expected


@given(MANY, MANY)
def test_growing_at_once_or_after_each_other_makes_the_same_columns(
    one: list[ColumnObservation], other: list[ColumnObservation]
) -> None:
    at_once = evolve(TABLE, one + other, 2000).schema.types.keys()
    later = evolve(evolve(TABLE, one, 2000).schema, other, 2000).schema.types.keys()
    assert at_once == later


def test_new_columns_come_last_in_the_order_of_their_names() -> None:
    known = table(("z", Type.STRING))
    found = [seen(name, Type.BIGINT) for name in ("b", "a_b", "aa", "_x", "a")]
    change = evolve(known, found, 2000)
    assert [column.name for column in change.added] == ["_x", "a", "a_b", "aa", "b"]
    assert change.schema.columns == known.columns + change.added


@pytest.mark.parametrize(
    ("types", "joined"),
    [
        ([Type.BIGINT], Type.BIGINT),
        ([Type.BIGINT, Type.BIGINT], Type.BIGINT),
        ([Type.BIGINT, Type.DECIMAL], Type.DECIMAL),
        ([Type.DECIMAL, Type.TIMESTAMP], Type.STRING),
        ([Type.BOOLEAN, Type.BIGINT, Type.DECIMAL], Type.STRING),
    ],
)
def test_a_columns_type_is_the_join_of_all_that_was_seen(types: list[Type], joined: Type) -> None:
    for order in permutations(types):
        assert added(evolve(TABLE, [seen("a", kind) for kind in order], 2000)) == [("a", joined)]


def test_a_known_column_keeps_its_type() -> None:
    known = table(("a", Type.BIGINT))
    assert evolve(known, [seen("a", Type.STRING)], 2000) == SchemaChange(known)


def test_exact_paths_are_taken_first_then_the_order_of_code_points() -> None:
    found = [
        seen("a", Type.BIGINT, exact=False, path="properties.A"),
        seen("b", Type.BIGINT, path="properties.b"),
        seen("c", Type.BIGINT, path="context.c"),
        seen("d", Type.BIGINT, exact=False, path="properties.D"),
    ]
    taken = [[name for name, _ in added(evolve(TABLE, found, USED + n))] for n in range(5)]
    assert taken == [[], ["c"], ["b", "c"], ["a", "b", "c"], ["a", "b", "c", "d"]]


def test_a_column_goes_by_the_best_of_its_paths() -> None:
    found = [
        seen("b", Type.BIGINT),
        seen("z", Type.BIGINT, exact=False, path="properties.Z"),
        seen("z", Type.DECIMAL, path="a.z"),
    ]
    assert added(evolve(TABLE, found, USED + 1)) == [("z", Type.DECIMAL)]


def test_two_columns_of_one_dotted_path_do_not_depend_on_order() -> None:
    found = [
        seen("field_1_field_2", Type.BIGINT, exact=False, path="properties.注.文"),
        seen("field_3", Type.BIGINT, exact=False, path="properties.注.文"),
    ]
    assert evolve(TABLE, found, USED + 1) == evolve(TABLE, found[::-1], USED + 1)


@pytest.mark.parametrize("limit", [0, 1, USED - 1, USED])
def test_a_full_table_takes_nothing(limit: int) -> None:
    assert evolve(TABLE, [seen("a", Type.BIGINT)], limit) == SchemaChange(TABLE)


def test_rescued_data_needs_no_room() -> None:
    known = table((RESCUED, Type.STRING))
    assert added(evolve(known, [seen("a", Type.BIGINT)], USED + 1)) == [("a", Type.BIGINT)]


def test_rescued_data_stands_among_the_new_columns() -> None:
    known = table(("z", Type.STRING))
    change = evolve(known, [seen("b", Type.BIGINT), seen("Zz", Type.BIGINT)], 2000)
    grown = change.with_rescued()
    assert [column.name for column in grown.added] == ["Zz", RESCUED, "b"]
    assert grown.schema.columns == known.columns + grown.added
    assert grown.with_rescued() == grown


def test_rescued_data_alone() -> None:
    grown = SchemaChange(TABLE).with_rescued()
    assert added(grown) == [(RESCUED, Type.STRING)]
    assert SchemaChange(grown.schema).with_rescued() == SchemaChange(grown.schema)
