"""Where a source's tables are and what the catalog calls them.

Both follow from the settings, unless a table was adopted and its ledger entry has its own.
"""

from eventlake.model.layout import Layout
from eventlake.model.naming import prefix_table
from eventlake.model.schema import TableSchema
from eventlake.model.settings import SourceSettings


def source_path(layout: Layout, settings: SourceSettings) -> str:
    """The folder of a source's new tables."""
    return f"{settings.data_folder or layout.data}/{settings.folder}"


def table_path(layout: Layout, settings: SourceSettings, schema: TableSchema) -> str:
    """The folder of a table."""
    default = f"{source_path(layout, settings)}/segment_type={schema.name}"
    return schema.location or default


def catalog_name(settings: SourceSettings, schema: TableSchema) -> str:
    """The name of a table in the catalog."""
    return schema.catalog_name or prefix_table(schema.name, settings.table_prefix)
