"""Quotas against naive models: processes that share a rate never send more than it; counts are those of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.domain.errors import QuotaExceededError
from streamsched.domain.events.event import Event, namespace_of
from streamsched.domain.names import DatasetRef
from streamsched.domain.quotas.event_level import (
    HELD,
    LONGEST_WAIT,
    SAVED,
    EventLevel,
    EventShare,
    LeaseRequest,
    grant_lease,
    wait_s,
)
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import (
    QuotaGrowth,
    QuotaUse,
    accumulations,
    check_growth,
    find_most_used,
    growth,
)
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import Partitions, Trigger, Within
from streamsched.testing import strategies

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Process:
    """A process of the API: what it holds, and what it was asked since its lease."""

    tokens: float = 0.0
    asked: int = 0
    accepted: int = 0
    leased_at: datetime | None = None


@dataclass
class Installation:
    """Processes that share the events of one namespace, as the store and the watch do it."""

    limit: int
    processes: list[Process]
    now: datetime = NOW
    level: EventLevel | None = None
    sent: list[tuple[datetime, int]] = field(default_factory=list)

    def lease(self, process: Process) -> None:
        held = process.leased_at is not None and self.now - process.leased_at < HELD
        returned = process.tokens if held else min(0.0, process.tokens)
        others = [
            EventShare(each.tokens, float(each.asked))
            for each in self.processes
            if each is not process and each.leased_at is not None and self.now - each.leased_at < HELD
        ]
        lease = grant_lease(self.limit, self.level, LeaseRequest(returned, float(process.asked)), others, self.now)
        self.level, process.tokens, process.leased_at = lease.left, lease.tokens, self.now
        process.asked = 0

    def ask(self, process: Process, amount: int) -> bool:
        process.asked += amount
        if process.leased_at is None or self.now - process.leased_at >= HELD:
            self.lease(process)
        if process.tokens <= 0:
            return False
        process.tokens -= amount
        self.sent.append((self.now, amount))
        return True


steps = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.sampled_from([0, 0, 100, 900, 1100, 6000])), max_size=30
)


@given(limit=st.integers(0, 30), number=st.integers(1, 4), steps=steps)
@example(limit=6, number=1, steps=[(0, 1, 900), (0, 27, 900), (0, 39, 0), (0, 39, 0)])
def test_in_no_interval_more_is_accepted_than_the_rate_allows(
    limit: int, number: int, steps: Sequence[tuple[int, int, int]]
) -> None:
    installation = Installation(limit, [Process() for _ in range(number)])
    for which, amount, wait_ms in steps:
        installation.ask(installation.processes[which % number], amount)
        installation.now += timedelta(milliseconds=wait_ms)
        for each in installation.processes:
            if each.leased_at is not None and timedelta(seconds=1) <= installation.now - each.leased_at < HELD:
                installation.lease(each)

    largest = max((amount for _, amount, _ in steps), default=0)
    for start, (since, _) in enumerate(installation.sent):
        together = 0
        for at, amount in installation.sent[start:]:
            together += amount
            seconds = (at - since).total_seconds()
            between = HELD.total_seconds()
            assert together <= limit * (SAVED + seconds + between) + number * largest + 1e-6


@given(limit=st.integers(1, 20), weights=st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_what_may_be_sent_is_not_lost(limit: int, weights: Sequence[int]) -> None:
    """Processes that are always asked for more, each by its weight, together send at the rate."""
    installation = Installation(limit, [Process() for _ in weights])
    seconds = 20
    for _ in range(seconds):
        for each, weight in zip(installation.processes, weights, strict=True):
            for _ in range(weight * limit * SAVED):
                if not installation.ask(each, 1):
                    each.asked += weight * limit * SAVED
                    break
        installation.now += timedelta(seconds=1)
        for each in installation.processes:
            installation.lease(each)

    assert sum(amount for _, amount in installation.sent) >= limit * (seconds - 2)


amounts = st.integers(0, 10**6)
parties = st.lists(st.builds(EventShare, st.floats(0, 1e6), st.floats(0, 1e6)), max_size=5)


@given(
    limit=st.integers(0, 2**31 - 1),
    tokens=st.floats(-1e9, 1e12),
    demand=st.builds(LeaseRequest, st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(0, 1e6)),
    others=parties,
    passed=st.integers(-(10**6), 10**9),
)
def test_a_lease_gives_no_more_than_there_is(
    limit: int, tokens: float, demand: LeaseRequest, others: Sequence[EventShare], passed: int
) -> None:
    before = EventLevel(tokens, NOW)

    lease = grant_lease(limit, before, demand, others, NOW + timedelta(seconds=passed))

    assert lease.tokens >= 0
    assert lease.left.at >= before.at, "a clock that steps back moves no level back"
    there = before.tokens + max(0.0, demand.returned) + limit * max(0, passed)
    assert lease.tokens + lease.left.tokens <= there + abs(there) * 1e-9 + 1e-6
    held = lease.tokens + max(0.0, lease.left.tokens) + sum(share.tokens for share in others)
    most = max(limit * SAVED, sum(share.tokens for share in others))
    assert held <= most + most * 1e-9 + 1e-6


@given(limit=st.integers(0, 10**6), debt=st.floats(-10, 1e9))
def test_a_wait_is_long_enough_to_pay_the_debt_unless_it_is_very_long(limit: int, debt: float) -> None:
    seconds = wait_s(limit, debt)

    assert 1 <= seconds <= LONGEST_WAIT
    assert seconds == LONGEST_WAIT or seconds * limit >= debt


counts = st.dictionaries(st.sampled_from([Quota.SCHEDULES, Quota.ACCUMULATIONS]), st.integers(0, 20))


@given(limits=counts, schedules=st.integers(-10, 10), opened=st.integers(-10, 10), used=st.tuples(amounts, amounts))
def test_a_change_is_refused_only_for_what_it_adds_beyond_a_limit(
    limits: dict[Quota, int], schedules: int, opened: int, used: tuple[int, int]
) -> None:
    before = {Quota.SCHEDULES: used[0] % 25, Quota.ACCUMULATIONS: used[1] % 25}
    added = {Quota.SCHEDULES: schedules, Quota.ACCUMULATIONS: opened}
    grown = [quota for quota in added if quota in limits and added[quota] > 0]
    over = [quota for quota in grown if before[quota] + added[quota] > limits[quota]]

    if not over:
        check_growth("sales", QuotaGrowth(schedules, opened), limits, before)
        return
    with pytest.raises(QuotaExceededError) as refused:
        check_growth("sales", QuotaGrowth(schedules, opened), limits, before)
    first = over[0]
    assert (refused.value.quota, refused.value.limit, refused.value.used, refused.value.wanted) == (
        first,
        limits[first],
        before[first],
        added[first],
    )


definitions = st.none() | st.builds(
    lambda at_most: Per(Partitions(DatasetRef("default", "flights"), 1), ("date",), at_most=at_most), st.integers(1, 50)
)


@given(changes=st.lists(st.tuples(definitions, definitions), max_size=20))
def test_what_changes_add_is_what_there_is_afterwards_more_than_before(
    changes: list[tuple[Per | None, Per | None]],
) -> None:
    before = [each for each, _ in changes if each is not None]
    after = [each for _, each in changes if each is not None]

    assert growth(changes) == QuotaGrowth(
        len(after) - len(before), sum(each.at_most for each in after) - sum(each.at_most for each in before)
    )


@given(trigger=strategies.triggers(), at_most=st.integers(1, 10**6))
def test_a_schedule_may_open_as_many_accumulations_as_its_correlation_says(trigger: Trigger, at_most: int) -> None:
    assert accumulations(trigger) == 1

    per = Per(Partitions(DatasetRef("default", "flights"), 1), ("date",), at_most=at_most)
    for correlated in (per, per & per, per | (per & per), Within(per & per, timedelta(hours=1))):
        assert accumulations(correlated) == at_most


@given(
    uses=st.lists(st.tuples(st.text(), st.sampled_from(Quota), st.integers(0, 9), st.integers(0, 9))),
    most=st.integers(1, 5),
)
def test_the_series_of_the_metric_are_bounded_and_those_used_most(
    uses: list[tuple[str, Quota, int, int]], most: int
) -> None:
    given_uses = [QuotaUse(name, quota, limit, used, "", NOW) for name, quota, limit, used in uses]

    shown = find_most_used(given_uses, most)

    assert len(shown) == min(most, len(given_uses))
    least = min((use.ratio or 0.0 for use in shown), default=0.0)
    assert sum((use.ratio or 0.0) > least for use in given_uses) <= len(shown)


@given(event=strategies.events())
def test_an_event_is_charged_to_the_namespace_in_its_key(event: Event) -> None:
    assert event.key.partition(":")[2].startswith(f"{namespace_of(event.fact)}.")
