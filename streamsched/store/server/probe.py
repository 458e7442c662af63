"""What administration asks of PostgreSQL: its state, hidden dead letters, numbers of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.jobs.spool import RefusedLines
from streamsched.domain.names import ScheduleRef
from streamsched.log.topics import DEAD_LETTER, LAUNCH
from streamsched.ports.broker import TopicPartition
from streamsched.ports.leases import Lease
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.reports import UnreadDeletion
from streamsched.store.access.quotas import read_backlogs
from streamsched.store.access.spools import read_last_refused
from streamsched.store.catalog import outbox
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.partitioned import ArchiveTable, partition_states
from streamsched.store.positions import POSITIONS, read_positions
from streamsched.store.server.clock_judgements import ClockJudgements, ClockState
from streamsched.store.server.processes import Processes, ProcessRow
from streamsched.store.server.reports import LEASES, read_deletions
from streamsched.store.server.schema import stored_revision
from streamsched.store.sql import Select, queries

_SQL: Final = queries("server/probe")

#: Prefix of the topic under which the positions of hidden dead letters are stored, beside those of the intakes.
_HIDDEN: Final = "hidden:"
#: How long it is said that records were deleted unread.
_RECENT: Final = timedelta(days=7)
#: Most spools with refused lines that are named.
_REFUSED: Final = 5
#: Most pending grants that are named.
_PENDING: Final = 20


class HeldSnapshot(NamedTuple):
    """Who has held a snapshot for how many seconds: a session, a prepared transaction, or a replication slot."""

    holder: str
    age: float


class ZoneUse(NamedTuple):
    """A zone, how many schedules name it, and one of them."""

    zone: str
    schedules: int
    example: str


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The state of PostgreSQL and of its content.

    Attributes:
        server: its version as text.
        revision: of the schema; None: it has none.
        now: its clock (UTC).
        forbidden: `table: privilege` for each privilege this user lacks and needs.
        outbox: control records not yet in the log; `outbox_since`: when the oldest was written.
        leases: all leases, expired ones too.
        hidden: for each partition of `dead-letter`, the position below which dead letters are archived.
        late: seconds by which the first overdue tick or wake-up is late.
        history: the partitioned tables of ended jobs and runs.
        refused_spools: the last spools of which lines were refused, newest first.
        pending_grants: uses by other namespaces that their owners have not decided about, as text; the first of them,
            and how many there are.
        executing: how many programs execute something on the machines of launchers, by namespace, the most first.
        clock: its clock, and the newest judgement about it; None: the schema has none.
        processes: of the installation, that have said something lately.
        zones: that definitions of schedules name.
        deletions: what was deleted from the log unread in the last week, the newest first.
        backlogs: by namespace since when it waits for records of its own.
        snapshot: the oldest transaction that keeps dead rows from being removed; None: none, or this user may not see.
        unread: lines of the history that each of its readers has not read.
        stored: where the intakes of records from the log stand.
    """

    server: str
    revision: str | None
    now: datetime
    forbidden: Sequence[str]
    outbox: int = 0
    outbox_since: datetime | None = None
    leases: Sequence[Lease] = ()
    hidden: Mapping[int, int] = field(default_factory=dict)
    late: float = 0.0
    history: Sequence[ArchiveTable] = ()
    refused_spools: Sequence[RefusedLines] = ()
    pending_grants: Sequence[str] = ()
    pending_grants_total: int = 0
    executing: Mapping[str, int] = field(default_factory=dict)
    clock: ClockState | None = None
    processes: Sequence[ProcessRow] = ()
    zones: Sequence[ZoneUse] = ()
    snapshot: HeldSnapshot | None = None
    deletions: Sequence[UnreadDeletion] = ()
    backlogs: Mapping[str, datetime] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[TopicPartition, int] = field(default_factory=dict)


class _Server(NamedTuple):
    """The server, and what this user lacks."""

    server: str
    now: datetime
    forbidden: list[str]


class _Backlog(NamedTuple):
    """The backlog of the outbox, and by how many seconds timers are late."""

    outbox: int
    outbox_since: datetime | None
    late: float


class _PendingGrant(NamedTuple):
    """A grant that is not decided, as text, and how many there are."""

    text: str
    total: int


class _Executing(NamedTuple):
    """How many programs of a namespace execute something on launchers."""

    namespace: str
    programs: int


