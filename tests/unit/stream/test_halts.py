"""A schedule whose fold raises halts alone: its signals wait, its neighbours go on, a replay makes up for all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.codec import findings
from streamsched.codec import halt as halt_codec
from streamsched.codec import signal as signal_codec
from streamsched.domain.fold import Folded, fold
from streamsched.domain.halt import Halt
from streamsched.domain.home import home
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signal import Occurred, Put, Replay, Signal
from streamsched.domain.trigger import Partitions
from streamsched.ports.broker import Outgoing
from streamsched.ports.topics import SIGNALS, TRIGGERS_CHANGELOG, VERDICTS
from streamsched.stream import schedule_home
from streamsched.testing.clock import SettableClock
from streamsched.testing.town import Town, event_ids, landed, schedule

FLIGHTS = DatasetRef("default", "flights")

Poison = Callable[[Signal], bool]


class Mistake:
    """A fold with a mistake in it: it raises for what `bad` says, of one schedule."""

    def __init__(self, ref: ScheduleRef) -> None:
        self.ref = ref
        self.bad: Poison = lambda _: False

    def fold(self, state, signal, *, at, cells) -> Folded:
        about = state.schedule if state is not None else getattr(signal, "schedule", None)
        if about == self.ref and self.bad(signal):
            raise ZeroDivisionError("nobody thought of that")
        return fold(state, signal, at=at, cells=cells)


@pytest.fixture
def mistake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mistake]:
    made = Mistake(schedule("ill"))
    monkeypatch.setattr(schedule_home, "fold", made.fold)
    return made


def event(*names: str) -> Poison:
    return lambda signal: isinstance(signal, Occurred) and signal.event.id in names


async def halts(town: Town) -> dict[str, Halt]:
    """The schedules in error, by name, as the changelog has them."""
    await town.settled()
    rows: dict[bytes, bytes | None] = {r.key: r.value for r in await town.records(TRIGGERS_CHANGELOG) if r.key}
    end = b"\x1f\x1ferror"
    return {
        key.removesuffix(end).rpartition(b".")[2].decode(): halt_codec.decode(value)
        for key, value in rows.items()
        if key.endswith(end) and value is not None
    }


async def parked(town: Town) -> int:
    rows: dict[bytes, bytes | None] = {r.key: r.value for r in await town.records(TRIGGERS_CHANGELOG) if r.key}
    return sum(b"\x1fparked." in key and value is not None for key, value in rows.items())


async def jobs(town: Town, name: str) -> Sequence[tuple[str, datetime, Sequence[str]]]:
    await town.settled()
    return [(job.id, job.satisfied_at, event_ids(job)) for job in await town.jobs() if job.schedule == schedule(name)]


async def replay(town: Town, name: str = "ill") -> None:
    await town.signal(Replay(schedule(name), 1))
    await town.settled()


async def test_a_fold_that_raises_halts_its_schedule_and_nobody_else(town: Town, mistake: Mistake) -> None:
    mistake.bad = event("flights-2")
    await town.start()
    for name in ("ill", "well"):
        await town.put(schedule(name), Partitions(FLIGHTS, 2))

    await town.emit(*(landed(n) for n in range(6)))

    assert len(await jobs(town, "well")) == 3
    assert len(await jobs(town, "ill")) == 1
    (halt,) = (await halts(town)).values()
    assert halt.why == "ZeroDivisionError: nobody thought of that"
    assert (halt.signal, halt.parked, halt.attempts) == ("event flights-2 of test", 4, 0)
    assert not any(shard.ended.done() for shard in town.shards)


async def test_a_replay_by_a_better_fold_gives_the_jobs_of_a_run_that_never_broke(
    town: Town, mistake: Mistake, clock: SettableClock
) -> None:
    mistake.bad = event("flights-2")
    await town.start()
    for name in ("ill", "well"):
        await town.put(schedule(name), Partitions(FLIGHTS, 2))
    for number in range(7):
        await town.emit(landed(number))
        await town.settled()
        clock.advance(timedelta(minutes=1))
    mistake.bad = lambda _: False

    await replay(town)
    await town.emit(landed(7))

    well, ill = await jobs(town, "well"), await jobs(town, "ill")
    assert [job[1:] for job in ill] == [job[1:] for job in well]
    assert await halts(town) == {}
    assert await parked(town) == 0


async def test_a_replay_in_vain_says_so_and_keeps_everything(town: Town, mistake: Mistake) -> None:
    mistake.bad = event("flights-2", "flights-5")
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await town.emit(*(landed(n) for n in range(8)))
    await town.settled()

    await replay(town)
    assert ((await halts(town))["ill"].attempts, (await halts(town))["ill"].parked) == (1, 6)

    mistake.bad = event("flights-5")
    await replay(town)
    halt = (await halts(town))["ill"]
    assert (halt.signal, halt.parked, halt.attempts) == ("event flights-5 of test", 3, 2)

    mistake.bad = event()
    await replay(town)
    assert [events for _, _, events in await jobs(town, "ill")] == [
        [f"flights-{n}", f"flights-{n + 1}"] for n in (0, 2, 4, 6)
    ]


async def test_a_new_owner_knows_what_is_in_error_and_what_waits(town: Town, mistake: Mistake) -> None:
    mistake.bad = event("flights-0")
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await town.emit(landed(0), landed(1))
    await town.settled()
    await town.stop()
    await town.broker.maintain()

    await town.start()
    await town.emit(landed(2))
    assert (await halts(town))["ill"].parked == 3
    mistake.bad = event()
    await replay(town)
    await town.emit(landed(3))

    assert [events for _, _, events in await jobs(town, "ill")] == [
        ["flights-0", "flights-1"],
        ["flights-2", "flights-3"],
    ]


async def test_a_long_replay_goes_turn_by_turn_and_newcomers_stay_behind(
    town: Town, mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_home, "REPLAYED", 3)
    mistake.bad = event("flights-0")
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 5))
    await town.emit(*(landed(n) for n in range(20)))
    await town.settled()
    mistake.bad = event()

    await town.signal(Replay(schedule("ill"), 1))
    await town.emit(*(landed(n) for n in range(20, 30)))

    assert [events for _, _, events in await jobs(town, "ill")] == [
        [f"flights-{n}" for n in range(first, first + 5)] for first in range(0, 30, 5)
    ]
    assert await halts(town) == {}


async def test_a_definition_that_resets_ends_the_error_and_drops_what_waited(town: Town, mistake: Mistake) -> None:
    mistake.bad = event("flights-1")
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 3))
    await town.emit(*(landed(n) for n in range(5)))
    await town.settled()

    await town.put(schedule("ill"), Partitions(FLIGHTS, 2), generation=2)
    await town.emit(landed(5), landed(6))

    assert [events for _, _, events in await jobs(town, "ill")] == [["flights-5", "flights-6"]]
    assert await halts(town) == {}
    assert await parked(town) == 0
    assert await verdicts(town, "flights-3") == ["parked", "disabled"]


async def test_a_definition_that_keeps_judges_what_waited(town: Town, mistake: Mistake) -> None:
    mistake.bad = event("flights-1")
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 3))
    await town.emit(*(landed(n) for n in range(5)))
    await town.settled()

    await town.put(schedule("ill"), Partitions(FLIGHTS, 4), generation=2, keep=True)
    assert (await halts(town))["ill"].attempts == 1, "the mistake is still there"
    mistake.bad = event()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 2), generation=3, keep=True)

    found = await jobs(town, "ill")
    assert [events for _, _, events in found] == [["flights-0", "flights-1"], ["flights-2", "flights-3"]]
    assert found[0][0] == "default.town.ill.3.1"
    assert await halts(town) == {}


async def test_a_definition_that_cannot_come_into_force_halts_too(town: Town, mistake: Mistake) -> None:
    mistake.bad = lambda signal: isinstance(signal, Put)
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await town.emit(landed(0), landed(1))

    assert (await halts(town))["ill"].signal == "the definition of generation 1"
    mistake.bad = lambda _: False
    await replay(town)

    assert [events for _, _, events in await jobs(town, "ill")] == [["flights-0", "flights-1"]]


async def test_a_state_nobody_can_read_halts_its_schedule_until_a_definition_that_resets(town: Town) -> None:
    await town.start()
    for name in ("ill", "well"):
        await town.put(schedule(name), Partitions(FLIGHTS, 70))
    await town.emit(*(landed(n) for n in range(66)))
    await town.settled()
    await town.stop()
    key = f"schedule:{schedule('ill')}".encode()
    broken = Outgoing(TRIGGERS_CHANGELOG, home(key, town.count), key, b'{"v":99}')
    await town.broker.append([broken])

    await town.start()
    await town.emit(*(landed(n) for n in range(66, 70)))
    assert len(await jobs(town, "well")) == 1
    assert (await halts(town))["ill"].why.startswith("DecodeError: $.v: is version 99")

    await town.put(schedule("ill"), Partitions(FLIGHTS, 2), generation=2)
    await town.emit(landed(70), landed(71))

    assert [events for _, _, events in await jobs(town, "ill")] == [["flights-70", "flights-71"]]
    rows = await rows_of(town, "ill")
    assert rows == [key], "nothing of the state that could not be read is left"


async def test_deleting_one_in_error_takes_everything_with_it(town: Town, mistake: Mistake) -> None:
    mistake.bad = event("flights-1")
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 3))
    await town.emit(*(landed(n) for n in range(5)))
    await town.settled()

    await town.drop(schedule("ill"), Partitions(FLIGHTS, 3), generation=2)

    assert await halts(town) == {}
    assert await rows_of(town, "ill") == []


async def test_parked_events_say_so_and_later_what_became_of_them(town: Town, mistake: Mistake) -> None:
    mistake.bad = event("flights-0")
    await town.start()
    await town.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await town.emit(landed(0), landed(1))
    assert await verdicts(town, "flights-1") == ["parked"]

    mistake.bad = event()
    await replay(town)

    assert await verdicts(town, "flights-1") == ["parked", "counted"]


async def test_a_replay_of_one_that_is_well_changes_nothing(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 2))
    await town.emit(landed(0))
    await replay(town, "s")
    await replay(town, "unknown")
    await town.emit(landed(1))

    assert len(await jobs(town, "s")) == 1


async def test_a_signal_for_what_is_no_schedule_is_a_dead_letter(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 1))
    _, value = signal_codec.encode(Occurred(landed(0)))
    await town.broker.append([Outgoing(SIGNALS, 0, b"schedule:nobody", value)])
    await town.emit(landed(1))

    assert len(await jobs(town, "s")) == 1
    assert len(await town.dead_letters()) == 1


async def rows_of(town: Town, name: str) -> list[bytes]:
    """What the triggers table has of a schedule."""
    await town.settled()
    rows: dict[bytes, bytes | None] = {r.key: r.value for r in await town.records(TRIGGERS_CHANGELOG) if r.key}
    key = f"schedule:{schedule(name)}".encode()
    return [row for row, value in rows.items() if value is not None and row.startswith(key)]


async def verdicts(town: Town, name: str) -> list[str]:
    await town.settled()
    return [
        found.verdict.value
        for record in await town.records(VERDICTS)
        for found in findings.decode(record.value or b"", at=datetime.fromtimestamp(record.time_ms / 1000, UTC))
        if found.event == name
    ]
