"""A shard that starts reads the cells with many events before its first turn, so that no turn takes long."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.fold.fold import fold
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.triggers.trigger import Partitions, Per, Trigger
from streamsched.stream.agents import accumulated
from streamsched.stream.agents.accumulated import TriggerStates

AT = datetime(2026, 1, 7, tzinfo=UTC)
FLIGHTS = DatasetRef("default", "flights")
MANY = 200


def key(name: str) -> bytes:
    return f"schedule:default.app.{name}".encode()


def table_of(**triggers: tuple[Trigger, int]) -> dict[bytes, bytes]:
    """What a shard has stored of schedules after so many commits of a partition each."""
    table: dict[bytes, bytes] = {}
    states = TriggerStates(table)
    for name, (trigger, commits) in triggers.items():
        signals = [Put(ScheduleRef("default", "app", name), 1, True, trigger)]
        days = (Partition(f"region=EU/day={n}", {"region": "EU", "day": str(n)}) for n in range(commits))
        events = (Event(f"e{n}", "test", AT, PartitionsAdded(FLIGHTS, (day,), 1)) for n, day in enumerate(days))
        for signal in (*signals, *map(Occurred, events)):
            before = states.state(key(name))
            cells = states.cells(key(name)) if isinstance(trigger, Per) else {}
            states.fold(key(name), fold(before, signal, at=AT, cells=cells))
        states.store()
    return table


def test_the_cells_with_many_events_are_read_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulated, "_LARGE", MANY // 2)
    plain = Partitions(FLIGHTS, 10**6)
    table = table_of(plain=(plain, MANY), few=(plain, 40), keyed=(Per(plain, ("region",)), MANY))
    states = TriggerStates(table)

    large = states.large_cells()
    assert sorted(large) == [(key("keyed"), "EU"), (key("plain"), "")]
    for schedule, name in large:
        states.read_cell(schedule, name)

    (whole,) = states._states[key("plain")].cell.accumulations.values()  # type: ignore[union-attr]
    (of_key,) = states.cells(key("keyed"))["EU"].accumulations.values()
    for has in (whole, of_key):
        assert has.newest is not None
        assert (has.newest.amount, len(has.events)) == (MANY, MANY)
    assert key("few") not in states._states


def test_a_cell_that_cannot_be_read_is_left_to_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulated, "_LARGE", MANY // 2)
    table = table_of(plain=(Partitions(FLIGHTS, 10**6), MANY))
    page = next(row for row in table if row.endswith(b".3"))
    table[page] = b"{"
    states = TriggerStates(table)

    for schedule, name in states.large_cells():
        states.read_cell(schedule, name)

    assert key("plain") not in states._states


def test_decoded_pages_that_are_large_do_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(plain=(Partitions(FLIGHTS, 10**6), MANY))
    page = max(len(value) for value in table.values())
    kept: dict[int, int] = {}
    for largest in (page, page - 1):
        monkeypatch.setattr(accumulated, "_LARGEST_PAGE", largest)
        states = TriggerStates({**table})
        states.read_cell(key("plain"), "")
        kept[largest] = states._known_page.cache_info().currsize

    assert kept[page] == MANY // 32
    assert kept[page - 1] < kept[page]
