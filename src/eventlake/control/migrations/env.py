"""Run by Alembic: apply migrations on the connection that `migrate` gives."""

from alembic import context

from eventlake.control import monitor_tables, people_tables
from eventlake.control.notify import tables

_ = (monitor_tables, people_tables)  # each adds its tables to the same metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.channels.metadata,
    render_as_batch=True,
)
context.run_migrations()
