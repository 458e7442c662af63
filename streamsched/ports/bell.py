"""Wake-ups between processes. A bell only says "look again": whoever listens also looks by himself now and then."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

#: Rows were written to the outbox.
OUTBOX: Final = "outbox"
#: Rows of the outbox were acknowledged by the log and are gone.
RELAYED: Final = "relayed"
#: A timer may be due sooner than anybody knew.
TIMERS: Final = "timers"
#: A job came in or may be admitted now, a run wants a runner process, or a schedule of waiting jobs changed.
LAUNCHER: Final = "launcher"
#: A job waits for a reading of a cluster.
PROBES: Final = "probes"


class Ring(Protocol):
    """One listener's side of a bell."""

    async def wait(self, timeout: float) -> bool:
        """Returns True as soon as the bell rang since the last `wait` returned (or since listening began), False after
        `timeout` seconds. So "look, then wait" misses nothing. May wake without a reason; never raises on a lost
        connection: then it wakes at once to look again, and after that by its timeout.
        """
        ...


class Bell(Protocol):
    """Rings by channel name, heard by every process of the installation."""

    def listen(self, channel: str) -> AbstractAsyncContextManager[Ring]:
        """Listens from entry to exit; what rings before the entry has returned is not heard."""
        ...

    async def close(self) -> None: ...
