"""When to send a wake-up that a fold asked for.

Two clocks meet here. A deadline is an instant of the log's time, so that replay decides the same; a wake-up is sent by
our own, and the fold takes its word for it that the time has come. Where the log's clock is behind ours, a request may
look overdue the moment it comes. The rule below gives it time all the same, without making those late that are overdue
because we were away; and whoever asks again because he was woken too early does so a few times, not as fast as he can.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

#: A request that is due when it comes to us waits this long at most, if it was not when the log took it.
_A_MOMENT: Final = timedelta(seconds=1)


def send_at(at: datetime, *, logged_at: datetime, now: datetime) -> datetime:
    """When to send the wake-up that was asked for `at`, in a record the log took at `logged_at`, seen `now`.

    Never before `at`. At `at` when that is still ahead. When it has passed, either we come late or the log's clock is
    behind: then after what the log had left to wait, but no longer than we are late already (or a moment). So coming
    late at most doubles.
    """
    if at > now:
        return at
    left = at - logged_at
    if left <= timedelta(0):
        return now
    return now + min(left, max(_A_MOMENT, now - at))
