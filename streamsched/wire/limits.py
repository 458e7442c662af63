"""What limits launches: groups, pools with the priorities of schedules, and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.constraints.group import GroupSlot
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.names import ScheduleRef

_RUN: Final = About("default.flights.weekly.1.1.r1")
_SLOTS: Final = About(4, least=0, most=MOST_SLOTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group: its limit and the runs that hold its slots."""

    name: Annotated[str, About("warehouse")]
    limit: Annotated[int | None, _SLOTS]
    taken: int
    slots: Annotated[Sequence[GroupSlot], About(shape=JsonShape(GroupSlot, about={"run": _RUN}))]
    waiting: Annotated[int, About(0)]
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimit:
    """`limit`: 0 closes the group, None restores the limit of the schedules."""

    limit: Annotated[int | None, _SLOTS]
    reason: Annotated[str, REASON] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledSchedule:
    """A schedule of a pool. `online`: its priority was set, overriding its definition."""

    schedule: Annotated[ScheduleRef, About(name="id")]
    priority: Annotated[int, About(schema={"type": "integer", "examples": [0]})]
    online: Annotated[bool, About(False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """A pool. `age`: the waiting time that one point of priority is worth."""

    name: Annotated[str, About("nightly")]
    size: Annotated[int | None, _SLOTS]
    taken: int
    runs: Annotated[Sequence[str], _RUN]
    waiting: Annotated[int, About(0)]
    age: Annotated[str, About("10m")]
    schedules: Annotated[Sequence[PooledSchedule], About(shape=JsonShape(PooledSchedule))]
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """`size`: 0 closes the pool, None restores the size of the schedules. Without `age` it stays as it is."""

    size: Annotated[int | None, _SLOTS]
    age: Annotated[timedelta | None, About("10m")] = None
    reason: Annotated[str, REASON] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPriority:
    """The priority of a schedule in its pool; None: that of the definition."""

    schedule: Annotated[ScheduleRef, About(name="id")]
    pool: Annotated[str, About("nightly")]
    priority: Annotated[int | None, About(schema={"type": "integer", "examples": [5]})]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPriority:
    """None restores the priority of the definition."""

    priority: Annotated[int | None, About(5, least=-1000, most=1000)]
    reason: Annotated[str, About("urgent")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateState:
    """A load that jobs wait for, and whether it lets them start."""

    needs: Annotated[str, About("8 free cores of main")]
    open: bool
    since: datetime | None
    started: Annotated[int, About(0)]
    starts_per_reading: int
    waiting: Annotated[int, About(0)]


GATE: Final = JsonShape(GateState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A cluster, the last reading of its probe, and the loads that jobs wait for.

    Attributes:
        probe: the URL its load is read from, without user, password and query; None: this API has none for it.
        stale: the last reading is too old to start runs on.
    """

    name: Annotated[str, About("main")]
    probe: str | None
    free_cores: Annotated[int | None, About(8)]
    free_memory: Annotated[int | None, About(16_000_000_000)]
    running: Annotated[int | None, About(2)]
    read_at: datetime | None
    stale: Annotated[bool, About(False)]
    failed: str | None
    failing_since: datetime | None
    waiting: Annotated[int, About(0)]
    gates: Annotated[Sequence[GateState], About(shape=GATE)]


GROUP: Final = JsonShape(GroupState, "Group")
GROUP_LIMIT: Final = JsonShape(GroupLimit)
POOL: Final = JsonShape(PoolState, "Pool")
POOL_SIZE: Final = JsonShape(PoolSize)
PRIORITY: Final = JsonShape(SetPriority, "Priority")
NEW_PRIORITY: Final = JsonShape(NewPriority)
CLUSTER: Final = JsonShape(ClusterState, "Cluster")
