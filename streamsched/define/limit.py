"""Limits that schedules share: what goes into `constraints`."""

from __future__ import annotations

from streamsched.define.quantity import Duration, duration, whole
from streamsched.domain.constraint import Rate
from streamsched.domain.group import Group


def group(name: str, limit: int, *, weight: int = 1, wait: bool = True) -> Group:
    """A run takes `weight` of the `limit` slots that all runs of this group share, whatever their app.

    >>> print(group("warehouse", 4, weight=2))
    2 of 4 slots of group warehouse

    Args:
        name: the group; it exists as soon as somebody asks for it.
        limit: slots of the group; `streamsched group set` overrides it while everything runs.
        weight: how many of them a run takes.
        wait: False: a job for which there is no room ends.

    Raises:
        InvalidDefinitionError: no run could ever have so many slots, or the name is none.
    """
    return Group(name, whole(limit, "$.limit"), whole(weight, "$.weight"), wait=wait)


def rate(limit: int, *, per: Duration, wait: bool = True) -> Rate:
    """At most `limit` runs of the program in any stretch of time as long as `per`, whoever starts them.

    >>> print(rate(10, per="1h"))
    at most 10 runs in 1h

    Args:
        limit: runs, up to a thousand.
        per: such as `"1h"`.
        wait: False: a job for which there is no room ends.

    Raises:
        InvalidDefinitionError: a number or duration that makes no sense.
    """
    return Rate(whole(limit, "$.limit"), duration(per, "$.per"), wait=wait)
