"""Where a source's tables are and what the catalog calls them.

Both follow from the settings, unless a table was adopted and its ledger entry has its own.
"""

from collections.abc import Iterable

from eventlake.model.layout import Layout
from eventlake.model.naming import PLURALS, Call, prefix_table
from eventlake.model.schema import TableSchema
from eventlake.model.settings import SourceSettings


def source_path(layout: Layout, settings: SourceSettings) -> str:
    """The folder of a source's new tables."""
    return f"{settings.data_folder or layout.data}/{settings.table_folder}"


def table_path(layout: Layout, settings: SourceSettings, schema: TableSchema) -> str:
    """The folder of a table."""
    default = f"{source_path(layout, settings)}/segment_type={schema.name}"
    return schema.location or default


def catalog_name(settings: SourceSettings, schema: TableSchema) -> str:
    """The name of a table in the catalog."""
    return schema.catalog_name or prefix_table(schema.name, settings.table_prefix)


def renamed_tables(tables: Iterable[TableSchema]) -> dict[str, str]:
    """By the name that the naming gives a track event, the table that it goes to instead.

    These are names of folders that adopted tables of another name are in: another table must not
    use the same folder.
    """
    calls = {name for call, plural in PLURALS.items() for name in (call.value, plural)}
    folders = {one.location.rpartition("/segment_type=")[2]: one for one in tables if one.location}
    return {
        folder: one.name if one.call is Call.TRACK else f"track_{folder}"
        for folder, one in folders.items()
        if folder != one.name and (one.call is not Call.TRACK or folder not in calls)
    }
