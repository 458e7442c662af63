"""Wake-ups between processes, without payload. A notification may be lost, so a subscriber also polls periodically."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

#: Rows were written to the outbox.
OUTBOX: Final = "outbox"
#: Rows of the outbox were acknowledged by the log and deleted.
RELAYED: Final = "relayed"
#: A timer, wake-up or deadline was stored that may be due before the others.
TIMERS: Final = "timers"
#: A job arrived or may be admitted now, a run needs a runner process, or a schedule of waiting jobs changed.
LAUNCHER: Final = "launcher"
#: A job of a graph's node ended, or a node changed.
GRAPH: Final = "graph"
#: A task was registered that is due soon, or a queue changed.
TASKS: Final = "tasks"
#: A job waits for a reading of a cluster.
PROBES: Final = "probes"
#: A backfill was started, paused, resumed or cancelled.
BACKFILLS: Final = "backfills"


class NotifierSubscription(Protocol):
    """A subscription to one channel."""

    async def wait(self, timeout: float) -> bool:
        """Returns True when a notification arrived since the last `wait` returned (or since the subscription), False
        after `timeout` seconds; so "check, then wait" misses none. May return True without a notification. Never raises
        on a lost connection: it returns at once, and by its timeout until the connection is back.
        """
        ...


class Notifier(Protocol):
    """Notifications by channel, received by every process of the installation."""

    def listen(self, channel: str) -> AbstractAsyncContextManager[NotifierSubscription]:
        """Subscribes from entry to exit; notifications before the entry returns are not received."""
        ...

    async def close(self) -> None:
        """Closes the connection; subscriptions that still wait return by their timeouts."""
        ...
