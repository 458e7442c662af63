"""Decodes the signals of a process, each event once on its way through the homes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from streamsched.codec.events import fast_path
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.signals.signal import Occurred, Signal

#: Bytes of encoded events per generation; two generations are kept. A decoded event takes five to thirty times as much.
_GENERATION_BYTES: Final = 2 << 20
#: Encoded bytes from which an event is large. Large events are kept for `_LARGE_S` seconds, which is longer than their
#: way through the agents takes, and no more of them than `_LARGE_BYTES`: one of 4 MB is 100 MB of decoded objects.
_LARGE: Final = 128 << 10
_LARGE_S: Final = 10.0
_LARGE_BYTES: Final = 16 << 20


class SignalDecoder:
    """Decodes signals, and remembers recent events by their bytes. Decoding is pure, so what it forgets affects speed
    only.

    Shared by all shards of a worker, on one event loop: an event passes through up to three of them in the same bytes.
    """

    def __init__(
        self, generation_bytes: int = _GENERATION_BYTES, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = generation_bytes
        self._clock = clock
        self._young: dict[bytes, Occurred] = {}
        self._old: dict[bytes, Occurred] = {}
        self._size = 0
        self._large: dict[bytes, tuple[float, Occurred]] = {}

    def decode(self, key: bytes, value: bytes | None) -> Signal:
        """The signal of a record of topic `signals`.

        Raises:
            DecodeError: it is none.
        """
        if value is None:
            raise DecodeError("$", "is empty: a signal must have a value")
        known = self.find(value)
        if known is not None:
            return known
        logged_ms, plain = signal_codec.split_logged(value)
        usual = fast_path.read_occurred(plain, logged_ms) if plain.startswith(fast_path.BEGINS) else None
        signal = usual[1] if usual is not None else signal_codec.decode(key, value)
        if isinstance(signal, Occurred):  # every listener gets the same bytes
            self.remember(value, signal)
        return signal

    def remember(self, value: bytes, signal: Occurred) -> None:
        """Adds an event. When the young generation is full, the old one is dropped as a whole."""
        if self._large:
            self._drop_expired()
        if len(value) > _LARGE:
            self._put_large(value, signal)
            return
        self._young[value] = signal
        self._size += len(value)
        if self._size > self._limit:
            self._old, self._young, self._size = self._young, {}, 0

    def find(self, value: bytes) -> Occurred | None:
        """The event of these bytes; None when it is not remembered."""
        if self._large:
            self._drop_expired()
            if value in self._large:
                return self._large[value][1]
        return self._young.get(value) or self._old.get(value)

    def _put_large(self, value: bytes, signal: Occurred) -> None:
        self._large.pop(value, None)
        while self._large and len(value) + sum(map(len, self._large)) > _LARGE_BYTES:
            del self._large[next(iter(self._large))]
        self._large[value] = (self._clock() + _LARGE_S, signal)

    def _drop_expired(self) -> None:
        now = self._clock()
        for value in [value for value, (until, _) in self._large.items() if until <= now]:
            del self._large[value]
