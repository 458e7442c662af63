"""Intake: each ready job becomes one row, whatever is repeated, raced or interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import orjson
import pytest

from streamsched.codec.records import launch
from streamsched.domain.errors import UnavailableError
from streamsched.log.topics import DEAD_LETTER, LAUNCH
from streamsched.ports.broker import Outgoing, Record, TopicPartition
from streamsched.ports.intake import IntakeBatch, IntakeResult, ReadyJobRow
from streamsched.store.jobs.intake import JobIntake, PostgresIntake

from .conftest import SHARDS, World, schedule

pytestmark = pytest.mark.postgres

NIGHTLY = schedule("nightly")


async def drained(intake: JobIntake) -> int:
    total = 0
    while got := await intake.run_once(timeout=0.01):
        total += got
    return total


async def test_a_ready_job_becomes_a_waiting_row_that_is_due_at_once(world: World) -> None:
    await world.define(NIGHTLY)
    await world.emit([world.ready(NIGHTLY, 1)])

    assert await drained(world.intake()) == 1

    job = await world.jobs.get("default.app.nightly.1.1")
    assert job.state == "PENDING_CONSTRAINT"
    assert job.satisfied_at == world.clock.now()
    assert await world.decisions.count_due(world.clock.now(), limit=10) == {"default.app.load": 1}


async def test_a_job_read_again_changes_nothing(world: World) -> None:
    await world.define(NIGHTLY)
    await world.emit([world.ready(NIGHTLY, 1)])
    await drained(world.intake())
    await world.reread_log()
    await world.emit([world.ready(NIGHTLY, 2)])

    assert await drained(world.intake()) == 1
    assert list(await world.states()) == ["nightly.1.1", "nightly.1.2"]


async def test_a_new_intake_goes_on_behind_what_was_stored(world: World) -> None:
    await world.define(NIGHTLY)
    await world.emit([world.ready(NIGHTLY, 1)])
    await drained(world.intake())

    positions = await PostgresIntake(world.pool).positions(LAUNCH, SHARDS)
    ends = await world.broker.ends([TopicPartition(LAUNCH, n) for n in range(SHARDS)])

    assert {TopicPartition(LAUNCH, n): at for n, at in positions.items()} == dict(ends)


async def test_several_intakes_on_the_same_partitions_store_every_job_once(world: World) -> None:
    schedules = [schedule(f"s{n}") for n in range(20)]
    await world.define(*schedules)
    intakes = [JobIntake(world.broker, PostgresIntake(world.pool), world.clock, max_records=17) for _ in range(3)]
    stored = 0

    async def work(intake: JobIntake) -> None:
        nonlocal stored
        for _ in range(400):
            got = await intake.run_once(timeout=0.02)
            stored += got
            if stored == 600:
                return

    async def feed() -> None:
        for sequence in range(1, 31):
            await world.emit([world.ready(each, sequence) for each in schedules])
            await asyncio.sleep(0)

    await asyncio.wait_for(asyncio.gather(feed(), *(work(intake) for intake in intakes)), 60)

    assert stored == 600
    assert await world.size("jobs") == 600


async def test_two_takes_of_one_batch_at_the_same_time_count_once(world: World) -> None:
    await world.define(NIGHTLY)
    await world.emit([world.ready(NIGHTLY, 1)])
    one, other = world.intake(), world.intake()

    assert sorted(await asyncio.gather(one.run_once(timeout=1), other.run_once(timeout=1))) == [0, 1]


class DiesAfterTheCommit(PostgresIntake):
    """PostgreSQL has stored the take, but its answer never arrives."""

    async def take(self, topic: str, batches: Sequence[IntakeBatch[ReadyJobRow]], *, now: datetime) -> IntakeResult:
        await super().take(topic, batches, now=now)
        raise UnavailableError("the connection broke")


async def test_an_answer_that_is_lost_loses_and_doubles_no_job(world: World) -> None:
    await world.define(NIGHTLY)
    await world.emit([world.ready(NIGHTLY, 1)])
    intake = JobIntake(world.broker, DiesAfterTheCommit(world.pool), world.clock)

    with pytest.raises(UnavailableError):
        await intake.run_once(timeout=1)

    await world.emit([world.ready(NIGHTLY, 2)])
    assert await drained(world.intake()) == 1
    assert list(await world.states()) == ["nightly.1.1", "nightly.1.2"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (World.disable, "disabled"),
        (World.delete_schedule, "deleted"),
        (World.change_generation, "generation 1, now 2 stands"),
        (World.forget_schedules, "unknown"),
    ],
)
async def test_a_job_of_a_schedule_that_moved_on_is_recorded_as_obsolete(
    world: World, change: Callable[[World], Awaitable[None]], reason: str
) -> None:
    await world.define(NIGHTLY)
    await change(world)
    await world.emit([world.ready(NIGHTLY, 1)])

    await drained(world.intake())

    job = await world.jobs.get("default.app.nightly.1.1")
    assert job.state == "OBSOLETE"
    assert reason in job.reason
    assert await world.actions(job.id) == ["job.obsolete"]
    assert await world.launcher.run_once() == 0


async def test_a_record_that_cannot_be_read_goes_to_the_dead_letters_and_blocks_no_other(world: World) -> None:
    await world.define(NIGHTLY)
    partition = 0
    await world.broker.append([Outgoing(LAUNCH, partition, b"x", b'{"v": 1}')])
    await world.emit([world.ready(NIGHTLY, 1)])

    assert await drained(world.intake()) == 1

    reader = await world.broker.reader({TopicPartition(DEAD_LETTER, partition): 0})
    [chunk] = await reader.read(max_records=10, timeout=1)
    letter = orjson.loads(chunk.records[0].value or b"")
    assert (letter["topic"], letter["partition"], letter["offset"]) == (LAUNCH, 0, 0)
    assert letter["path"].startswith("$.")


async def test_a_compressed_record_becomes_a_row_and_a_damaged_one_a_dead_letter(world: World) -> None:
    await world.define(NIGHTLY)
    made = [world.ready(NIGHTLY, sequence, events=3) for sequence in (1, 2, 3)]
    whole, damaged, cut = (launch.encode(job, largest=10) for job in made)
    damaged, cut = damaged[:20] + b"\0\0" + damaged[22:], cut[:-9]
    await world.broker.append([Outgoing(LAUNCH, 0, b"x", value) for value in (damaged, whole, cut)])

    assert await drained(world.intake()) == 1

    assert list(await world.states()) == ["nightly.1.1"]
    assert await world.launcher.run_once() == 1
    reader = await world.broker.reader({TopicPartition(DEAD_LETTER, 0): 0})
    letters = [orjson.loads(r.value or b"") for c in await reader.read(max_records=10, timeout=1) for r in c.records]
    assert [letter["offset"] for letter in letters] == [0, 2]


async def test_a_take_notifies_the_launcher(world: World) -> None:
    await world.define(NIGHTLY)
    async with world.notifier.listen("launcher") as subscription:
        await world.emit([world.ready(NIGHTLY, 1)])
        await drained(world.intake())

        assert await subscription.wait(5)


async def test_a_position_that_stands_elsewhere_counts_no_batch(world: World) -> None:
    store = PostgresIntake(world.pool)
    await store.positions(LAUNCH, 1)

    taken = await store.take(LAUNCH, [IntakeBatch(0, 7, 9, [])], now=world.clock.now())

    assert taken == IntakeResult(frozenset(), 0, 0)
    assert await store.positions(LAUNCH, 1) == {0: 0}


@pytest.mark.parametrize("bad", [1, 5, 9])
async def test_a_job_that_cannot_be_stored_becomes_a_dead_letter_and_holds_up_no_other(world: World, bad: int) -> None:
    await world.define(NIGHTLY)
    await world.refuse(
        f"NEW.id = 'default.app.nightly.1.{bad}'", change="INSERT ON jobs", code="numeric_value_out_of_range"
    )
    await world.emit([world.ready(NIGHTLY, sequence) for sequence in range(1, 10)])
    intake = world.intake()

    assert await drained(intake) == 8

    assert list(await world.states()) == [f"nightly.1.{number}" for number in range(1, 10) if number != bad]
    ends = await world.broker.ends([TopicPartition(DEAD_LETTER, n) for n in range(SHARDS)])
    assert sum(ends.values()) == 1
    positions = await PostgresIntake(world.pool).positions(LAUNCH, SHARDS)
    read = await world.broker.ends([TopicPartition(LAUNCH, n) for n in range(SHARDS)])
    assert {TopicPartition(LAUNCH, n): at for n, at in positions.items()} == dict(read)
    await world.emit([world.ready(NIGHTLY, 10)])
    assert await drained(intake) == 1
    await intake.close()


async def test_a_record_that_cannot_be_read_for_whatever_reason_becomes_a_dead_letter(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.define(NIGHTLY)
    await world.emit([world.ready(NIGHTLY, sequence) for sequence in (1, 2, 3)])
    intake = world.intake()
    read = intake._read

    def raising(record: Record) -> ReadyJobRow:
        if b'"sequence":2' in (record.value or b""):
            raise OverflowError("timestamp out of range")
        return read(record)

    monkeypatch.setattr(intake, "_read", raising)

    assert await drained(intake) == 2
    assert list(await world.states()) == ["nightly.1.1", "nightly.1.3"]
