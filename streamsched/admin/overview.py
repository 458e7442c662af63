"""How an installation is at this moment: `streamsched top`.

It says what is so, not what was hoped: who holds a shard is told by its lease, how far the shard is by the ends of the
log beside the position it told last, and what was told too long ago is marked with its age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamsched.admin.changelog import starts
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.leases import Lease, part_lease, shard_lease
from streamsched.ports.reports import EVERY_S, Queue, Report, Reports, Standing, Told
from streamsched.ports.topics import LAUNCH, SIGNALS, TRIGGERS_CHANGELOG, VERDICTS, WAKEUPS

#: A report that is older is stale: its worker is dead, paused, or away from PostgreSQL. A shard in which nothing got
#: done for longer is silent.
STALE_S: Final = 3 * EVERY_S
#: States in which what was told is how it is.
_FRESH: Final = frozenset({"ok", "starting", "failing", "silent"})
#: Topics that become rows, and the part that makes them.
_INTAKES: Final = {LAUNCH: "intake", WAKEUPS: "wake-ups", TRIGGERS_CHANGELOG: "progress", VERDICTS: "verdicts"}


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard.

    Attributes:
        worker: who holds its lease; None: nobody does.
        state: ok, starting, failing (its turn failed or the log is away; it waits before it starts over), silent
            (nothing gets done), stale, untold (the holder has not told anything yet) or unowned.
        since_s: for how long it is unowned, stale or silent, in seconds; None otherwise, or when nobody ever had it.
        age_s: of what was told; None when nothing ever was.
        lag: records behind, by topic.
        report: what was told last; by somebody else, or too long ago, where the state is stale, untold or unowned.
    """

    shard: int
    worker: str | None
    state: str
    epoch: int | None
    since_s: float | None
    age_s: float | None
    lag: Mapping[str, int]
    report: Report | None

    @property
    def behind(self) -> int:
        return sum(self.lag.values())


@dataclass(frozen=True, slots=True)
class Overview:
    """Attributes:
    queues: what waits for relay, timers, launchers and intakes, with who plays their parts now.
    """

    shards: Sequence[ShardView]
    queues: Sequence[tuple[Queue, str | None]]


async def survey(broker: Broker, reports: Reports, *, stale_s: float = STALE_S) -> Overview:
    """Looks once. `stale_s`: after so many seconds without a word a worker, or without a sign of life a shard, is not
    well.

    Raises:
        UnavailableError: log or PostgreSQL are away.
    """
    standing = await reports.standing()
    told = {each.report.shard: each for each in standing.told}
    leases = {lease.name: lease for lease in standing.leases if lease.live}
    ended_s = {lease.name: -lease.expires_in for lease in standing.leases if not lease.live}
    shards: list[ShardView] = []
    for number in range(await broker.partitions(SIGNALS)):
        name, known = shard_lease(number), told.get(number)
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
                ended_s.get(name) if lease is None else _since(state, known),
                None if known is None else known.age_s,
                await _lag(broker, at),
                None if known is None else known.report,
            )
        )
    queues = [*standing.queues, *await _intakes(broker, standing)]
    return Overview(shards, [(queue, _owner(leases, queue.part)) for queue in queues])


def _state(lease: Lease | None, known: Told | None, stale_s: float) -> str:
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


def _since(state: str, known: Told | None) -> float | None:
    if known is None or state not in {"stale", "silent"}:
        return None
    return known.age_s + (known.report.silent_s if state == "silent" else 0.0)


async def _lag(broker: Broker, at: Mapping[TopicPartition, int]) -> Mapping[str, int]:
    ends = await broker.ends(list(at))
    behind: Counter[str] = Counter()
    for place, end in ends.items():
        behind[place.topic] += max(0, end - at[place])
    return dict(behind)


async def _intakes(broker: Broker, standing: Standing) -> Sequence[Queue]:
    """What the log has that is not in its tables yet. How old it is nobody knows without reading it."""
    found: list[Queue] = []
    for topic, part in _INTAKES.items():
        places = [TopicPartition(topic, number) for number in range(await broker.partitions(topic))]
        ends = await broker.ends(places)
        behind = sum(max(0, ends[place] - standing.taken.get(place, 0)) for place in places)
        found.append(Queue(f"log to tables: {part}", behind, 0.0, part))
    return found


def _owner(leases: Mapping[str, Lease], part: str | None) -> str | None:
    lease = None if part is None else leases.get(part_lease(part))
    return None if lease is None else lease.owner


def to_json(overview: Overview) -> dict[str, Any]:
    """For programs. Rates of a shard are there only while they are fresh."""
    return {
        "shards": [_shard_json(each) for each in overview.shards],
        "queues": [
            {
                "name": queue.name,
                "waiting": queue.waiting,
                "oldestSeconds": round(queue.oldest_s, 1),
                **({} if queue.part is None else {"role": queue.part, "owner": owner}),
            }
            for queue, owner in overview.queues
        ],
    }


def _shard_json(view: ShardView) -> dict[str, Any]:
    report, fresh = view.report, view.state in _FRESH
    return {
        "shard": view.shard,
        "worker": view.worker,
        "state": view.state,
        "epoch": view.epoch,
        "sinceSeconds": None if view.since_s is None else round(view.since_s, 1),
        "toldSecondsAgo": None if view.age_s is None else round(view.age_s, 1),
        "behind": view.behind,
        "lag": view.lag,
        "doing": report.doing if report and fresh else None,
        "turnsPerSecond": report.turns_s if report and fresh else None,
        "eventsPerSecond": report.records_s if report and fresh else None,
        "chunk": report.chunk if report else None,
        "recoverySeconds": report.recovery_s if report else None,
        "rows": report.rows if report else None,
        "inError": report.halted if report else None,
    }
