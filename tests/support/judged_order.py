"""The order in which a schedule must judge the signals that came to its home: a model of what holds them back.

That it is the right order is said without the model, by `judge_order` (promise G16).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from heapq import merge
from typing import NamedTuple

from streamsched.domain.fold.plan import build_plan
from streamsched.domain.signals.barrier import Barrier, Stage
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal, Woken
from streamsched.domain.triggers.trigger import event_keys
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
        ordered: the ids of the events among it whose order was known.
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._put: Put | None = None
        self._waiting: list[_Waiting] = []
        self._answers: Counter[int] = Counter()
        self._over: set[int] = set()
        self.judged: list[Stamped] = []
        self.ordered: list[str] = []

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
    def _homes(self) -> set[int]:
        return set() if self._put is None else {home(key, self._shards) for key in event_keys(self._put.trigger)}

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
            known = len(self.judged)
            self._judge_until(datetime.fromtimestamp(barrier.frontier_ms / 1000, UTC))
            if barrier.stage is not Stage.LAPSED:
                judged = (signal for _, signal in self.judged[known:] if isinstance(signal, Occurred))
                self.ordered += [signal.event.id for signal in judged]

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
                self._put = signal
            case Drop(generation=generation) if before is not None and generation >= before.generation:
                self._put = None
            case _:
                pass


def judged_order(signals: Sequence[Arrived], barriers: Sequence[Arrived], shards: int) -> JudgedOrder:
    """What a schedule has judged, with the time as of which, in this order."""
    order = JudgedOrder(shards)
    for number, (_, at, what) in enumerate(merge(signals, barriers, key=lambda each: each.place)):
        order.tell(number, at, what)
    return order


def judge_order(schedule: str, order: JudgedOrder, sent: Mapping[str, Sent], into: Judgement) -> None:
    """What was acknowledged before another event was sent is judged before it. `sent`: of events sent once."""
    latest: tuple[datetime, str] | None = None
    for name in order.ordered:
        if name not in sent:
            continue
        sent_at, acked_at = sent[name]
        if latest is not None and acked_at < latest[0]:
            into.spoil(f"{schedule} judged {name} after {latest[1]}, which was sent when it had been acknowledged")
        latest = max(latest or (sent_at, name), (sent_at, name))
