"""How the processes of the API share the events per second of a namespace.

The events that a namespace may still send are tokens: they come at the rate of its quota, and at most `SAVED` seconds
of them are saved up. A process takes a share of them by a lease, spends it without asking anybody, and gives the rest
back with its next lease a second later. So, with any number of processes, in any interval of `t` seconds

    accepted events  <=  limit * (SAVED + t + s) + one request of each process

because a request is accepted whole while its process has any token left; what it takes too many is a debt. `s` are the
seconds between two leases, about one and less than `HELD`: what came before the interval counts at the lease in it.

    >>> noon = datetime.fromisoformat("2013-01-08T12:00:00Z")
    >>> grant_lease(5, None, LeaseRequest(asked=30.0), [EventShare(10.0, asked=10.0)], noon).tokens
    30.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

#: Seconds of a quota that may be saved up.
SAVED: Final = 10
#: How long a process holds tokens without a word; afterwards they are lost.
HELD: Final = timedelta(seconds=5)
#: The longest time, in seconds, after which a refused request is asked to come again.
LONGEST_WAIT: Final = 60


@dataclass(frozen=True, slots=True)
class EventLevel:
    """The tokens of a namespace that no process holds, at a time (UTC); negative after a debt."""

    tokens: float
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """What a process says with its lease.

    Attributes:
        returned: tokens of its last lease that are left; negative: a debt.
        asked: events a second it was asked to accept lately.
        accepted: those of them that it accepted.
    """

    returned: float = 0.0
    asked: float = 0.0
    accepted: float = 0.0


@dataclass(frozen=True, slots=True)
class EventShare:
    """What another process of the API holds: tokens, and what it was asked for, events a second."""

    tokens: float
    asked: float


@dataclass(frozen=True, slots=True)
class EventLease:
    """The tokens that a process holds now, and the level that is left."""

    tokens: float
    left: EventLevel


def grant_lease(
    limit: int, level: EventLevel | None, demand: LeaseRequest, others: Sequence[EventShare], now: datetime
) -> EventLease:
    """A lease. `level`: None before the first one.

    A process gets the part of the tokens that its demand is of all demand; what all hold together and the level are
    never more than `limit * SAVED`. A clock that steps back adds no tokens.
    """
    most = max(0.0, limit * SAVED - sum(share.tokens for share in others))
    if level is None:
        level = EventLevel(most, now)
    passed = max(0.0, (now - level.at).total_seconds())
    tokens = min(most, level.tokens + limit * passed + demand.returned)
    asked = demand.asked + sum(share.asked for share in others)
    part = demand.asked / asked if asked > 0 else 1.0
    given = max(0.0, tokens * part)
    return EventLease(given, EventLevel(tokens - given, max(now, level.at)))


def wait_s(limit: int, debt: float) -> int:
    """Whole seconds after which a refused request should come again: at least until the next lease."""
    if limit == 0:
        return LONGEST_WAIT
    return max(1, min(LONGEST_WAIT, ceil(max(0.0, debt) / limit)))
