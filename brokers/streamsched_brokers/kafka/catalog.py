"""Creates, checks and looks up topics. The number of partitions of a topic never changes, so it is cached."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import structlog
from aiokafka import errors as kafka

from streamsched.domain.errors import ConfigurationError, NotFoundError, UnavailableError
from streamsched.ports.broker import Cleanup, Outgoing, TopicPartition, TopicSpec
from streamsched_brokers.kafka import administration
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.administration import TopicChanges, TopicLayout
from streamsched_brokers.kafka.failure import AWAY, RetryBudget
from streamsched_brokers.kafka.link import KafkaConnection

log = structlog.get_logger()

#: A changelog is read completely when its shard moves: small segments, compacted early, keep it short.
_COMPACTED: Final = {"segment.bytes": str(32 << 20), "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.2"}
#: Who sets the time of records, and that it is the log.
_STAMPED: Final = "message.timestamp.type"
_BY_LOG: Final = "LogAppendTime"
_REPLICATION: Final = 3
#: About the number of segments of a partition with a long retention, and how long at least one of them is.
_SEGMENTS: Final = 72
_HOUR: Final = timedelta(hours=1)
#: Attempts to find an unknown topic: brokers learn of a new topic at different times.
_ATTEMPTS: Final = 3


class KafkaTopicCatalog:
    """The topics of a Kafka cluster, by their names without prefix; cached."""

    def __init__(self, link: KafkaConnection) -> None:
        self._link = link
        self._partitions: dict[str, int] = {}

    async def partitions(self, topic: str) -> int:
        """The number of partitions of a topic.

        Raises:
            NotFoundError: there is no such topic.
        """
        for attempt in range(_ATTEMPTS):
            if topic in self._partitions:
                return self._partitions[topic]
            await asyncio.sleep(0.05 * attempt)
            await self._read([topic])
        if topic not in self._partitions:
            raise NotFoundError("topic", topic)
        return self._partitions[topic]

    async def check(self, targets: Iterable[Outgoing] | Iterable[TopicPartition]) -> None:
        """Checks that all these partitions exist.

        Raises:
            NotFoundError: one does not.
        """
        for topic, partition in {(target.topic, target.partition) for target in targets}:
            known = self._partitions.get(topic) or await self.partitions(topic)
            if not 0 <= partition < known:
                raise NotFoundError("partition", f"{topic}/{partition}")

    async def create(self, specs: Sequence[TopicSpec]) -> None:
        """Creates missing topics, checks existing ones, and sets their retention, timestamp type and message size.

        Raises:
            ConfigurationError: a topic exists with other partitions, cleanup or replication.
            UnavailableError: fewer brokers are available than a new topic needs replicas.
        """
        address, link = self._link.address, self._link
        names = {address.real_name(spec.name): spec for spec in specs}
        there = await administration.layouts(link, list(names))
        missing = [name for name in names if name not in there]
        if missing:
            copies = await self._copies()
            plans = [
                TopicChanges(name, names[name].partitions, copies, _settings(names[name], address, copies))
                for name in missing
            ]
            await administration.create(link, plans)
            there = await self._await_leaders(list(names))
        current = await self._settings(list(names))
        for name, spec in names.items():
            copies = there[name].replication
            wanted = _settings(spec, address, copies)
            _compare(name, there[name], current[name], spec=spec, wanted=wanted, address=address)
            changes = {
                key: wanted[key] for key in _managed_settings(spec, address) if current[name].get(key) != wanted[key]
            }
            if changes:
                await administration.change(link, name, changes)
                log.info("log.topic_changed", topic=name, settings=changes)
            if copies > 1 and int(current[name]["min.insync.replicas"]) < 2:
                log.warning("log.topic_weak", topic=name, reason="min.insync.replicas is 1")
            self._partitions[spec.name] = spec.partitions
        await link.follow(spec.name for spec in specs)

    async def fault(self, topic: str) -> str:
        """What is wrong with the settings of a topic; empty: nothing."""
        await self.partitions(topic)
        name = self._link.address.real_name(topic)
        found = (await self._settings([name]))[name].get(_STAMPED)
        if found == _BY_LOG:
            return ""
        return (
            f"has {_STAMPED}={found} and must have {_BY_LOG}, since lateness and repeats go by the log's time: a start "
            f"of any role sets it, or `kafka-configs.sh --alter --topic {name} --add-config {_STAMPED}={_BY_LOG}`"
        )

    async def _copies(self) -> int:
        """The replication factor of a new topic: the URL's, else the larger of Kafka's default and three, if there are
        so many brokers.

        Raises:
            UnavailableError: fewer brokers are available; a topic created now would keep the smaller number.
        """
        nodes = await administration.brokers(self._link)
        asked = self._link.address.replication
        usual = asked or await administration.usual_copies(self._link, nodes[0])
        copies = asked or max(usual, min(_REPLICATION, len(nodes)))
        if copies > len(nodes):
            why = f"replication={asked}" if asked else f"its default.replication.factor={usual}"
            raise UnavailableError(f"Kafka has {len(nodes)} brokers now, too few for {why}; no topic was created")
        return copies

    async def _read(self, topics: Sequence[str]) -> None:
        address = self._link.address
        for name, layout in (await administration.layouts(self._link, [*map(address.real_name, topics)])).items():
            self._partitions[address.own_name(name)] = layout.partitions
        await self._link.follow(topic for topic in topics if topic in self._partitions)

    async def _await_leaders(self, names: Sequence[str]) -> dict[str, TopicLayout]:
        """The layouts, as soon as every topic exists and every partition has a leader."""
        budget = RetryBudget()
        while True:
            found = await administration.layouts(self._link, names)
            if len(found) == len(names) and all(layout.led for layout in found.values()):
                return found
            await budget.after(kafka.LeaderNotAvailableError("new topics have no leaders yet"))

    async def _settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """The settings, retried: a broker may not know a new topic yet."""
        budget = RetryBudget()
        while True:
            try:
                return await administration.settings(self._link, names)
            except AWAY as failure:
                await budget.after(failure)


def _settings(spec: TopicSpec, address: Address, copies: int) -> dict[str, str]:
    """The settings of a new topic. The log sets the time of records, since lateness and dedupe use log time."""
    return {
        "cleanup.policy": str(spec.cleanup),
        "max.message.bytes": str(address.max_record_bytes + (1 << 20)),
        _STAMPED: _BY_LOG,
        "min.insync.replicas": str(address.min_insync or max(1, copies - 1)),
        **({} if spec.retention is None else {"segment.ms": _ms(_segment(spec.retention))}),
        "retention.ms": "-1" if spec.retention is None else _ms(spec.retention),
        **({**_COMPACTED, "delete.retention.ms": _ms(spec.tombstones)} if spec.cleanup is Cleanup.COMPACT else {}),
        **address.topic,
    }


def _managed_settings(spec: TopicSpec, address: Address) -> set[str]:
    """The settings that are also set on existing topics."""
    age = "retention.ms" if spec.cleanup is Cleanup.DELETE else "delete.retention.ms"
    return {"max.message.bytes", _STAMPED, age, *address.topic}


def _segment(retention: timedelta) -> timedelta:
    """How long Kafka appends to one segment, which it deletes as a whole: its default of a week would keep what a quiet
    topic has for a week, whatever the retention.
    """
    return min(retention, max(retention / _SEGMENTS, _HOUR))


def _ms(duration: timedelta) -> str:
    return str(duration // timedelta(milliseconds=1))


def _compare(
    name: str,
    there: TopicLayout,
    current: Mapping[str, str],
    *,
    spec: TopicSpec,
    wanted: Mapping[str, str],
    address: Address,
) -> None:
    """Compares the properties of an existing topic that must not be changed while it is used.

    Raises:
        ConfigurationError: they differ.
    """
    actual = {"partitions": str(there.partitions), "cleanup": current["cleanup.policy"]}
    expected = {"partitions": str(spec.partitions), "cleanup": str(spec.cleanup)}
    if address.replication is not None:
        actual["replication"], expected["replication"] = str(there.replication), str(address.replication)
    if address.min_insync is not None:
        actual["min.insync.replicas"] = current["min.insync.replicas"]
        expected["min.insync.replicas"] = wanted["min.insync.replicas"]
    if actual != expected:
        raise ConfigurationError(f"topic '{name}' exists with {_list(actual)}; wanted {_list(expected)}")


def _list(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in properties.items())
