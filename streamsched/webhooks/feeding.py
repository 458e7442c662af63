"""Puts the changes that webhooks want into their queues, in the order of the history, each once.

Every webhook has a position of its own in the history, which moves in the transaction that puts its changes into its
queue: a process that is killed loses none and doubles none. A queue without room for a batch is not fed, so the backlog
of a target that is away costs no second copy, and it holds up no other webhook.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.codec.webhooks.cloud_event import STRUCTURED, event_of
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.time.duration import duration_text
from streamsched.domain.webhooks.change import WorkLine
from streamsched.domain.webhooks.webhook import GIVE_UP_AFTER, MOST_QUEUED
from streamsched.ports.clock import Clock
from streamsched.ports.webhooks.webhooks import FollowedWebhook, WebhookFeed
from streamsched.ports.webhooks.work_history import WorkHistory
from streamsched.process.run_forever import run_forever

log = structlog.get_logger()

#: Lines that are read at a time.
_BATCH: Final = 500
#: Seconds between two reads of the history while there are webhooks, and while there are none.
_LOOK_S: Final = 0.25
_IDLE_S: Final = 2.0
#: How often targets are looked for that accept nothing.
_CHECK: Final = timedelta(seconds=30)


class WebhookFeeding:
    """Several may run at a time, which wastes work: run it as a singleton role."""

    def __init__(self, history: WorkHistory, feed: WebhookFeed, clock: Clock) -> None:
        self._history = history
        self._feed = feed
        self._clock = clock
        self._checked_at: datetime | None = None

    async def run(self) -> None:
        """Runs until cancelled."""
        await run_forever(self._step, called="webhooks")

    async def run_once(self) -> int:
        """One look at the history: for each position, the next lines go into the queues of the webhooks there. Returns
        how many lines were read.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        return (await self._advance())[0]

    async def disable_failing(self) -> int:
        """Disables webhooks whose targets have accepted nothing for `GIVE_UP_AFTER`; returns how many.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        now, given_up = self._clock.now(), 0
        for each in await self._feed.failing():
            if each.failing_since is None or now - each.failing_since < GIVE_UP_AFTER:
                continue
            reason = f"its target has accepted nothing for {duration_text(GIVE_UP_AFTER)}: {each.error}"
            if await self._feed.disable_failing(each.webhook.id, reason, now=now):
                log.error("webhooks.disabled", webhook=each.webhook.id, reason=reason)
                given_up += 1
        return given_up

    async def _step(self) -> float:
        now = self._clock.now()
        due = self._checked_at is None or not timedelta(0) <= now - self._checked_at < _CHECK
        if due and not self._clock.in_doubt:
            self._checked_at = now
            await self.disable_failing()
            await self._feed.forget_old_secrets(now=now)
        read, webhooks = await self._advance()
        if not webhooks:
            return _IDLE_S
        return 0.0 if read >= _BATCH else _LOOK_S

    async def _advance(self) -> tuple[int, int]:
        """How many lines were read, and the number of enabled webhooks."""
        followed = await self._feed.followed()
        if not followed:
            return 0, 0
        settled = await self._history.settled()
        by_position: dict[int, list[FollowedWebhook]] = defaultdict(list)
        for each in followed:
            if each.position < settled and each.queued + _BATCH <= MOST_QUEUED:
                by_position[each.position].append(each)
        read = 0
        for position, webhooks in sorted(by_position.items()):
            read += await self._feed_from(position, settled, webhooks)
        return read, len(followed)

    async def _feed_from(self, position: int, settled: int, webhooks: Sequence[FollowedWebhook]) -> int:
        lines = await self._history.read(position, settled, limit=_BATCH)
        reached = lines[-1].number if len(lines) == _BATCH else settled
        requests = {line.number: _request(line) for line in lines if any(each.webhook.wants(line) for each in webhooks)}
        changes = {
            each.webhook.id: [requests[line.number] for line in lines if each.webhook.wants(line)] for each in webhooks
        }
        await self._feed.feed(position, reached, changes, now=self._clock.now())
        return len(lines)


def _request(line: WorkLine) -> TaskRequest:
    """The task of a change. Those of a schedule, or of a program alone, share a lane, in the order of their numbers."""
    return TaskRequest(key=f"{line.number:019d}", lane=line.owner, data=event_of(line), content_type=STRUCTURED)
