"""Ingest gives an event the context of its record's header, unless it has one of its own."""

from __future__ import annotations

import orjson
import pytest

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.signals.signal import Occurred
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.ingest import Ingest
from streamsched.stream.agents.signal_decoder import SignalDecoder

CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
EVENT = {
    "id": "e1",
    "source": "test",
    "time": "2013-01-07T00:00:00Z",
    "type": "partitions.added",
    "data": {"dataset": "default.flights", "partitions": [{"key": "day=7", "values": {"day": "7"}}], "count": 1},
}


@pytest.mark.parametrize(
    ("own", "header", "found"),
    [
        (None, None, None),
        (None, CONTEXT.encode(), CONTEXT),
        (OTHER, CONTEXT.encode(), OTHER),
        (None, b"\xff no context", None),
        ("no context", CONTEXT.encode(), CONTEXT),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_record_with_a_header(own: str | None, header: bytes | None, found: str | None, *, named: bool) -> None:
    body = {name: value for name, value in EVENT.items() if named or name not in ("id", "source")}
    value = orjson.dumps(body | ({} if own is None else {"traceparent": own}))
    emitted: list[tuple[bytes | None, bytes | None]] = []
    decoder = SignalDecoder()
    ingest = Ingest(
        shard=0,
        shards=1,
        emit=lambda topic, partition, key, value: None,
        decoder=decoder,
        deliver=lambda home, key, value, signal: emitted.append((key, value)),
    )
    record = Record(5, None, value, 1357516800000, header)

    ingest.process(Chunk("partitions", 0, [record], 6), record)

    ((key, raw),) = emitted
    assert key is not None
    assert raw is not None
    signal = signal_codec.decode(key, raw)
    assert isinstance(signal, Occurred)
    assert signal.event.traceparent == found
    cached = decoder.find(raw)
    assert cached is None or cached == signal
