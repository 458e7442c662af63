"""Notices, in the transaction of a run's end, that too many in a row have failed; who pauses the schedule is
`catalog.resumption`, under its lock.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from streamsched.codec import pause as codec
from streamsched.codec.reading import Fields
from streamsched.domain.retry import OVERDUE
from streamsched.domain.run import RunState
from streamsched.store.sql import queries

_SQL: Final = queries("breaks")


async def notice(connection: Any, row: Any, reason: str, *, at: datetime) -> None:
    """A run (a row of `runs.sql`, state) has ended otherwise than well and for good; its program is locked."""
    if row["schedule"] is None:
        return
    found = await connection.fetchrow(_SQL["policy"], row["schedule"], row["generation"])
    if found is None:
        return
    policy = codec.after_from_json(Fields(found["policy"]))
    ends = await connection.fetch(
        _SQL["latest"], row["schedule"], row["generation"], policy.failures, OVERDUE, found["updated_at"]
    )
    if len(ends) < policy.failures or any(each["state"] == RunState.COMPLETED for each in ends):
        return
    pause = policy.pause(row["id"], reason, at=at)
    await connection.execute(_SQL["wish"], row["schedule"], row["generation"], at, pause.keep, pause.until, pause.note)
