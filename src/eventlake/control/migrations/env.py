"""Run by Alembic: apply migrations on the connection that `migrate` gives."""

from alembic import context

from eventlake.control.people_tables import users

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=users.metadata,
    render_as_batch=True,
)
context.run_migrations()
