"""`ports.server.DatabaseProbe` and other queries of administration on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from streamsched.domain.names import ScheduleRef
from streamsched.log.topics import DEAD_LETTER, LAUNCH
from streamsched.ports.broker import TopicPartition
from streamsched.ports.leases import Lease
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.server import DatabaseFacts, HeldSnapshot, ZoneUse
from streamsched.store.access.spools import last_refused
from streamsched.store.catalog import outbox
from streamsched.store.connections import translated
from streamsched.store.partitioned import kept
from streamsched.store.server.clock_judgements import PostgresClockJudgements
from streamsched.store.server.processes import PostgresProcesses
from streamsched.store.sql import queries

_SQL = queries("server/probe")

#: Prefix of the topic under which the positions of hidden dead letters are stored, beside those of the intakes.
_HIDDEN = "hidden:"
#: Most spools with refused lines that are named.
_REFUSED = 5
#: Most pending grants that are named.
_PENDING = 20


class PostgresProbe:
    """See `ports.server.DatabaseProbe`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def facts(self) -> DatabaseFacts:
        with translated():
            async with self._pool.acquire() as connection:
                row = await connection.fetchrow(_SQL["facts"])
                revision = await connection.fetchval(_SQL["revision"]) if row["migrated"] else None
                backlog = await connection.fetchrow(_SQL["standing"]) if revision else None
                leases = await connection.fetch(_SQL["leases"]) if revision else ()
                hidden = await connection.fetch(_SQL["positions"], _HIDDEN + DEAD_LETTER) if revision else ()
                executing = await connection.fetch(_SQL["executing"]) if revision else ()
                history = await kept(connection) if revision else ()
                refused = await last_refused(connection, _REFUSED) if revision else ()
                zones = await connection.fetch(_SQL["zones"]) if revision else ()
                snapshot = await connection.fetchrow(_SQL["snapshot"])
                unread = await connection.fetch(_SQL["unread"]) if row["has_readers"] else ()
                stored = await connection.fetch(_SQL["stored"]) if revision else ()
                pending = await connection.fetch(_SQL["pending_grants"], _PENDING) if row["has_grants"] else ()
            judged = row["has_processes"]
            clock = await PostgresClockJudgements(self._pool).state() if judged else None
            processes = await PostgresProcesses(self._pool).live() if judged else ()
        return DatabaseFacts(
            server=row["server"],
            revision=revision,
            now=row["now"],
            forbidden=tuple(row["forbidden"]),
            outbox=backlog["outbox"] if backlog else 0,
            outbox_since=backlog["outbox_since"] if backlog else None,
            leases=tuple(Lease(**lease) for lease in leases),
            hidden={each["partition"]: each["position"] for each in hidden},
            late=backlog["late"] if backlog else 0.0,
            history=history,
            refused_spools=refused,
            pending_grants=tuple(each["text"] for each in pending),
            pending_grants_total=pending[0]["total"] if pending else 0,
            executing={each["namespace"]: each["programs"] for each in executing},
            clock=clock,
            processes=processes,
            zones=tuple(ZoneUse(**each) for each in zones),
            snapshot=None if snapshot is None else HeldSnapshot(**snapshot),
            unread={each["name"]: each["lines"] for each in unread},
            stored={TopicPartition(each["topic"], each["partition"]): each["position"] for each in stored},
        )


class PostgresArchivedLetters:
    """See `admin.dead_letters.ArchivedLetters`."""

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
    """See `admin.started.Numbers`."""

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


class PostgresOutboxRepair:
    """See `ports.outbox.OutboxRepair`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def mend(self, ref: ScheduleRef, generation: int, records: Sequence[OutboxRecord]) -> Sequence[int]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                current = await connection.fetchval(_SQL["hold_schedule"], str(ref))
                if (current or 0) != generation:
                    return ()
                return await outbox.write(connection, records)
