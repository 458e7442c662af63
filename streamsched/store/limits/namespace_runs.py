"""The quota `runs`: the active runs of a namespace are slots of a group named `quota:NAMESPACE`, whose limit is the
quota. They are taken, freed, handed over and waited for as those of any group (`store.limits.groups`).

Runs that were stored while the quota was being set have no slot; `count_active` gives them one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from streamsched.domain.quotas.quota import slots_name
from streamsched.store.connections import Connection, Executor
from streamsched.store.limits import groups
from streamsched.store.sql import queries

_SQL: Final = queries("limits/namespace_runs")
#: Most waiting jobs that are rechecked at once when the quota is raised; the sweep rechecks the others.
_WOKEN: Final = 10_000


async def limit_of(connection: Connection, namespace: str) -> int | None:
    """The quota of a namespace; None without one."""
    return await connection.fetchval(_SQL["limit"], namespace)


async def set_limit(connection: Connection, namespace: str, limit: int, *, now: datetime) -> None:
    """Sets the quota, counts the runs that are active, and wakes as many waiting jobs as have room."""
    await connection.execute(_SQL["set"], namespace, limit, now)
    await connection.execute(_SQL["count_active"], namespace)
    await groups.wake(connection, {slots_name(namespace): min(limit, _WOKEN)})


async def remove_limit(connection: Connection, namespace: str) -> None:
    """Removes the quota, and wakes all jobs that wait for it."""
    await connection.execute(_SQL["close"], namespace)
    await connection.execute(_SQL["free_all"], namespace)
    await connection.execute(_SQL["wake_all"], namespace)


async def count_active(executor: Executor) -> None:
    """Counts active runs of namespaces with a quota that have no slot: they were stored while it was set."""
    await executor.execute(_SQL["count_active"], None)
