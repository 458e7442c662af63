"""Turns the growth of a topic into stream sizes, each once.

    read the bookmark ──▶ measure ──▶ set the bookmark: counted, with the event to send ──▶ emit it ──▶ set: it is sent

The event is stored before it is sent, with its id and amount, so a process that is killed anywhere repeats the same
event, which counts once within the dedupe horizon, and what came since is in the next event. Several watchers of one
topic share the bookmark: the one that sets it first emits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import uuid4

from streamsched.domain.errors import ConflictError, NotFoundError, RefusedError
from streamsched.domain.events.topic_growth import Growth, TopicSize, begin_count, measure_growth
from streamsched.domain.names import StreamRef
from streamsched.emit.draft import stream_size
from streamsched.spark.streaming.topic_position import StreamMeasure, TopicPosition, UnsentGrowth
from streamsched.spark.tables.watcher import Announcements, Bookmarks, First


class TopicPhase(StrEnum):
    """Moments of a check; tests end the process there."""

    MEASURED = "measured"
    COUNTED = "counted"
    EMITTED = "emitted"


@dataclass(frozen=True, slots=True)
class TopicWatchResult:
    """The result of a check of a topic.

    Attributes:
        sent: growth that was emitted, oldest first: at most an event of an earlier check, and that of this one.
        growth: what this check has measured; None when it has measured nothing.
        began: whether the bookmark was set for the first time, without an event.
        refused: what the server did not accept; it is passed over.
        notes: what a person should know.
    """

    sent: tuple[UnsentGrowth, ...] = ()
    growth: Growth | None = None
    began: bool = False
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class TopicWatcher:
    """Watches one topic as one stream. `emitter` must not spool: an event that is only on this disk is not sent when
    the bookmark says so.
    """

    def __init__(
        self,
        stream: StreamRef,
        topic: str,
        measured: Callable[[], TopicSize],
        *,
        measure: StreamMeasure,
        bookmarks: Bookmarks,
        emitter: Announcements,
        first: First = First.NOW,
        reached: Callable[[TopicPhase], None] = lambda _: None,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        """Does no I/O.

        Args:
            measured: measures the topic; raises as `ports.topic_sizes.TopicSizes`.
            first: where to begin without a bookmark: `now`, or at the `start` of what the topic holds.
            reached: called at each phase.
            new_id: makes ids of events.
        """
        self.stream = stream
        self.topic = topic
        self.measure = measure
        self._measured = measured
        self._bookmarks = bookmarks
        self._emitter = emitter
        self._first = first
        self._reached = reached
        self._new_id = new_id

    @property
    def bookmark(self) -> str:
        """The name of the bookmark."""
        return f"watch-topic.{self.stream}"

    def run_once(self) -> TopicWatchResult:
        """Emits what the topic has grown by since the bookmark, as one event.

        Raises:
            NotFoundError: there is no such topic, and there was none before.
            UnavailableError: the broker or the server does not answer; nothing is lost or counted twice.
            ConflictError: the bookmark is of another topic, or of the other measure.
            ConfigurationError: see `TopicSizes`.
        """
        value, revision = self._bookmarks.get(self.bookmark)
        if revision == 0:
            return self._begin()
        position = self._check_position(TopicPosition.parse(value))
        sent: list[UnsentGrowth] = []
        refused: list[str] = []
        if position.unsent is not None:
            self._send(position.unsent, sent, refused)
            position = replace(position, unsent=None)
            following = self._mark(position, revision)
            if following is None:
                return TopicWatchResult(tuple(sent), refused=tuple(refused))
            revision = following
        try:
            now = self._measured()
        except NotFoundError:
            gone = f"there is no topic '{self.topic}' now: a new one of this name is counted from its first record"
            return TopicWatchResult(tuple(sent), None, False, tuple(refused), (gone,))
        return self._count(position, revision, now, sent, refused)

    def _begin(self) -> TopicWatchResult:
        now = self._measured()
        from_start = self._first is First.START
        position = TopicPosition(self.topic, self.measure, begin_count(now, at_end=not from_start))
        revision = self._mark(position, 0)
        if from_start and revision is not None:
            return self._count(position, revision, now, [], [])
        return TopicWatchResult(began=True, notes=_notes(now, Growth()))

    def _count(
        self, position: TopicPosition, revision: int, now: TopicSize, sent: list[UnsentGrowth], refused: list[str]
    ) -> TopicWatchResult:
        growth, counted = measure_growth(position.counted, now)
        amount = growth.bytes if self.measure is StreamMeasure.BYTES else growth.records
        self._reached(TopicPhase.MEASURED)
        unsent = UnsentGrowth(f"topic-{self.topic}-{self._new_id()}", amount) if amount else None
        changed = replace(position, counted=counted, unsent=unsent)
        if changed != position:
            following = self._mark(changed, revision)
            if following is None:
                return TopicWatchResult(tuple(sent), refused=tuple(refused))
            revision = following
        self._reached(TopicPhase.COUNTED)
        if unsent is not None:
            self._send(unsent, sent, refused)
            self._reached(TopicPhase.EMITTED)
            self._mark(replace(changed, unsent=None), revision)
        return TopicWatchResult(tuple(sent), growth, False, tuple(refused), _notes(now, growth))

    def _check_position(self, position: TopicPosition) -> TopicPosition:
        """Raises:
        ConflictError: it is of another topic or measure.
        """
        if (position.topic, position.measure) != (self.topic, self.measure):
            raise ConflictError(
                f"bookmark {self.bookmark} counts {position.measure} of topic '{position.topic}', and not "
                f"{self.measure} of '{self.topic}': delete it to begin anew, or give each a stream of its own"
            )
        return position

    def _send(self, unsent: UnsentGrowth, sent: list[UnsentGrowth], refused: list[str]) -> None:
        draft = stream_size(self.stream, unsent.amount, absolute=False, event_id=unsent.event_id)
        try:
            self._emitter.emit(draft)
        except RefusedError as exc:
            refused.append(f"{unsent.event_id}: {exc}")
        else:
            sent.append(unsent)

    def _mark(self, position: TopicPosition, revision: int) -> int | None:
        """The new revision; None when another watcher set the bookmark meanwhile."""
        try:
            return self._bookmarks.set(self.bookmark, position.text(), revision)
        except ConflictError:
            return None


def _notes(now: TopicSize, growth: Growth) -> tuple[str, ...]:
    notes: list[str] = []
    if growth.recreated:
        notes.append("the topic was deleted and created again: all of the new one is growth")
    if growth.added:
        notes.append(f"partitions were added: {_join_numbers(growth.added)}")
    if now.away:
        notes.append(f"not measured now, counted later: partitions {_join_numbers(now.away)}, whose leader is away")
    if growth.estimated:
        notes.append(f"{growth.estimated} bytes are an estimate: retention or compaction deleted records meanwhile")
    return tuple(notes)


def _join_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:20])) + (" …" if len(numbers) > 20 else "")
