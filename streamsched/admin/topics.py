"""Checks and creates the installation's topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamsched.domain.errors import ConfigurationError, NotFoundError
from streamsched.ports.broker import Broker, TopicSpec
from streamsched.ports.topic_settings import TopicSettings


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic: its number of partitions (None: it does not exist), and what is wrong with it (empty: nothing)."""

    spec: TopicSpec
    partitions: int | None
    wrong: str = ""


async def check_topics(broker: Broker, specs: Sequence[TopicSpec]) -> tuple[TopicReport, ...]:
    """Compares the existing topics with the required ones; read-only.

    Raises:
        UnavailableError: the broker is unreachable.
    """
    return tuple([await _check_topic(broker, spec) for spec in specs])


async def create_topics(broker: Broker, specs: Sequence[TopicSpec]) -> tuple[TopicReport, ...]:
    """Creates missing topics and updates retention; a topic with the wrong number of partitions is only reported.
    Idempotent.

    Raises:
        UnavailableError: the broker is unreachable.
    """
    reports: list[TopicReport] = []
    for spec in specs:
        try:
            await broker.create_topics([spec])
        except ConfigurationError as exc:
            reports.append(TopicReport(spec, await _partitions(broker, spec.name), str(exc)))
        else:
            reports.append(await _check_topic(broker, spec))
    return tuple(reports)


async def _check_topic(broker: Broker, spec: TopicSpec) -> TopicReport:
    found = await _partitions(broker, spec.name)
    if found is None:
        return TopicReport(spec, None, "is missing")
    if found != spec.partitions:
        return TopicReport(spec, found, f"has {found} partitions and must have {spec.partitions}")
    return TopicReport(spec, found, await broker.topic_fault(spec.name) if isinstance(broker, TopicSettings) else "")


async def _partitions(broker: Broker, topic: str) -> int | None:
    try:
        return await broker.partitions(topic)
    except NotFoundError:
        return None
