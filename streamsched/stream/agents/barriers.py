"""The barriers of a shard: it asks for them while signals wait for their order, and passes on those of others.

`domain.signals.barrier` says what they prove. What a shard remembers of them is one reserved record of the triggers
changelog, written in the turn that changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from streamsched.codec.records import barrier as barrier_codec
from streamsched.domain.errors import InvalidError
from streamsched.domain.signals.barrier import Barrier, Round, Stage, begin_round
from streamsched.log.topics import BARRIERS_KEY, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Chunk, Outgoing, Record, TopicPartition
from streamsched.stream import barrier_state
from streamsched.stream.agents.arrival_order import ArrivalOrder
from streamsched.stream.agents.emission import Emit, dead_letter, internal_error
from streamsched.stream.barrier_state import BarrierState, Passing

log = structlog.get_logger()

#: The number of waiting signals judged in one turn; the rest follows in the next turns.
JUDGED: Final = 1_000
#: What the verdict of an event says that was judged before all answers had come.
ORDER_UNKNOWN: Final = "order unknown: a shard did not say in time that it has no earlier event"


class Barriers:
    """What a shard asks for, and what it has been asked for."""

    def __init__(
        self, *, shard: int, shards: int, emit: Emit, order: ArrivalOrder, dead_letters: int, patience_s: float
    ) -> None:
        """`dead_letters`: the partition for dead letters. `patience_s`: how long a round waits for its answers."""
        self._shard = shard
        self._shards = shards
        self._emit = emit
        self._order = order
        self._dead_letters = dead_letters
        self._patience_s = patience_s
        self._number = 0
        self._round: Round | None = None
        #: By asker: it waits for its latest barrier only.
        self._passing: dict[int, Passing] = {}
        #: Those of this turn, whose ends are not known yet.
        self._asked: dict[int, Barrier] = {}
        self._changed = False
        self._met = False
        #: The round for which it waits, 0 for the next one, and until when by its own clock.
        self._waiting: tuple[int, float] | None = None

    def restore(self, raw: bytes) -> None:
        """What was remembered when the shard stopped.

        Raises:
            DecodeError: it is of an unknown version.
        """
        self._number, self._round, passing = barrier_state.decode(raw, shards=self._shards)
        self._passing = {each.barrier.asker: each for each in passing}

    def process(self, chunk: Chunk, record: Record) -> None:
        """Processes one barrier of the chunk. One that cannot be read becomes a dead letter."""
        self._met = True
        try:
            barrier = barrier_codec.decode(record.value or b"", shards=self._shards)
        except InvalidError as error:
            dead_letter(self._emit, self._dead_letters, chunk, record, error, collector=None)
            return
        match barrier.stage:
            case Stage.ASKED:
                self._asked[barrier.asker] = barrier
            case Stage.PASSED:
                self._send(barrier._replace(stage=Stage.ANSWERED), barrier.asker)
            case Stage.ANSWERED | Stage.LAPSED | Stage.CONTINUED:
                self._advance(barrier)

    def refuse(self, chunk: Chunk, record: Record, failure: BaseException) -> None:
        """A barrier that fails every turn, and is the only record of this one. When it is the one that lets signals of
        the round in flight be judged, what comes of them cannot be committed: they are judged one by one then, and the
        one that fails is parked with its schedule. Any other becomes a dead letter.
        """
        now, found = self._round, barrier_codec.decode(record.value or b"", shards=self._shards)
        if now is None or not self._is_of_round(found) or (after := now.advance(found)).missing:
            dead_letter(self._emit, self._dead_letters, chunk, record, internal_error(failure), collector=None)
            return
        barrier = now.barrier
        if now.singly:
            self._order.refuse_first(frozenset(barrier.homes), barrier.frontier_ms, failure)
        self._round, self._changed = after._replace(singly=True), True
        self._send(barrier._replace(stage=Stage.CONTINUED), self._shard)

    @property
    def needs_ends(self) -> bool:
        """Whether a barrier was asked for whose ends are not known yet."""
        return bool(self._asked)

    def had_barriers(self) -> bool:
        """Whether there was a barrier since the last call, or a round is in flight: others wait for what this shard
        reads next.
        """
        met, self._met = self._met or self._round is not None, False
        return met

    def set_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Where the shard's public partitions end, read after the barriers came."""
        self._passing |= {asker: Passing(barrier, dict(ends)) for asker, barrier in self._asked.items()}
        self._asked.clear()
        self._changed = True

    def end_turn(self, positions: Mapping[TopicPartition, int]) -> None:
        """Passes on what the positions of this turn allow, begins a round if signals wait, and remembers both. Call
        it when the turn has emitted all else.
        """
        if self._passing:
            self._pass_on(positions)
        while self._round is None and (homes := self._order.homes_to_ask()) is not None:
            self._number += 1
            self._round = begin_round(self._number, self._shard, homes, self._order.newest_ms, shards=self._shards)
            self._changed = True
            if homes:
                self._send(self._round.barrier, *range(self._shards))
            else:
                self._judge(self._round)
        if self._changed:
            state = BarrierState(self._number, self._round, tuple(self._passing.values()))
            self._emit(TRIGGERS_CHANGELOG, self._shard, BARRIERS_KEY, barrier_state.encode(state))
            self._changed = False

    def lapse(self, now_s: float) -> Outgoing | None:
        """The record to commit when a round has waited too long for its answers, or when signals wait and no turn
        has begun a round, as after a resharding. `now_s`: seconds by any clock that does not jump.
        """
        now = self._round
        if now is not None and now.missing:
            barrier, patience_s = now.barrier._replace(stage=Stage.LAPSED), self._patience_s
        elif now is None and self._order.waits:
            barrier, patience_s = Barrier(Stage.LAPSED, self._shard, 0, (), 0), 0.0
        else:
            return None
        if self._waiting is None or self._waiting[0] != barrier.round:
            self._waiting = (barrier.round, now_s + patience_s)
        if now_s < self._waiting[1]:
            return None
        self._waiting = (barrier.round, now_s + self._patience_s)
        if now is not None:
            log.warning("shard.order_unknown", shard=self._shard, round=barrier.round, missing=now.missing)
        return Outgoing(SIGNALS, self._shard, *barrier_codec.encode(barrier))

    def _pass_on(self, positions: Mapping[TopicPartition, int]) -> None:
        for asker, (barrier, ends) in list(self._passing.items()):
            if all(positions.get(at, end) >= end for at, end in ends.items()):
                self._send(barrier._replace(stage=Stage.PASSED), *barrier.homes)
                del self._passing[asker]
                self._changed = True

    def _advance(self, barrier: Barrier) -> None:
        """One more record of the round in flight; of any other it is nothing."""
        before = self._round
        if before is None or not self._is_of_round(barrier):
            return
        after = before.advance(barrier)
        if after is not before:
            self._round, self._changed = after, True
        if not after.missing and (after is not before or barrier.stage is Stage.CONTINUED):
            self._judge(after)

    def _is_of_round(self, barrier: Barrier) -> bool:
        """Whether it came back to its asker, this shard, in the round in flight."""
        now, came_back = self._round, barrier.stage not in (Stage.ASKED, Stage.PASSED)
        return now is not None and came_back and (barrier.asker, barrier.round) == (self._shard, now.barrier.round)

    def _judge(self, now: Round) -> None:
        """Judges what the round allows, in this turn or in more."""
        barrier = now.barrier
        remark, most = ORDER_UNKNOWN if now.lapsed else "", 1 if now.singly else JUDGED
        if self._order.judge(frozenset(barrier.homes), barrier.frontier_ms, most, remark):
            self._send(barrier._replace(stage=Stage.CONTINUED), self._shard)
        else:
            self._round, self._changed = None, True

    def _send(self, barrier: Barrier, *shards: int) -> None:
        key, value = barrier_codec.encode(barrier)
        for shard in shards:
            self._emit(SIGNALS, shard, key, value)
