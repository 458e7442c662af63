"""What namespaces use of their quotas, and the check of a change of schedules in its transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.errors import QuotaExceededError
from streamsched.domain.quotas.event_level import HELD
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import DEFAULTS, QuotaGrowth, QuotaUse, check_growth, growth
from streamsched.domain.triggers.correlation import AT_MOST
from streamsched.store.catalog.records import ScheduleChange
from streamsched.store.connections import Connection, Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/quota_counts")


def growth_of(changes: Iterable[ScheduleChange]) -> QuotaGrowth:
    """What the changes add to the counts of their namespace, as a whole."""
    return growth(
        (
            each.before.definition.trigger if each.before is not None and each.before.exists else None,
            each.after.definition.trigger if each.after.exists else None,
        )
        for each in changes
    )


class _UsedQuota(NamedTuple):
    """A quota with what is in use; `used` is NULL of one that is not counted."""

    namespace: str
    quota: str
    most: int
    reason: str
    changed_at: datetime
    used: float | None


class _Limit(NamedTuple):
    """A quota of a namespace."""

    quota: str
    most: int


_USED: Final = Select(_SQL["list"], _UsedQuota)
_LIMITS: Final = Select(_SQL["lock_counts"], _Limit)


async def uses(
    executor: Executor, namespace: str | None, *, now: datetime, after: str = "", limit: int | None = None
) -> Sequence[QuotaUse]:
    """Quotas with what is in use, of one namespace or of all (None)."""
    order = list(Quota)  # a newer release may know more, which are left out
    rows = await _USED.fetch(executor, namespace, after, limit, now - HELD, AT_MOST, order)
    found = [QuotaUse(row.namespace, Quota(row.quota), row.most, row.used, row.reason, row.changed_at) for row in rows]
    return sorted(found, key=lambda use: (use.namespace, order.index(use.quota)))


async def check(connection: Connection, namespace: str, growth: QuotaGrowth, *, now: datetime) -> None:
    """Checks a change of schedules that is about to be stored. Until the transaction ends, no other change that adds to
    a quota of the namespace is checked.

    Raises:
        QuotaExceededError: the namespace would have more than a limit.
    """
    if not any(amount > 0 for amount in growth.amounts().values()):
        return
    limits = {Quota(row.quota): row.most for row in await _LIMITS.fetch(connection, namespace)}
    if limits:
        found = await uses(connection, namespace, now=now)
        used = {use.quota: int(use.used or 0) for use in found if use.quota in limits}
        check_growth(namespace, growth, limits, used)


async def check_number(connection: Connection, namespace: str, quota: Quota, used: int, wanted: int) -> None:
    """Checks what is about to be stored of a quota that has a default.

    Raises:
        QuotaExceededError: the namespace would have more.
    """
    found = await connection.fetchval(_SQL["limit"], namespace, quota)
    limit = DEFAULTS[quota] if found is None else found
    if wanted > 0 and used + wanted > limit:
        raise QuotaExceededError(namespace, quota, limit, used=used, wanted=wanted)
