"""Any series of changes of a schedule: which jobs stand, what its home judges by, and who listens, against a model."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from streamsched.catalog import change
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule, ScheduleRecord
from streamsched.domain.signals.signal import Drop, Occurred, Put, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import Partitions, event_keys
from streamsched.log.control import control
from streamsched.store.catalog.records import AppRecord, ScheduleChange

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FLIGHTS, WEATHER = DatasetRef("default", "flights"), DatasetRef("default", "weather")
RUN = Program(ProgramRef("default", "a", "run"), BashJob("true"))
BASE = Schedule(ScheduleRef("default", "a", "s"), RUN.ref, Partitions(FLIGHTS, 1000))
OTHER = replace(BASE, trigger=Partitions(FLIGHTS, 1000) & Partitions(WEATHER))

#: Step → the pause it begins.
MODES = {
    "pause": Pause(),
    "drop": Pause(PauseMode.DROP),
    "drain": Pause(PauseMode.DRAIN),
    "backlog": Pause(PauseMode.BACKLOG),
}

steps = st.lists(st.sampled_from(["keep", "reset", "widen", *MODES, "disable", "enable", "event"]), max_size=20)


@given(steps)
def test_what_stands_counts_and_listens_after_any_series_of_changes(taken: list[str]) -> None:
    app = AppRecord(AppRef("default", "a"), {RUN.ref: RUN}, {})
    (first,) = change.create(app, BASE, enabled=True, now=NOW).schedules
    record, signals = first.after, list(control(first.before, first.after))
    state: TriggerState | None = None
    heard: set[str] = set()
    # The model: what has come and stays, and the oldest generation of which something may still run.
    counted, oldest_valid_generation, pause, number = 0, 1, None, 0

    for step in [*taken, "event"]:
        for signal in signals:
            reported = signal_codec.decode(*signal_codec.encode(signal))
            match reported:
                case Subscribe(key=listens):
                    heard.add(listens)
                case Unsubscribe(key=listens):
                    heard.remove(listens)
                case Put() | Drop():
                    state = fold(state, reported, at=NOW).state
                case _:
                    raise AssertionError(reported)
        signals = []
        assert state is not None
        assert (state.generation, state.is_enabled) == (record.generation, record.enabled or pause == MODES["backlog"])
        assert heard == (event_keys(record.definition.trigger) if record.listens else set())
        assert sum(has.count for has in state.cell.accumulations.values()) == counted
        if step == "event":
            number += 1
            event = Event(str(number), "test", NOW, PartitionsAdded(FLIGHTS, (), 1))
            draining = pause == MODES["drain"]
            if event.key in heard or draining:  # what was forwarded before the change may still arrive
                folded = fold(state, Occurred(event), at=NOW)
                state, counted = folded.state, counted + (not draining)
                assert folded.jobs == ()
            continue
        after = _after(step, record, number)
        if after is None:
            continue
        alive = record.enabled or (pause is not None and pause.mode is not PauseMode.DROP)
        kept = alive and step in {"keep", "widen", "pause", "drain", "backlog", "enable"}
        oldest_valid_generation = min(oldest_valid_generation, record.generation) if kept else record.generation + 1
        counted = counted if kept else 0
        pause = {**MODES, "disable": None, "enable": None}.get(step, pause)
        signals, record = list(control(after.before, after.after)), after.after
        assert record.pause == pause
        assert record.generation == after.before.generation + 1  # type: ignore[union-attr]
        if record.enabled or pause == MODES["backlog"] or kept:
            assert record.oldest_valid_generation == oldest_valid_generation
        else:
            assert record.oldest_valid_generation == record.generation + 1


def _after(step: str, record: ScheduleRecord, number: int) -> ScheduleChange | None:
    definition = replace(record.definition, description=f"{record.generation}.{number}")
    match step:
        case "keep" | "reset":
            return change.update_schedule(record, definition, keep=step == "keep", reason="", now=NOW)
        case "widen":
            other = OTHER if record.definition.trigger == BASE.trigger else BASE
            return change.update_schedule(
                record, replace(definition, trigger=other.trigger), keep=True, reason="", now=NOW
            )
        case "pause" | "drop" | "drain" | "backlog":
            return None if record.pause == MODES[step] else change.pause_schedule(record, MODES[step], now=NOW)
        case "disable":
            return None if record.is_disabled else change.disable_schedule(record, reason="", now=NOW)
        case _:
            return None if record.enabled else change.enable_schedule(record, reason="", now=NOW)
