"""Notifies the recipients of apps of failures: each at once, and then at most once a minute, of all that happened
meanwhile. What waits stays in the history, so ten thousand failures cost one row of each recipient and few messages.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import structlog

from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.quarantine import Quarantine
from streamsched.domain.webhooks.notified import is_for
from streamsched.domain.webhooks.webhook import MOST_COUNTED, PACE
from streamsched.ports.clock import Clock
from streamsched.ports.work_history import WorkHistory
from streamsched.process.run_forever import run_forever
from streamsched.store.webhooks.notices import NoticeStore

log = structlog.get_logger()

#: Lines of one read, and recipients of one step.
_LINES: Final = 5000
_BATCH: Final = 100
#: Seconds between two looks at the history.
_LOOK_S: Final = 1.0


class NoticeFeeding:
    """Several may run at a time, which wastes work: run it as a singleton role."""

    def __init__(self, history: WorkHistory, store: NoticeStore, clock: Clock) -> None:
        self._history = history
        self._store = store
        self._clock = clock
        self._failed: Quarantine[str] = Quarantine()
        self._noticed = -1

    async def run(self) -> None:
        """Runs until cancelled."""
        await run_forever(self._step, called="notices")

    async def run_once(self) -> int:
        """Reads what is new in the history, and makes the messages whose time has come; returns how many.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        settled = await self._history.settled_number()
        if settled != self._noticed:
            while await self._store.notice(settled, limit=_LINES) == _LINES:
                pass
            self._noticed = settled
        now, sent = self._clock.now(), 0
        held = self._failed.held_keys(now)
        for each in await self._store.due_recipients(now=now, pace=PACE, limit=_BATCH + len(held)):
            if each.id in held:
                continue
            try:
                wants = partial(is_for, each.recipient, each.app)
                lines = await self._store.send(each, wants, now=now, limit=MOST_COUNTED)
            except SYSTEMIC:
                raise
            except Exception as failure:  # noqa: BLE001 - caused by this recipient; the others are notified
                retry_at = self._failed.add(each.id, now).isoformat()
                log.error(
                    "recipient.not_notified", recipient=each.id, reason=describe_failure(failure), retry_at=retry_at
                )
                continue
            self._failed.release(each.id)
            if lines:
                log.info("recipient.notified", recipient=each.id, to=str(each.recipient), lines=lines)
                sent += 1
        return sent

    async def _step(self) -> float:
        return 0.0 if await self.run_once() >= _BATCH else _LOOK_S
