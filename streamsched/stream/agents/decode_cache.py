"""Recently decoded events by their bytes, so that the agents of a process decode each event once."""

from __future__ import annotations

from typing import Final

from streamsched.domain.signals.signal import Occurred

#: Bytes of encoded events per generation; two generations are kept.
_GENERATION_BYTES: Final = 8 << 20


class DecodeCache:
    """Bytes of a signal → the signal. Decoding is pure, so eviction affects speed only.

    Shared by all shards of a worker, on one event loop: an event passes through up to three of them.
    """

    def __init__(self, generation_bytes: int = _GENERATION_BYTES) -> None:
        self._limit = generation_bytes
        self._young: dict[bytes, Occurred] = {}
        self._old: dict[bytes, Occurred] = {}
        self._size = 0

    def put(self, value: bytes, signal: Occurred) -> None:
        """Adds an entry. When the young generation is full, the old one is dropped as a whole."""
        self._young[value] = signal
        self._size += len(value)
        if self._size > self._limit:
            self._old, self._young, self._size = self._young, {}, 0

    def get(self, value: bytes) -> Occurred | None:
        """The signal of these bytes; None when it is not cached."""
        return self._young.get(value) or self._old.get(value)
