"""What the homes in the log must be told about a change of a schedule, and in which order.

The judge first, then the routing. `Put` or `Drop` goes to the schedule's home, then `Subscribe` to the homes of event
keys it now listens to, then `Unsubscribe` to those it no longer does. All of it is acknowledged before the change
returns, and that alone gives promise G4. The order decides about events *during* the change, when the relay happens to
cut the records into two commits:

- a key added: an event after `Subscribe` is forwarded, and by then the definition that wants it is there. The other way
  round it would meet a judge that does not know the key, and be lost to the new definition for good.
- a key removed: until `Put` or `Drop`, the old definition judges and is owed its events. The other way round it would
  be in force and deaf.
- disabled or deleted: between the two, events are forwarded to a judge that drops them; harmless.

A disabled schedule listens to nothing, so it costs its event keys nothing; one whose pause keeps goes on listening.

`Put` says whether it keeps. One that is paused and keeps, and whose new definition shall begin anew, is dropped first.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamsched.codec import signal as signal_codec
from streamsched.domain.signal import Drop, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.trigger import event_keys
from streamsched.ports.catalog import ScheduleRecord
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.topics import SIGNALS


def control(before: ScheduleRecord | None, after: ScheduleRecord) -> tuple[OutboxRecord, ...]:
    """The records that make `after` known where `before` was, in the order above."""
    return tuple(addressed(signal) for signal in _signals(before, after))


def judge(after: ScheduleRecord) -> Put:
    """What makes a schedule's home judge by this generation."""
    wanted, keep = after.definition, after.kept_from is not None or after.keeping
    return Put(
        wanted.ref, after.generation, after.enabled, wanted.trigger, wanted.consumption, keep=keep, late=wanted.late
    )


def addressed(signal: Signal) -> OutboxRecord:
    """A signal on its way to its home."""
    key, value = signal_codec.encode(signal)
    return OutboxRecord(SIGNALS, key.decode(), value)


def _signals(before: ScheduleRecord | None, after: ScheduleRecord) -> Iterator[Signal]:
    ref, generation = after.definition.ref, after.generation
    if not after.exists:
        yield Drop(ref, generation)
    else:
        if after.keeping and after.kept_from is None and before is not None and before.listens:
            yield Drop(ref, before.generation)
        yield judge(after)
    heard, hears = _listening(before), _listening(after)
    for key in sorted(hears - heard):
        yield Subscribe(key, ref, generation)
    for key in sorted(heard - hears):
        yield Unsubscribe(key, ref, generation)


def _listening(record: ScheduleRecord | None) -> frozenset[str]:
    if record is None or not record.listens:
        return frozenset()
    return event_keys(record.definition.trigger)
