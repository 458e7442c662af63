"""Exponential backoff: the pause before a retry, doubling from `first` up to `longest`.

>>> [double_pause(0.2, retries, longest=1.0) for retries in range(4)]
[0.2, 0.4, 0.8, 1.0]
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypeVar
from zlib import crc32

_D = TypeVar("_D", float, timedelta)

#: 2 to this power times any pause exceeds every limit; larger powers would only cost time.
_LARGEST_EXPONENT: Final = 60


def double_pause(first: _D, retries: int, *, longest: _D) -> _D:
    """The pause after `retries` earlier retries: `first * 2 ** retries`, at most `longest`. Does not overflow."""
    factor = 2 ** min(retries, _LARGEST_EXPONENT)
    return longest if first and factor > longest / first else first * factor


def shorten_pause(pause: timedelta, jitter: float, token: str) -> timedelta:
    """The pause, shortened by a part that is at most `jitter` (from 0 to 1). The part is a hash of the token, so it is
    the same in every process and after a restart.
    """
    return pause * (1 - jitter * crc32(token.encode()) / 0xFFFFFFFF)
