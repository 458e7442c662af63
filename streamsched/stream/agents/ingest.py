"""The ingest agent: decodes events of any dialect from the public topics and takes each to the home of its event key.

A trace context in the event goes before one in the record's header.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

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


class Deliver(Protocol):
    """Takes an event to the home of its key."""

    def __call__(self, home: int, key: bytes, value: bytes, signal: Occurred) -> None:
        """`value`: that of the signal.

        Raises:
            DecodeError: what the home knows of the key cannot be read; nothing has changed.
        """
        ...


class _Stamp(NamedTuple):
    """What the events of an append share.

    Attributes:
        time_ms: the log time of their records; `is_one`: whether it can be one.
        arrived, logged_ms: when they have arrived.
        in_time: an event that happened until then is late.
        prefix: the beginning of their signals.
    """

    time_ms: int
    is_one: bool
    arrived: datetime
    in_time: datetime
    logged_ms: int
    prefix: bytes


_UNKNOWN_STAMP: Final = _Stamp(-1, False, _EPOCH, _EPOCH, 0, b"")


class Ingest:
    """Takes each event to the home of its key, whatever partition or key the producer chose: in the same turn if that
    is this shard, otherwise through `signals`. Events without listeners too: the event home knows the listeners.

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
        deliver: Deliver,
        collector: VerdictCollector | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`shard`: the partition for dead letters."""
        self._clock = clock
        self._shard = shard
        self._shards = shards
        self._emit = emit
        self._decoder = decoder
        self._deliver = deliver
        self._collector = collector
        self._now = self._future = _NEVER
        self._stamp = _UNKNOWN_STAMP

    def begin(self) -> datetime:
        """Call it before the first record of a chunk: looks at the clock. Returns the last instant that a record can
        have.
        """
        if self._clock is not None:
            self._now = self._clock.now()
            self._future = add_duration(self._now, _AHEAD)
        self._stamp = _UNKNOWN_STAMP
        return self._future

    def process(self, chunk: Chunk, record: Record) -> None:
        """Takes the event of a record of the chunk. A record that cannot be decoded becomes a dead letter."""
        stamp = self._stamp
        if record.time_ms != stamp.time_ms:  # the records of one append have the same time
            stamp = self._stamp = self._stamp_of(record)
        raw = record.value or b""
        try:
            if not stamp.is_one:
                raise DecodeError("$", _UNSTAMPED.format(record.time_ms))
            usual = fast_path.read_occurred(raw, stamp.logged_ms)
            if usual is not None and record.traceparent is None:
                key, signal = usual
                if signal.event.time <= stamp.in_time:
                    signal = signal._replace(delay=_delay(stamp.arrived, signal.event.time))
                    raw = signal_codec.add_delay(raw, signal.delay)
                raw = signal_codec.add_logged(raw, stamp.prefix)
            else:
                key, raw, signal = self._signal(chunk, record, stamp.arrived, stamp.logged_ms)
            self._decoder.remember(raw, signal)
            self._deliver(home(key, self._shards), key, raw, signal)
        except InvalidError as error:
            dead_letter(self._emit, self._shard, chunk, record, error, collector=self._collector)
        except Exception as failure:
            log.exception("record.refused", topic=chunk.topic, partition=chunk.partition, offset=record.offset)
            dead_letter(self._emit, self._shard, chunk, record, internal_error(failure), collector=self._collector)

    def _stamp_of(self, record: Record) -> _Stamp:
        arrived = record.at if record.at <= self._future else self._now
        logged_ms = (arrived - _EPOCH) // _MILLISECOND
        prefix = signal_codec.logged_prefix(logged_ms)
        in_time = add_duration(arrived, -SHORTEST)
        return _Stamp(record.time_ms, record.is_stamped, arrived, in_time, logged_ms, prefix)

    def _signal(self, chunk: Chunk, record: Record, arrived: datetime, logged_ms: int) -> tuple[bytes, bytes, Occurred]:
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
        return key, value, signal


def _delay(arrived: datetime, happened: datetime) -> timedelta:
    """Rounded to milliseconds as it is encoded, so that a cached signal equals the decoded one."""
    delay = arrived - happened
    return delay // _MILLISECOND * _MILLISECOND if delay >= SHORTEST else IN_TIME
