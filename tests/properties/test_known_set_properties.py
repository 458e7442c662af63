"""Keys with known sets and calendars, beside a model that enumerates every expected part instant by instant: what is
missing, what fires, what has no key, what came late or was rewritten, and what a changed definition keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property
from zoneinfo import ZoneInfo

from hypothesis import event as recorded
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.fold.explain import explain_cell
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.time.calendar import Calendar
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.completeness import KeyCompleteness, completeness, key_writes, part_name
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keyed_event import keyed_event, without_key
from streamsched.domain.triggers.keys.known_set import KnownSet, joined_part
from streamsched.domain.triggers.trigger import Partitions
from streamsched.emit.draft import hive_key, hive_values
from streamsched.testing.examples import examples
from tests.support.engine import Engine

CLICKS = DatasetRef("default", "clicks")
REF = ScheduleRef("default", "app", "daily")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: Clocks change at two, at midnight, and not at all; days around the changes.
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Atlantic/Azores", "Asia/Kolkata"]
DAYS = [date(2026, 3, 8), date(2026, 3, 29), date(2026, 10, 25), date(2026, 11, 1), date(2026, 7, 1), date(2026, 1, 1)]
VALUES = ["eu", "us", "a/b", "x=y", "ü 1", "%2F", "a%b", "Σ", " ", "…", "null", "2026-03-01"]
FOREIGN = "mars"


@dataclass
class World:
    """A definition, and what its model says belongs to each key: (key, hour or day, value)."""

    per: Per
    expected: frozenset[tuple[str, str, str]]

    @cached_property
    def by_key(self) -> dict[str, set[tuple[str, str]]]:
        found: dict[str, set[tuple[str, str]]] = {}
        for key, time, value in self.expected:
            found.setdefault(key, set()).add((time, value))
        return found

    @cached_property
    def key_of(self) -> dict[tuple[str, str], str]:
        return {(time, value): key for key, time, value in self.expected}

    def of(self, key: str) -> set[tuple[str, str]]:
        return self.by_key.get(key, set())


def named(instant: datetime, zone: str, grain: Grain) -> str | None:
    """The name of the hour or day that begins at an instant; None: none does."""
    shown = instant.astimezone(ZoneInfo(zone))
    before = (instant - timedelta(minutes=30)).astimezone(ZoneInfo(zone))
    match grain:
        case Grain.HOUR:
            jumped = shown.utcoffset() != before.utcoffset()
            if shown.minute and not jumped:
                return None
            text = shown.strftime("%Y-%m-%dT%H")
            return f"{text}{shown.isoformat()[19:]}" if shown.fold else text
        case Grain.DAY:
            return None if shown.date() == before.date() else str(shown.date())
        case Grain.WEEK:
            year, week, _ = shown.isocalendar()
            return f"{year:04}-W{week:02}"
        case Grain.MONTH:
            return shown.strftime("%Y-%m")
        case Grain.YEAR:
            return shown.strftime("%Y")


@cache
def times(zone: str, grain: Grain, around: date) -> tuple[tuple[date, str], ...]:
    """The hours or days of the weeks around a day with their dates, half an hour after half an hour."""
    found: dict[str, date] = {}
    at = datetime(around.year, around.month, around.day, tzinfo=UTC) - timedelta(days=40)
    for _ in range(80 * 48):
        at += HOUR / 2
        if (time := named(at, zone, grain)) is not None:
            found.setdefault(time, at.astimezone(ZoneInfo(zone)).date())
    return tuple((day, time) for time, day in found.items())


def enumerated(per: Per, around: date) -> frozenset[tuple[str, str, str]]:
    """Every expected part of the keys around a day; weeks and months at the edges are cut off."""
    assert per.grain is not None
    values = ("",) if per.each is None else per.each.values
    return frozenset(
        (time if per.rolled_up_to is None else day_or_longer(day, per.rolled_up_to), time, value)
        for day, time in times(per.zone, per.grain, around)
        if is_open(per.calendar, day)
        for value in values
    )


def day_or_longer(day: date, grain: Grain) -> str:
    year, week, _ = day.isocalendar()
    return {"day": str(day), "week": f"{year:04}-W{week:02}", "month": str(day)[:7], "year": str(day)[:4]}[grain]


def is_open(calendar: Calendar | None, day: date) -> bool:
    if calendar is None or day in calendar.open:
        return True
    return not (
        day.weekday() in calendar.weekdays
        or (day.month, day.day) in calendar.yearly
        or any(first <= day <= last for first, last in calendar.spans)
    )


@st.composite
def calendars(draw: st.DrawFn, around: date) -> Calendar | None:
    if draw(st.booleans()):
        return None
    near = [around + timedelta(days=n) for n in range(-7, 8)]
    first = draw(st.sampled_from(near))
    return Calendar.of(
        draw(st.sampled_from(["", "work"])),
        weekdays=draw(st.sets(st.integers(0, 6), max_size=3)),
        yearly=[(each.month, each.day) for each in draw(st.lists(st.sampled_from(near), max_size=2))],
        spans=[(first, first + timedelta(days=draw(st.integers(0, 2))))],
        open=draw(st.sets(st.sampled_from(near), max_size=2)),
    )


@st.composite
def worlds(draw: st.DrawFn, around: date, zone: str) -> World:
    grain = draw(st.sampled_from([Grain.HOUR, Grain.DAY]))
    coarser: list[Grain | None] = [Grain.DAY, None] if grain is Grain.HOUR else [Grain.WEEK, Grain.MONTH, None]
    coarse = draw(st.sampled_from(coarser))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4, unique=True))
    each = None if coarse is not None and draw(st.integers(0, 3)) == 0 else KnownSet("region", tuple(values))
    column = "hour" if grain is Grain.HOUR else "day"
    calendar = draw(calendars(around))
    per = Per(Partitions(CLICKS), (column,), grain, coarse, zone=zone, each=each, calendar=calendar)
    return World(per, enumerated(per, around))


def commit(world: World, number: int, cells: Iterable[tuple[str, str]]) -> Event:
    """A commit of partitions as they are read from keys that are escaped as Hive does."""
    keys = [hive_key({world.per.by[0]: time, "region": value}) for time, value in dict.fromkeys(cells)]
    some = tuple(Partition(key, hive_values(key)) for key in keys)
    return Event(f"e{number}", "test", NOW, PartitionsAdded(CLICKS, some, len(some)))


def came(world: World, found: KeyCompleteness, key: str) -> set[tuple[str, str]]:
    """What is present, as (hour or day, value)."""
    return {(time, value) for time, value in world.of(key) if part(world, time, value) in found.present}


def part(world: World, time: str, value: str) -> str:
    each = world.per.each
    return time if each is None else joined_part(time, each.parts[value])


@st.composite
def situations(draw: st.DrawFn) -> tuple[World, list[list[tuple[str, str]]]]:
    """A definition and commits: of parts near the day, some of them closed or of no value of the set."""
    around, zone = draw(st.sampled_from(DAYS)), draw(st.sampled_from(ZONES))
    world = draw(worlds(around, zone))
    assert world.per.grain is not None
    near = [time for day, time in times(zone, world.per.grain, around) if abs((day - around).days) <= 1]
    values = ["eu", "us"] if world.per.each is None else [*world.per.each.values, FOREIGN]
    cells = st.tuples(st.sampled_from(near), st.sampled_from(values))
    commits = draw(st.lists(st.lists(cells, min_size=1, max_size=12), max_size=30))
    own = "" if world.per.each is None else values[0]
    whole = world.of(world.key_of.get((near[len(near) // 2], own), ""))
    if whole and draw(st.booleans()):
        all_of_it = [(time, value or values[0]) for time, value in sorted(whole)]
        commits.insert(draw(st.integers(0, len(commits))), all_of_it)
    return world, commits


@dataclass
class Model:
    """Sets of parts by key. What comes after a key has fired opens it again."""

    world: World
    open: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    fired: list[str] = field(default_factory=list)
    keyless: int = 0

    def commit(self, cells: Iterable[tuple[str, str]]) -> None:
        without, touched = False, list[str]()
        for time, value in dict.fromkeys(cells):
            known = self.world.per.each is not None
            own = value if known else ""
            key = self.world.key_of.get((time, own))
            without = without or key is None
            if key is not None:
                self.open.setdefault(key, set()).add((time, own))
                touched.append(key)
        self.keyless += without
        for key in dict.fromkeys(touched):
            if self.open[key] == self.world.of(key):
                self.fired.append(key)
                del self.open[key]


@examples(150)
@given(situations())
def test_what_is_missing_what_fires_and_what_has_no_key_are_those_of_the_enumerated_sets(
    situation: tuple[World, list[list[tuple[str, str]]]],
) -> None:
    world, commits = situation
    recorded(f"to {world.per.rolled_up_to}, {'a' if world.per.each else 'no'} set, {len(commits) // 10 * 10} commits")
    engine, model = Engine(REF), Model(world)
    engine.tell(NOW, Put(REF, 1, True, world.per))
    for number, cells in enumerate(commits):
        engine.tell(NOW, Occurred(commit(world, number, cells)))
        model.commit(cells)

    assert engine.state is not None
    assert Counter(job.key for _, job in engine.jobs) == Counter(model.fired)
    assert engine.state.keyless == model.keyless
    assert engine.cells.keys() == model.open.keys()
    for key, cell in engine.cells.items():
        node = explain_cell(engine.state.plan, cell, key)
        leaf = node.children[0] if node.children else node
        found = leaf.completeness
        assert found is not None
        assert (leaf.have, leaf.need) == (len(model.open[key]), len(world.of(key)))
        assert came(world, found, key) == model.open[key]
        missing = world.of(key) - model.open[key]
        assert set(found.missing_parts) == {part(world, *each) for each in missing}
        assert len(found.expected) == len(set(found.expected)) == len(world.of(key))
        assert (str(found) == "") == (not missing)
        spans = list(found.spans())
        for first, last, *value in spans:
            assert {first, last} <= {time for time, own in missing if not value or shown(own) == value[0]}


def shown(value: str) -> str:
    return value if value.isprintable() else ""


@examples(100)
@given(situations())
def test_each_day_of_a_calendar_and_each_value_has_a_verdict(
    situation: tuple[World, list[list[tuple[str, str]]]],
) -> None:
    world, commits = situation
    expected = {(time, value) for _, time, value in world.expected}
    for number, cells in enumerate(commits):
        for time, value in cells:
            event = commit(world, number, [(time, value)])
            found = without_key([(Partitions(CLICKS).match, keyed_event(world.per, event))])
            own = value if world.per.each is not None else ""
            assert (found is None) == ((time, own) in expected)
            if found is not None and value == FOREIGN and is_open(world.per.calendar, date.fromisoformat(time[:10])):
                assert "region='mars' is not one of" in found.why
            elif found is not None:
                assert "closed by" in found.why


@examples(100)
@given(situations(), st.data())
def test_late_and_rewritten_parts_are_those_of_the_commits(
    situation: tuple[World, list[list[tuple[str, str]]]], data: st.DataObject
) -> None:
    world, commits = situation
    events = [commit(world, number, cells) for number, cells in enumerate(commits)]
    late = {each.id for each in events if data.draw(st.booleans())}
    known, column = world.per.each is not None, "region" if world.per.each is not None else ""
    for key in {world.key_of[each] for cells in commits for each in cells if each in world.key_of}:
        found = key_writes(world.per, key, events, late)
        counts: Counter[tuple[str, str, str]] = Counter()
        came_late: set[tuple[str, str]] = set()
        for event, cells in zip(events, commits, strict=True):
            for time, value in set(cells):
                own = value if known else ""
                if (key, time, own) in world.expected:
                    counts[time, own, value] += 1
                    came_late |= {(time, own)} if event.id in late else set()
        again = {(time, own) for (time, own, _), count in counts.items() if count > 1}
        assert set(found.late) == {part_name(part(world, *each), column, key) for each in came_late}
        assert set(found.rewritten) == {part_name(part(world, *each), column, key) for each in again}


@st.composite
def changes(draw: st.DrawFn) -> tuple[World, World, list[list[tuple[str, str]]]]:
    """Two definitions with the same keys that differ in the set, the calendar or both."""
    around, zone = draw(st.sampled_from(DAYS)), draw(st.sampled_from(ZONES))
    before = draw(worlds(around, zone))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4, unique=True))
    each = None if before.per.each is None else KnownSet("region", tuple(values))
    per = replace(before.per, each=each, calendar=draw(calendars(around)))
    after = World(per, enumerated(per, around))
    near = sorted(
        (time, value) for _, time, value in before.expected if abs((date.fromisoformat(time[:10]) - around).days) <= 1
    )
    cells = st.sampled_from(near) if near else st.nothing()
    return before, after, draw(st.lists(st.lists(cells, min_size=1, max_size=12), max_size=20)) if near else []


@examples(150)
@given(changes())
def test_a_changed_set_keeps_the_parts_that_still_belong_to_an_open_key(
    change: tuple[World, World, list[list[tuple[str, str]]]],
) -> None:
    before, after, commits = change
    engine, model = Engine(REF), Model(before)
    engine.tell(NOW, Put(REF, 1, True, before.per))
    for number, cells in enumerate(commits):
        engine.tell(NOW, Occurred(commit(before, number, cells)))
        model.commit(cells)
    jobs = len(engine.jobs)
    engine.tell(NOW, Put(REF, 2, True, after.per, keep=True))

    assert engine.state is not None
    left = {key: parts & after.of(key) for key, parts in model.open.items()}
    fired = {key for key, parts in left.items() if parts and parts == after.of(key)}
    assert {job.key for _, job in engine.jobs[jobs:]} == fired
    assert engine.cells.keys() == {key for key, parts in left.items() if parts} - fired
    for key, cell in engine.cells.items():
        (has,) = cell.accumulations.values()
        found = completeness(after.per, key, has.events)
        assert found is not None
        assert has.count == len(has.events) == len(left[key])
        assert came(after, found, key) == left[key]
    recorded(f"{len(engine.cells)} keys kept, {len(fired)} fired")
