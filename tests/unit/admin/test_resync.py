"""Repairs make the shards agree with PostgreSQL, whatever their tables were."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from streamsched.admin.resync import Known, find_faults
from streamsched.admin.started import Started
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.domain.signals.signal import Signal, Subscribe, Unsubscribe
from streamsched.domain.signals.subscription import SubscribedSchedule, change_subscription
from streamsched.domain.triggers.trigger import Partitions, event_keys
from streamsched.log.control import definition_signal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFS = [ScheduleRef("default", "a", name) for name in "rst"]
KEYS = [Partitions(DatasetRef("default", name)) for name in "xyz"]

definitions = st.builds(
    Schedule,
    st.sampled_from(REFS),
    st.just(ProgramRef("default", "a", "run")),
    st.sampled_from([*KEYS, KEYS[0] & KEYS[1], KEYS[1] | KEYS[2]]),
)
affinities = st.sampled_from([None, 0, 2**32 - 1])
records = st.builds(
    lambda definition, generation, enabled, pause, affinity: ScheduleRecord(
        definition, generation, enabled, NOW, NOW, pause=None if enabled else pause, affinity=affinity
    ),
    definitions,
    st.integers(1, 5),
    st.booleans(),
    st.none() | st.just(Pause()),
    affinities,
)


def state(record: ScheduleRecord) -> TriggerState:
    found = fold(None, definition_signal(record), at=NOW).state
    assert found is not None
    return found


subscriptions = st.builds(SubscribedSchedule, st.integers(1, 5), affinities)


@st.composite
def known(draw: st.DrawFn) -> Known:
    """Any tables of the shards."""
    states = {(record.definition.ref, record.affinity): state(record) for record in draw(st.lists(records, max_size=3))}
    keys = sorted({key for leaf in KEYS for key in event_keys(leaf)})
    listeners = draw(st.dictionaries(st.sampled_from(keys), st.dictionaries(st.sampled_from(REFS), subscriptions)))
    return Known({key: found for key, found in listeners.items() if found}, states)


record_maps = st.lists(records, max_size=3).map(lambda some: {record.definition.ref: record for record in some})


def applied(shards: Known, signal: Signal, affinity: int | None) -> Known:
    """The shards after a signal was processed at its home; the schedule has this affinity."""
    if isinstance(signal, Subscribe | Unsubscribe):
        has = shards.listeners.get(signal.key, {})
        after = change_subscription(has.get(signal.schedule), signal)
        others = {schedule: found for schedule, found in has.items() if schedule != signal.schedule}
        listeners = others if after is None else {**others, signal.schedule: after}
        found = {**shards.listeners, signal.key: listeners}
        return replace(shards, listeners={key: some for key, some in found.items() if some})
    at = signal.schedule, affinity  # type: ignore[union-attr]
    after = fold(shards.states.get(at), signal, at=NOW).state
    rest = {where: found for where, found in shards.states.items() if where != at}
    return replace(shards, states=rest if after is None else {**rest, at: after})


jobs = st.dictionaries(st.tuples(st.sampled_from(REFS), st.integers(1, 5)), st.integers(1, 9))


@given(record_maps, known(), jobs)
def test_repairs_remove_every_repairable_fault(
    expected: dict[ScheduleRef, ScheduleRecord], shards: Known, started: Started
) -> None:
    faults = list(find_faults(expected, shards, started))
    for fault in faults:
        for signal in fault.repair:
            shards = applied(shards, signal, fault.affinity)

    left = list(find_faults(expected, shards, started))

    assert left == [fault for fault in faults if not fault.repair]
    for ref, record in expected.items():
        if not any(fault.schedule == ref for fault in left):
            assert shards.states[ref, record.affinity].generation == record.generation
            assert shards.states[ref, record.affinity].sequence >= started.get((ref, record.generation), 0)
            assert [affinity for at, affinity in shards.states if at == ref] == [record.affinity]
            subscribed = {key for key, listeners in shards.listeners.items() if ref in listeners}
            assert all(shards.listeners[key][ref].affinity == record.affinity for key in subscribed)
            assert subscribed == (event_keys(record.definition.trigger) if record.listens else frozenset())


@given(record_maps)
def test_complete_shards_have_no_faults(expected: dict[ScheduleRef, ScheduleRecord]) -> None:
    listeners: dict[str, dict[ScheduleRef, SubscribedSchedule]] = {}
    for ref, record in expected.items():
        for key in event_keys(record.definition.trigger) if record.listens else ():
            listeners.setdefault(key, {})[ref] = SubscribedSchedule(record.generation, record.affinity)

    states = {(ref, record.affinity): state(record) for ref, record in expected.items()}
    assert not list(find_faults(expected, Known(listeners, states), {}))
