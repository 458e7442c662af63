"""Do the shards know the schedules that PostgreSQL has? Compared table by table, and mended through the log.

Needed when one side was restored from a backup, or somebody wrote to the log by hand; an installation that is left
alone never differs. What is missing is told again, in band, under the schedule's lock: so a change at the same moment
comes before or after the mending, never between its records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamsched.admin.changelog import positions, table
from streamsched.admin.started import Numbers, Started, started
from streamsched.catalog.control import addressed, judge
from streamsched.codec import subscriptions as subscriptions_codec
from streamsched.domain.errors import UnavailableError
from streamsched.domain.fold import TriggerState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Drop, Signal, Subscribe, Unsubscribe
from streamsched.domain.trigger import event_keys
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.catalog import CatalogReader, ScheduleRecord
from streamsched.ports.outbox import Mending, Outbox
from streamsched.ports.topics import SIGNALS, SUBSCRIPTIONS_CHANGELOG, TRIGGERS_CHANGELOG
from streamsched.stream.accumulated import SEPARATOR, Accumulated

#: Seconds between looks at how far the shards are.
_LOOK_AGAIN: Final = 0.2
_SCHEDULE: Final = b"schedule:"


@dataclass(frozen=True, slots=True)
class Fault:
    """One difference.

    Attributes:
        generation: that PostgreSQL has; 0 when it knows no such schedule.
        text: what is different.
        cure: what the log must be told; nothing when telling cannot help.
    """

    schedule: ScheduleRef
    generation: int
    text: str
    cure: tuple[Signal, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What the shards know: who listens to which key, and the states of schedules."""

    listeners: Mapping[str, Mapping[ScheduleRef, int]]
    states: Mapping[ScheduleRef, TriggerState]


async def examine(
    *, broker: Broker, reader: CatalogReader, outbox: Outbox, numbers: Numbers, patience: float = 30.0
) -> tuple[Fault, ...]:
    """The differences, in order of schedules. Changes that are made meanwhile are none.

    Raises:
        UnavailableError: log or PostgreSQL are away, or shards do not come up within `patience` seconds to where the
            log was at the beginning.
    """
    shards = await broker.partitions(SIGNALS)
    standing = await _standing(reader)
    await _caught_up(broker, outbox, shards, patience)
    jobs = await started(broker, numbers)
    known = await read_known(broker, shards)
    now = await _standing(reader)
    quiet = {ref: record for ref, record in standing.items() if _same(record, now.get(ref))}
    new = now.keys() - standing.keys()
    return tuple(
        fault
        for fault in compared(standing, known, jobs)
        if fault.schedule not in new and (fault.schedule in quiet or fault.generation == 0)
    )


async def mend(faults: Sequence[Fault], *, mending: Mending) -> list[int]:
    """Tells the log what cures the faults; the ids of the records in the outbox.

    Raises:
        UnavailableError: PostgreSQL is away; call again, telling twice is harmless.
    """
    told: list[int] = []
    for fault in faults:
        if fault.cure:
            told += await mending.mend(fault.schedule, fault.generation, [addressed(each) for each in fault.cure])
    return told


def compared(standing: Mapping[ScheduleRef, ScheduleRecord], known: Known, jobs: Started) -> Iterator[Fault]:
    """What the shards should know and do not, and what they know in vain. Pure."""
    for ref, record in sorted(standing.items()):
        yield from _judged(record, known.states.get(ref), jobs.get((ref, record.generation), 0))
        for key in sorted(event_keys(record.definition.trigger) if record.listens else ()):
            if ref not in known.listeners.get(key, {}):
                cure = (Subscribe(key, ref, record.generation),)
                yield Fault(ref, record.generation, f"does not listen to {key}", cure)
    for ref, state in sorted(known.states.items()):
        if ref not in standing:
            yield Fault(ref, 0, "a shard has a state of it, and nobody knows it", (Drop(ref, state.generation),))
    for key, listeners in sorted(known.listeners.items()):
        for ref, generation in sorted(listeners.items()):
            record = standing.get(ref)
            if record is None or not record.listens or key not in event_keys(record.definition.trigger):
                told = max(generation, 0 if record is None else record.generation)
                stands = 0 if record is None else record.generation
                yield Fault(ref, stands, f"listens to {key} in vain", (Unsubscribe(key, ref, told),))


def _judged(record: ScheduleRecord, state: TriggerState | None, number: int) -> Iterator[Fault]:
    ref, generation = record.definition.ref, record.generation
    cure = (replace(judge(record), started=number),)
    if state is None or state.generation < generation:
        has = "no definition" if state is None else f"generation {state.generation}"
        yield Fault(ref, generation, f"its shard has {has}, PostgreSQL {generation}", cure)
    elif state.generation > generation:
        text = f"its shard has generation {state.generation}, PostgreSQL {generation}: an older backup was restored"
        yield Fault(ref, generation, f"{text}; change the schedule until it is past that", ())
    elif (state.enabled, state.definition.keeping) != (record.enabled, record.keeping) or (
        state.trigger != record.definition.trigger
    ):
        yield Fault(ref, generation, "its shard has another definition of the same generation: change it once", ())
    elif state.sequence < number:
        has = f"its shard has started {state.sequence} jobs of generation {generation}"
        yield Fault(ref, generation, f"{has}, and there is number {number}", cure)


async def read_known(broker: Broker, shards: int) -> Known:
    """What the tables of all shards say.

    Raises:
        UnavailableError: the log is away.
    """
    listeners: dict[str, Mapping[ScheduleRef, int]] = {}
    states: dict[ScheduleRef, TriggerState] = {}
    for shard in range(shards):
        for raw, value in (await table(broker, SUBSCRIPTIONS_CHANGELOG, shard)).items():
            listeners[raw.decode()] = subscriptions_codec.decode(raw.decode(), value).listeners
        triggers = await table(broker, TRIGGERS_CHANGELOG, shard)
        accumulated = Accumulated(triggers)
        for key in triggers:
            if key.startswith(_SCHEDULE) and SEPARATOR not in key:
                state = accumulated.state(key)
                if state is not None:
                    states[state.schedule] = state
    return Known(listeners, states)


async def _standing(reader: CatalogReader) -> dict[ScheduleRef, ScheduleRecord]:
    return {status.record.definition.ref: status.record for status in await reader.schedules()}


def _same(before: ScheduleRecord, now: ScheduleRecord | None) -> bool:
    return now is not None and now.generation == before.generation


async def _caught_up(broker: Broker, outbox: Outbox, shards: int, patience: float) -> None:
    """Until the log has every change of this moment, and each shard has taken it."""
    try:
        async with asyncio.timeout(patience):
            while await outbox.pending(limit=1):  # noqa: ASYNC110 - another process empties it
                await asyncio.sleep(_LOOK_AGAIN)
            ends = await broker.ends([TopicPartition(SIGNALS, shard) for shard in range(shards)])
            for at, end in ends.items():
                while (await positions(broker, at.partition)).get(at, 0) < end:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError as exc:
        raise UnavailableError(
            f"outbox and shards have not come to the end of the log within {patience:g} s: do launcher and workers run?"
        ) from exc
