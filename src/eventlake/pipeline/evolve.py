"""Schema evolution: pure rules over column observations, independent of their order."""

from collections.abc import Iterable
from itertools import chain

from eventlake.kernels.chunk import ColumnObservation, merge_observations
from eventlake.model.schema import SchemaChange, TableSchema, budget_used, column


def evolve(
    schema: TableSchema, observations: Iterable[ColumnObservation], max_columns: int
) -> SchemaChange:
    """Return the change that adds the observed columns that the table lacks, sorted by name.

    If `max_columns` has no room for all, those of the best rank are added, of equal ones the first
    by name. Types of existing columns stay.
    """
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
    """Return `change` with the types of its added columns joined with those of `more`.

    No column is added or left out. `schema` is the table before the change, and `observations` are
    those that the change was made from.
    """
    added = {one.name for one in change.added}
    relevant = (one for one in chain(observations, more) if one.column in added)
    return evolve(schema, relevant, budget_used(schema.types) + len(added))
