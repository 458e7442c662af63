"""Records of topic `judged`: signals that a shard took in the turn in which it met them, not through `signals`.

The value is that of the signal in `signals`, with `"judged":[position,ms]` as its first field: the signals before this
position of the shard's partition of `signals` had been judged before it, and it was judged as of this time. So both
topics together say in which order a shard has judged, and as of when (promise G12).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from streamsched.domain.errors import DecodeError

_JUDGED: Final = re.compile(rb'\{"judged":\[(\d{1,19}),(\d{1,15})\],')


class JudgedAt(NamedTuple):
    """When a signal was judged: at which position of its shard's partition of `signals`, and as of which log time."""

    position: int
    time_ms: int


def encode(value: bytes, at: JudgedAt) -> bytes:
    """The value of a signal with the moment at which it was judged."""
    return b'{"judged":[%d,%d],%b' % (*at, value[1:])


def decode(value: bytes) -> tuple[JudgedAt, bytes]:
    """That moment, and the value of the signal.

    Raises:
        DecodeError: the value has no such moment.
    """
    found = _JUDGED.match(value)
    if found is None:
        raise DecodeError("$.judged", "must be the position and the time of a judgement")
    return JudgedAt(int(found[1]), int(found[2])), b"{" + value[found.end() :]
