"""The read model: the newest state of each schedule, from wherever the copy was left."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from streamsched.catalog.progress import ProgressCopy
from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.fold import Definition, TriggerState, fold
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.triggers.trigger import Partitions, Per
from streamsched.log.topics import TRIGGERS_CHANGELOG
from streamsched.ports.broker import Outgoing
from streamsched.store.catalog.progress import OpenKeyReader, PostgresProgress
from tests.support.states import state_of

from .conftest import FLIGHTS, SHARDS, CatalogProcess, app, schedule

WEEKLY = schedule().ref
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def copy(scheduler: CatalogProcess) -> ProgressCopy:
    return ProgressCopy(broker=scheduler.broker, store=PostgresProgress(scheduler.pool))


def state(landed: int, *, ref: ScheduleRef = WEEKLY, generation: int = 1) -> TriggerState:
    """After that many partitions landed, one event each."""
    now = state_of(ref, FLIGHTS, generation=generation)
    for number in range(landed):
        fact = PartitionsAdded(FLIGHTS.dataset, (Partition(f"day={number}"),), 1)
        folded = fold(now, Occurred(Event(str(number), "test", NOON, fact)), at=NOON).state
        assert folded is not None
        now = folded
    return now


async def change(scheduler: CatalogProcess, *states: TriggerState | ScheduleRef) -> None:
    """Appends to the changelog as the shards would; a bare name is a tombstone."""
    records = []
    for each in states:
        ref = each if isinstance(each, ScheduleRef) else each.schedule
        key = f"schedule:{ref}".encode()
        value = None if isinstance(each, ScheduleRef) else state_codec.encode(each)
        records.append(Outgoing(TRIGGERS_CHANGELOG, home(key, SHARDS), key, value))
    await scheduler.broker.append(records)


async def have(scheduler: CatalogProcess) -> dict[str, int]:
    rows = await scheduler.pool.fetch("SELECT schedule, progress FROM trigger_progress")
    return {row["schedule"]: row["progress"]["have"] for row in rows}


async def test_progress_shows_three_of_seven_with_the_partitions_that_came(relaying_scheduler: CatalogProcess) -> None:
    await relaying_scheduler.catalog.deploy(app(schedule())).apply()
    await change(relaying_scheduler, state(3))

    assert await copy(relaying_scheduler).run_once() == 1

    progress = (await relaying_scheduler.catalog.reader.schedule(WEEKLY)).progress
    assert progress is not None
    assert (progress["have"], progress["need"], progress["missing"], progress["holds"]) == (3, 7, 4, False)
    assert progress["text"] == "7 new partitions of default.flights"
    assert [event["id"] for event in progress["events"]] == ["0", "1", "2"]


async def test_many_states_of_one_schedule_in_one_read_are_stored_once(scheduler: CatalogProcess) -> None:
    other = schedule("other").ref
    await change(scheduler, *(state(number) for number in range(1, 7)), state(2, ref=other))

    assert await copied(copy(scheduler)) == 2

    assert await have(scheduler) == {str(WEEKLY): 6, str(other): 2}


async def test_a_copy_goes_on_where_the_last_one_stopped(scheduler: CatalogProcess) -> None:
    await change(scheduler, state(1))
    await copied(copy(scheduler))
    await change(scheduler, state(2))
    after = copy(scheduler)

    assert await copied(after) == 1
    assert await have(scheduler) == {str(WEEKLY): 2}
    assert await after.run_once(timeout=0) == 0


async def test_a_tombstone_removes_the_row(scheduler: CatalogProcess) -> None:
    await change(scheduler, state(1))
    await copied(copy(scheduler))
    await change(scheduler, WEEKLY)

    await copied(copy(scheduler))

    assert await have(scheduler) == {}


async def test_two_copies_store_each_read_once_and_never_go_back(scheduler: CatalogProcess) -> None:
    ahead, behind = copy(scheduler), copy(scheduler)
    await change(scheduler, state(1))
    await behind.run_once()
    await change(scheduler, state(2))
    await copied(ahead)
    await change(scheduler, state(3))
    await copied(ahead)

    assert await copied(behind) == 0
    assert await have(scheduler) == {str(WEEKLY): 3}


async def test_progress_of_an_older_definition_is_not_shown(relaying_scheduler: CatalogProcess) -> None:
    await relaying_scheduler.catalog.deploy(app(schedule())).apply()
    await change(relaying_scheduler, state(3))
    await copied(copy(relaying_scheduler))

    await relaying_scheduler.catalog.disable(WEEKLY).apply()

    assert (await relaying_scheduler.catalog.reader.schedule(WEEKLY)).progress is None


@pytest.mark.parametrize("value", [b"no json", b'{"v": 99}', b"{}"])
async def test_a_state_that_cannot_be_read_delays_no_other(scheduler: CatalogProcess, value: bytes) -> None:
    key = f"schedule:{schedule('odd').ref}".encode()
    await scheduler.broker.append([Outgoing(TRIGGERS_CHANGELOG, home(f"schedule:{WEEKLY}", SHARDS), key, value)])
    await change(scheduler, state(4))

    await copied(copy(scheduler))

    assert await have(scheduler) == {str(WEEKLY): 4}


async def test_a_state_that_cannot_be_stored_delays_no_other(scheduler: CatalogProcess) -> None:
    names = [schedule(f"s{number}").ref for number in range(12)]
    await scheduler.pool.execute(
        "ALTER TABLE trigger_progress ADD CONSTRAINT refuse CHECK (schedule NOT IN "
        f"('{names[0]}', '{names[5]}', '{names[11]}'))"
    )
    await change(scheduler, *(state(1, ref=ref) for ref in names))

    await copied(copy(scheduler))

    assert await have(scheduler) == {str(ref): 1 for place, ref in enumerate(names) if place not in (0, 5, 11)}


async def test_the_shards_own_keys_are_no_schedules(scheduler: CatalogProcess) -> None:
    await scheduler.broker.append([Outgoing(TRIGGERS_CHANGELOG, 0, b"\0position", b"{}")])

    assert await copied(copy(scheduler)) == 0


async def test_an_accumulation_of_thousands_is_shown_by_its_newest(scheduler: CatalogProcess) -> None:
    from streamsched.codec.views.explanation import SHOWN, to_json
    from streamsched.domain.fold.explain import explain

    events = tuple(
        Event(str(n), "test", NOON, PartitionsAdded(FLIGHTS.dataset, (Partition(f"day={n}"),), 1)) for n in range(2000)
    )
    wanted = Partitions(FLIGHTS.dataset, 5000)
    now = state_of(WEEKLY, wanted)
    for event in events:
        now = fold(now, Occurred(event), at=NOON).state or now

    shown = to_json(explain(now))

    assert (shown["have"], len(shown["events"]), shown["older"]) == (2000, SHOWN, 2000 - SHOWN)
    assert shown["events"][-1]["id"] == "1999"


async def copied(progress: ProgressCopy) -> int:
    """Everything the changelog has now; how many rows were stored."""
    stored = 0
    for _ in range(2 * SHARDS):
        stored += await progress.run_once(timeout=0)
    return stored


async def test_a_key_of_any_length_is_copied_shown_paged_and_closed(scheduler: CatalogProcess) -> None:
    rng = Random("incompressible")
    short, *long = ["0", *(str(n) + "".join(rng.choices("äb€defgh0123456789", k=6_000)) for n in (1, 2, 2))]
    definition = Definition(WEEKLY, 1, True, Per(Partitions(FLIGHTS.dataset, 2), ("path",)))
    head = f"schedule:{WEEKLY}".encode()
    shard = home(head, SHARDS)
    fact = PartitionsAdded(FLIGHTS.dataset, (Partition("x", {"path": "x"}),), 1)
    folded = fold(TriggerState(definition), Occurred(Event("x", "test", NOON, fact)), at=NOON)
    (cell,) = (each for each in folded.cells.values() if each is not None)
    state = state_codec.encode_key(definition, cell, "d")
    rows = [Outgoing(TRIGGERS_CHANGELOG, shard, head + b"\x1f" + key.encode(), state) for key in (short, *long)]
    await scheduler.broker.append(
        [Outgoing(TRIGGERS_CHANGELOG, shard, head, state_codec.encode(TriggerState(definition)))]
    )
    await scheduler.broker.append(rows)

    await copied(copy(scheduler))
    keys = OpenKeyReader(scheduler.pool)
    shown: list[str] = []
    while page := await keys.page(WEEKLY, after=shown[-1] if shown else "", limit=2):
        shown += [each.key for each in page]
    assert shown[:2] == [short, long[0]]
    assert sorted(shown) == sorted([short, *long])

    await scheduler.broker.append([Outgoing(TRIGGERS_CHANGELOG, shard, head + b"\x1f" + long[1].encode(), None)])
    await copied(copy(scheduler))
    left = await keys.page(WEEKLY, after="", limit=9)
    assert sorted(each.key for each in left) == sorted([short, long[0], long[2]])


async def test_the_open_keys_of_a_schedule_are_shown_until_they_close(scheduler: CatalogProcess) -> None:
    joined = Per(Partitions(FLIGHTS.dataset) & Partitions(DatasetRef("default", "weather")), ("date",))
    definition = Definition(WEEKLY, 1, True, joined)
    cells: dict[str, Cell] = {}
    for number in (1, 2):
        day = f"2013-01-0{number}"
        fact = PartitionsAdded(FLIGHTS.dataset, (Partition(day, {"date": day}),), 1)
        event = Occurred(Event(day, "test", NOON, fact))
        cells |= {k: c for k, c in fold(TriggerState(definition), event, at=NOON).cells.items() if c is not None}
    head = f"schedule:{WEEKLY}".encode()
    rows = {head + b"\x1f" + key.encode(): state_codec.encode_key(definition, cell, key) for key, cell in cells.items()}
    page = head + b"\x1f2013-01-01\x1f0.0"
    records = [(head, state_codec.encode(TriggerState(definition))), *rows.items(), (page, b"{}")]
    shard = home(head, SHARDS)
    await scheduler.broker.append([Outgoing(TRIGGERS_CHANGELOG, shard, key, value) for key, value in records])

    await copied(copy(scheduler))
    keys = OpenKeyReader(scheduler.pool)
    assert [(each.key, each.generation) for each in await keys.page(WEEKLY, after="", limit=9)] == [
        ("2013-01-01", 1),
        ("2013-01-02", 1),
    ]
    assert [each.key for each in await keys.page(WEEKLY, after="2013-01-01", limit=9)] == ["2013-01-02"]

    await scheduler.broker.append([Outgoing(TRIGGERS_CHANGELOG, shard, next(iter(rows)), None)])
    await copied(copy(scheduler))
    assert [each.key for each in await keys.page(WEEKLY, after="", limit=9)] == ["2013-01-02"]

    await change(scheduler, WEEKLY)
    await copied(copy(scheduler))
    assert not await keys.page(WEEKLY, after="", limit=9)
