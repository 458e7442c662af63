"""First station: events of any dialect from the public topics, each sent on to the home of what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from streamsched.codec import event as event_codec
from streamsched.codec import express
from streamsched.codec import signal as signal_codec
from streamsched.codec.event import LOG_ID
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.home import home
from streamsched.domain.lateness import SHORTEST
from streamsched.domain.signal import IN_TIME, Occurred
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import SIGNALS
from streamsched.stream.emission import Emit, dead_letter, unforeseen
from streamsched.stream.ledger import Ledger
from streamsched.stream.memo import Memo

log = structlog.get_logger()

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Ingest:
    """Decodes, checks and re-keys. Whatever partition or key a producer chose, an event goes to its own home.

    An event about something nobody listens to is no error: that is decided at its home.
    """

    def __init__(self, *, shard: int, shards: int, emit: Emit, memo: Memo, ledger: Ledger | None = None) -> None:
        self._shard = shard
        self._shards = shards
        self._emit = emit
        self._memo = memo
        self._ledger = ledger

    def take(self, chunk: Chunk) -> None:
        """Sends every event of the chunk on in order; what cannot be read becomes a dead letter and stops nobody."""
        shards, emit, remember = self._shards, self._emit, self._memo.put
        stamp, arrived, in_time = -1, _EPOCH, _EPOCH
        for record in chunk.records:
            if record.time_ms != stamp:  # many records share the time of one append
                stamp, arrived = record.time_ms, _EPOCH + timedelta(milliseconds=record.time_ms)
                in_time = arrived - SHORTEST
            raw = record.value or b""
            try:
                usual = express.occurred(raw)
                if usual is not None:
                    key, signal = usual
                    if signal.event.time <= in_time:
                        signal = Occurred(signal.event, _delay(arrived, signal.event.time))
                        raw = signal_codec.delayed(raw, signal.delay)
                    remember(raw, signal)
                else:
                    key, raw = self._signal(chunk, record, arrived)
            except InvalidError as error:
                dead_letter(emit, self._shard, chunk, record, error, ledger=self._ledger)
            except Exception as failure:
                log.exception("record.refused", topic=chunk.topic, partition=chunk.partition, offset=record.offset)
                dead_letter(emit, self._shard, chunk, record, unforeseen(failure), ledger=self._ledger)
            else:
                emit(SIGNALS, home(key, shards), key, raw)
        if self._ledger is not None:
            self._ledger.close()

    def _signal(self, chunk: Chunk, record: Record, arrived: datetime) -> tuple[bytes, bytes]:
        raw = record.value
        if raw is None:
            raise DecodeError("$", "is empty: a record of a public topic must carry an event")
        event = event_codec.decode(
            raw, fallback_id=f"{LOG_ID}{chunk.topic}/{chunk.partition}/{record.offset}", fallback_time=arrived
        )
        signal = Occurred(event, _delay(arrived, event.time))
        if not signal_codec.says_occurred(raw):
            key, value = signal_codec.encode(signal)
        else:
            key, value = event.key.encode(), signal_codec.delayed(raw, signal.delay) if signal.delay else raw
        self._memo.put(value, signal)
        return key, value


def _delay(arrived: datetime, happened: datetime) -> timedelta:
    """As exactly as it travels, so that who remembers the signal and who reads it judge alike."""
    delay = arrived - happened
    return delay // _MILLISECOND * _MILLISECOND if delay >= SHORTEST else IN_TIME
