"""Free ports on loopback, for processes that are started by a script, a benchmark or a test.

Ports are below those of outgoing connections (from 32768): no other process gets one while its owner is away, so a
process that was killed is found at the same port again. They are tried in a random order of the system (tests seed the
other one), so that two processes rarely try the same; all of one call are bound together, so they differ.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress

_FIRST = 15_000
_LAST = 32_000


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports that are free now. Raises OSError when so many are not."""
    found: list[int] = []
    with ExitStack() as bound:
        for port in random.SystemRandom().sample(range(_FIRST, _LAST), 1000):
            if len(found) == count:
                return tuple(found)
            tried = bound.enter_context(socket.socket())
            with suppress(OSError):
                tried.bind(("127.0.0.1", port))
                found.append(port)
    raise OSError(f"no {count} ports are free from {_FIRST} to {_LAST}")


def free_port() -> int:
    """A port that is free now. Raises OSError when none is."""
    return free_ports(1)[0]
