"""`ports.probe.DatabaseProbe` and other things an administrator asks of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from streamsched.domain.names import ScheduleRef
from streamsched.ports.leases import Lease
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.probe import DatabaseFacts
from streamsched.ports.topics import DEAD_LETTER, LAUNCH
from streamsched.store import outbox
from streamsched.store.archive import kept
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("probe")

#: Positions below which dead letters are hidden are kept beside those of the intakes, under this name.
_HIDDEN = "hidden:"


class PostgresProbe:
    """`ports.probe.DatabaseProbe`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def facts(self) -> DatabaseFacts:
        with translated():
            async with self._pool.acquire() as connection:
                row = await connection.fetchrow(_SQL["facts"])
                revision = await connection.fetchval(_SQL["revision"]) if row["migrated"] else None
                standing = await connection.fetchrow(_SQL["standing"]) if revision else None
                leases = await connection.fetch(_SQL["leases"]) if revision else ()
                hidden = await connection.fetch(_SQL["positions"], _HIDDEN + DEAD_LETTER) if revision else ()
                history = await kept(connection) if revision else ()
        return DatabaseFacts(
            server=row["server"],
            revision=revision,
            now=row["now"],
            forbidden=tuple(row["forbidden"]),
            outbox=standing["outbox"] if standing else 0,
            outbox_since=standing["outbox_since"] if standing else None,
            leases=tuple(Lease(**lease) for lease in leases),
            hidden={each["partition"]: each["position"] for each in hidden},
            late=standing["late"] if standing else 0.0,
            history=history,
        )


class PostgresPutAway:
    """`admin.letters.PutAway`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def hidden(self, topic: str) -> Mapping[int, int]:
        with translated():
            rows = await self._pool.fetch(_SQL["positions"], _HIDDEN + topic)
        return {row["partition"]: row["position"] for row in rows}

    async def hide(self, topic: str, positions: Mapping[int, int]) -> None:
        with translated():
            await self._pool.execute(_SQL["hide"], _HIDDEN + topic, list(positions), list(positions.values()))


class PostgresNumbers:
    """`admin.started.Numbers`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def taken(self) -> Mapping[int, int]:
        with translated():
            rows = await self._pool.fetch(_SQL["positions"], LAUNCH)
        return {row["partition"]: row["position"] for row in rows}

    async def stored(self) -> Mapping[tuple[ScheduleRef, int], int]:
        with translated():
            rows = await self._pool.fetch(_SQL["numbers"])
        return {(ScheduleRef.parse(row["schedule"]), row["generation"]): row["number"] for row in rows}


class PostgresMending:
    """`ports.outbox.Mending`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def mend(self, ref: ScheduleRef, generation: int, records: Sequence[OutboxRecord]) -> Sequence[int]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                standing = await connection.fetchval(_SQL["hold_schedule"], str(ref))
                if (standing or 0) != generation:
                    return ()
                return await outbox.write(connection, records)
