"""The state of PostgreSQL and of the processes that share it, at one moment, for checks, metrics and status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from streamsched.domain.jobs.spool import RefusedLines
from streamsched.domain.quotas.quota import QuotaUse
from streamsched.ports.archive import ArchiveTable
from streamsched.ports.broker import TopicPartition
from streamsched.ports.clock import ClockState
from streamsched.ports.leases import Lease


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
        snapshot: the oldest transaction that keeps dead rows from being removed; None: none, or this user may not see.
        unread: lines of the history that each of its readers has not read.
        stored: where the intakes of records from the log stand.
    """

    server: str
    revision: str | None
    now: datetime
    forbidden: Sequence[str]
    outbox: int
    outbox_since: datetime | None
    leases: Sequence[Lease]
    hidden: Mapping[int, int]
    late: float
    history: Sequence[ArchiveTable] = ()
    refused_spools: Sequence[RefusedLines] = ()
    pending_grants: Sequence[str] = ()
    pending_grants_total: int = 0
    executing: Mapping[str, int] = field(default_factory=dict)
    clock: ClockState | None = None
    processes: Sequence[ProcessRow] = ()
    zones: Sequence[ZoneUse] = ()
    snapshot: HeldSnapshot | None = None
    unread: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[TopicPartition, int] = field(default_factory=dict)


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
class ProcessRow:
    """What a process says of itself.

    Attributes:
        id: its unique name.
        release: its version.
        tzdata: the release of IANA's data by which it computes ticks.
        own_ahead_s: how many seconds its machine's clock is ahead of the time it goes by.
    """

    id: str
    role: str
    host: str
    pid: int
    release: str
    tzdata: str
    own_ahead_s: float


class DatabaseProbe(Protocol):
    """Reads the state of the database."""

    async def facts(self) -> DatabaseFacts:
        """Raises:
        UnavailableError: PostgreSQL is unavailable.
        ConfigurationError: database, user or schema are not what this release needs.
        """
        ...


@dataclass(frozen=True, slots=True)
class QueueMeasures:
    """Lanes of one queue of tasks, each counted up to 10,000.

    Attributes:
        in_flight: their head is being delivered.
        due: ready, and not started.
        staged: due, in a queue for workers.
        stuck: their head has failed and waits for its next attempt.
        late: seconds since the first of those that are due was ready.
        stale: tasks, not lanes, that were due longer than `STALE` ago and have not ended.
    """

    in_flight: int
    due: int
    staged: int
    stuck: int
    late: float
    stale: int


@dataclass(frozen=True, slots=True)
class WebhookMeasures:
    """A webhook. `queued`: changes in its queue; `failing`: seconds for which its target has accepted nothing while
    changes waited; `given_up`: whether the installation disabled it.
    """

    queued: int
    failing: float
    given_up: bool


#: What ended within that time is counted.
LATELY: Final = timedelta(minutes=5)
#: How long after its due time a task that has not ended is stale.
STALE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Measures:
    """Counts of waiting work.

    Attributes:
        jobs, runs: by state; only those that have not ended.
        schedules: by whether they are enabled.
        outbox: control records not yet in the log.
        ticks, wakes: due and not yet sent; `late`: seconds since the first of them was due.
        shards: those with a live owner.
        verdicts: how often each was given, by name and late-event policy ("" when the event was not late).
        positions: how far each partition of the topics stored as rows is stored.
        queues: by name.
        held: waiting jobs by the type of constraint that did not let them start; at most `COUNTED` jobs are read.
        jobs_ended: by state, jobs that ended without a run within `LATELY`.
        runs_ended: by program and state, runs that ended within `LATELY`; of the programs with most of them.
        webhooks: by id.
        shard_positions: by shard, where its next turn starts, as last reported.
        quotas: those of namespaces that are used most.
        missing: expectations whose subject is missing, by namespace.
        unjudged: seconds since the oldest due time of an expectation that is not judged yet.
    """

    jobs: Mapping[str, int]
    runs: Mapping[str, int]
    schedules: Mapping[bool, int]
    outbox: int
    ticks: int
    wakes: int
    late: float
    shards: int
    positions: Mapping[TopicPartition, int]
    verdicts: Mapping[tuple[str, str], int]
    queues: Mapping[str, QueueMeasures]
    held: Mapping[str, int]
    jobs_ended: Mapping[str, int]
    runs_ended: Mapping[tuple[str, str], int]
    shard_positions: Mapping[int, Mapping[TopicPartition, int]]
    quotas: Sequence[QuotaUse] = ()
    webhooks: Mapping[str, WebhookMeasures] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    unjudged: float = 0.0


class Gauges(Protocol):
    """Reads the counts of one installation."""

    async def answers(self) -> None:
        """Raises:
        UnavailableError: PostgreSQL does not answer.
        """
        ...

    async def measure(self, *, now: datetime) -> Measures:
        """Raises:
        UnavailableError: PostgreSQL does not answer.
        """
        ...


#: Seconds between two reports of a worker.
REPORT_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ShardReport:
    """The state of one shard, reported by its worker.

    Attributes:
        epoch: of the worker's lease; a report of an older epoch does not replace one of a newer.
        doing: starting, reading, folding, committing or pausing.
        turns_s, records_s: per second, since the previous report.
        chunk: records of the last turn.
        recovery_s: seconds it took to start.
        rows: in its tables.
        halted: schedules in error.
        positions: where its next turn starts.
        silent_s: seconds since its last step was done, an empty read included.
    """

    shard: int
    epoch: int
    doing: str
    turns_s: float
    records_s: float
    chunk: int
    recovery_s: float
    rows: int
    halted: int
    positions: Mapping[TopicPartition, int]
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A report with its worker and its age in seconds, by the database's clock."""

    worker: str
    age_s: float
    report: ShardReport


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The length of a queue.

    Attributes:
        oldest_s: seconds the first entry has waited; 0 when it is empty.
        part: the singleton role that works it off; None when any process does.
    """

    name: str
    waiting: int
    oldest_s: float
    part: str | None = None


@dataclass(frozen=True, slots=True)
class InstallationSnapshot:
    """The state of an installation, as stored in PostgreSQL.

    Attributes:
        leases: all leases, expired ones too.
        taken: how far each partition of the topics stored as rows is stored.
        clock: PostgreSQL's clock, and the newest judgement about it.
    """

    reports: Sequence[ReceivedReport]
    leases: Sequence[Lease]
    queues: Sequence[QueueDepth]
    taken: Mapping[TopicPartition, int]
    clock: ClockState


class ReportStore(Protocol):
    """Reports of shards: written by workers, read for status."""

    async def save(self, worker: str, reports: Sequence[ShardReport]) -> None:
        """Replaces the reports of these shards, except those of a later epoch.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...

    async def snapshot(self) -> InstallationSnapshot:
        """Reads all reports, leases and queues.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
