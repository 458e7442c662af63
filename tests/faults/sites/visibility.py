"""Which jobs a transaction that began a run could see: a job may be stored long after its time of creation, and until
then no other can wait for it. Triggers of the test write it down in the database of a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import asyncpg
import psycopg

_TRIGGERS: Final = """
CREATE TABLE trial_stored (job text PRIMARY KEY, xid bigint NOT NULL);
CREATE TABLE trial_begun (run text PRIMARY KEY, snapshot text NOT NULL);
CREATE FUNCTION trial_note_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trial_stored VALUES (NEW.id, pg_current_xact_id()::text::bigint) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE FUNCTION trial_note_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trial_begun VALUES (NEW.id, pg_current_snapshot()::text) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER trial_note_job AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION trial_note_job();
CREATE TRIGGER trial_note_run AFTER INSERT ON runs FOR EACH ROW EXECUTE FUNCTION trial_note_run();
"""


@dataclass(frozen=True, slots=True)
class Visibility:
    """The transaction that stored each job, and the snapshot in which each run was made."""

    stored: Mapping[str, int] = field(default_factory=dict)
    begun: Mapping[str, str] = field(default_factory=dict)

    def hidden(self, job: str, run: str) -> bool:
        """Whether the job was not yet visible when the run was made; False when that is not known.

        >>> Visibility({"a": 7, "b": 9}, {"r": "5:10:7,8"}).hidden("a", "r")
        True
        >>> Visibility({"a": 7, "b": 9}, {"r": "5:10:7,8"}).hidden("b", "r")
        False
        """
        if job not in self.stored or run not in self.begun:
            return False
        _, end, active = self.begun[run].split(":")
        xid = self.stored[job]
        return xid >= int(end) or str(xid) in active.split(",")


def note_visibility(database: str) -> None:
    """Adds the triggers to a migrated database."""
    with psycopg.connect(database) as connection:
        connection.execute(_TRIGGERS)


async def read_visibility(pool: asyncpg.Pool) -> Visibility:
    """What the triggers wrote down; empty in a database without them."""
    if await pool.fetchval("SELECT to_regclass('trial_stored') IS NULL"):
        return Visibility()
    stored = await pool.fetch("SELECT job, xid FROM trial_stored")
    begun = await pool.fetch("SELECT run, snapshot FROM trial_begun")
    return Visibility({row["job"]: row["xid"] for row in stored}, {row["run"]: row["snapshot"] for row in begun})
