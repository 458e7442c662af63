"""The installation's topics: are they all there, in the shape they must have?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamsched.domain.errors import ConfigurationError, NotFoundError
from streamsched.ports.broker import Broker, TopicSpec


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic: how many partitions it has (None: there is none), and what is wrong with it ("": nothing)."""

    spec: TopicSpec
    partitions: int | None
    wrong: str = ""


async def check_topics(broker: Broker, specs: Sequence[TopicSpec]) -> tuple[TopicReport, ...]:
    """What is there, compared with what must be; makes nothing.

    Raises:
        UnavailableError: the broker is away.
    """
    return tuple([await _checked(broker, spec) for spec in specs])


async def create_topics(broker: Broker, specs: Sequence[TopicSpec]) -> tuple[TopicReport, ...]:
    """Makes what is missing and takes over another retention, topic by topic, so that one of another shape holds up
    no other; idempotent.

    Raises:
        UnavailableError: the broker is away.
    """
    reports: list[TopicReport] = []
    for spec in specs:
        try:
            await broker.create_topics([spec])
        except ConfigurationError as exc:
            reports.append(TopicReport(spec, await _partitions(broker, spec.name), str(exc)))
        else:
            reports.append(await _checked(broker, spec))
    return tuple(reports)


async def _checked(broker: Broker, spec: TopicSpec) -> TopicReport:
    found = await _partitions(broker, spec.name)
    if found is None:
        return TopicReport(spec, None, "is missing")
    if found != spec.partitions:
        return TopicReport(spec, found, f"has {found} partitions and must have {spec.partitions}")
    return TopicReport(spec, found)


async def _partitions(broker: Broker, topic: str) -> int | None:
    try:
        return await broker.partitions(topic)
    except NotFoundError:
        return None
