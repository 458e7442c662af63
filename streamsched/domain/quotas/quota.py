"""The quotas of a namespace, and what a change needs of them.

| quota | what counts | over it |
|---|---|---|
| `schedules` | schedules that exist, enabled or not | a change that adds some is refused |
| `accumulations` | accumulations that the schedules may have open | a change that adds some is refused |
| `runs` | runs that have not ended | a job waits |
| `events_per_second` | events over HTTP, charged to the namespace each is about | a request is refused for a time |
| `body_bytes` | the body of one request | the request is refused |
| `shared_names` | names of groups and pools it owns; 10,000 unless it is set | what declares one more is refused |
| `webhooks` | webhooks; 20 unless it is set | one more is refused |
| `log_bytes` | logs of runs on the disk of a launcher's host | logs of the runs that ended first are emptied |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from streamsched.domain.errors import QuotaExceededError
from streamsched.domain.limits import MOST, MOST_SLOTS, check_count
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.revision import digest
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import Trigger, children

#: The largest limit of each. Runs are slots of a group.
_MOST: Final[Mapping[Quota, int]] = MappingProxyType(
    {
        Quota.SCHEDULES: MOST,
        Quota.ACCUMULATIONS: MOST,
        Quota.RUNS: MOST_SLOTS,
        Quota.EVENTS: MOST_SLOTS,
        Quota.BODY: MOST,
        Quota.NAMES: MOST,
        Quota.WEBHOOKS: MOST,
        Quota.LOGS: MOST,
    }
)
#: The limits that are set, by namespace.
Limits = Mapping[str, Mapping[Quota, int]]
#: What holds where no limit is set; others are then without one.
DEFAULTS: Final[Mapping[Quota, int]] = MappingProxyType({Quota.NAMES: 10_000, Quota.WEBHOOKS: 20})


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota that is set.

    Attributes:
        used: what is in use now; of `events_per_second` the events a second that were accepted lately; None of
            `body_bytes`, which is of one request, and of `log_bytes`, which each host knows of itself.
        reason: of the last change, and its time (UTC).
    """

    namespace: str
    quota: Quota
    limit: int
    used: float | None
    reason: str
    changed_at: datetime

    @property
    def ratio(self) -> float | None:
        """The part in use; above 1 after the limit was lowered. 1 of a limit of 0 with any use. None: unknown."""
        if self.used is None:
            return None
        return self.used / self.limit if self.limit else float(self.used > 0)

    @property
    def revision(self) -> str:
        return digest([self.limit, self.reason])


@dataclass(frozen=True, slots=True)
class QuotaGrowth:
    """What a change adds to a namespace; negative: it removes more than it adds."""

    schedules: int = 0
    accumulations: int = 0

    def amounts(self) -> Mapping[Quota, int]:
        """By the quotas that count it."""
        return {Quota.SCHEDULES: self.schedules, Quota.ACCUMULATIONS: self.accumulations}


#: Of a change that adds and removes nothing.
NO_GROWTH: Final = QuotaGrowth()


def check_limit(quota: Quota, limit: int, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it is no limit of this quota.
    """
    check_count(limit, path, least=0, most=_MOST[quota])


def check_growth(namespace: str, growth: QuotaGrowth, limits: Mapping[Quota, int], used: Mapping[Quota, int]) -> None:
    """Checks a change as a whole. `limits`: those of the namespace that are set; `used`: before the change. What does
    not add to a quota is never refused for it, also when more is used than the limit allows.

    Raises:
        QuotaExceededError: the namespace would have more than a limit; the first in the order of `Quota`.
    """
    for quota, wanted in growth.amounts().items():
        if quota in limits and wanted > 0 and used[quota] + wanted > limits[quota]:
            raise QuotaExceededError(namespace, quota, limits[quota], used=used[quota], wanted=wanted)


def growth(changes: Iterable[tuple[Trigger | None, Trigger | None]]) -> QuotaGrowth:
    """What changes of schedules add together: each has the trigger before and after; None: it does not exist."""
    schedules = opened = 0
    for before, after in changes:
        schedules += (after is not None) - (before is not None)
        if before != after:
            opened += (0 if after is None else accumulations(after)) - (0 if before is None else accumulations(before))
    return QuotaGrowth(schedules, opened)


def accumulations(trigger: Trigger) -> int:
    """How many accumulations a schedule with this trigger may have open: `at_most` when it correlates, else 1."""
    if isinstance(trigger, Per):
        return trigger.at_most
    return max(map(accumulations, children(trigger)), default=1)


def slots_name(namespace: str) -> str:
    """The name under which the runs of a namespace with a quota are slots among the groups; not a valid group name."""
    return f"quota:{namespace}"


def find_most_used(uses: Iterable[QuotaUse], limit: int) -> Sequence[QuotaUse]:
    """At most so many of them, those that are used most first."""
    return sorted(uses, key=lambda use: (-(use.ratio or 0.0), use.namespace, use.quota))[:limit]
