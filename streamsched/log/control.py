"""The control signals of a schedule change, their order, and their records of the outbox.

The definition first, then the subscriptions: `Put` or `Drop` to the schedule's home, `Subscribe` to the homes of added
event keys, `Unsubscribe` to the homes of removed ones. All are acknowledged before the change returns, which alone
gives promise G4. The order matters for events that arrive *during* the change, when the relay splits the records over
two commits:

- a key is added: an event after `Subscribe` is forwarded to a definition that already counts it. In the reverse order
  the old definition would ignore it, and the new one would lose it.
- a key is removed: until `Put` or `Drop` the old definition applies, and still receives its events. In the reverse
  order it would apply without receiving them.
- disabled or deleted: events between the two records are forwarded to a home that drops them, which is harmless.

A schedule is subscribed while events count (`domain.schedules.pause.ACTIVITIES`): not when it is disabled or draining.

`Put` says whether the change keeps. If a schedule is paused and keeps without making jobs, and its new definition
starts over, a `Drop` precedes the `Put`.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.signals.signal import Drop, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import event_keys
from streamsched.log.topics import SIGNALS
from streamsched.ports.outbox import OutboxRecord


def control(before: ScheduleRecord | None, after: ScheduleRecord) -> Iterator[Signal]:
    """The signals that replace `before` by `after` in the log, in the order above."""
    ref, generation = after.definition.ref, after.generation
    if not after.exists:
        yield Drop(ref, generation)
    else:
        put = definition_signal(after)
        if put.keep and after.kept_from is None and before is not None and before.keeps:
            yield Drop(ref, before.generation)
        yield put
    old_keys, new_keys = _subscribed_keys(before), _subscribed_keys(after)
    for key in sorted(new_keys - old_keys):
        yield Subscribe(key, ref, generation, after.affinity)
    for key in sorted(old_keys - new_keys):
        yield Unsubscribe(key, ref, generation)


def definition_signal(after: ScheduleRecord) -> Put:
    """The signal that puts this generation into effect at the schedule's home."""
    wanted, fires = after.definition, after.activity.fires
    return Put(
        wanted.ref,
        after.generation,
        fires,
        wanted.trigger,
        wanted.consumption,
        keep=after.kept_from is not None or (after.is_keeping and not fires),
        late=wanted.late,
        draining=after.is_draining,
        backlog=after.backlog,
    )


def outbox_record(signal: Signal, affinity: int | None) -> OutboxRecord:
    """The record of a control signal of a schedule of this affinity; the relay appends it to the signal's home."""
    key, value = signal_codec.encode(signal, affinity)
    return OutboxRecord(SIGNALS, key.decode(), value)


def _subscribed_keys(record: ScheduleRecord | None) -> frozenset[str]:
    if record is None or not record.listens:
        return frozenset()
    return event_keys(record.definition.trigger)
