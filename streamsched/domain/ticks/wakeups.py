"""When to send a wake-up that a fold requested.

Two clocks are involved. A deadline is an instant of log time, so that replay decides the same; a wake-up is sent by the
local clock, and the fold accepts its due time as passed. When the log's clock is behind the local one, a request may be
overdue on arrival. The rule below still waits the time that was left by the log's clock, without delaying requests that
are overdue because this process was down. It also bounds how often a fold that is woken too early asks again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

#: Minimum of the bound on the wait of a request that was not due by log time but is due on arrival.
_A_MOMENT: Final = timedelta(seconds=1)


def send_at(at: datetime, *, logged_at: datetime, now: datetime) -> datetime:
    """When to send the wake-up requested for `at`, in a record with log time `logged_at`, read at `now`.

    At `at` when that is in the future. Otherwise either this process is late or the log's clock is behind: then after
    the time that was left by the log's clock, but at most as long as it is late already (or `_A_MOMENT`). So lateness
    at most doubles. Never before `at`.
    """
    if at > now:
        return at
    left = at - logged_at
    if left <= timedelta(0):
        return now
    return now + min(left, max(_A_MOMENT, now - at))
