"""Puts the changes that webhooks want into their queues, in the order of the history, each once.

Every webhook has a position of its own in the history, which moves in the transaction that puts its changes into its
queue: a process that is killed loses none and doubles none. A queue without room for a batch is not fed, so the backlog
of a target that is away costs no second copy, and it holds up no other webhook.

A webhook for people is given one message about all that happened since the last one, at most once a minute and when
that was delivered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.codec.webhooks.messages import change_task, notice_task
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.time.duration import duration_text
from streamsched.domain.webhooks.webhook import GIVE_UP_AFTER, MOST_COUNTED, MOST_QUEUED, PACE
from streamsched.ports.clock import Clock
from streamsched.ports.work_history import WorkHistory
from streamsched.process.run_forever import run_forever
from streamsched.store.webhooks.webhooks import FollowedWebhook, WebhookStore

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

    def __init__(self, history: WorkHistory, feed: WebhookStore, clock: Clock, *, pages: str = "") -> None:
        """`pages`: the address of the installation's pages."""
        self._pages = pages
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
        for each in await self._feed.list_failing():
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
        followed = await self._feed.list_followed()
        if not followed:
            return 0, 0
        settled, now = await self._history.settled_number(), self._clock.now()
        by_position: dict[tuple[int, bool], list[FollowedWebhook]] = defaultdict(list)
        for each in followed:
            if each.position < settled and _has_room(each, now):
                by_position[each.position, each.webhook.is_for_people].append(each)
        read = 0
        for (position, for_people), webhooks in sorted(by_position.items()):
            read += await self._feed_from(position, settled, webhooks, MOST_COUNTED if for_people else _BATCH)
        return read, len(followed)

    async def _feed_from(self, position: int, settled: int, webhooks: Sequence[FollowedWebhook], limit: int) -> int:
        lines = await self._history.read(position, settled, limit=limit, whole=True)
        reached = lines[-1].number if len(lines) == limit else settled
        wanted = {each.webhook.id: [line for line in lines if each.webhook.wants(line)] for each in webhooks}
        tasks: dict[int, TaskRequest] = {}
        changes: dict[str, Sequence[TaskRequest]] = {}
        for each in webhooks:
            mine = wanted[each.webhook.id]
            if each.webhook.is_for_people:
                changes[each.webhook.id] = [notice_task(mine, self._pages, lane=each.webhook.id)] if mine else []
                continue
            for line in mine:
                tasks[line.number] = tasks.get(line.number) or change_task(line, self._pages)
            changes[each.webhook.id] = [tasks[line.number] for line in mine]
        await self._feed.feed(position, reached, changes, now=self._clock.now())
        return len(lines)


def _has_room(followed: FollowedWebhook, now: datetime) -> bool:
    if not followed.webhook.is_for_people:
        return followed.queued + _BATCH <= MOST_QUEUED
    return not followed.queued and (followed.sent_at is None or followed.sent_at + PACE <= now)
