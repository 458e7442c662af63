"""Alembic's environment. `streamsched.store.server.migrate` passes the connection and holds the migration lock."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
