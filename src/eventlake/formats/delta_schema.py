"""The schemas of Delta tables."""

from collections.abc import Mapping, Sequence

from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from eventlake.model.schema import TableSchema
from eventlake.model.types import Type

_TYPES: Mapping[Type, str] = {
    Type.BOOLEAN: "boolean",
    Type.BIGINT: "long",
    Type.DECIMAL: "decimal(38,6)",
    Type.STRING: "string",
    Type.TIMESTAMP: "timestamp",
}


def delta_schema(table: TableSchema, partition_columns: Sequence[str]) -> Schema:
    """The schema of a new table: partition columns are last, as strings."""
    fields = [_field(column.name, _TYPES[column.type]) for column in table.columns]
    return Schema([*fields, *(_field(name, "string") for name in partition_columns)])


def _field(name: str, kind: str) -> Field:
    return Field(name, PrimitiveType(kind), nullable=True)


def missing_fields(schema: Schema, table: TableSchema) -> list[Field]:
    """The columns of the ledger's table that the Delta table lacks."""
    known = {field.name for field in schema.fields}
    return [_field(one.name, _TYPES[one.type]) for one in table.columns if one.name not in known]


def find_other_types(schema: Schema, table: TableSchema) -> list[str]:
    """Descriptions of the columns that have another type in the Delta table."""
    types = _field_types(schema)
    return [
        f"{one.name} as {types[one.name]}, not {_TYPES[one.type]}"
        for one in table.columns
        if types.get(one.name, _TYPES[one.type]) != _TYPES[one.type]
    ]


def has_schema(delta: DeltaTable, table: TableSchema, partition_columns: Sequence[str]) -> bool:
    """Whether a Delta table has exactly the columns of the ledger's table, in any order."""
    is_same = _field_types(delta.schema()) == _field_types(delta_schema(table, partition_columns))
    return is_same and delta.metadata().partition_columns == list(partition_columns)


def _field_types(schema: Schema) -> dict[str, str]:
    """The type of each column, in Delta's words; those of nested types as deltalake shows them."""
    return {one.name: getattr(one.type, "type", str(one.type)) for one in schema.fields}
