"""A schedule whose fold raises halts alone: its signals wait, its neighbours go on, a replay makes up for all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.codec.records import findings
from streamsched.codec.records import halt as halt_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.fold.fold import Folded, fold
from streamsched.domain.fold.halt import Halt
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred, Put, Replay, Signal
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.topics import SIGNALS, TRIGGERS_CHANGELOG, VERDICTS
from streamsched.ports.broker import Outgoing
from streamsched.stream.agents import schedule_home
from streamsched.testing.clock import SettableClock
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule

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
            raise ZeroDivisionError("unexpected error")
        return fold(state, signal, at=at, cells=cells)


@pytest.fixture
def mistake(monkeypatch: pytest.MonkeyPatch) -> Mistake:
    made = Mistake(schedule("ill"))
    monkeypatch.setattr(schedule_home, "fold", made.fold)
    return made


def event(*names: str) -> Poison:
    return lambda signal: isinstance(signal, Occurred) and signal.event.id in names


async def halts(cluster: ShardCluster) -> dict[str, Halt]:
    """The schedules in error, by name, as the changelog has them."""
    await cluster.settle()
    rows: dict[bytes, bytes | None] = {r.key: r.value for r in await cluster.records(TRIGGERS_CHANGELOG) if r.key}
    end = b"\x1f\x1ferror"
    return {
        key.removesuffix(end).rpartition(b".")[2].decode(): halt_codec.decode(value)
        for key, value in rows.items()
        if key.endswith(end) and value is not None
    }


async def parked(cluster: ShardCluster) -> int:
    rows: dict[bytes, bytes | None] = {r.key: r.value for r in await cluster.records(TRIGGERS_CHANGELOG) if r.key}
    return sum(b"\x1fparked." in key and value is not None for key, value in rows.items())


async def jobs(cluster: ShardCluster, name: str) -> Sequence[tuple[str, datetime, Sequence[str]]]:
    await cluster.settle()
    return [
        (job.id, job.satisfied_at, event_ids(job)) for job in await cluster.jobs() if job.schedule == schedule(name)
    ]


async def replay(cluster: ShardCluster, name: str = "ill") -> None:
    await cluster.signal(Replay(schedule(name), 1))
    await cluster.settle()


async def test_a_fold_that_raises_halts_its_schedule_and_no_other(cluster: ShardCluster, mistake: Mistake) -> None:
    mistake.bad = event("flights-2")
    await cluster.start()
    for name in ("ill", "well"):
        await cluster.put(schedule(name), Partitions(FLIGHTS, 2))

    await cluster.emit(*(landed(n) for n in range(6)))

    assert len(await jobs(cluster, "well")) == 3
    assert len(await jobs(cluster, "ill")) == 1
    (halt,) = (await halts(cluster)).values()
    assert halt.reason == "ZeroDivisionError: unexpected error"
    assert (halt.signal, halt.parked, halt.attempts) == ("event flights-2 of test", 4, 0)
    assert not any(shard.ended.done() for shard in cluster.shards)


async def test_a_replay_by_a_better_fold_gives_the_jobs_of_a_run_that_never_broke(
    cluster: ShardCluster, mistake: Mistake, clock: SettableClock
) -> None:
    mistake.bad = event("flights-2")
    await cluster.start()
    for name in ("ill", "well"):
        await cluster.put(schedule(name), Partitions(FLIGHTS, 2))
    for number in range(7):
        await cluster.emit(landed(number))
        await cluster.settle()
        clock.advance(timedelta(minutes=1))
    mistake.bad = lambda _: False

    await replay(cluster)
    await cluster.emit(landed(7))

    well, ill = await jobs(cluster, "well"), await jobs(cluster, "ill")
    assert [job[1:] for job in ill] == [job[1:] for job in well]
    assert await halts(cluster) == {}
    assert await parked(cluster) == 0


async def test_a_replay_in_vain_says_so_and_keeps_everything(cluster: ShardCluster, mistake: Mistake) -> None:
    mistake.bad = event("flights-2", "flights-5")
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await cluster.emit(*(landed(n) for n in range(8)))
    await cluster.settle()

    await replay(cluster)
    assert ((await halts(cluster))["ill"].attempts, (await halts(cluster))["ill"].parked) == (1, 6)

    mistake.bad = event("flights-5")
    await replay(cluster)
    halt = (await halts(cluster))["ill"]
    assert (halt.signal, halt.parked, halt.attempts) == ("event flights-5 of test", 3, 2)

    mistake.bad = event()
    await replay(cluster)
    assert [events for _, _, events in await jobs(cluster, "ill")] == [
        [f"flights-{n}", f"flights-{n + 1}"] for n in (0, 2, 4, 6)
    ]


async def test_a_new_owner_knows_what_is_in_error_and_what_waits(cluster: ShardCluster, mistake: Mistake) -> None:
    mistake.bad = event("flights-0")
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await cluster.emit(landed(0), landed(1))
    await cluster.settle()
    await cluster.stop()
    await cluster.broker.maintain()

    await cluster.start()
    await cluster.emit(landed(2))
    assert (await halts(cluster))["ill"].parked == 3
    mistake.bad = event()
    await replay(cluster)
    await cluster.emit(landed(3))

    assert [events for _, _, events in await jobs(cluster, "ill")] == [
        ["flights-0", "flights-1"],
        ["flights-2", "flights-3"],
    ]


async def test_a_long_replay_goes_turn_by_turn_and_newcomers_stay_behind(
    cluster: ShardCluster, mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_home, "REPLAYED", 3)
    mistake.bad = event("flights-0")
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 5))
    await cluster.emit(*(landed(n) for n in range(20)))
    await cluster.settle()
    mistake.bad = event()

    await cluster.signal(Replay(schedule("ill"), 1))
    await cluster.emit(*(landed(n) for n in range(20, 30)))

    assert [events for _, _, events in await jobs(cluster, "ill")] == [
        [f"flights-{n}" for n in range(first, first + 5)] for first in range(0, 30, 5)
    ]
    assert await halts(cluster) == {}


async def test_a_definition_that_resets_ends_the_error_and_drops_what_waited(
    cluster: ShardCluster, mistake: Mistake
) -> None:
    mistake.bad = event("flights-1")
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 3))
    await cluster.emit(*(landed(n) for n in range(5)))
    await cluster.settle()

    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2), generation=2)
    await cluster.emit(landed(5), landed(6))

    assert [events for _, _, events in await jobs(cluster, "ill")] == [["flights-5", "flights-6"]]
    assert await halts(cluster) == {}
    assert await parked(cluster) == 0
    assert await verdicts(cluster, "flights-3") == ["parked", "disabled"]


async def test_a_definition_that_keeps_judges_what_waited(cluster: ShardCluster, mistake: Mistake) -> None:
    mistake.bad = event("flights-1")
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 3))
    await cluster.emit(*(landed(n) for n in range(5)))
    await cluster.settle()

    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 4), generation=2, keep=True)
    assert (await halts(cluster))["ill"].attempts == 1, "the mistake is still there"
    mistake.bad = event()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2), generation=3, keep=True)

    found = await jobs(cluster, "ill")
    assert [events for _, _, events in found] == [["flights-0", "flights-1"], ["flights-2", "flights-3"]]
    assert found[0][0] == "default.town.ill.3.1"
    assert await halts(cluster) == {}


async def test_a_definition_that_cannot_come_into_force_halts_too(cluster: ShardCluster, mistake: Mistake) -> None:
    mistake.bad = lambda signal: isinstance(signal, Put)
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await cluster.emit(landed(0), landed(1))

    assert (await halts(cluster))["ill"].signal == "the definition of generation 1"
    mistake.bad = lambda _: False
    await replay(cluster)

    assert [events for _, _, events in await jobs(cluster, "ill")] == [["flights-0", "flights-1"]]


async def test_a_state_that_cannot_be_read_halts_its_schedule_until_a_definition_that_resets(
    cluster: ShardCluster,
) -> None:
    await cluster.start()
    for name in ("ill", "well"):
        await cluster.put(schedule(name), Partitions(FLIGHTS, 70))
    await cluster.emit(*(landed(n) for n in range(66)))
    await cluster.settle()
    await cluster.stop()
    key = f"schedule:{schedule('ill')}".encode()
    broken = Outgoing(TRIGGERS_CHANGELOG, home(key, cluster.count), key, b'{"v":99}')
    await cluster.broker.append([broken])

    await cluster.start()
    await cluster.emit(*(landed(n) for n in range(66, 70)))
    assert len(await jobs(cluster, "well")) == 1
    assert (await halts(cluster))["ill"].reason.startswith("DecodeError: $.v: is version 99")

    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2), generation=2)
    await cluster.emit(landed(70), landed(71))

    assert [events for _, _, events in await jobs(cluster, "ill")] == [["flights-70", "flights-71"]]
    rows = await rows_of(cluster, "ill")
    assert rows == [key], "nothing of the state that could not be read is left"


async def test_deleting_one_in_error_takes_everything_with_it(cluster: ShardCluster, mistake: Mistake) -> None:
    mistake.bad = event("flights-1")
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 3))
    await cluster.emit(*(landed(n) for n in range(5)))
    await cluster.settle()

    await cluster.drop(schedule("ill"), Partitions(FLIGHTS, 3), generation=2)

    assert await halts(cluster) == {}
    assert await rows_of(cluster, "ill") == []


async def test_parked_events_say_so_and_later_what_became_of_them(cluster: ShardCluster, mistake: Mistake) -> None:
    mistake.bad = event("flights-0")
    await cluster.start()
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await cluster.emit(landed(0), landed(1))
    assert await verdicts(cluster, "flights-1") == ["parked"]

    mistake.bad = event()
    await replay(cluster)

    assert await verdicts(cluster, "flights-1") == ["parked", "counted"]


async def test_a_replay_of_one_that_is_well_changes_nothing(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 2))
    await cluster.emit(landed(0))
    await replay(cluster, "s")
    await replay(cluster, "unknown")
    await cluster.emit(landed(1))

    assert len(await jobs(cluster, "s")) == 1


async def test_a_signal_for_what_is_no_schedule_is_a_dead_letter(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    _, value = signal_codec.encode(Occurred(landed(0)))
    await cluster.broker.append([Outgoing(SIGNALS, 0, b"schedule:nobody", value)])
    await cluster.emit(landed(1))

    assert len(await jobs(cluster, "s")) == 1
    assert len(await cluster.dead_letters()) == 1


async def rows_of(cluster: ShardCluster, name: str) -> list[bytes]:
    """What the triggers table has of a schedule."""
    await cluster.settle()
    rows: dict[bytes, bytes | None] = {r.key: r.value for r in await cluster.records(TRIGGERS_CHANGELOG) if r.key}
    key = f"schedule:{schedule(name)}".encode()
    return [row for row, value in rows.items() if value is not None and row.startswith(key)]


async def verdicts(cluster: ShardCluster, name: str) -> list[str]:
    await cluster.settle()
    return [
        found.verdict.value
        for record in await cluster.records(VERDICTS)
        for found in findings.decode(record.value or b"", at=datetime.fromtimestamp(record.time_ms / 1000, UTC))
        if found.event == name
    ]


def endless() -> None:
    while True:
        pass


def backtracking() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


@pytest.mark.parametrize("work", [endless, backtracking])
async def test_a_fold_that_never_ends_is_interrupted_and_halts_its_schedule_alone(
    cluster: ShardCluster, monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]
) -> None:
    def slow(state, signal, *, at, cells) -> Folded:
        folded = fold(state, signal, at=at, cells=cells)
        if state is not None and state.schedule == schedule("ill") and event("flights-1")(signal):
            work()
        return folded

    monkeypatch.setattr(schedule_home, "FOLD_S", 0.2)
    monkeypatch.setattr(schedule_home, "fold", slow)
    await cluster.start()
    for name in ("ill", "well"):
        await cluster.put(schedule(name), Partitions(FLIGHTS, 2))

    await cluster.emit(*(landed(n) for n in range(4)))

    halt = (await halts(cluster))["ill"]
    assert halt.kind == "TimeLimitError"
    assert "interrupted after 0.2 s" in halt.message
    assert halt.parked == 3
    assert [names for _, _, names in await jobs(cluster, "well")] == [
        ["flights-0", "flights-1"],
        ["flights-2", "flights-3"],
    ]
    monkeypatch.setattr(schedule_home, "fold", fold)
    await replay(cluster)
    assert [names for _, _, names in await jobs(cluster, "ill")] == [
        ["flights-0", "flights-1"],
        ["flights-2", "flights-3"],
    ]
    assert not await halts(cluster)
