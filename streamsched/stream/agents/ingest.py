"""The ingest agent: decodes events of any dialect from the public topics and re-keys each by its event key.

A trace context in the event goes before one in the record's header.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from streamsched.codec import event as event_codec
from streamsched.codec.events import fast_path
from streamsched.codec.events.native import LOG_ID
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.clock_judge import TOLERANCE
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.lateness import SHORTEST
from streamsched.domain.events.trace_context import canonical
from streamsched.domain.limits import add_duration
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import IN_TIME, Occurred
from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.clock import Clock
from streamsched.stream.agents.emission import Emit, dead_letter, internal_error
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.stream.agents.verdict_collector import VerdictCollector

log = structlog.get_logger()

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
#: A record with a log time further in the future has it from a clock that has jumped.
_AHEAD: Final = TOLERANCE
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
#: Such a time would make every event late, and the ids of all others forgotten.
_UNSTAMPED: Final = (
    "its record has the time {}, which is none in milliseconds since 1970: the producer stamps its records, which the "
    "topic must not permit (message.timestamp.type=LogAppendTime)"
)


class Ingest:
    """Emits each event to `signals`, in the partition of its event key's home, whatever partition or key the producer
    chose. Events without listeners are emitted too: the event home knows the listeners.

    A record from the future by `clock`, such as one that a client appended while the log's clock had jumped, has
    arrived now: it makes no event late.
    """

    def __init__(
        self,
        *,
        shard: int,
        shards: int,
        emit: Emit,
        decoder: SignalDecoder,
        collector: VerdictCollector | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock
        self._shard = shard
        self._shards = shards
        self._emit = emit
        self._decoder = decoder
        self._collector = collector

    def process(self, chunk: Chunk) -> None:
        """Emits every event of the chunk in order. A record that cannot be decoded becomes a dead letter."""
        shards, emit, remember = self._shards, self._emit, self._decoder.remember
        stamp, arrived, in_time, stamped, logged_ms, prefix = None, _EPOCH, _EPOCH, False, 0, b""
        now = _NEVER if self._clock is None else self._clock.now()
        future = add_duration(now, _AHEAD)
        for record in chunk.records:
            if record.time_ms != stamp:  # the records of one append have the same time
                stamp, arrived, stamped = record.time_ms, record.at, record.is_stamped
                arrived = arrived if arrived <= future else now
                in_time = add_duration(arrived, -SHORTEST)
                logged_ms = (arrived - _EPOCH) // _MILLISECOND
                prefix = signal_codec.logged_prefix(logged_ms)
            raw = record.value or b""
            try:
                if not stamped:
                    raise DecodeError("$", _UNSTAMPED.format(stamp))
                usual = fast_path.read_occurred(raw, logged_ms)
                if usual is not None and record.traceparent is None:
                    key, signal = usual
                    if signal.event.time <= in_time:
                        signal = signal._replace(delay=_delay(arrived, signal.event.time))
                        raw = signal_codec.add_delay(raw, signal.delay)
                    raw = signal_codec.add_logged(raw, prefix)
                    remember(raw, signal)
                else:
                    key, raw = self._signal(chunk, record, arrived, logged_ms)
            except InvalidError as error:
                dead_letter(emit, self._shard, chunk, record, error, collector=self._collector)
            except Exception as failure:
                log.exception("record.refused", topic=chunk.topic, partition=chunk.partition, offset=record.offset)
                dead_letter(emit, self._shard, chunk, record, internal_error(failure), collector=self._collector)
            else:
                emit(SIGNALS, home(key, shards), key, raw)

    def _signal(self, chunk: Chunk, record: Record, arrived: datetime, logged_ms: int) -> tuple[bytes, bytes]:
        raw = record.value
        if raw is None:
            raise DecodeError("$", "is empty: a record of a public topic must contain an event")
        event = event_codec.decode(
            raw, fallback_id=f"{LOG_ID}{chunk.topic}/{chunk.partition}/{record.offset}", fallback_time=arrived
        )
        if event.traceparent is None and record.traceparent is not None:
            context = canonical(record.traceparent.decode(errors="replace"))
            if context is not None:
                event = replace(event, traceparent=context)
                raw = event_codec.encode(event)
        signal = Occurred(event, _delay(arrived, event.time), logged_ms=logged_ms)
        if not signal_codec.says_occurred(raw):
            key, value = signal_codec.encode(signal)
        else:
            key, value = event.key.encode(), signal_codec.add_delay(raw, signal.delay) if signal.delay else raw
            value = signal_codec.add_logged(value, signal_codec.logged_prefix(logged_ms))
        self._decoder.remember(value, signal)
        return key, value


def _delay(arrived: datetime, happened: datetime) -> timedelta:
    """Rounded to milliseconds as it is encoded, so that a cached signal equals the decoded one."""
    delay = arrived - happened
    return delay // _MILLISECOND * _MILLISECOND if delay >= SHORTEST else IN_TIME
