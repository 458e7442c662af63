"""The current state of an installation, for `streamsched top`.

A shard's owner comes from its lease, its lag from the ends of the log and the last reported positions. Reports that
are too old are marked as stale, with their age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from streamsched.admin.changelog import starts
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.log.topics import LAUNCH, SIGNALS, TRIGGERS_CHANGELOG, VERDICTS, WAKEUPS
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.leases import Lease, role_lease, shard_lease
from streamsched.ports.reports import REPORT_EVERY_S, ShardReport
from streamsched.store.server.reports import InstallationSnapshot, PostgresReportStore, QueueDepth, ReceivedReport

#: A report older than this is stale: its worker is dead, paused, or cannot reach PostgreSQL. A shard that made no
#: progress for longer is silent.
STALE_S: Final = 3 * REPORT_EVERY_S
#: States in which the last report is current.
_FRESH: Final = frozenset({"ok", "starting", "failing", "silent"})
#: Topics that are copied into tables, and the role that copies each.
_INTAKES: Final = {LAUNCH: "intake", WAKEUPS: "wake-ups", TRIGGERS_CHANGELOG: "progress", VERDICTS: "verdicts"}

#: Of a queue that no role works off.
_NO_OWNER: Final = ""


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard.

    Attributes:
        worker: the holder of its lease; None without one.
        state: ok, starting, failing (a turn failed or the log is unreachable; it waits before a restart), silent (no
            progress), stale, untold (its holder has not reported yet) or unowned.
        since_s: for how many seconds it has been unowned, stale or silent; None otherwise, or if it was never owned.
        age_s: age of the last report in seconds; None without one.
        lag: records behind, by topic.
        report: the last report; in states stale, untold and unowned it is old or of a former holder.
    """

    shard: int
    worker: str | None
    state: str
    epoch: int | None
    since_s: float | None
    age_s: float | None
    lag: Mapping[str, int]
    report: ShardReport | None

    @property
    def current(self) -> ShardReport | None:
        """The report, if it is of now."""
        return self.report if self.state in _FRESH else None

    @property
    def total_lag(self) -> int:
        """Records behind, of all topics."""
        return sum(self.lag.values())


@dataclass(frozen=True, slots=True)
class Overview:
    """Shards and queues of an installation.

    Attributes:
        queues: what waits for relay, timers, launchers and intakes, each with the process that runs the role now.
        doubt: what is wrong with PostgreSQL's clock; None: nothing.
    """

    shards: Sequence[ShardView]
    queues: Sequence[tuple[QueueDepth, str | None]]
    doubt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSummary:
    """A shard. `since_seconds`, `told_seconds_ago`: as `since_s` and `age_s` of a `ShardView`."""

    shard: Annotated[int, About(0)]
    worker: Annotated[str | None, About("worker-1")]
    state: Annotated[str, About("ok")]
    epoch: int | None
    since_seconds: Annotated[float | None, About(of="since_s")]
    told_seconds_ago: Annotated[float | None, About(of="age_s")]
    behind: Annotated[int, About(0, "Records, of all topics.", of="total_lag")]
    lag: Annotated[Mapping[str, int], About(0, key="signals")]
    doing: Annotated[str | None, About("reading", of="current.doing")]
    turns_per_second: Annotated[float | None, About(of="current.turns_s")]
    events_per_second: Annotated[float | None, About(of="current.records_s")]
    chunk: Annotated[int | None, About(of="report.chunk")]
    recovery_seconds: Annotated[float | None, About(of="report.recovery_s")]
    rows: Annotated[int | None, About(of="report.rows")]
    in_error: Annotated[int | None, About(0, "Schedules.", of="report.halted")]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    """What waits. `role`: that works it off; `owner`: the process that has this role."""

    name: Annotated[str, About("outbox")]
    waiting: Annotated[int, About(0)]
    oldest: Annotated[float, About(name="oldestSeconds")]
    role: Annotated[str | None, About("relay", of="part")] = None
    owner: Annotated[str | None, About("launcher-1")] = _NO_OWNER


