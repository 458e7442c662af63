"""A driver against the simplest log there is: a list for each partition. Any mixture of calls must agree with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from streamsched_brokers.kafka.driver import open_broker as open_kafka
from streamsched_brokers.memory import MemoryBroker, MemoryLog
from streamsched_brokers.postgres.compaction import Housekeeping
from streamsched_brokers.postgres.driver import open_broker

from streamsched.domain.errors import FencedError
from streamsched.ports.broker import Broker, Cleanup, Outgoing, TopicPartition, TopicSpec, Writer
from streamsched.testing.broker_contract import OpenBroker, Tail
from streamsched.testing.broker_contract.harness import fresh_name, newest_values
from tests.support.health_checks import ALL_CHECKS

T = TypeVar("T")
Model = dict[TopicPartition, list[tuple[bytes | None, bytes | None]]]

PLAIN, COMPACT = 0, 1
partition = st.sampled_from([(PLAIN, 0), (PLAIN, 1), (COMPACT, 0)])
key = st.sampled_from([b"a", b"b", b"c", b""])
value = st.one_of(st.none(), st.binary(max_size=6))
records = st.lists(st.tuples(partition, key, value), max_size=6)


class LogMachine(RuleBasedStateMachine):
    """Two processes, three names, readers anywhere. Offsets are not compared with the model's, only their order."""

    runner: asyncio.Runner
    opens: OpenBroker

    tails = Bundle("tails")

    def run(self, awaitable: Awaitable[T]) -> T:
        async def main() -> T:
            return await awaitable

        return self.runner.run(main())

    @initialize()
    def open(self) -> None:
        self.topics = [fresh_name("plain"), fresh_name("compact")]
        self.brokers: list[Broker] = [self.run(self.opens()) for _ in range(2)]
        specs = [TopicSpec(self.topics[PLAIN], 2), TopicSpec(self.topics[COMPACT], 1, Cleanup.COMPACT)]
        self.run(self.brokers[0].create_topics(specs))
        self.names = [fresh_name("writer") for _ in range(3)]
        self.writers: dict[str, list[Writer]] = {name: [] for name in self.names}
        self.model: Model = {TopicPartition(self.topics[t], p): [] for t, p in [(PLAIN, 0), (PLAIN, 1), (COMPACT, 0)]}

    def outgoing(self, drawn: list[Any]) -> list[Outgoing]:
        return [Outgoing(self.topics[topic], number, key, value) for (topic, number), key, value in drawn]

    def remember(self, outgoing: list[Outgoing]) -> None:
        for record in outgoing:
            self.model[TopicPartition(record.topic, record.partition)].append((record.key, record.value))

    @rule(drawn=records, broker=st.integers(0, 1))
    def append(self, drawn: list[Any], broker: int) -> None:
        self.run(self.brokers[broker].append(self.outgoing(drawn)))
        self.remember(self.outgoing(drawn))

    @rule(name=st.integers(0, 2), broker=st.integers(0, 1))
    def fence(self, name: int, broker: int) -> None:
        self.writers[self.names[name]].append(self.run(self.brokers[broker].writer(self.names[name])))

    @rule(drawn=records, name=st.integers(0, 2), nth=st.integers(0, 3))
    def commit(self, drawn: list[Any], name: int, nth: int) -> None:
        writers = self.writers[self.names[name]]
        if not writers:
            return
        writer = writers[nth % len(writers)]
        if writer is writers[-1]:
            self.run(writer.commit(self.outgoing(drawn)))
            self.remember(self.outgoing(drawn))
        elif drawn:  # a commit of nothing may not notice the fence
            with pytest.raises(FencedError):
                self.run(writer.commit(self.outgoing(drawn)))

    @rule(target=tails, broker=st.integers(0, 1))
    def tail(self, broker: int) -> Tail:
        positions = dict.fromkeys(self.model, 0)
        return Tail(self.run(self.brokers[broker].reader(positions)), positions)

    @rule(tail=tails, limit=st.integers(1, 5))
    def read(self, tail: Tail, limit: int) -> None:
        self.run(tail.read(max_records=limit, timeout=0))

    @rule(tail=tails)
    def catch_up(self, tail: Tail) -> None:
        ends = self.run(self.brokers[0].ends(list(self.model)))
        self.run(tail.read_until(lambda: all(tail.positions[at] >= end for at, end in ends.items())))
        for at, expected in self.model.items():
            if at.topic == self.topics[PLAIN]:
                assert [(r.key, r.value) for r in tail.seen[at]] == expected
            else:
                assert newest_values(tail.seen[at]) == {k: v for k, v in dict(expected).items() if v is not None}

    @rule(broker=st.integers(0, 1))
    def maintain(self, broker: int) -> None:
        self.run(self.brokers[broker].maintain())

    @invariant()
    def ends_count_everything(self) -> None:
        if hasattr(self, "model"):
            ends = self.run(self.brokers[1].ends(list(self.model)))

            assert all(ends[at] >= len(expected) for at, expected in self.model.items())

    def teardown(self) -> None:
        for broker in getattr(self, "brokers", []):
            self.run(broker.close())


def agrees_with_the_model(opens: OpenBroker, *, examples: int) -> None:
    """Runs the machine on the log that `opens` opens."""
    with asyncio.Runner() as runner:
        machine = type("Machine", (LogMachine,), {"runner": runner, "opens": staticmethod(opens)})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=ALL_CHECKS,
            ),
        )


def test_the_memory_log_agrees_with_lists() -> None:
    logs: list[MemoryLog] = []

    async def opens() -> Broker:
        # Topics and names are fresh in each example, so one log serves all.
        logs[:] = logs or [MemoryLog()]
        return MemoryBroker(logs[0])

    agrees_with_the_model(opens, examples=150)


@pytest.mark.kafka
def test_the_kafka_log_agrees_with_lists(kafka_log: str) -> None:
    async def opens() -> Broker:
        return await open_kafka(f"{kafka_log}&topic.segment.ms=50&topic.min.cleanable.dirty.ratio=0.01")

    agrees_with_the_model(opens, examples=10)


@pytest.mark.postgres
def test_the_postgres_log_agrees_with_lists(postgres_server: str) -> None:
    async def opens() -> Broker:
        return await open_broker(postgres_server, connections=2, housekeeping=Housekeeping(least=1))

    agrees_with_the_model(opens, examples=20)
