"""Schema evolution: pure rules over column observations, independent of their order."""

from collections.abc import Iterable
from itertools import chain

from eventlake.kernels.chunk import ColumnObservation, merge_observations
from eventlake.model.schema import SchemaChange, TableSchema, budget_used, column


def evolve(
    schema: TableSchema, observations: Iterable[ColumnObservation], max_columns: int
) -> SchemaChange:
    """Add the observed columns that are new, as many as `max_columns` allows, sorted by name."""
    by_column: dict[str, ColumnObservation] = {}
    merge_observations(observations, by_column)
    existing = schema.types
    new = [one for one in by_column.values() if one.column not in existing]
    new.sort(key=lambda one: (one.rank, one.column))
    room = max(0, max_columns - budget_used(existing))
    return SchemaChange.add_columns(schema, (column(one.column, one.type) for one in new[:room]))


def refine(
    change: SchemaChange,
    schema: TableSchema,
    observations: Iterable[ColumnObservation],
    more: Iterable[ColumnObservation],
) -> SchemaChange:
    """Join the types of the added columns with further observations; the columns stay the same.

    `schema` is the table before the change, `observations` are those that the change was made from.
    """
    added = {one.name for one in change.added}
    relevant = (one for one in chain(observations, more) if one.column in added)
    return evolve(schema, relevant, budget_used(schema.types) + len(added))
