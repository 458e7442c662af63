"""Topics: made, checked, and looked up by name. How many partitions one has never changes, so it is asked for once."""

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
from streamsched_brokers.kafka.administration import Layout, Plan
from streamsched_brokers.kafka.failure import AWAY, Patience
from streamsched_brokers.kafka.link import Link

log = structlog.get_logger()

#: A table is read back whole when its shard moves: small segments, cleaned early, keep that short.
_COMPACTED: Final = {"segment.bytes": str(32 << 20), "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.2"}
_COPIES: Final = 3
#: How often a topic nobody knows is looked for again: brokers learn of a new one a moment after each other.
_LOOKS: Final = 3


class Catalog:
    """The topics of a Kafka, as far as this process has met them, by our names for them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._partitions: dict[str, int] = {}

    async def partitions(self, topic: str) -> int:
        """How many partitions it has.

        Raises:
            NotFoundError: there is no such topic.
        """
        for look in range(_LOOKS):
            if topic in self._partitions:
                return self._partitions[topic]
            await asyncio.sleep(0.05 * look)
            await self._learn([topic])
        if topic not in self._partitions:
            raise NotFoundError("topic", topic)
        return self._partitions[topic]

    async def check(self, places: Iterable[Outgoing] | Iterable[TopicPartition]) -> None:
        """All these partitions exist.

        Raises:
            NotFoundError: one does not.
        """
        for topic, partition in {(place.topic, place.partition) for place in places}:
            known = self._partitions.get(topic) or await self.partitions(topic)
            if not 0 <= partition < known:
                raise NotFoundError("partition", f"{topic}/{partition}")

    async def create(self, specs: Sequence[TopicSpec]) -> None:
        """Makes what is missing, checks what is there, and brings retention, time stamps and sizes to ours.

        Raises:
            ConfigurationError: a topic exists in another shape.
            UnavailableError: fewer brokers are there than a new topic gets copies.
        """
        address, link = self._link.address, self._link
        names = {address.prefix + spec.name: spec for spec in specs}
        there = await administration.layouts(link, list(names))
        missing = [name for name in names if name not in there]
        if missing:
            copies = await self._copies()
            plans = [
                Plan(name, names[name].partitions, copies, _settings(names[name], address, copies)) for name in missing
            ]
            await administration.create(link, plans)
            there = await self._led(list(names))
        told = await self._settings(list(names))
        for name, spec in names.items():
            copies = there[name].replication
            wanted = _settings(spec, address, copies)
            _compare(name, there[name], told[name], spec=spec, wanted=wanted, address=address)
            changes = {key: wanted[key] for key in _ours(spec, address) if told[name].get(key) != wanted[key]}
            if changes:
                await administration.change(link, name, changes)
                log.info("log.topic.changed", topic=name, settings=changes)
            if copies > 1 and int(told[name]["min.insync.replicas"]) < 2:
                log.warning("log.topic.weak", topic=name, reason="one broker's word acknowledges a record")
            self._partitions[spec.name] = spec.partitions
        await link.follow(spec.name for spec in specs)

    async def _copies(self) -> int:
        """How many copies a new topic gets: as many as asked for, else as Kafka itself would make, else three.

        Raises:
            UnavailableError: so many brokers are not there yet; with fewer copies it would stay for ever.
        """
        nodes = await administration.brokers(self._link)
        asked = self._link.address.replication
        usual = asked or await administration.usual_copies(self._link, nodes[0])
        copies = asked or max(usual, min(_COPIES, len(nodes)))
        if copies > len(nodes):
            why = f"replication={asked}" if asked else f"its default.replication.factor={usual}"
            raise UnavailableError(f"Kafka has {len(nodes)} brokers now, too few for {why}; no topic was made")
        return copies

    async def _learn(self, topics: Sequence[str]) -> None:
        prefix = self._link.address.prefix
        for name, layout in (await administration.layouts(self._link, [prefix + topic for topic in topics])).items():
            self._partitions[name.removeprefix(prefix)] = layout.partitions
        await self._link.follow(topic for topic in topics if topic in self._partitions)

    async def _led(self, names: Sequence[str]) -> dict[str, Layout]:
        """The layouts, once every topic is there and every partition has a leader."""
        patience = Patience()
        while True:
            found = await administration.layouts(self._link, names)
            if len(found) == len(names) and all(layout.led for layout in found.values()):
                return found
            await patience.after(kafka.LeaderNotAvailableError("topics that were just made have no leaders yet"))

    async def _settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """The settings; a broker may hear of a new topic a moment later than we."""
        patience = Patience()
        while True:
            try:
                return await administration.settings(self._link, names)
            except AWAY as failure:
                await patience.after(failure)


def _settings(spec: TopicSpec, address: Address, copies: int) -> dict[str, str]:
    """What a topic is made with. Records are stamped by the log, for lateness and dedupe go by its time."""
    return {
        "cleanup.policy": str(spec.cleanup),
        "max.message.bytes": str(address.max_record_bytes + (1 << 20)),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": str(address.min_insync or max(1, copies - 1)),
        "retention.ms": str(-1 if spec.retention is None else spec.retention // timedelta(milliseconds=1)),
        **(_COMPACTED if spec.cleanup is Cleanup.COMPACT else {}),
        **address.topic,
    }


def _ours(spec: TopicSpec, address: Address) -> set[str]:
    """The settings that are brought to ours on topics that exist."""
    retention = {"retention.ms"} if spec.cleanup is Cleanup.DELETE else set[str]()
    return {"max.message.bytes", "message.timestamp.type", *retention, *address.topic}


def _compare(
    name: str,
    there: Layout,
    told: Mapping[str, str],
    *,
    spec: TopicSpec,
    wanted: Mapping[str, str],
    address: Address,
) -> None:
    """The shape of a topic that cannot, or must not, be changed under those who use it."""
    is_so = {"partitions": str(there.partitions), "cleanup": told["cleanup.policy"]}
    should_be = {"partitions": str(spec.partitions), "cleanup": str(spec.cleanup)}
    if address.replication is not None:
        is_so["replication"], should_be["replication"] = str(there.replication), str(address.replication)
    if address.min_insync is not None:
        is_so["min.insync.replicas"] = told["min.insync.replicas"]
        should_be["min.insync.replicas"] = wanted["min.insync.replicas"]
    if is_so != should_be:
        raise ConfigurationError(f"topic '{name}' exists with {_said(is_so)}; wanted {_said(should_be)}")


def _said(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())
