"""What came to the home of a schedule, by topics `signals` and `judged` together, and the order in which the schedule
must judge it: a model of what holds signals back.

That it is the right order is said without the model, by `judge_order` (promise G16).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from streamsched.codec.records import barrier as barrier_codec
from streamsched.codec.records import judged as judged_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records.judged import JudgedAt
from streamsched.domain.fold.plan import build_plan
from streamsched.domain.signals.barrier import Barrier, Stage
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal, Woken
from streamsched.domain.triggers.trigger import event_keys
from streamsched.log.topics import JUDGED
from streamsched.ports.broker import Record
from tests.support.judgement import Judgement
from tests.support.rerun import Stamped


class Arrived(NamedTuple):
    """A signal, or a barrier of the same partition: when its home has met it, and as of which log time.

    Attributes:
        place: of a record of `signals` (offset, 1, 0), of one of `judged` (position in `signals`, 0, offset).
    """

    place: tuple[int, int, int]
    at: datetime
    what: Signal | Barrier


def read_signal(topic: str, key: bytes, value: bytes) -> tuple[JudgedAt | None, Signal]:
    """The signal of a record of `signals` or `judged`; of the latter, at which moment it was judged."""
    moment, value = judged_codec.decode(value) if topic == JUDGED else (None, value)
    return moment, signal_codec.decode(key, value)


def read_arrived(topic: str, record: Record, shards: int) -> Arrived:
    """What a record of `signals` or `judged` brought to its home."""
    key, value = record.key or b"", record.value or b""
    if key.startswith(b"barrier:"):
        return Arrived((record.offset, 1, 0), record.at, barrier_codec.decode(value, shards=shards))
    moment, signal = read_signal(topic, key, value)
    if moment is None:
        return Arrived((record.offset, 1, 0), record.at, signal)
    at = datetime.fromtimestamp(moment.time_ms / 1000, UTC)
    return Arrived((moment.position, 0, record.offset), at, signal)


def in_order(arrived: Iterable[Arrived]) -> list[Arrived]:
    """What came to one partition, as its home has met it."""
    return sorted(arrived, key=lambda each: each.place)


def stamped(arrived: Iterable[Arrived]) -> list[Stamped]:
    """The signals among it, as their home has met them, with the time of each."""
    return [(each.at, each.what) for each in in_order(arrived) if not isinstance(each.what, Barrier)]


class Sent(NamedTuple):
    """When an event was sent, and when it was acknowledged."""

    sent_at: datetime
    acked_at: datetime


class _Waiting(NamedTuple):
    at: datetime
    happened_at: datetime
    number: int
    signal: Signal


class JudgedOrder:
    """Told what a partition has, it says what one schedule has judged, and as of when.

    Attributes:
        judged: all of it.
        ordered: the ids of the events of its keys among it whose order was known; apart those before and after a
            definition with other keys, whose events the one before did not wait for.
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._put: Put | None = None
        self._waiting: list[_Waiting] = []
        self._answers: Counter[int] = Counter()
        self._over: set[int] = set()
        self.judged: list[Stamped] = []
        self.ordered: list[list[str]] = [[]]
        self._listens_anew = False

    def tell(self, number: int, at: datetime, what: Signal | Barrier) -> None:
        """The next record of the partition that is of this schedule, or a barrier. `number`: larger with each."""
        if isinstance(what, Barrier):
            self._pass(what)
        elif self._waiting or (isinstance(what, Occurred | Woken) and self._needs_order):
            happened_at = datetime.max.replace(tzinfo=UTC)
            if isinstance(what, Occurred) and what.logged_ms:
                at = datetime.fromtimestamp(what.logged_ms / 1000, UTC)
                happened_at = happened_at if what.delay else what.event.time
            self._waiting.append(_Waiting(at, happened_at, number, what))
        else:
            self._judge(at, what)
        while self._waiting and not self._homes:  # no event can come any more
            self._judge_until(max(each.at for each in self._waiting))

    @property
    def _needs_order(self) -> bool:
        put = self._put
        return put is not None and (put.enabled or put.keep) and build_plan(put.trigger).needs_order

    @property
    def _keys(self) -> frozenset[str]:
        return frozenset() if self._put is None else event_keys(self._put.trigger)

    @property
    def _homes(self) -> set[int]:
        return {home(key, self._shards) for key in self._keys}

    def _pass(self, barrier: Barrier) -> None:
        number = barrier.round
        self._answers[number] += barrier.stage is Stage.ANSWERED
        answered = self._answers[number] == self._shards * len(barrier.homes)
        if barrier.stage is Stage.LAPSED or (barrier.stage is Stage.ANSWERED and answered):
            if number in self._over:
                return
            self._over.add(number)
        elif barrier.stage is not Stage.CONTINUED:
            return
        if self._homes <= set(barrier.homes):
            known, keys = len(self.judged), self._keys
            if self._listens_anew:
                self.ordered.append([])
                self._listens_anew = False
            self._judge_until(datetime.fromtimestamp(barrier.frontier_ms / 1000, UTC))
            if barrier.stage is not Stage.LAPSED:
                judged = (signal.event for _, signal in self.judged[known:] if isinstance(signal, Occurred))
                self.ordered[-1] += [event.id for event in judged if event.key in keys]

    def _judge_until(self, until: datetime) -> None:
        for each in sorted(each for each in self._waiting if each.at <= until):
            self._waiting.remove(each)
            self._judge(each.at, each.signal)
            if isinstance(each.signal, Put):
                return

    def _judge(self, at: datetime, signal: Signal) -> None:
        self.judged.append((at, signal))
        before = self._put
        match signal:
            case Put(generation=generation) if before is None or generation > before.generation:
                known, self._put = self._keys, signal
                self._listens_anew |= not self._keys <= known
            case Drop(generation=generation) if before is not None and generation >= before.generation:
                self._put = None
            case _:
                pass


def judged_order(signals: Iterable[Arrived], barriers: Iterable[Arrived], shards: int) -> JudgedOrder:
    """What a schedule has judged, with the time as of which, in this order."""
    order = JudgedOrder(shards)
    for number, (_, at, what) in enumerate(in_order([*signals, *barriers])):
        order.tell(number, at, what)
    return order


def judge_order(schedule: str, order: JudgedOrder, sent: Mapping[str, Sent], into: Judgement) -> None:
    """What was acknowledged before another event was sent is judged before it. `sent`: of events sent once."""
    for names in order.ordered:
        latest: tuple[datetime, str] | None = None
        for name in names:
            if name not in sent:
                continue
            sent_at, acked_at = sent[name]
            if latest is not None and acked_at < latest[0]:
                into.spoil(f"{schedule} judged {name} after {latest[1]}, which was sent when it had been acknowledged")
            latest = max(latest or (sent_at, name), (sent_at, name))
