"""What an API process checks requests against: the quotas of namespaces, its share of their events per second, and how
long their events wait already.

Quotas are read again when they are used and are older than `REUSE`; while requests come, that is once a second, beside
the requests. Events are charged to tokens that the process holds (`domain.quotas.event_level`); it takes them by one
transaction a second for all namespaces that send events. Without quotas nothing is leased.

While PostgreSQL is away, the known quotas hold, each process's own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.domain.errors import (
    BacklogExceededError,
    BodyExceededError,
    RateExceededError,
    UnavailableError,
    describe_failure,
)
from streamsched.domain.events.event import Fact, namespace_of
from streamsched.domain.quotas.event_level import HELD, LeaseRequest, wait_s
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import Limits
from streamsched.ports.clock import Clock
from streamsched.ports.event_quotas import EventQuotas
from streamsched.telemetry.metrics import Metrics

log = structlog.get_logger()

#: Seconds that a request waits for PostgreSQL at most.
PATIENCE_S: Final = 5.0
#: The most seconds until a client whose namespace has a backlog is to try again.
LONGEST_S: Final = 30
#: How long quotas and tokens are used before they are read again. When they are older than `STALE`, as after a time
#: without requests, a request waits for them.
REUSE: Final = timedelta(seconds=1)
STALE: Final = timedelta(seconds=2)


@dataclass(slots=True)
class _Budget:
    """The tokens that this process holds of one namespace.

    Attributes:
        tokens: left; negative: a debt.
        asked, accepted: events since the lease.
        leased_at: None before the first lease.
        owed: what the namespace owes besides, as of the last lease.
        accepted_per_second: as of the last lease.
    """

    tokens: float = 0.0
    asked: int = 0
    accepted: int = 0
    leased_at: datetime | None = None
    owed: float = 0.0
    accepted_per_second: float = 0.0

    def tokens_left(self, now: datetime) -> float:
        """What is left of a lease that is in force; of an older one, the debt."""
        in_force = self.leased_at is not None and now - self.leased_at < HELD
        return self.tokens if in_force else min(0.0, self.tokens)


class QuotaWatch:
    """Checks requests. Used by one event loop."""

    def __init__(
        self,
        store: EventQuotas,
        clock: Clock,
        process: str,
        metrics: Metrics,
        *,
        backlog_limit: timedelta = timedelta(0),
    ) -> None:
        """`process`: a name that no other process has. `backlog_limit`: how long events of a namespace may wait to be
        read while new ones are taken; 0: without end.
        """
        self._store = store
        self._clock = clock
        self._process = process
        self._metrics = metrics
        self._backlog_limit = backlog_limit
        self._backlogs: Mapping[str, datetime] = {}
        self._limits: Limits = {}
        self._budgets: dict[str, _Budget] = {}
        self._read_at: datetime | None = None
        #: How often quotas were read, or reading them failed.
        self._reads = 0
        self._reading = asyncio.Lock()
        self._beside: asyncio.Task[None] | None = None

    async def admit(self, facts: Iterable[Fact], *, body: int) -> None:
        """Checks a request with these facts in a body of so many bytes, and charges it to the namespaces they are
        about, as a whole.

        Raises:
            BodyExceededError: one of the namespaces does not allow a body of that size.
            BacklogExceededError: events of one of them wait for too long already.
            RateExceededError: one of them has sent as many events as it may.
        """
        await self._keep_current()
        if not self._limits and not self._backlogs:
            return
        events = Counter(map(namespace_of, facts))
        for namespace in self._backlogs.keys() & events:
            self._check_backlog(namespace)
        for namespace in events:
            await self.check_body(namespace, body)
        await self.charge(events)

    async def check_body(self, namespace: str, size: int) -> None:
        """Refuses a body that is larger than the namespace's quota; counts it as refused.

        Raises:
            BodyExceededError: the namespace does not allow a body of so many bytes.
        """
        limit = await self.body_limit(namespace)
        if limit is not None and size > limit:
            raise self.refuse_body(namespace, limit, size)

    async def body_limit(self, namespace: str) -> int | None:
        """The largest body that the namespace allows, in bytes; None without a quota."""
        await self._keep_current()
        return self._limits.get(namespace, {}).get(Quota.BODY)

    def refuse_body(self, namespace: str, limit: int, size: int) -> BodyExceededError:
        """The error of a body of `size` bytes, as far as it was read; it is counted as refused."""
        self._metrics.add("quota_refused_total", quota=Quota.BODY)
        return BodyExceededError(namespace, Quota.BODY, limit, wanted=size)

    async def charge(self, events: Mapping[str, int]) -> None:
        """Charges a request with so many events about each namespace: all of them, or none.

        Raises:
            RateExceededError: one of the namespaces has no tokens left.
        """
        await self._keep_current()
        limited = {name: amount for name, amount in events.items() if Quota.EVENTS in self._limits.get(name, ())}
        if not limited:
            return
        now = self._clock.now()
        for name, amount in limited.items():
            self._budgets.setdefault(name, _Budget()).asked += amount
        if not self._has_leases(limited, now):
            await self._refresh(limited)
            now = self._clock.now()
        for name, amount in limited.items():
            self._require(name, amount, now)
        for name, amount in limited.items():
            if (budget := self._budgets.get(name)) is not None:
                budget.tokens -= amount
                budget.accepted += amount

    def _check_backlog(self, namespace: str) -> None:
        age = self._clock.now() - self._backlogs[namespace]
        if age > self._backlog_limit:
            self._metrics.add("backlog_refused_total")
            raise BacklogExceededError(
                namespace,
                age_s=age.total_seconds(),
                limit_s=self._backlog_limit.total_seconds(),
                retry_after=min(LONGEST_S, 1 + (age - self._backlog_limit) // timedelta(seconds=1)),
            )

    async def refresh(self) -> None:
        """Reads the quotas, and takes this process's share of the events of each namespace that sends some."""
        async with self._reading:
            await self._read()

    def _has_leases(self, names: Iterable[str], now: datetime) -> bool:
        """Whether leases of all these namespaces are in force; a quota that was removed meanwhile needs none."""
        budgets = (self._budgets.get(name) for name in names)
        return all(each is None or (each.leased_at is not None and now - each.leased_at < HELD) for each in budgets)

    def _require(self, name: str, amount: int, now: datetime) -> None:
        budget, limit = self._budgets.get(name), self._limits.get(name, {}).get(Quota.EVENTS)
        if budget is None or limit is None or budget.tokens > 0 or not self._has_leases([name], now):
            return
        self._metrics.add("quota_refused_total", quota=Quota.EVENTS)
        raise RateExceededError(
            name,
            Quota.EVENTS,
            limit,
            used=budget.accepted_per_second,
            wanted=amount,
            retry_after=wait_s(limit, budget.owed - budget.tokens),
        )

    async def _keep_current(self) -> None:
        """Sees to it that the quotas are not too old."""
        age = None if self._read_at is None else self._clock.now() - self._read_at
        if age is not None and age < REUSE:
            return
        if age is None or age >= STALE:
            await self._refresh()
        elif self._beside is None or self._beside.done():
            self._beside = asyncio.create_task(self._refresh())

    async def _refresh(self, names: Iterable[str] = ()) -> None:
        """As `refresh`, once for all who wait, with leases of these namespaces. While PostgreSQL does not answer,
        requests go on with what is known, after `PATIENCE_S` at most.
        """
        before = self._reads
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), self._reading:
                if self._reads != before and self._has_leases(names, self._clock.now()):
                    return
                await self._read_or_go_on()

    async def _read_or_go_on(self) -> None:
        answered = False
        try:
            await self._read()
            answered = True
        except UnavailableError as failure:
            log.warning("quotas.not_read", reason=describe_failure(failure))
        finally:
            if not answered:
                self._read_at = self._clock.now()
                self._reads += 1
                self._go_on_alone(self._read_at)

    async def _read(self) -> None:
        limits = await self._store.limits()
        self._backlogs = await self._store.backlogs() if self._backlog_limit else {}
        now = self._clock.now()
        rates = {name: own[Quota.EVENTS] for name, own in limits.items() if Quota.EVENTS in own}
        self._budgets = {
            name: each for name, each in self._budgets.items() if name in rates and not _is_idle(each, now)
        }
        demands = {name: _demand(budget, now) for name, budget in self._budgets.items()}
        self._limits = limits
        if demands:
            spent = {name: budget.accepted for name, budget in self._budgets.items()}
            asked = {name: budget.asked for name, budget in self._budgets.items()}
            leases = await self._store.lease(self._process, demands, rates, now=now)
            for name, lease in leases.items():
                budget = self._budgets[name]
                budget.accepted -= spent[name]  # what requests spent meanwhile counts against the new lease
                budget.asked -= asked[name]
                budget.tokens = lease.tokens - budget.accepted
                budget.leased_at, budget.owed = now, max(0.0, -lease.left.tokens)
                budget.accepted_per_second = demands[name].accepted
        self._read_at = now
        self._reads += 1

    def _go_on_alone(self, now: datetime) -> None:
        for name, budget in self._budgets.items():
            limit = self._limits.get(name, {}).get(Quota.EVENTS, 0)
            budget.tokens = min(limit, budget.tokens + limit)
            budget.asked = budget.accepted = 0
            budget.leased_at = now


def _demand(budget: _Budget, now: datetime) -> LeaseRequest:
    passed = 1.0 if budget.leased_at is None else max(1.0, (now - budget.leased_at).total_seconds())
    return LeaseRequest(budget.tokens_left(now), budget.asked / passed, budget.accepted / passed)


def _is_idle(budget: _Budget, now: datetime) -> bool:
    """Whether nothing was asked since a lease that is no longer in force, and nothing is owed."""
    past = budget.leased_at is not None and now - budget.leased_at >= HELD
    return past and not budget.asked and budget.tokens >= 0
