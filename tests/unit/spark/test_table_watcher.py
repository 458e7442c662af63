"""A watcher on a source in memory: what it emits, marks and passes over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from streamsched.codec.events import native
from streamsched.domain.errors import ConflictError, Refusal, RefusedError, UnavailableError
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.jobs.run_commit import MOST_PARTITIONS
from streamsched.domain.names import DatasetRef
from streamsched.emit import Emitted, EventDraft
from streamsched.emit.draft import commit_events, complete_event
from streamsched.spark.tables.table_source import AddedFile, LogStep, TableCommit, added_partitions
from streamsched.spark.tables.watcher import First, Watcher

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FLIGHTS = DatasetRef("default", "flights")


class SourceInMemory:
    """Commits "1", "2" …; those with partitions 0 have no data."""

    def __init__(self, *partitions: int) -> None:
        self.partitions = list(partitions)

    @property
    def location(self) -> str:
        return "memory"

    def head(self, back: int = 0) -> str:
        return str(max(0, len(self.partitions) - back))

    def steps_after(self, position: str) -> Iterator[LogStep]:
        for number in range(int(position or 0), len(self.partitions)):
            many = tuple(Partition(f"p={n}", {"p": str(n)}, 1, 1) for n in range(self.partitions[number]))
            yield LogStep(str(number + 1), TableCommit(f"v{number + 1}", NOW, many) if many else None)


class World:
    """An emitter and a bookmark that can fail."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.value, self.revision = "", 0
        self.refuses: set[str] = set()
        self.away = False
        self.other: str | None = None

    def emit(self, *what: EventDraft | Event) -> Emitted:
        if self.away:
            raise UnavailableError("away")
        events = [complete_event(each, source="x", now=NOW) for each in what]
        if bad := [n for n, each in enumerate(events) if each.id in self.refuses]:
            raise RefusedError([Refusal(n, "$", "too large") for n in bad], len(events) - len(bad))
        self.events += events
        return Emitted(len(events))

    def get(self, name: str) -> tuple[str, int]:
        assert name == "watch.default.flights"
        return self.value, self.revision

    def set(self, name: str, value: str, revision: int) -> int:
        if self.other is not None:
            self.value, self.revision, self.other = self.other, self.revision + 1, None
        if revision != self.revision:
            raise ConflictError("another one")
        self.value, self.revision = value, revision + 1
        return self.revision

    def watcher(self, source: SourceInMemory, first: First = First.START) -> Watcher:
        return Watcher(FLIGHTS, source, bookmarks=self, emitter=self, first=first)


@pytest.mark.parametrize(("first", "ids"), [(First.START, ["v1", "v2"]), (First.NEWEST, ["v2"]), (First.NOW, [])])
def test_it_begins_where_it_is_asked_to(first: First, ids: list[str]) -> None:
    world, source = World(), SourceInMemory(1, 1)

    seen = world.watcher(source, first).run_once()

    assert [each.id for each in world.events] == ids == [each.id for each in seen.commits]
    assert (world.value, seen.began) == ("2", first is First.NOW)
    source.partitions.append(1)
    assert [each.id for each in world.watcher(source, first).run_once().commits] == ["v3"]


def test_commits_without_data_are_passed() -> None:
    world = World()

    seen = world.watcher(SourceInMemory(1, 0, 0, 2)).run_once()

    assert ([each.id for each in world.events], seen.passed, world.value) == (["v1", "v4"], 2, "4")


def test_a_refused_commit_does_not_hold_up_the_next() -> None:
    world = World()
    world.refuses = {"v2"}

    seen = world.watcher(SourceInMemory(1, 1, 1)).run_once()

    assert [each.id for each in world.events] == ["v1", "v3"]
    assert seen.refused == ("v2: $[0]: too large",)


def test_a_server_that_is_away_leaves_the_bookmark() -> None:
    world, source = World(), SourceInMemory(1, 1)
    world.watcher(SourceInMemory(1)).run_once()
    world.away = True

    with pytest.raises(UnavailableError):
        world.watcher(source).run_once()
    world.away = False
    world.watcher(source).run_once()

    assert [each.id for each in world.events] == ["v1", "v2"]


def test_another_watcher_that_is_ahead_goes_on_alone() -> None:
    world = World()
    world.other = "3"

    seen = world.watcher(SourceInMemory(1, 1, 1)).run_once()

    assert [each.id for each in seen.commits] == ["v1"]
    assert world.watcher(SourceInMemory(1, 1, 1)).run_once().commits == ()


def test_many_partitions_are_several_events() -> None:
    world = World()

    world.watcher(SourceInMemory(2 * MOST_PARTITIONS + 1)).run_once()

    assert [each.id for each in world.events] == ["v1", "v1.2", "v1.3"]
    facts = [each.fact for each in world.events]
    assert [fact.count for fact in facts if isinstance(fact, PartitionsAdded)] == [MOST_PARTITIONS] * 2 + [1]


def test_rows_are_unknown_when_one_file_has_none() -> None:
    found = added_partitions(
        [AddedFile({"a": "1"}, 5, 2), AddedFile({"a": "2"}, 1, 1), AddedFile({"a": "1"}, 5, None), AddedFile({}, 3, 3)],
        "version=7",
    )

    assert found == (
        Partition("a=1", {"a": "1"}, 10, None),
        Partition("a=2", {"a": "2"}, 1, 1),
        Partition("version=7", {"version": "7"}, 3, 3),
    )


def test_a_commit_of_a_hundred_thousand_partitions_is_events_that_fit_into_records() -> None:
    world = World()
    partitions = tuple(Partition(f"day={n}", {"day": str(n)}, 1, 1) for n in range(100_000))

    world.emit(*commit_events(FLIGHTS, partitions, event_id="c", time=NOW))

    assert len(world.events) == 50
    assert len({each.id for each in world.events}) == 50
    assert max(len(native.encode_event(each)) for each in world.events) < 1_000_000
    keys = [part.key for each in world.events for part in each.fact.partitions]  # type: ignore[union-attr]
    assert keys == [part.key for part in partitions]
