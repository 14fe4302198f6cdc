"""JSON files with the schemas of tables, for those who read a lake's files without a catalog."""

from functools import partial

from pydantic import ValidationError

from eventlake.lake import Lake
from eventlake.model.commit import Commit, TableCommit
from eventlake.model.tables import source_path, table_path
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel
from eventlake.parallel import TableWork


class SchemaColumn(FrozenModel):
    """A column of a table, and the run that added it or gave it its type."""

    name: str
    type: Type
    since: str


class SchemaFile(FrozenModel):
    """A table's columns in order, without its partition columns."""

    table: str
    location: str
    partition_columns: tuple[str, ...]
    columns: tuple[SchemaColumn, ...]


def schema_work(lake: Lake, commit: Commit) -> list[TableWork]:
    """The calls that write the schemas that a commit changed; none in a lake without schemas."""
    if not lake.layout.schemas:
        return []
    return [
        (one.table.name, partial(_write_schema, lake, commit, one))
        for one in commit.tables
        if one.is_new or one.new_columns or one.retyped or one.dropped or commit.is_whole
    ]


def _write_schema(lake: Lake, commit: Commit, one: TableCommit) -> None:
    """Add a commit's columns to a table's file, or delete the file of a dropped table."""
    folder = source_path(lake.layout, commit.settings)
    path = lake.layout.schema_path(folder, one.table.name)
    if one.dropped:
        lake.store.delete([path])
    else:
        lake.store.update(path, partial(_update_schema, lake, commit, one))


def _update_schema(lake: Lake, commit: Commit, one: TableCommit, data: bytes | None) -> bytes:
    before = {column.name: column for column in _read_columns(data)}
    own = {
        column.name: SchemaColumn(name=column.name, type=column.type, since=commit.run_id)
        for column in one.table.columns
    }
    for name, column in own.items():
        if name in before and before[name].type is column.type:
            own[name] = before[name]
    kept = {} if one.is_new or commit.is_whole else before
    file = SchemaFile(
        table=one.table.name,
        location=table_path(lake.layout, commit.settings, one.table),
        partition_columns=commit.settings.date_partition.columns,
        columns=tuple({**kept, **own}.values()),
    )
    return file.to_json()


def _read_columns(data: bytes | None) -> tuple[SchemaColumn, ...]:
    try:
        return SchemaFile.from_json(data).columns if data else ()
    except ValidationError:  # replace a damaged file: nothing is read from it but the runs
        return ()
