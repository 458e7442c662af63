"""Constraints, for the parameter `constraints` of a schedule, and limits of catching up missed ticks."""

from __future__ import annotations

from datetime import time
from typing import Any

from streamsched.define.units import Duration, Size, check_integer, choice, duration, size, time_of_day
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Hysteresis, Load
from streamsched.domain.constraints.plugin import PlugIn, canonical
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate, RateScope
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.time.calendar import Calendar


def group(name: str, limit: int, *, weight: int = 1, wait: bool = True) -> Group:
    """A run takes `weight` of the `limit` slots that all runs of this group share, whatever their app.

    >>> print(group("warehouse", 4, weight=2))
    2 of 4 slots of group warehouse

    Args:
        name: the group. It is created when a job first uses it.
        limit: slots of the group; `streamsched group set` overrides it at run time.
        weight: number of slots that a run takes.
        wait: False: the job ends as ABORTED when there are not enough free slots.

    Raises:
        InvalidDefinitionError: the weight exceeds the limit, or a number or the name is invalid.
    """
    return Group(name, check_integer(limit, "$.limit"), check_integer(weight, "$.weight"), wait=wait)


def load(
    cluster: str = "main",
    *,
    free_cores: int | tuple[int, int] | None = None,
    free_memory: Size | tuple[Size, Size] | None = None,
    running: int | tuple[int, int] | None = None,
    starts: int = 1,
    wait: bool = True,
) -> Load:
    """Runs start only while the cluster reports enough free capacity.

    >>> print(load("main", free_cores=(8, 4), running=10))
    8 cores or more free (until fewer than 4), 10 applications or fewer running on cluster main

    Args:
        cluster: a cluster in `STREAMSCHED_CLUSTERS` of the launchers.
        free_cores: least number of free cores. With a pair (hysteresis) the gate opens at the first number or more and
            closes below the second.
        free_memory: least free memory, such as `"64GB"`, or a pair such as `("64GB", "16GB")`.
        running: most running applications. With a pair the gate opens at the first number or fewer and closes above the
            second.
        starts: number of runs that one reading allows to start; readings are taken every few seconds.
        wait: False: the job ends as ABORTED when the gate is closed. Without a current reading it waits in any case.

    Raises:
        InvalidDefinitionError: a number is invalid, or no limit is given.
    """
    memory = free_memory if isinstance(free_memory, tuple) or free_memory is None else (free_memory, free_memory)
    return Load(
        cluster,
        _band(free_cores, "$.free_cores"),
        None if memory is None else Hysteresis(size(memory[0], "$.free_memory"), size(memory[1], "$.free_memory")),
        _band(running, "$.running"),
        check_integer(starts, "$.starts"),
        wait=wait,
    )


def _band(given: int | tuple[int, int] | None, path: str) -> Hysteresis | None:
    if given is None:
        return None
    enter, leave = given if isinstance(given, tuple) else (given, given)
    return Hysteresis(check_integer(enter, path), check_integer(leave, path))


def plugin(name: str, *, wait: bool = True, **config: Any) -> PlugIn:
    """Runs start when a plug-in of the entry-point group `streamsched.constraints` allows it.

    >>> print(plugin("maintenance", calendar="ops"))
    plug-in maintenance {"calendar":"ops"}

    Args:
        name: name of the entry point, installed for the API and the launchers.
        wait: False: the job ends as ABORTED when the plug-in does not allow it to start.
        config: configuration, as JSON values. The plug-in checks it at deployment.

    Raises:
        InvalidDefinitionError: the configuration cannot be written as JSON.
    """
    try:
        return PlugIn(name, canonical(config), wait=wait)
    except (TypeError, ValueError) as exc:
        raise InvalidDefinitionError("$.config", f"cannot be written as JSON: {exc}") from exc


