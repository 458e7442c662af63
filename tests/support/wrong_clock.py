"""A database whose clock can be set: functions of the names of PostgreSQL's, found before them."""

from __future__ import annotations

from datetime import timedelta

import asyncpg

_FUNCTIONS = """
CREATE SCHEMA wrong_clock;
CREATE TABLE wrong_clock.off (seconds double precision NOT NULL);
INSERT INTO wrong_clock.off VALUES (0);
CREATE FUNCTION wrong_clock.now() RETURNS timestamptz STABLE LANGUAGE sql
    AS 'SELECT pg_catalog.now() + make_interval(secs => seconds) FROM wrong_clock.off';
CREATE FUNCTION wrong_clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
    AS 'SELECT pg_catalog.clock_timestamp() + make_interval(secs => seconds) FROM wrong_clock.off';
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET search_path = wrong_clock, pg_catalog, public', current_database());
END $$;
"""


class WrongClock:
    """The clock of a database as its connections from now on see it."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def install(self) -> None:
        """Makes it right to begin with."""
        await self._execute(_FUNCTIONS)

    async def set(self, off: timedelta) -> None:
        """How far it is ahead."""
        await self._execute("UPDATE wrong_clock.off SET seconds = $1", off.total_seconds())

    async def _execute(self, query: str, *arguments: object) -> None:
        connection = await asyncpg.connect(self._dsn)
        try:
            await connection.execute(query, *arguments)
        finally:
            await connection.close()
