"""When a public record has arrived: at its log time, unless a clock that has jumped says the future."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import DEAD_LETTER, SIGNALS
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.ingest import Ingest
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.testing.clock import SettableClock

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("logged", "delay"),
    [
        (timedelta(0), HOUR),
        (timedelta(seconds=4), HOUR + timedelta(seconds=4)),  # clocks of machines differ a little
        (timedelta(days=365), HOUR),
        (timedelta(minutes=-30), HOUR / 2),  # it waited in the log
    ],
)
def test_a_record_from_the_future_has_arrived_now(logged: timedelta, delay: timedelta) -> None:
    """Else every event of a wrong minute would be late by a year."""
    emitted: list[tuple[bytes | None, bytes | None]] = []
    ingest = Ingest(
        shard=0,
        shards=1,
        emit=lambda topic, partition, key, value: None,
        decoder=SignalDecoder(),
        deliver=lambda home, key, value, signal: emitted.append((key, value)),
        clock=SettableClock(NOW),
    )
    happened = (NOW - HOUR).isoformat()
    event = {"id": "e", "source": "s", "time": happened, "type": "custom", "data": {"name": "default.x"}}
    time_ms = int((NOW + logged).timestamp() * 1000)

    record = Record(0, None, orjson.dumps(event), time_ms)

    ingest.begin()
    ingest.process(Chunk("events", 0, [record], 1), record)

    ((key, raw),) = emitted
    assert key is not None
    assert raw is not None
    signal = signal_codec.decode(key, raw)
    assert isinstance(signal, Occurred)
    assert signal.delay == delay


@pytest.mark.parametrize("time_ms", [int(NOW.timestamp() * 1_000_000), 1 << 62, -1])
def test_a_record_with_a_time_that_is_none_is_one_dead_letter(time_ms: int) -> None:
    """Microseconds instead of milliseconds failed the whole turn, again and again."""
    emitted: list[tuple[str, bytes | None]] = []
    ingest = Ingest(
        shard=0,
        shards=1,
        emit=lambda topic, partition, key, value: emitted.append((topic, value)),
        decoder=SignalDecoder(),
        deliver=lambda home, key, value, signal: emitted.append((SIGNALS, value)),
        clock=SettableClock(NOW),
    )
    event = {"id": "e", "source": "s", "time": NOW.isoformat(), "type": "custom", "data": {"name": "default.x"}}
    good = int(NOW.timestamp() * 1000)

    records = [Record(n, None, orjson.dumps(event), at) for n, at in enumerate((good, time_ms, good))]

    ingest.begin()
    for record in records:
        ingest.process(Chunk("events", 0, records, 3), record)

    assert [topic for topic, _ in emitted] == [SIGNALS, DEAD_LETTER, SIGNALS]
    letter = orjson.loads(emitted[1][1] or b"")
    assert (letter["offset"], letter["time_ms"]) == (1, time_ms)
    assert "LogAppendTime" in letter["reason"]
