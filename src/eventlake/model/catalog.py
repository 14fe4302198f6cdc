"""Tables of a catalog."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from eventlake.errors import InvalidSettings
from eventlake.model.schema import Column
from eventlake.model.values import FrozenModel


class CatalogTable(FrozenModel):
    """A table's location, columns in order, and partitions."""

    database: str
    name: str
    source: str
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

    def with_columns(self, columns: Sequence[Column]) -> "CatalogTable":
        """A copy of the table with the missing columns appended."""
        return self.model_copy(update={"columns": self.columns + self.missing_columns(columns)})

    def missing_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Those of `columns` that the table does not have."""
        names = {column.name for column in self.columns}
        return tuple(column for column in columns if column.name not in names)

    def with_partitions(self, partitions: Sequence[Mapping[str, str]]) -> "CatalogTable":
        """A copy of the table with these partitions added, sorted and unique."""
        items = {tuple(p.items()) for p in (*self.partitions, *partitions)}
        ordered = tuple(dict(one) for one in sorted(items))
        return self.model_copy(update={"partitions": ordered})


def check_location(table: CatalogTable, registered: str) -> None:
    """Raise InvalidSettings if the registered location of a table is another one."""
    if registered != table.location:
        raise InvalidSettings(
            f"the table {table.database}.{table.name} is in the catalog with the location "
            f"{registered or 'none'}, not {table.location}: run `eventlake repair` if it is this "
            "source's, else set another database or a table_prefix"
        )
