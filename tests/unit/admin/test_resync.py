"""Telling the shards again what they do not know makes them agree, from wherever they were."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from streamsched.admin.resync import Known, compared
from streamsched.admin.started import Started
from streamsched.catalog.control import judge
from streamsched.domain.fold import TriggerState, fold
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.pause import Pause
from streamsched.domain.schedule import Schedule
from streamsched.domain.signal import Signal, Subscribe, Unsubscribe
from streamsched.domain.subscription import Subscriptions, route
from streamsched.domain.trigger import Partitions, event_keys
from streamsched.ports.catalog import ScheduleRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFS = [ScheduleRef("default", "a", name) for name in "rst"]
KEYS = [Partitions(DatasetRef("default", name)) for name in "xyz"]

definitions = st.builds(
    Schedule,
    st.sampled_from(REFS),
    st.just(ProgramRef("default", "a", "run")),
    st.sampled_from([*KEYS, KEYS[0] & KEYS[1], KEYS[1] | KEYS[2]]),
)
records = st.builds(
    lambda definition, generation, enabled, pause: ScheduleRecord(
        definition, generation, enabled, NOW, NOW, pause=None if enabled else pause
    ),
    definitions,
    st.integers(1, 5),
    st.booleans(),
    st.none() | st.just(Pause(keep=True)),
)


def state(record: ScheduleRecord) -> TriggerState:
    found = fold(None, judge(record), at=NOW).state
    assert found is not None
    return found


@st.composite
def known(draw: st.DrawFn) -> Known:
    """Whatever shards may have come to know."""
    states = {record.definition.ref: state(record) for record in draw(st.lists(records, max_size=3))}
    keys = sorted({key for leaf in KEYS for key in event_keys(leaf)})
    listeners = draw(st.dictionaries(st.sampled_from(keys), st.dictionaries(st.sampled_from(REFS), st.integers(1, 5))))
    return Known({key: found for key, found in listeners.items() if found}, states)


standings = st.lists(records, max_size=3).map(lambda some: {record.definition.ref: record for record in some})


def told(shards: Known, signal: Signal) -> Known:
    """The shards after a signal came to its home."""
    if isinstance(signal, Subscribe | Unsubscribe):
        has = shards.listeners.get(signal.key)
        after = route(None if has is None else Subscriptions(signal.key, has), signal)
        rest = {key: found for key, found in shards.listeners.items() if key != signal.key}
        return replace(shards, listeners=rest if after is None else {**rest, signal.key: after.listeners})
    ref = signal.schedule  # type: ignore[union-attr]
    after = fold(shards.states.get(ref), signal, at=NOW).state
    rest = {name: found for name, found in shards.states.items() if name != ref}
    return replace(shards, states=rest if after is None else {**rest, ref: after})


jobs = st.dictionaries(st.tuples(st.sampled_from(REFS), st.integers(1, 5)), st.integers(1, 9))


@given(standings, known(), jobs)
def test_what_is_told_cures_every_fault_that_telling_can_cure(
    standing: dict[ScheduleRef, ScheduleRecord], shards: Known, started: Started
) -> None:
    faults = list(compared(standing, shards, started))
    for fault in faults:
        for signal in fault.cure:
            shards = told(shards, signal)

    left = list(compared(standing, shards, started))

    assert left == [fault for fault in faults if not fault.cure]
    for ref, record in standing.items():
        if not any(fault.schedule == ref for fault in left):
            assert shards.states[ref].generation == record.generation
            assert shards.states[ref].sequence >= started.get((ref, record.generation), 0)
            heard = {key for key, listeners in shards.listeners.items() if ref in listeners}
            assert heard == (event_keys(record.definition.trigger) if record.listens else frozenset())


@given(standings)
def test_shards_that_know_everything_are_found_without_fault(standing: dict[ScheduleRef, ScheduleRecord]) -> None:
    listeners: dict[str, dict[ScheduleRef, int]] = {}
    for ref, record in standing.items():
        for key in event_keys(record.definition.trigger) if record.listens else ():
            listeners.setdefault(key, {})[ref] = record.generation

    assert not list(compared(standing, Known(listeners, {ref: state(record) for ref, record in standing.items()}), {}))
