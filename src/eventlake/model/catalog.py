"""Tables of a catalog."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from eventlake.errors import InvalidSettings, MissingTable
from eventlake.model.schema import Column
from eventlake.model.values import FrozenModel


class CatalogTable(FrozenModel):
    """A table's location, columns in order, and partitions."""

    database: str
    name: str
    source: str
    """Empty for a table that another program created."""
    location: str
    """Relative to the lake's root."""
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    partitions: tuple[dict[str, str], ...] = ()
    format: str = "parquet"
    projected: bool = False
    """Whether the table uses partition projection, so that no partitions are registered."""
    foreign: dict[str, str] = Field(default_factory=dict)
    """Columns with a type that EventLake does not use, and that type as the catalog spells it."""
    is_partial: bool = False
    """Whether `partitions` are only new ones, so that the table must not be created with them."""

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    def with_columns(self, columns: Sequence[Column]) -> "CatalogTable":
        """A copy of the table with the missing columns appended."""
        return self.model_copy(update={"columns": self.columns + self.missing_columns(columns)})

    def with_types_of(self, columns: Sequence[Column]) -> "CatalogTable":
        """A copy of the table with the types of `columns`, where it has these."""
        types = {column.name: column for column in columns}
        own = tuple(types.get(column.name, column) for column in self.columns)
        return self.model_copy(update={"columns": own})

    def without_partitions(self, partitions: Sequence[Mapping[str, str]]) -> "CatalogTable":
        """A copy of the table without these partitions."""
        gone = {tuple(one.items()) for one in partitions}
        kept = tuple(one for one in self.partitions if tuple(one.items()) not in gone)
        return self.model_copy(update={"partitions": kept})

    def missing_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Those of `columns` that the table does not have."""
        names = {column.name for column in self.columns}
        return tuple(column for column in columns if column.name not in names)

    def with_partitions(self, partitions: Sequence[Mapping[str, str]]) -> "CatalogTable":
        """A copy of the table with these partitions added, sorted and unique."""
        items = {tuple(p.items()) for p in (*self.partitions, *partitions)}
        ordered = tuple(dict(one) for one in sorted(items))
        return self.model_copy(update={"partitions": ordered})


def merge_tables(registered: CatalogTable | None, table: CatalogTable) -> CatalogTable:
    """The registered table with the missing columns and partitions of `table`.

    Raises MissingTable if there is none and `table` is partial, and InvalidSettings if it has
    another location.
    """
    if registered is None and table.is_partial:
        raise MissingTable(f"the catalog has no table {table.full_name}")
    before = registered or table
    if before.location != table.location:
        raise InvalidSettings(
            f"the table {table.full_name} is in the catalog with the location "
            f"{before.location or 'none'}, not {table.location}: run `eventlake repair` if it is "
            "this source's, else set another database or a table_prefix"
        )
    return before.with_columns(table.columns).with_partitions(table.partitions)
