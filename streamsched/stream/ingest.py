"""First station: events of any dialect from the public topics, each sent on to the home of what it is about."""

from __future__ import annotations

from datetime import UTC, datetime

from streamsched.codec import event as event_codec
from streamsched.codec import express
from streamsched.codec import signal as signal_codec
from streamsched.codec.event import LOG_ID
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.home import home
from streamsched.domain.signal import Occurred
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import SIGNALS
from streamsched.stream.emission import Emit, dead_letter
from streamsched.stream.ledger import Ledger
from streamsched.stream.memo import Memo


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
        for record in chunk.records:
            raw = record.value or b""
            usual = express.occurred(raw)
            if usual is not None:
                key, signal = usual
                remember(raw, signal)
                emit(SIGNALS, home(key, shards), key, raw)
                continue
            try:
                key, value = self._signal(chunk, record)
            except InvalidError as error:
                dead_letter(emit, self._shard, chunk, record, error, ledger=self._ledger)
            else:
                emit(SIGNALS, home(key, shards), key, value)
        if self._ledger is not None:
            self._ledger.close()

    def _signal(self, chunk: Chunk, record: Record) -> tuple[bytes, bytes]:
        raw = record.value
        if raw is None:
            raise DecodeError("$", "is empty: a record of a public topic must carry an event")
        event = event_codec.decode(
            raw,
            fallback_id=f"{LOG_ID}{chunk.topic}/{chunk.partition}/{record.offset}",
            fallback_time=datetime.fromtimestamp(record.time_ms / 1000, UTC),
        )
        signal = Occurred(event)
        key, value = (event.key.encode(), raw) if signal_codec.says_occurred(raw) else signal_codec.encode(signal)
        self._memo.put(value, signal)
        return key, value
