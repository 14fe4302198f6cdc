"""How tables grow: pure rules over what the chunks saw, the same whatever their order."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from eventlake.kernels.chunk import ColumnObservation, merge_observations
from eventlake.model.naming import RESCUED
from eventlake.model.schema import Column, TableSchema, budget_used, column
from eventlake.model.types import Type


@dataclass(frozen=True)
class Growth:
    """A table after a run and the columns that the run added."""

    schema: TableSchema
    added: tuple[Column, ...] = ()


def evolve(schema: TableSchema, seen: Iterable[ColumnObservation], max_columns: int) -> Growth:
    """The table with the new columns that its budget allows, in code-point order of names."""
    found: dict[str, ColumnObservation] = {}
    merge_observations(seen, found)
    known = schema.types
    fresh = [one for one in found.values() if one.column not in known]
    fresh.sort(key=lambda one: (one.rank, one.column))
    room = max(0, max_columns - budget_used(known))
    return _grown(schema, (column(one.column, one.type) for one in fresh[:room]))


def refine(
    growth: Growth,
    schema: TableSchema,
    seen: Iterable[ColumnObservation],
    more: Iterable[ColumnObservation],
) -> Growth:
    """The same growth, its columns' types joined with what was seen beyond `seen`."""
    added = {one.name for one in growth.added}
    chosen = (one for one in chain(seen, more) if one.column in added)
    return evolve(schema, chosen, budget_used(schema.types) + len(added))


def with_rescued(growth: Growth) -> Growth:
    """The same growth when values had to be rescued: `_rescued_data` is among the columns."""
    if RESCUED in growth.schema.types:
        return growth
    before = TableSchema(
        name=growth.schema.name,
        call=growth.schema.call,
        columns=tuple(c for c in growth.schema.columns if c not in growth.added),
    )
    return _grown(before, (*growth.added, column(RESCUED, Type.STRING)))


def _grown(schema: TableSchema, columns: Iterable[Column]) -> Growth:
    added = tuple(sorted(columns, key=lambda column: column.name))
    return Growth(schema.with_columns(added), added)
