"""A table as a catalog knows it."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from eventlake.errors import InvalidSettings
from eventlake.model.schema import Column
from eventlake.model.values import FrozenModel


class CatalogTable(FrozenModel):
    """Where a table's files lie, its columns in order, and its partitions."""

    database: str
    name: str
    source: str
    location: str
    """Below the lake's root."""
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    partitions: tuple[dict[str, str], ...] = ()
    format: str = "parquet"
    projected: bool = False
    """Whether engines work out the partitions themselves, so that none are registered."""
    foreign: dict[str, str] = Field(default_factory=dict)
    """Columns to which somebody else gave a type that is none of ours, as the catalog spells it."""

    def with_columns(self, columns: Sequence[Column]) -> "CatalogTable":
        """The table with those of the columns that it lacks, at its end."""
        return self.model_copy(update={"columns": self.columns + self.lacks(columns)})

    def lacks(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Those of the columns that the table has not."""
        known = {column.name for column in self.columns}
        return tuple(column for column in columns if column.name not in known)

    def with_partitions(self, partitions: Sequence[Mapping[str, str]]) -> "CatalogTable":
        """The table with these partitions too, each once and in order."""
        items = {tuple(p.items()) for p in (*self.partitions, *partitions)}
        ordered = tuple(dict(one) for one in sorted(items))
        return self.model_copy(update={"partitions": ordered})


def check_location(table: CatalogTable, known: str) -> None:
    """Refuse to change a catalog entry of the same name whose files are elsewhere."""
    if known != table.location:
        raise InvalidSettings(
            f"the table {table.database}.{table.name} is in the catalog with the location "
            f"{known or 'none'}, not {table.location}: run `eventlake repair` if it is this "
            "source's, else set another database or a table_prefix"
        )
