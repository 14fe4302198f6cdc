"""Schema evolution: pure rules over column observations, independent of their order."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from eventlake.kernels.chunk import ColumnObservation, merge_observations
from eventlake.model.naming import RESCUED
from eventlake.model.schema import Column, TableSchema, budget_used, column
from eventlake.model.types import Type


@dataclass(frozen=True)
class SchemaChange:
    """A table's schema after a run, and the columns that the run added."""

    schema: TableSchema
    added: tuple[Column, ...] = ()


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
    return _add_columns(schema, (column(one.column, one.type) for one in new[:room]))


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


def with_rescued(change: SchemaChange) -> SchemaChange:
    """Add `_rescued_data` to the new columns, unless the table has it."""
    if RESCUED in change.schema.types:
        return change
    before = TableSchema(
        name=change.schema.name,
        call=change.schema.call,
        columns=tuple(c for c in change.schema.columns if c not in change.added),
    )
    return _add_columns(before, (*change.added, column(RESCUED, Type.STRING)))


def _add_columns(schema: TableSchema, columns: Iterable[Column]) -> SchemaChange:
    added = tuple(sorted(columns, key=lambda column: column.name))
    return SchemaChange(schema.with_columns(added), added)
