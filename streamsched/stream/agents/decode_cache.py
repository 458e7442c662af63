"""Recently decoded events by their bytes, so that the agents of a process decode each event once."""

from __future__ import annotations

from typing import Final

from streamsched.domain.signals.signal import Occurred

#: Bytes of encoded events per generation; two generations are kept. A decoded event takes five to thirty times as much.
_GENERATION_BYTES: Final = 2 << 20
#: A larger event is decoded again where it is needed: kept, one of 16 MiB would hold hundreds of MB for no one.
_LARGEST_BYTES: Final = 128 << 10


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
        """Adds an entry, unless it is too large. When the young generation is full, the old one is dropped."""
        if len(value) > _LARGEST_BYTES:
            return
        self._young[value] = signal
        self._size += len(value)
        if self._size > self._limit:
            self._old, self._young, self._size = self._young, {}, 0

    def get(self, value: bytes) -> Occurred | None:
        """The signal of these bytes; None when it is not cached."""
        return self._young.get(value) or self._old.get(value)
