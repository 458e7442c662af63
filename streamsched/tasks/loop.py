"""Delivers the tasks of the partitions that this process owns.

The heads of ready lanes are started, set-wise for each queue, while the ends of others are stored, which frees their
lanes: Python and PostgreSQL work at the same time. Only what is in flight is in memory, so waiting tasks cost nothing.
Everything else is in PostgreSQL, so whatever was due while no process ran is found by the same query as what becomes
due now.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, assert_never

import structlog

from streamsched.codec.tasks.event import event_of
from streamsched.domain.errors import InvalidError, UnavailableError, describe_failure
from streamsched.domain.tasks.attempt import (
    Acknowledged,
    AttemptEnd,
    AttemptFailed,
    Interrupted,
    StartedTask,
    after_attempt,
)
from streamsched.domain.tasks.queue import HttpTarget, QueuePolicy, Target, TopicTarget, WebhookTarget, WorkerTarget
from streamsched.domain.tasks.recurrence import plan_tick
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import TASKS, Notifier
from streamsched.process.cancellation import STOPPING_S, cancel
from streamsched.process.pausing import pause
from streamsched.process.run_forever import run_forever
from streamsched.store.tasks.delivery import DeliveryKey, DeliveryStore, EndedAttempt, SkippedTicks
from streamsched.store.tasks.queues import QueueStore, QueueVersion
from streamsched.tasks.attempt import Receiver, attempt
from streamsched.tasks.attempt_ends import AT_ONCE, UNUSED, AttemptEnds
from streamsched.tasks.in_flight import HeldDeliveries
from streamsched.tasks.measures import measure_end, measure_skipped, measure_start
from streamsched.tasks.ownership import Ownership
from streamsched.tasks.pace import MANY, TransactionPace
from streamsched.tasks.publication import add_announcement
from streamsched.telemetry.metrics import Metrics

log = structlog.get_logger()

#: Longest pause, so a lost notification costs no more; also the interval of the check for outdated deliveries.
_CHECK: Final = timedelta(seconds=2)
#: Longest wait for a notification.
_LISTEN_S: Final = 30.0
#: Shortest pause while a ready lane cannot start: its queue has no room, or another transaction holds the lane.
_RETRY_S: Final = 0.05


class TaskLoop:
    """Belongs to one event loop.

    Args:
        http, workers, webhooks: receivers of the targets of these kinds; without one, tasks of the kind wait.
        capacity: most deliveries held at a time.
    """

    def __init__(
        self,
        store: DeliveryStore,
        queues: QueueStore,
        ownership: Ownership,
        notifier: Notifier,
        clock: Clock,
        *,
        http: Receiver,
        workers: Receiver,
        webhooks: Receiver | None = None,
        metrics: Metrics | None = None,
        capacity: int = 2000,
    ) -> None:
        self._store = store
        self._queues = queues
        self._ownership = ownership
        self._notifier = notifier
        self._clock = clock
        self._http = http
        self._workers = workers
        self._webhooks = webhooks
        self._metrics = metrics or Metrics()
        self._held = HeldDeliveries(capacity)
        self._ends = AttemptEnds(store, ownership, self._held, clock, stored=self.wake)
        self._known: dict[str, QueueVersion] = {}
        self._version = -1
        self._doubtful = False  # whether tasks may have been started without being held: the answer was lost
        self._wake = asyncio.Event()
        self._checked_at: datetime | None = None
        self._pace = TransactionPace()

    def wake(self) -> None:
        """Ends the pause between two steps: a receiver has room, for example."""
        self._wake.set()

    async def run(self) -> None:
        """Runs until cancelled; then lets deliveries end for a few seconds, stores their ends and releases the
        partitions.
        """
        loops = (
            run_forever(self._step_ownership, called="task_ownership"),
            run_forever(self._step, called="tasks", sleep=partial(pause, self._wake)),
            run_forever(self._ends.step, called="task_ends"),
            self._listen(),
        )
        running = [asyncio.ensure_future(each) for each in loops]
        try:
            await asyncio.gather(*running)
        finally:
            await cancel(*running)
            with suppress(UnavailableError):
                await self.stop()
            for each in (self._http, self._workers, self._webhooks):
                if each is not None:
                    await each.close()

    async def stop(self, patience_s: float = STOPPING_S) -> None:
        """Starts nothing more, waits for deliveries, interrupts the rest, stores all ends and leaves.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the next owner delivers again what was in flight.
        """
        self._ownership.stop_starting()
        calls = [held.call for _, held in self._held if held.call is not None]
        if calls:
            await asyncio.wait(calls, timeout=patience_s)
        for key, _ in self._held:
            self._interrupt(key, "its owner stopped")
        await self._ends.store_all()
        await self._ownership.leave()

    async def step_ownership(self) -> timedelta:
        """One heartbeat: partitions are taken, lost and handed over. Returns the time until the next call.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        again_in = await self._ownership.step(self, loop_time=asyncio.get_running_loop().time())
        self._wake.set()
        return again_in

    async def run_once(self) -> int:
        """Stores ends, starts what is due; returns how many tasks were started.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        await self._ends.store_all()
        started, _ = await self._advance()
        return started

    async def wait_until_delivered(self) -> None:
        """Returns when no delivery is on its way."""
        while calls := [held.call for _, held in self._held if held.call is not None]:
            await asyncio.wait(calls)
            await asyncio.sleep(0)

    def count_held(self, partition: int) -> int:
        """How many deliveries of the partition are in flight or not stored."""
        return self._held.count(partition)

    def forget(self, partition: int) -> None:
        """Drops the deliveries of a partition that another process owns now; what they report is ignored."""
        for key, held in self._held:
            if held.task.partition == partition:
                self._forget(key)

    def interrupt(self, partition: int) -> None:
        """Cancels the deliveries of a partition, before it is handed over."""
        for key, held in self._held:
            if held.task.partition == partition:
                self._interrupt(key, "its lane was handed over to another owner")

    async def _step_ownership(self) -> float:
        return (await self.step_ownership()).total_seconds()

    async def _step(self) -> float:
        await self._pace.keep(busy=len(self._held) >= MANY)
        _, pause = await self._advance()
        return pause

    async def _advance(self) -> tuple[int, float]:
        """One step; the number of tasks started, and the seconds until the next step."""
        self._wake.clear()
        if self._doubtful:
            await self._ends.fence_again()
            self._doubtful = False
        await self._read_queues()
        await self._check_outdated()
        open_queues = [name for name, each in self._known.items() if not each.queue.paused and self._room(each) > 0]
        epochs = self._ownership.starting
        if not open_queues or not epochs:
            return 0, _CHECK.total_seconds()
        ready = await self._store.read_next_ready(open_queues, list(epochs))
        started, pause, now = 0, _CHECK.total_seconds(), self._clock.now()
        soonest = next((ready_at for _, ready_at in ready if ready_at > now), None)
        if soonest is not None:
            pause = min(pause, max((soonest - now).total_seconds(), 0.001))
        # Of queues that share workers, the one with the fewest in flight goes first: a backlog holds up no neighbour.
        for name in sorted((name for name, ready_at in ready if ready_at <= now), key=self._held.of_queue):
            begun = await self._start(self._known[name])
            await asyncio.sleep(0)  # its deliveries begin, so the next queue finds the room that they leave
            started += begun
            pause = min(pause, 0.0 if begun else _RETRY_S)
        return started, pause

    async def _read_queues(self) -> None:
        version = await self._queues.version()
        if version != self._version:
            self._known = {each.queue.name: each for each in await self._queues.all()}
            self._version = version

    def _room(self, queue: QueueVersion) -> int:
        match queue.queue.policy.target:
            case HttpTarget():
                theirs = self._http.room(queue.queue.name)
            case WorkerTarget():
                theirs = self._workers.room(queue.queue.name)
            case WebhookTarget():
                theirs = 0 if self._webhooks is None else self._webhooks.room(queue.queue.name)
            case TopicTarget():
                theirs = AT_ONCE
            case other:
                assert_never(other)
        return min(theirs, self._held.room(queue.queue.name), AT_ONCE)

    async def _start(self, queue: QueueVersion) -> int:
        limit, left = self._room(queue), self._held.bytes_left
        epochs = dict(self._ownership.starting)
        if limit <= 0 or left <= 0 or not epochs:
            return 0
        now = self._clock.now()
        self._doubtful = True
        tasks = await self._store.start(queue, epochs, limit=limit, most_bytes=left, now=now)
        self._doubtful = False
        owned = self._ownership.writing
        for task in tasks:
            if owned.get(task.partition) == epochs[task.partition]:  # else it was lost meanwhile
                self._begin(task, queue.queue.policy)
        return len(tasks)

    def _begin(self, task: StartedTask, policy: QueuePolicy) -> None:
        now = self._clock.now()
        measure_start(self._metrics, task)
        if task.recurrence is not None and not task.failures:
            plan = plan_tick(task.recurrence, task.planned_at, now)
            if plan.skipped:
                measure_skipped(self._metrics, task, plan.skipped)
            if plan.deliver is None:
                end = Interrupted(now, "missed ticks are skipped")
                self._end(self._hold(task), EndedAttempt(task, end, SkippedTicks(plan.wait_for, plan.skipped)))
                return
            task = replace(task, planned_at=plan.deliver, skipped=plan.skipped)
        key = self._hold(task)
        match policy.target:
            case TopicTarget() as target:
                self._publish(key, task, target, policy)
            case HttpTarget() as target:
                self._call(key, task, target, self._http, policy)
            case WorkerTarget() as target:
                self._call(key, task, target, self._workers, policy)
            case WebhookTarget() as target:
                assert self._webhooks is not None
                self._call(key, task, target, self._webhooks, policy)
            case other:
                assert_never(other)

    def _hold(self, task: StartedTask) -> DeliveryKey:
        """Holds a task. Its former start, if it is still held, has been stored: its lane was free."""
        key = DeliveryKey(task.id, task.generation)
        self._forget(key)
        self._held.add(key, task)
        return key

    def _publish(self, key: DeliveryKey, task: StartedTask, target: TopicTarget, policy: QueuePolicy) -> None:
        """The event is stored with the end of the task."""
        try:
            event = event_of(task, target)
        except InvalidError as exc:
            end = AttemptFailed(self._clock.now(), describe_failure(exc))
            self._end(key, EndedAttempt(task, end, after_attempt(task, end, policy.retry)))
            return
        done = Acknowledged(self._clock.now(), f"published {target.event}")
        self._end(key, EndedAttempt(task, done, after_attempt(task, done, policy.retry), event))

    def _call(self, key: DeliveryKey, task: StartedTask, target: Target, to: Receiver, policy: QueuePolicy) -> None:
        held = self._held.get(key)
        assert held is not None
        held.call = asyncio.create_task(attempt(to, task, target, self._clock, leased=self._ownership.is_leased))
        held.call.add_done_callback(partial(self._handle_answer, key, policy))

    def _handle_answer(self, key: DeliveryKey, policy: QueuePolicy, call: asyncio.Task[AttemptEnd]) -> None:
        held = self._held.get(key)
        if call.cancelled() or held is None or held.call is not call:
            return
        failure = call.exception()
        end = call.result() if failure is None else AttemptFailed(self._clock.now(), describe_failure(failure))
        losses = policy.target.max_losses if isinstance(policy.target, WorkerTarget) else 0
        self._end(key, EndedAttempt(held.task, end, after_attempt(held.task, end, policy.retry, max_losses=losses)))

    def _interrupt(self, key: DeliveryKey, reason: str) -> None:
        held = self._held.get(key)
        if held is None or key in self._ends:
            return
        call, held.call = held.call, None
        if call is not None:
            call.cancel()
        end = Interrupted(self._clock.now(), reason)
        self._end(key, EndedAttempt(held.task, end, after_attempt(held.task, end, UNUSED)))

    def _end(self, key: DeliveryKey, ended: EndedAttempt) -> None:
        held = self._held.get(key)
        if held is not None:
            held.call = None
        measure_end(self._metrics, ended)
        queue = self._known.get(ended.task.queue)
        self._ends.add(key, ended if queue is None else add_announcement(ended, queue.queue.policy))

    def _forget(self, key: DeliveryKey) -> None:
        held = self._held.get(key)
        self._ends.forget(key)
        if held is not None and held.call is not None:
            held.call.cancel()

    async def _check_outdated(self) -> None:
        """Stops deliveries of tasks that ended by hand or were registered again."""
        now = self._clock.now()
        keys = [key for key, held in self._held if held.call is not None]
        if not keys or (self._checked_at is not None and now - self._checked_at < _CHECK):
            return
        self._checked_at = now
        outdated = await self._store.outdated_keys(keys)
        for key in outdated:
            self._interrupt(key, "ended or registered again while it was in flight")
        if outdated:
            await self._ends.store_all()

    async def _listen(self) -> None:
        async with self._notifier.listen(TASKS) as subscription:
            while True:
                if await subscription.wait(_LISTEN_S):
                    self._wake.set()