class _Unread(NamedTuple):
    """Lines of the history that a reader has not read."""

    name: str
    lines: int


class _JobNumber(NamedTuple):
    """The highest number of a job of a generation."""

    schedule: str
    generation: int
    number: int


_SERVER: Final = Select(_SQL["server"], _Server)
_BACKLOG: Final = Select(_SQL["backlog"], _Backlog)
_PENDING_GRANTS: Final = Select(_SQL["pending_grants"], _PendingGrant)
_EXECUTING: Final = Select(_SQL["executing"], _Executing)
SNAPSHOT: Final = Select(_SQL["snapshot"], HeldSnapshot)
_UNREAD: Final = Select(_SQL["unread"], _Unread)
_ZONES: Final = Select(_SQL["zones"], ZoneUse)
_NUMBERS: Final = Select(_SQL["numbers"], _JobNumber)


class DatabaseProbe:
    """Reads the state of the database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def facts(self) -> DatabaseFacts:
        """What the doctor asks the database.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
            ConfigurationError: database, user or schema are not what this release needs.
        """
        revision = await stored_revision(self._pool)
        with translate_errors():
            async with self._pool.acquire() as connection:
                row = await _SERVER.fetch_one(connection)
                snapshot = await SNAPSHOT.fetchrow(connection)
                found = DatabaseFacts(row.server, revision, row.now, row.forbidden, snapshot=snapshot)
                if revision is None:
                    return found
                backlog = await _BACKLOG.fetch_one(connection)
                pending = await _PENDING_GRANTS.fetch(connection, _PENDING)
                return replace(
                    found,
                    outbox=backlog.outbox,
                    outbox_since=backlog.outbox_since,
                    leases=await LEASES.fetch(connection),
                    hidden=dict(await POSITIONS.fetch(connection, _HIDDEN + DEAD_LETTER)),
                    late=backlog.late,
                    history=await partition_states(connection),
                    refused_spools=await read_last_refused(connection, _REFUSED),
                    pending_grants=tuple(each.text for each in pending),
                    pending_grants_total=pending[0].total if pending else 0,
                    executing=dict(await _EXECUTING.fetch(connection)),
                    clock=await ClockJudgements(self._pool).state(),
                    processes=await Processes(self._pool).list_live(),
                    zones=await _ZONES.fetch(connection),
                    unread=dict(await _UNREAD.fetch(connection)),
                    stored=await read_positions(connection),
                    deletions=await read_deletions(connection, row.now - _RECENT, row.now),
                    backlogs=await read_backlogs(connection),
                )


class PostgresArchivedLetters:
    """`admin.dead_letters.ArchivedLetters` on PostgreSQL."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read_hidden(self, topic: str) -> Mapping[int, int]:
        """By partition, the position up to which dead letters are archived."""
        with translate_errors():
            return dict(await POSITIONS.fetch(self._pool, _HIDDEN + topic))

    async def hide(self, topic: str, positions: Mapping[int, int]) -> None:
        """Archives everything below these positions, which never decrease."""
        with translate_errors():
            await self._pool.execute(_SQL["hide"], _HIDDEN + topic, list(positions), list(positions.values()))


class JobNumbers:
    """Job numbers in PostgreSQL."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def positions(self) -> Mapping[int, int]:
        """The position up to which each partition of `launch` is stored; 0 for missing partitions.

        Raises:
            UnavailableError: PostgreSQL is unreachable.
        """
        with translate_errors():
            return dict(await POSITIONS.fetch(self._pool, LAUNCH))

    async def read_highest(self) -> Mapping[tuple[ScheduleRef, int], int]:
        """The highest numbers of jobs it has or had, by schedule and generation.

        Raises:
            UnavailableError: PostgreSQL is unreachable.
        """
        with translate_errors():
            rows = await _NUMBERS.fetch(self._pool)
        return {(ScheduleRef.parse(row.schedule), row.generation): row.number for row in rows}


class OutboxRepair:
    """Writes records of a schedule to the log again."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def mend(self, ref: ScheduleRef, generation: int, records: Sequence[OutboxRecord]) -> Sequence[int]:
        """Writes the records to the outbox and returns their ids; writes nothing and returns none when the schedule is
        no longer of this generation (0: it does not exist).

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                current = await connection.fetchval(_SQL["hold_schedule"], str(ref))
                if (current or 0) != generation:
                    return ()
                return await outbox.write(connection, records)
