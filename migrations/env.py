"""Alembic's way in. The connection is always handed over by `streamsched.store.migrate`, which holds the lock."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