_QUEUE: Final = JsonShape(QueueSummary, sometimes=("role", "owner"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewAnswer:
    """Shards, and what waits for the relay, timers and launchers."""

    shards: Annotated[Sequence[ShardSummary], About(shape=JsonShape(ShardSummary))]
    queues: Annotated[Sequence[QueueSummary], About(shape=_QUEUE)]
    clock: Annotated[str | None, About(text="What is wrong with PostgreSQL's clock.", of="doubt")]


OVERVIEW: Final = JsonShape(
    OverviewAnswer, "Overview", text="Shards, and what waits for the relay, timers and launchers."
)


async def survey(broker: Broker, reports: PostgresReportStore, *, stale_s: float = STALE_S) -> Overview:
    """Reads the current state. `stale_s`: seconds without a report, or without progress of a shard, until it is stale
    or silent.

    Raises:
        UnavailableError: the log or PostgreSQL is unreachable.
    """
    snapshot = await reports.snapshot()
    reported = {each.report.shard: each for each in snapshot.reports}
    leases = {lease.name: lease for lease in snapshot.leases if lease.is_live}
    ended_s = {lease.name: -lease.expires_in for lease in snapshot.leases if not lease.is_live}
    shards: list[ShardView] = []
    for number in range(await broker.partitions(SIGNALS)):
        name, known = shard_lease(number), reported.get(number)
        lease = leases.get(name)
        state = _state(lease, known, stale_s)
        current = known is not None and state in _FRESH and known.report.positions
        at = known.report.positions if current and known is not None else await starts(broker, number)
        shards.append(
            ShardView(
                number,
                None if lease is None else lease.owner,
                state,
                None if lease is None else lease.epoch,
                _round(ended_s.get(name) if lease is None else _seconds_since(state, known)),
                _round(None if known is None else known.age_s),
                await _lag(broker, at),
                None if known is None else known.report,
            )
        )
    queues = [*snapshot.queues, *await _intakes(broker, snapshot)]
    return Overview(shards, [(queue, _owner(leases, queue.part)) for queue in queues], snapshot.clock.doubt)


def _state(lease: Lease | None, known: ReceivedReport | None, stale_s: float) -> str:
    if lease is None:
        return "unowned"
    if known is None or (known.worker, known.report.epoch) != (lease.owner, lease.epoch):
        return "untold"
    if known.age_s > stale_s:
        return "stale"
    if known.report.doing == "pausing":
        return "failing"
    if known.report.silent_s > stale_s:
        return "silent"
    return "starting" if known.report.doing == "starting" else "ok"


def _seconds_since(state: str, known: ReceivedReport | None) -> float | None:
    if known is None or state not in {"stale", "silent"}:
        return None
    return known.age_s + (known.report.silent_s if state == "silent" else 0.0)


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


async def _lag(broker: Broker, at: Mapping[TopicPartition, int]) -> Mapping[str, int]:
    ends = await broker.ends(list(at))
    behind: Counter[str] = Counter()
    for partition, end in ends.items():
        behind[partition.topic] += max(0, end - at[partition])
    return dict(behind)


async def _intakes(broker: Broker, snapshot: InstallationSnapshot) -> Sequence[QueueDepth]:
    """Records that are not copied to their tables yet. Their age is unknown without reading them, so it is 0."""
    found: list[QueueDepth] = []
    for topic, role in _INTAKES.items():
        partitions = [TopicPartition(topic, number) for number in range(await broker.partitions(topic))]
        ends = await broker.ends(partitions)
        behind = sum(max(0, ends[each] - snapshot.taken.get(each, 0)) for each in partitions)
        found.append(QueueDepth(f"log to tables: {role}", behind, 0.0, role))
    return found


def _owner(leases: Mapping[str, Lease], role: str | None) -> str | None:
    lease = None if role is None else leases.get(role_lease(role))
    return None if lease is None else lease.owner


def to_json(overview: Overview) -> dict[str, Any]:
    """The overview as JSON. A shard's rates are null unless its report is current."""
    queues = [
        _QUEUE.answer_of(queue, oldest=round(queue.oldest_s, 1), owner=_NO_OWNER if queue.part is None else owner)
        for queue, owner in overview.queues
    ]
    return OVERVIEW.answer_of(overview, queues=queues)
