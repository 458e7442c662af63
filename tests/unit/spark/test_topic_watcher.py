"""A watcher of a topic in memory: what it emits and marks, also when it is killed at any moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product

import pytest

from streamsched.domain.errors import ConflictError, NotFoundError, Refusal, RefusedError, UnavailableError
from streamsched.domain.events.event import Event, StreamSize
from streamsched.domain.events.topic_growth import PartitionSize, TopicSize
from streamsched.domain.names import StreamRef
from streamsched.emit import Emitted, EventDraft
from streamsched.emit.draft import complete_event
from streamsched.spark.streaming.topic_position import StreamMeasure
from streamsched.spark.streaming.topic_watcher import TopicPhase, TopicWatcher
from streamsched.spark.tables.watcher import First

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLICKS = StreamRef("default", "clicks")


class Killed(BaseException):
    """The process ends."""


@dataclass
class World:
    """A topic of one partition with records of 10 bytes, a bookmark, and a server that counts each id once."""

    records: int = 0
    start: int = 0
    id: str = "a"
    gone: bool = False
    counted: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    value: str = ""
    revision: int = 0
    away: bool = False
    refuses: bool = False
    dies_at: TopicPhase | None = None
    other: bool = False
    ids: int = 0

    def measured(self) -> TopicSize:
        if self.gone:
            raise NotFoundError("topic", "clicks")
        return TopicSize(self.id, {0: PartitionSize(1, self.start, self.records, 10 * (self.records - self.start))})

    def emit(self, *what: EventDraft | Event) -> Emitted:
        if self.away:
            raise UnavailableError("away")
        if self.refuses:
            raise RefusedError([Refusal(0, "$", "no such stream")], 0)
        for each in what:
            event = complete_event(each, source="x", now=NOW)
            assert isinstance(event.fact, StreamSize)
            assert not event.fact.absolute
            self.sent += 1
            assert self.counted.setdefault(event.id, event.fact.bytes) == event.fact.bytes
        return Emitted(len(what))

    def get(self, name: str) -> tuple[str, int]:
        assert name == "watch-topic.default.clicks"
        return self.value, self.revision

    def set(self, name: str, value: str, revision: int) -> int:
        if self.other or revision != self.revision:
            raise ConflictError("another one")
        self.value, self.revision = value, revision + 1
        return self.revision

    def reached(self, phase: TopicPhase) -> None:
        if phase is self.dies_at:
            self.dies_at = None
            raise Killed

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def watcher(
        self, measure: StreamMeasure = StreamMeasure.BYTES, first: First = First.NOW, topic: str = "clicks"
    ) -> TopicWatcher:
        return TopicWatcher(
            CLICKS,
            topic,
            self.measured,
            measure=measure,
            bookmarks=self,
            emitter=self,
            first=first,
            reached=self.reached,
            new_id=self.new_id,
        )


@pytest.mark.parametrize(
    ("measure", "first", "amounts"),
    [
        (StreamMeasure.BYTES, First.NOW, [20]),
        (StreamMeasure.RECORDS, First.NOW, [2]),
        (StreamMeasure.BYTES, First.START, [50, 20]),
        (StreamMeasure.RECORDS, First.START, [5, 2]),
    ],
)
def test_growth_becomes_one_event_of_each_check(measure: StreamMeasure, first: First, amounts: list[int]) -> None:
    world = World(records=5)

    assert world.watcher(measure, first).run_once().began is (first is First.NOW)
    world.records += 2
    world.watcher(measure, first).run_once()
    seen = world.watcher(measure, first).run_once()

    assert list(world.counted.values()) == amounts
    assert seen.sent == ()


@pytest.mark.parametrize(("dies", "away"), [*product(TopicPhase, [False]), (None, True)])
def test_killed_at_any_moment_it_loses_and_doubles_nothing(dies: TopicPhase | None, away: bool) -> None:
    world = World(records=5)
    world.watcher().run_once()
    world.records += 3
    world.dies_at, world.away = dies, away

    with pytest.raises((Killed, UnavailableError)):
        world.watcher().run_once()
    world.away = False
    world.records += 4
    world.watcher().run_once()
    world.watcher().run_once()

    assert sum(world.counted.values()) == 70
    assert world.sent <= 3


def test_deletion_takes_nothing_off_and_is_no_event() -> None:
    world = World(records=5)
    world.watcher().run_once()
    world.start = 5
    assert world.watcher().run_once().sent == ()
    world.records, world.start = 8, 7

    seen = world.watcher().run_once()

    assert list(world.counted.values()) == [30]
    assert any("30 bytes are an estimate" in note for note in seen.notes)


def test_a_topic_that_is_gone_is_noted_and_a_new_one_is_counted_from_its_first_record() -> None:
    world = World(records=5)
    with pytest.raises(NotFoundError):
        replace(world, gone=True).watcher().run_once()
    world.watcher().run_once()

    world.gone = True
    assert "there is no topic 'clicks' now" in world.watcher().run_once().notes[0]
    world.gone, world.id, world.records = False, "b", 9
    seen = world.watcher().run_once()

    assert list(world.counted.values()) == [90]
    assert "created again" in seen.notes[0]


def test_a_refused_event_is_passed_over() -> None:
    world = World(records=5)
    world.watcher().run_once()
    world.records, world.refuses = 6, True

    assert "no such stream" in world.watcher().run_once().refused[0]
    world.records, world.refuses = 8, False
    world.watcher().run_once()

    assert list(world.counted.values()) == [20]


def test_a_watcher_that_is_behind_another_emits_nothing() -> None:
    world = World(records=5)
    world.watcher().run_once()
    world.records, world.other = 6, True

    assert world.watcher().run_once().sent == ()
    assert world.counted == {}


@pytest.mark.parametrize(("measure", "topic"), [(StreamMeasure.RECORDS, "clicks"), (StreamMeasure.BYTES, "views")])
def test_a_bookmark_of_another_topic_or_measure_is_refused(measure: StreamMeasure, topic: str) -> None:
    world = World(records=5)
    world.watcher().run_once()

    with pytest.raises(ConflictError, match="delete it to begin anew"):
        world.watcher(measure, topic=topic).run_once()
