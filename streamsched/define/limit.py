"""Limits: those that schedules share, which go into `constraints`, and how missed ticks are made up for."""

from __future__ import annotations

from datetime import time
from typing import Any

from streamsched.define.quantity import Duration, Size, choice, duration, size, time_of_day, whole
from streamsched.domain.calendar import Calendar
from streamsched.domain.catchup import UNBOUNDED, CatchUp
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.group import Group
from streamsched.domain.load import Band, Load
from streamsched.domain.plugin import PlugIn, canonical
from streamsched.domain.pool import Pool
from streamsched.domain.rate import Metered, Rate
from streamsched.domain.window import TimeWindow


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


def load(
    cluster: str = "main",
    *,
    free_cores: int | tuple[int, int] | None = None,
    free_memory: Size | tuple[Size, Size] | None = None,
    running: int | tuple[int, int] | None = None,
    starts: int = 1,
    wait: bool = True,
) -> Load:
    """Runs start only while a cluster has room, as it says itself.

    >>> print(load("main", free_cores=(8, 4), running=10))
    8 cores or more free (until fewer than 4), 10 applications or fewer running on cluster main

    Args:
        cluster: one that `STREAMSCHED_CLUSTERS` of the launchers names.
        free_cores: so many at least; of a pair, the gate opens with the first and shuts with fewer than the second.
        free_memory: the same, such as `"64GB"` or `("64GB", "16GB")`.
        running: so many applications at most; of a pair, it opens with the first and shuts with more than the second.
        starts: how many runs one reading lets start; readings are taken every few seconds.
        wait: False: a job that finds no room ends. While nobody knows, it waits all the same.

    Raises:
        InvalidDefinitionError: a number that makes no sense, or none at all.
    """
    memory = free_memory if isinstance(free_memory, tuple) or free_memory is None else (free_memory, free_memory)
    return Load(
        cluster,
        _band(free_cores, "$.free_cores"),
        None if memory is None else Band(size(memory[0], "$.free_memory"), size(memory[1], "$.free_memory")),
        _band(running, "$.running"),
        whole(starts, "$.starts"),
        wait=wait,
    )


def _band(given: int | tuple[int, int] | None, path: str) -> Band | None:
    if given is None:
        return None
    enter, leave = given if isinstance(given, tuple) else (given, given)
    return Band(whole(enter, path), whole(leave, path))


def plugin(name: str, *, wait: bool = True, **config: Any) -> PlugIn:
    """Runs start when code of your own says so: a plug-in of entry-point group `streamsched.constraints`.

    >>> print(plugin("maintenance", calendar="ops"))
    plug-in maintenance {"calendar":"ops"}

    Args:
        name: the plug-in's entry point, installed where the API and the launchers run.
        wait: False: a job that it would hold back ends.
        config: what it is configured with; it checks that when the schedule is deployed.

    Raises:
        InvalidDefinitionError: the configuration is nothing JSON can say.
    """
    try:
        return PlugIn(name, canonical(config), wait=wait)
    except (TypeError, ValueError) as exc:
        raise InvalidDefinitionError("$.config", f"is nothing JSON can say: {exc}") from exc


def pool(name: str, size: int, *, priority: int = 0, wait: bool = True) -> Pool:
    """A run takes one of the `size` places that all runs of this pool share, whatever their app; who waits for one gets
    it in the order of a line.

    >>> print(pool("nightly", 4, priority=10))
    a place of 4 in pool nightly, priority 10

    Args:
        name: the pool; it exists as soon as somebody asks for it.
        size: places of the pool; `streamsched pool set` overrides it while everything runs.
        priority: higher goes first, from -1000 to 1000. A point is worth a minute of waiting (`streamsched pool set
            --age`), so nobody starves; `streamsched pool prioritize` overrides it.
        wait: False: a job for which there is no place ends.

    Raises:
        InvalidDefinitionError: a number that makes no sense, or the name is none.
    """
    return Pool(name, whole(size, "$.size"), whole(priority, "$.priority"), wait=wait)


def window(
    start: str | time, end: str | time, zone: str = "UTC", *, calendar: Calendar | None = None, wait: bool = True
) -> TimeWindow:
    """Runs start only while the wall clock of a zone is in [start, end); across midnight when start is after end.

    >>> print(window("22:00", "06:00", "Europe/Berlin"))
    window 22:00–06:00 Europe/Berlin

    Args:
        start: such as `"22:00"`.
        end: not inside.
        zone: IANA name.
        calendar: on days that it closes the window does not open.
        wait: False: a job that finds it shut ends.

    Raises:
        InvalidDefinitionError: a time or zone that is none, or nothing lies between start and end.
    """
    return TimeWindow(time_of_day(start, "$.start"), time_of_day(end, "$.end"), zone, wait=wait, calendar=calendar)


def rate(
    limit: int,
    *,
    per: Duration,
    burst: int | None = None,
    of: Metered | str = Metered.PROGRAM,
    group: str | None = None,
    wait: bool = True,
) -> Rate:
    """`limit` runs each `per` in the long run, `burst` of them at once after a quiet time.

    >>> print(rate(10, per="1h"))
    10 runs each 1h of the program
    >>> print(rate(600, per="1h", burst=5, group="warehouse-api"))
    600 runs each 1h of group warehouse-api, 5 at once

    Args:
        limit: how many tokens come each `per`; a run takes one.
        per: such as `"1h"`.
        burst: how many tokens there are at most; left out, `limit`. With 1, runs are spread evenly.
        of: whose runs count: `"program"`, whoever starts them; `"schedule"`; or `"key"`, for each key of a schedule
            that correlates by itself.
        group: those of all schedules that name the same group in a rate count instead, whatever their app.
        wait: False: a job for which there is no token ends.

    Raises:
        InvalidDefinitionError: a number or duration that makes no sense.
    """
    return Rate(
        whole(limit, "$.limit"),
        duration(per, "$.per"),
        wait=wait,
        burst=None if burst is None else whole(burst, "$.burst"),
        of=choice(Metered, of, "$.of") if group is None else Metered.GROUP,
        group=group,
    )


def catch_up(
    *, window: Duration | None = None, at_most: int = UNBOUNDED.at_most, spacing: Duration = UNBOUNDED.spacing
) -> CatchUp:
    """What `misfire="all"` makes up for (and `window` for `"one"`) when nobody looked for a while.

    >>> catch_up(window="6h", at_most=12, spacing="1m").at_most
    12

    Args:
        window: ticks missed by longer than this are passed over; left out, none is too old.
        at_most: of more ticks than this the newest.
        spacing: time between two that are made up for; ticks that come due meanwhile wait behind them.

    Raises:
        InvalidDefinitionError: a number or duration that makes no sense.
    """
    return CatchUp(
        None if window is None else duration(window, "$.window"),
        whole(at_most, "$.at_most"),
        duration(spacing, "$.spacing"),
    )
