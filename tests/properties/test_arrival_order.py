"""What was acknowledged before another event was sent is judged before it, however slow each shard is (promise G16)."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec import event as event_codec
from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import CustomHappened, Event, event_key
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred, Put, Signal, Subscribe
from streamsched.domain.triggers.trigger import AllOf, CustomEvent, Then, Trigger, Unless, Within, event_keys
from streamsched.log.topics import EVENTS, LAUNCH, SIGNALS
from streamsched.ports.broker import Chunk, Outgoing, Record, TopicPartition
from streamsched.stream.app import ShardApp, ShardSpec, make_app
from streamsched.stream.turn import Turn
from streamsched.testing.examples import examples
from tests.support.rerun import Expected, Stamped, rerun

USUAL = examples(100)
SHARDS = 3
START_MS = 1_772_366_400_000
REFS = [ScheduleRef("default", "town", name) for name in ("one", "two")]
NAMES = [EventName("default", name) for name in "abcde"]

A, B, C = (CustomEvent(name) for name in NAMES[:3])
TRIGGERS: Sequence[Trigger] = (
    Then(A, B),
    Then(A, B, timedelta(milliseconds=300)),
    Unless(CustomEvent(NAMES[1], 2), A),
    Within(AllOf((A, B, C)), timedelta(milliseconds=400)),
    Then(AllOf((A, C)), CustomEvent(NAMES[1], 2)),
    Then(Then(A, B), C),
    Then(CustomEvent(NAMES[3]), A),
    Unless(C, CustomEvent(NAMES[4])),
)


@dataclass
class Network:
    """Shards that read one log, each when it is told to and as much as it is told to."""

    partitions: dict[TopicPartition, list[Record]] = field(default_factory=lambda: defaultdict(list))
    now_ms: int = START_MS

    def __post_init__(self) -> None:
        self.turns = [Turn() for _ in range(SHARDS)]
        self.apps: list[ShardApp] = [
            make_app(turn, ShardSpec(number=n, shards=SHARDS, unkeyed_partitions=1, dedupe_horizon=timedelta(days=1)))
            for n, turn in enumerate(self.turns)
        ]
        self.positions = [
            {TopicPartition(SIGNALS, n): 0, TopicPartition(EVENTS, n): 0, TopicPartition(EVENTS, n + SHARDS): 0}
            for n in range(SHARDS)
        ]

    def append(self, records: Sequence[Outgoing]) -> None:
        for topic, partition, key, value in records:
            log = self.partitions[TopicPartition(topic, partition)]
            log.append(Record(len(log), key, value, self.now_ms))

    def signal(self, *signals: Signal) -> None:
        encoded = [signal_codec.encode(each) for each in signals]
        self.append([Outgoing(SIGNALS, home(key, SHARDS), key, value) for key, value in encoded])

    async def turn(self, shard: int, most: int) -> bool:
        """One turn with up to `most` records of each source. Whether there was anything."""
        app, positions = self.apps[shard], self.positions[shard]
        taken = [
            Chunk(*at, some, some[-1].offset + 1)
            for at, start in positions.items()
            if (some := self.partitions[at][start : start + most])
        ]
        if not taken:
            return False
        positions |= {chunk.at: chunk.next_position for chunk in taken}
        signals = TopicPartition(SIGNALS, shard)
        app.homes.delivery.begin_read(caught_up=positions[signals] == len(self.partitions[signals]))
        await app.process(taken)
        if app.homes.barriers.needs_ends:
            app.homes.barriers.set_ends({at: len(self.partitions[at]) for at in positions if at.topic == EVENTS})
        app.homes.barriers.end_turn(positions)
        self.append(self.turns[shard].take())
        return True

    async def settle(self, chances: Sequence[int] = (1,)) -> None:
        """Until nothing is left to read. `chances`: of each shard, that it takes a turn when it could."""
        dice = random.Random(len(self.partitions))
        while True:
            idle = True
            for shard in range(SHARDS):
                if dice.randrange(chances[shard % len(chances)]) or await self.turn(shard, dice.randint(1, 2)):
                    idle = False
            if idle:
                return

    def jobs(self, ref: ScheduleRef) -> list[Expected]:
        launched = [launch_codec.decode(each.value or b"") for each in self.partitions[TopicPartition(LAUNCH, 0)]]
        return [Expected.of(job) for job in launched if job.schedule == ref]


#: An event of this name in this public partition, or a turn of this shard with at most so many records of a source.
Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.just("event"), st.integers(0, 4), st.integers(0, 2 * SHARDS - 1))
    | st.tuples(st.just("turn"), st.integers(0, SHARDS - 1), st.integers(1, 3)),
    min_size=10,
    max_size=80,
)


async def run(
    triggers: Mapping[ScheduleRef, Trigger], done: Sequence[Step], chances: Sequence[int]
) -> tuple[list[list[Expected]], list[list[Expected]]]:
    """The jobs that were launched, schedule by schedule, and those of the naive model, which is told the events as they
    were sent.
    """
    network = Network()
    start = datetime.fromtimestamp(START_MS / 1000, UTC)
    sent: dict[ScheduleRef, list[Stamped]] = {
        ref: [(start, Put(ref, 1, True, trigger))] for ref, trigger in triggers.items()
    }
    for ref, trigger in triggers.items():
        network.signal(*(Subscribe(key, ref, 1) for key in sorted(event_keys(trigger))), sent[ref][0][1])
    await network.settle()
    for number, (kind, which, much) in enumerate(done):
        network.now_ms += 50
        if kind == "turn":
            await network.turn(which, much)
            continue
        at = datetime.fromtimestamp(network.now_ms / 1000, UTC)
        event = Event(f"e{number}", "test", at, CustomHappened(NAMES[which], {}))
        for ref, trigger in triggers.items():
            if event_key(event.fact) in event_keys(trigger):
                sent[ref].append((at, Occurred(event)))
        network.append([Outgoing(EVENTS, much, b"any", event_codec.encode(event))])
    await network.settle(chances)
    return [network.jobs(ref) for ref in triggers], [list(rerun(log, log[-1][0]).jobs) for log in sent.values()]


@USUAL
@given(
    st.lists(st.sampled_from(TRIGGERS), min_size=2, max_size=2),
    steps,
    st.lists(st.sampled_from([1, 4, 12]), min_size=3, max_size=3),
)
def test_events_are_judged_in_the_order_in_which_they_were_sent(
    triggers: Sequence[Trigger], done: Sequence[Step], chances: Sequence[int]
) -> None:
    launched, wanted = asyncio.run(run(dict(zip(REFS, triggers, strict=True)), done, chances))

    assert launched == wanted


@USUAL
@given(steps)
def test_what_needs_no_order_waits_for_none(done: Sequence[Step]) -> None:
    """No signal is held, and no barrier is sent."""

    async def barriers() -> int:
        network, trigger = Network(), AllOf((A, B))
        network.signal(
            *(Subscribe(key, REFS[0], 1) for key in sorted(event_keys(trigger))), Put(REFS[0], 1, True, trigger)
        )
        for kind, which, much in done:
            event = Event(f"e{network.now_ms}", "t", datetime.now(UTC), CustomHappened(NAMES[which], {}))
            if kind == "event":
                network.append([Outgoing(EVENTS, much, None, event_codec.encode(event))])
            else:
                await network.turn(which, much)
        await network.settle()
        signals = [each for at, log in network.partitions.items() if at.topic == SIGNALS for each in log]
        return sum((each.key or b"").startswith(b"barrier:") for each in signals)

    assert asyncio.run(barriers()) == 0
