"""What a process of the API does between its leases, and while PostgreSQL is away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.access import quota_watch
from streamsched.access.quota_watch import REUSE, QuotaWatch
from streamsched.domain.errors import BacklogExceededError, BodyExceededError, RateExceededError, UnavailableError
from streamsched.domain.events.event import CustomHappened
from streamsched.domain.names import EventName
from streamsched.domain.quotas.event_level import (
    HELD,
    SAVED,
    EventLease,
    EventLevel,
    EventShare,
    LeaseRequest,
    grant_lease,
)
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import Limits
from streamsched.telemetry.metrics import Metrics
from streamsched.testing.clock import SettableClock

SALES = "sales"
HAPPENED = CustomHappened(EventName(SALES, "go"))


class Quotas:
    """A store in memory: the limits, the level of one namespace, and how often it was asked."""

    def __init__(self, **limits: int) -> None:
        self.known: dict[str, dict[Quota, int]] = {SALES: {Quota(name): most for name, most in limits.items()}}
        self.level: EventLevel | None = None
        self.shares: dict[str, EventShare] = {}
        self.waiting: Mapping[str, datetime] = {}
        self.read, self.leases, self.away, self.silent = 0, 0, False, False

    async def limits(self) -> Limits:
        self._ask()
        if self.silent:
            await asyncio.Event().wait()
        self.read += 1
        await asyncio.sleep(0)
        return {name: dict(own) for name, own in self.known.items() if own}

    async def backlogs(self) -> Mapping[str, datetime]:
        self._ask()
        return self.waiting

    async def lease(
        self, process: str, demands: Mapping[str, LeaseRequest], limits: Mapping[str, int], *, now: datetime
    ) -> Mapping[str, EventLease]:
        self._ask()
        self.leases += 1
        await asyncio.sleep(0)
        found = {}
        for name, demand in demands.items():
            others = [share for other, share in self.shares.items() if other != process]
            found[name] = lease = grant_lease(limits[name], self.level, demand, others, now)
            self.level, self.shares[process] = lease.left, EventShare(lease.tokens, demand.asked)
        return found

    def _ask(self) -> None:
        if self.away:
            raise UnavailableError("PostgreSQL is away")


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


def watch(quotas: Quotas, clock: SettableClock, name: str = "a") -> QuotaWatch:
    return QuotaWatch(quotas, clock, name, Metrics())


async def accepted(watch: QuotaWatch, times: int, amount: int = 1) -> int:
    found = 0
    for _ in range(times):
        try:
            await watch.charge({SALES: amount})
            found += amount
        except RateExceededError:
            pass
    return found


async def test_without_quotas_nothing_is_leased_and_they_are_read_once_a_second(clock: SettableClock) -> None:
    quotas = Quotas()
    found = watch(quotas, clock)
    facts = [HAPPENED] * 500

    for _ in range(100):
        await found.admit(facts, body=10**9)

    assert (quotas.read, quotas.leases) == (1, 0)
    clock.advance(REUSE)
    for _ in range(100):
        await found.admit(facts, body=10**9)
    await asyncio.sleep(0.001)
    assert (quotas.read, quotas.leases) == (2, 0)


async def test_between_two_leases_requests_ask_nobody(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=10)
    found = watch(quotas, clock)

    assert await accepted(found, 500) == 10 * SAVED
    assert (quotas.read, quotas.leases) == (2, 1)


async def test_requests_that_arrive_together_wait_for_one_lease(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=10)
    found = watch(quotas, clock)

    counts = await asyncio.gather(*(accepted(found, 1) for _ in range(300)))

    assert sum(counts) == 10 * SAVED
    assert quotas.leases <= 2


async def test_what_is_spent_while_a_lease_is_renewed_counts_against_the_new_one(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=10)
    found = watch(quotas, clock)
    assert await accepted(found, 60) == 60
    clock.advance(REUSE)

    together = await asyncio.gather(found.refresh(), accepted(found, 500))

    later = await accepted(found, 500)
    assert together[1] + later == 10 * SAVED - 60 + 10


async def test_a_lease_that_was_not_renewed_is_void(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=10)
    found = watch(quotas, clock)
    await found.charge({SALES: 1})
    clock.advance(HELD)
    quotas.shares.clear()
    quotas.level = EventLevel(-1000.0, clock.now())

    with pytest.raises(RateExceededError) as refused:
        await found.charge({SALES: 1})

    assert refused.value.retry_after == 60, "a debt of 1000 at 10 a second, but at most a minute"


async def test_a_debt_is_paid_first(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=10)
    found = watch(quotas, clock)
    await found.charge({SALES: 10 * SAVED + 35})

    with pytest.raises(RateExceededError) as refused:
        await found.charge({SALES: 1})

    assert refused.value.retry_after == 4
    clock.advance(timedelta(seconds=3))
    assert await accepted(found, 1) == 0
    clock.advance(timedelta(seconds=2))
    assert await accepted(found, 1) == 1


async def test_while_postgresql_is_away_each_process_allows_the_rate(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=10, body_bytes=5)
    found = watch(quotas, clock)
    await accepted(found, 500)
    quotas.away = True

    total = 0
    for _ in range(20):
        clock.advance(2 * REUSE)
        total += await accepted(found, 500)

    assert 10 * 18 <= total <= 10 * 20
    with pytest.raises(BodyExceededError):
        await found.check_body(SALES, 6)
    quotas.away = False
    clock.advance(HELD)
    assert await accepted(found, 500) <= 10 * SAVED


async def test_a_silent_postgresql_holds_requests_up_for_a_moment(
    clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_watch, "PATIENCE_S", 0.01)
    quotas = Quotas(events_per_second=10)
    found = watch(quotas, clock)
    await accepted(found, 500)
    quotas.silent = True
    clock.advance(2 * HELD)

    counts = await asyncio.wait_for(asyncio.gather(*(accepted(found, 1) for _ in range(50))), 10)

    assert 10 <= sum(counts) <= 50
    assert await accepted(found, 100) <= 10
    quotas.silent = False
    clock.advance(2 * HELD)
    assert await accepted(found, 500) > 0


async def test_a_process_that_never_read_the_quotas_lets_requests_pass(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=0)
    quotas.away = True

    assert await accepted(watch(quotas, clock), 5) == 5


async def test_a_quota_that_is_removed_ends_its_leases(clock: SettableClock) -> None:
    quotas = Quotas(events_per_second=0)
    found = watch(quotas, clock)
    assert await accepted(found, 1) == 0
    quotas.known.clear()
    clock.advance(2 * REUSE)

    assert await accepted(found, 500) == 500


async def test_events_are_refused_while_earlier_ones_of_their_namespace_wait_for_too_long(
    clock: SettableClock,
) -> None:
    quotas = Quotas()
    found = QuotaWatch(quotas, clock, "api", Metrics(), backlog_limit=timedelta(seconds=60))
    quotas.waiting = {SALES: clock.now() - timedelta(seconds=65)}

    with pytest.raises(BacklogExceededError) as refused:
        await found.admit([HAPPENED], body=10)
    await found.admit([CustomHappened(EventName("other", "x"))], body=10)

    assert (refused.value.retry_after, refused.value.age_s) == (6, 65)
    assert "wait for 65 s already, and new ones are taken up to 60 s" in str(refused.value)
    quotas.waiting = {SALES: clock.now() - timedelta(seconds=30)}
    clock.advance(REUSE * 3)
    await found.admit([HAPPENED], body=10)


async def test_a_backlog_is_none_without_a_limit(clock: SettableClock) -> None:
    quotas = Quotas()
    quotas.waiting = {SALES: datetime.min.replace(tzinfo=UTC)}

    await QuotaWatch(quotas, clock, "api", Metrics()).admit([HAPPENED], body=10)