def pool(name: str, size: int, *, priority: int = 0, wait: bool = True) -> Pool:
    """A run takes one of the `size` slots that all runs of this pool share, whatever their app. Waiting jobs get free
    slots in order of priority, increased by their waiting time.

    >>> print(pool("nightly", 4, priority=10))
    a place of 4 in pool nightly, priority 10

    Args:
        name: the pool. It is created when a job first uses it.
        size: slots of the pool; `streamsched pool set` overrides it at run time.
        priority: from -1000 to 1000, higher first. One point is worth one minute of waiting (`streamsched pool set
            --age`), so no job starves; `streamsched pool prioritize` overrides it.
        wait: False: the job ends as ABORTED when no slot is free.

    Raises:
        InvalidDefinitionError: a number or the name is invalid.
    """
    return Pool(name, check_integer(size, "$.size"), check_integer(priority, "$.priority"), wait=wait)


def window(
    start: str | time, end: str | time, zone: str = "UTC", *, calendar: Calendar | None = None, wait: bool = True
) -> TimeWindow:
    """Runs start only while the wall clock of the zone is in [start, end). It crosses midnight when start is after end.

    >>> print(window("22:00", "06:00", "Europe/Berlin"))
    window 22:00–06:00 Europe/Berlin

    Args:
        start: first time of day inside the window, such as `"22:00"`.
        end: first time of day after it.
        zone: IANA zone.
        calendar: the window does not open on days that are closed.
        wait: False: the job ends as ABORTED outside the window.

    Raises:
        InvalidDefinitionError: a time or the zone is invalid, or start equals end.
    """
    return TimeWindow(time_of_day(start, "$.start"), time_of_day(end, "$.end"), zone, wait=wait, calendar=calendar)


def rate(
    limit: int,
    *,
    per: Duration,
    burst: int | None = None,
    of: RateScope | str = RateScope.PROGRAM,
    group: str | None = None,
    wait: bool = True,
) -> Rate:
    """On average `limit` runs per `per`, with at most `burst` at once (a token bucket).

    >>> print(rate(10, per="1h"))
    10 runs each 1h of the program
    >>> print(rate(600, per="1h", burst=5, group="warehouse-api"))
    600 runs each 1h of group warehouse-api, 5 at once

    Args:
        limit: tokens added to the bucket per `per`; a run takes one.
        per: such as `"1h"`.
        burst: capacity of the bucket. Default: `limit`. With 1, runs are spread evenly.
        of: the runs that share a bucket. `"program"`: all runs of the program, including manual runs. `"schedule"`:
            those of the schedule. `"key"`: those of one key of a correlating schedule.
        group: instead of `of`: the runs of all schedules with a rate of the same group share a bucket, whatever their
            app.
        wait: False: the job ends as ABORTED when the bucket is empty.

    Raises:
        InvalidDefinitionError: a number or duration is invalid.
    """
    return Rate(
        check_integer(limit, "$.limit"),
        duration(per, "$.per"),
        wait=wait,
        burst=None if burst is None else check_integer(burst, "$.burst"),
        of=choice(RateScope, of, "$.of") if group is None else RateScope.GROUP,
        group=group,
    )


def catch_up(
    *, window: Duration | None = None, at_most: int = UNBOUNDED.at_most, spacing: Duration = UNBOUNDED.spacing
) -> CatchUp:
    """Limits of catching up ticks that were missed while no launcher ran, for `misfire="all"`. `window` also applies to
    `misfire="one"`.

    >>> catch_up(window="6h", at_most=12, spacing="1m").at_most
    12

    Args:
        window: older ticks are skipped. Default: no tick is too old.
        at_most: number of ticks that fire; the newest ones.
        spacing: time between two of them. Ticks that become due meanwhile fire after them.

    Raises:
        InvalidDefinitionError: a number or duration is invalid.
    """
    return CatchUp(
        None if window is None else duration(window, "$.window"),
        check_integer(at_most, "$.at_most"),
        duration(spacing, "$.spacing"),
    )
