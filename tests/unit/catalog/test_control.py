"""What the log is given a change, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.domain.signals.signal import Drop, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import Cron, CustomEvent, Partitions, Trigger, event_keys
from streamsched.log.control import control
from streamsched.testing.definitions import triggers

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REF = ScheduleRef("default", "flights", "weekly")
A, B = Partitions(DatasetRef("default", "a")), CustomEvent(EventName("default", "b"))


def record(
    trigger: Trigger, generation: int = 1, *, enabled: bool = True, gone: bool = False, kept_from: int | None = None
) -> ScheduleRecord:
    definition = Schedule(REF, ProgramRef("default", "flights", "join"), trigger)
    return ScheduleRecord(definition, generation, enabled and not gone, NOW, NOW, NOW if gone else None, kept_from)


def keeping(trigger: Trigger, generation: int = 1, *, kept_from: int | None = None) -> ScheduleRecord:
    """Paused, and keeping what comes."""
    return replace(record(trigger, generation, enabled=False, kept_from=kept_from), pause=Pause())


def reported(before: ScheduleRecord | None, after: ScheduleRecord) -> list[Signal]:
    records = [signal_codec.encode(signal) for signal in control(before, after)]
    return [signal_codec.decode(key, value) for key, value in records]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, record(A), [Put(REF, 1, True, A), Subscribe("partition:default.a", REF, 1)]),
        (None, record(A, enabled=False), [Put(REF, 1, False, A)]),
        (record(A, enabled=False), record(A, 2), [Put(REF, 2, True, A), Subscribe("partition:default.a", REF, 2)]),
        (record(A), record(A, 2, enabled=False), [Put(REF, 2, False, A), Unsubscribe("partition:default.a", REF, 2)]),
        (record(A), record(A, 2, gone=True), [Drop(REF, 2), Unsubscribe("partition:default.a", REF, 2)]),
        (record(A, enabled=False), record(A, 2, gone=True), [Drop(REF, 2)]),
        (record(A, gone=True), record(A, 2), [Put(REF, 2, True, A), Subscribe("partition:default.a", REF, 2)]),
        (record(A), record(A & B, 2), [Put(REF, 2, True, A & B), Subscribe("event:default.b", REF, 2)]),
        (
            record(A),
            record(B, 2),
            [
                Put(REF, 2, True, B),
                Subscribe("event:default.b", REF, 2),
                Unsubscribe("partition:default.a", REF, 2),
            ],
        ),
        (record(A), record(A, 2, kept_from=1), [Put(REF, 2, True, A, keep=True)]),
        (record(A), keeping(A, 2, kept_from=1), [Put(REF, 2, False, A, keep=True)]),
        (keeping(A), record(A, 2, kept_from=1), [Put(REF, 2, True, A, keep=True)]),
        (keeping(A), record(A, 2, enabled=False), [Put(REF, 2, False, A), Unsubscribe("partition:default.a", REF, 2)]),
        (
            record(A, enabled=False),
            keeping(A, 2),
            [Put(REF, 2, False, A, keep=True), Subscribe("partition:default.a", REF, 2)],
        ),
        (
            keeping(A),
            keeping(B, 2),
            [
                Drop(REF, 1),
                Put(REF, 2, False, B, keep=True),
                Subscribe("event:default.b", REF, 2),
                Unsubscribe("partition:default.a", REF, 2),
            ],
        ),
        (None, record(Cron("0 4 * * *")), [Put(REF, 1, True, Cron("0 4 * * *"))]),
    ],
    ids=[
        "created enabled",
        "created disabled",
        "enabled",
        "disabled",
        "deleted",
        "deleted while disabled",
        "created anew",
        "a key more",
        "another key",
        "updated, keeping",
        "paused, keeping",
        "resumed",
        "disabled while paused",
        "paused while disabled",
        "begun anew while paused",
        "no keys",
    ],
)
def test_the_judge_is_notified_first_then_who_begins_then_who_ceases_to_forward(
    before: ScheduleRecord | None, after: ScheduleRecord, expected: list[Signal]
) -> None:
    assert reported(before, after) == expected


@given(triggers, triggers)
def test_the_homes_end_up_forwarding_exactly_what_the_new_trigger_wants(old: Trigger, new: Trigger) -> None:
    before, after = record(old), replace(record(new), generation=2)

    forwarding = set(event_keys(old))
    for signal in reported(before, after):
        match signal:
            case Subscribe(key=key):
                forwarding.add(key)
            case Unsubscribe(key=key):
                forwarding.remove(key)
            case _:
                pass

    assert forwarding == event_keys(new)
