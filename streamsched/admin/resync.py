"""Compares the shards' tables with the schedules in PostgreSQL, and repairs differences through the log.

Needed after one side was restored from a backup, or after manual writes to the log; otherwise they never differ.
Repairs are signals in the log, written under the schedule's lock, so a concurrent change is ordered before or after all
of a schedule's repair records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from streamsched.admin.changelog import positions, table
from streamsched.admin.started import Started, read_started
from streamsched.codec.records import subscriptions as subscriptions_codec
from streamsched.domain.errors import InvalidError, UnavailableError
from streamsched.domain.fold.fold import Definition, TriggerState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.signals.home import SCHEDULE_PREFIX, schedule_of
from streamsched.domain.signals.signal import Drop, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.signals.subscription import SubscribedSchedule
from streamsched.domain.triggers.trigger import event_keys
from streamsched.log.control import definition_signal, outbox_record
from streamsched.log.topics import SIGNALS, SUBSCRIPTIONS_CHANGELOG, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.outbox import Outbox
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.server.probe import JobNumbers, OutboxRepair
from streamsched.stream.agents.accumulated import SEPARATOR, TriggerStates

log = structlog.get_logger()

#: Seconds between polls of the shards' positions.
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Fault:
    """One difference.

    Attributes:
        generation: of the schedule in PostgreSQL; 0 if it does not exist there.
        text: the difference.
        repair: the signals that repair it; empty if signals cannot.
        affinity: of the schedule to whose home the signals go.
    """

    schedule: ScheduleRef
    generation: int
    text: str
    repair: tuple[Signal, ...]
    affinity: int | None


@dataclass(frozen=True, slots=True)
class Known:
    """Tables of all shards: for each event key its listening schedules, and the states of the schedules by
    their affinity.
    """

    listeners: Mapping[str, Mapping[ScheduleRef, SubscribedSchedule]]
    states: Mapping[tuple[ScheduleRef, int | None], TriggerState]


async def examine(
    *, broker: Broker, reader: CatalogReader, outbox: Outbox, numbers: JobNumbers, patience: float = 30.0
) -> tuple[Fault, ...]:
    """The differences, ordered by schedule; ignores schedules that change meanwhile.

    Raises:
        UnavailableError: the log or PostgreSQL is unreachable, or the shards do not process the log up to its end at
            the start of the call within `patience` seconds.
    """
    shards = await broker.partitions(SIGNALS)
    before = await _records(reader)
    await _wait_until_caught_up(broker, outbox, shards, patience)
    jobs = await read_started(broker, numbers)
    known = await read_known(broker, shards)
    after = await _records(reader)
    unchanged = {ref: record for ref, record in before.items() if _is_same(record, after.get(ref))}
    new = after.keys() - before.keys()
    return tuple(
        fault
        for fault in find_faults(before, known, jobs)
        if fault.schedule not in new and (fault.schedule in unchanged or fault.generation == 0)
    )


async def mend(faults: Sequence[Fault], *, mending: OutboxRepair) -> list[int]:
    """Writes the repairs of the faults to the outbox; returns the ids of the records. Idempotent.

    Raises:
        UnavailableError: PostgreSQL is unreachable; call again.
    """
    ids: list[int] = []
    for fault in faults:
        if fault.repair:
            records = [outbox_record(each, fault.affinity) for each in fault.repair]
            ids += await mending.mend(fault.schedule, fault.generation, records)
    return ids


def find_faults(records: Mapping[ScheduleRef, ScheduleRecord], known: Known, jobs: Started) -> Iterator[Fault]:
    """Missing and superfluous entries of the shards' tables. Pure."""
    for ref, record in sorted(records.items()):
        yield from _state_faults(
            record, known.states.get((ref, record.affinity)), jobs.get((ref, record.generation), 0)
        )
        for key in sorted(event_keys(record.definition.trigger) if record.listens else ()):
            found = known.listeners.get(key, {}).get(ref)
            if found is None:
                repair = (Subscribe(key, ref, record.generation, record.affinity),)
                yield Fault(ref, record.generation, f"does not listen to {key}", repair, record.affinity)
            elif found.affinity != record.affinity:
                newer = found.generation > record.generation
                repair = () if newer else (Subscribe(key, ref, record.generation, record.affinity),)
                yield Fault(ref, record.generation, f"gets events of {key} in another shard", repair, record.affinity)
    for (ref, affinity), state in sorted(known.states.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
        record = records.get(ref)
        if record is None or record.affinity != affinity:
            where = "PostgreSQL no such schedule" if record is None else "the schedule is in another"
            text = f"a shard has its state, but {where}"
            current = 0 if record is None else record.generation
            yield Fault(ref, current, text, (Drop(ref, state.generation),), affinity)
    for key, listeners in sorted(known.listeners.items()):
        for ref, found in sorted(listeners.items()):
            record = records.get(ref)
            if record is None or not record.listens or key not in event_keys(record.definition.trigger):
                current = 0 if record is None else record.generation
                repair = (Unsubscribe(key, ref, max(found.generation, current)),)
                yield Fault(ref, current, f"is subscribed to {key}, which it does not need", repair, None)


def _state_faults(record: ScheduleRecord, state: TriggerState | None, number: int) -> Iterator[Fault]:
    ref, generation, affinity = record.definition.ref, record.generation, record.affinity
    repair = (replace(definition_signal(record), started=number),)
    if state is None or state.generation < generation:
        has = "no definition" if state is None else f"generation {state.generation}"
        yield Fault(ref, generation, f"its shard has {has}, PostgreSQL {generation}", repair, affinity)
    elif state.generation > generation:
        text = f"its shard has generation {state.generation}, PostgreSQL {generation}: an older backup was restored"
        yield Fault(ref, generation, f"{text}; change the schedule until its generation is higher", (), affinity)
    elif _kind(state.definition) != _kind_of(repair[0]) or (state.trigger != record.definition.trigger):
        text = "its shard has another definition of the same generation: change it once"
        yield Fault(ref, generation, text, (), affinity)
    elif state.sequence < number:
        has = f"its shard has started {state.sequence} jobs of generation {generation}"
        yield Fault(ref, generation, f"{has}, but job number {number} exists", repair, affinity)


def _kind(definition: Definition) -> tuple[bool, ...]:
    """What the shard does with the schedule's events and jobs."""
    return definition.enabled, definition.keeping, definition.draining, definition.backlog


def _kind_of(put: Put) -> tuple[bool, ...]:
    """What it would do after that definition."""
    return put.enabled, put.keep and not put.enabled, put.draining, put.backlog


async def read_known(broker: Broker, shards: int) -> Known:
    """Reads the tables of all shards.

    Raises:
        UnavailableError: the log is unreachable.
    """
    listeners: dict[str, Mapping[ScheduleRef, SubscribedSchedule]] = {}
    states: dict[tuple[ScheduleRef, int | None], TriggerState] = {}
    for shard in range(shards):
        for raw, value in (await table(broker, SUBSCRIPTIONS_CHANGELOG, shard)).items():
            listeners[raw.decode()] = subscriptions_codec.decode(raw.decode(), value).listeners
        triggers = await table(broker, TRIGGERS_CHANGELOG, shard)
        accumulated = TriggerStates(triggers)
        for key in triggers:
            if key.startswith(SCHEDULE_PREFIX) and SEPARATOR not in key:
                try:
                    at = schedule_of(key)
                except InvalidError as error:  # of a record that somebody wrote by hand
                    log.warning("resync.unreadable_key", shard=shard, key=repr(key), reason=error.reason)
                    continue
                if (state := accumulated.state(key)) is not None:
                    states[at] = state
    return Known(listeners, states)


async def _records(reader: CatalogReader) -> dict[ScheduleRef, ScheduleRecord]:
    return {status.record.definition.ref: status.record for status in await reader.schedules()}


def _is_same(before: ScheduleRecord, now: ScheduleRecord | None) -> bool:
    return now is not None and now.generation == before.generation


async def _wait_until_caught_up(broker: Broker, outbox: Outbox, shards: int, patience: float) -> None:
    """Waits until every current change is in the log and each shard has processed it."""
    try:
        async with asyncio.timeout(patience):
            while await outbox.list_pending(limit=1):  # noqa: ASYNC110 - another process empties it
                await asyncio.sleep(_POLL_S)
            ends = await broker.ends([TopicPartition(SIGNALS, shard) for shard in range(shards)])
            for at, end in ends.items():
                while (await positions(broker, at.partition)).get(at, 0) < end:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_POLL_S)
    except TimeoutError as exc:
        raise UnavailableError(
            f"outbox and shards have not caught up with the log within {patience:g} s: do launcher and workers run?"
        ) from exc
