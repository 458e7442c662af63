"""Triggers in the database of the trials, and what they recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import asyncpg

from tests.faults.judges.tasks import Name, Watched

#: Records what is in flight in a partition whenever another process takes it, before that process frees it; the first
#: and each later start of a task; and each registration that is stored, in the order of its effect.
_WATCH: Final = """
CREATE TABLE watched_takeovers (token text NOT NULL, at float8 NOT NULL);
CREATE FUNCTION watch_takeover() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched_takeovers
    SELECT t.id || '.' || l.generation || '.' || t.fired, extract(epoch FROM clock_timestamp())
    FROM task_lanes l JOIN tasks t ON t.id = l.in_flight WHERE l.partition = NEW.partition;
    RETURN NULL;
END $$;
CREATE TRIGGER watch_takeover AFTER UPDATE ON task_partitions FOR EACH ROW
    WHEN (NEW.epoch > OLD.epoch) EXECUTE FUNCTION watch_takeover();

CREATE TABLE watched_starts (lane text NOT NULL, key text NOT NULL, at float8 NOT NULL);
CREATE FUNCTION watch_start() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched_starts
    SELECT NEW.name, t.key, extract(epoch FROM clock_timestamp()) FROM tasks t WHERE t.id = NEW.in_flight;
    RETURN NULL;
END $$;
CREATE TRIGGER watch_start AFTER UPDATE OF in_flight ON task_lanes FOR EACH ROW
    WHEN (NEW.in_flight IS NOT NULL) EXECUTE FUNCTION watch_start();

CREATE TABLE watched_registrations (
    place bigserial, lane text NOT NULL, key text NOT NULL, version integer NOT NULL, verdict text NOT NULL
);
CREATE FUNCTION watch_registration() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched_registrations (lane, key, version, verdict) VALUES (
        NEW.lane, NEW.key, (convert_from(NEW.data, 'UTF8')::jsonb ->> 'version')::integer,
        CASE TG_OP WHEN 'INSERT' THEN 'made' ELSE 'replaced' END
    );
    RETURN NULL;
END $$;
CREATE TRIGGER watch_registration AFTER INSERT OR UPDATE OF generation ON tasks FOR EACH ROW
    EXECUTE FUNCTION watch_registration();
"""


class WatchingTriggers:
    """The triggers of one database."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def make(self) -> None:
        await self._pool.execute(_WATCH)

    async def begin(self) -> None:
        """Forgets what was recorded: a trial begins."""
        await self._pool.execute("TRUNCATE watched_takeovers, watched_starts, watched_registrations")

    async def watched(self) -> Watched:
        """What was recorded of starts and takeovers since then."""
        takeovers: defaultdict[str, list[float]] = defaultdict(list)
        for token, at in await self._pool.fetch("SELECT token, at FROM watched_takeovers"):
            takeovers[token].append(at)
        rows = await self._pool.fetch("SELECT lane, key, min(at) FROM watched_starts GROUP BY lane, key")
        return Watched({Name(lane, key): at for lane, key, at in rows}, takeovers)

    async def registrations(self) -> Sequence[tuple[Name, int, str]]:
        """Name, version and verdict of each that was stored, in the order of their effect."""
        rows = await self._pool.fetch("SELECT lane, key, version, verdict FROM watched_registrations ORDER BY place")
        return [(Name(lane, key), version, verdict) for lane, key, version, verdict in rows]
