"""Named groups as people see and steer them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.group import Occupancy


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group that a job asked for or somebody set a limit of.

    Attributes:
        waiting: how many jobs wait for a slot of it.
        changed_at: when its limit was set or taken back the last time (UTC).
    """

    name: str
    occupancy: Occupancy
    waiting: int
    changed_at: datetime | None


class Groups(Protocol):
    """What people ask and do about groups."""

    async def all(self) -> Sequence[GroupRecord]:
        """Ordered by name."""
        ...

    async def set_limit(self, name: str, limit: int | None, reason: str, *, now: datetime) -> GroupRecord:
        """From here on the group has so many slots: 0 shuts it, None leaves it to the schedules again. Runs that hold
        more go on; jobs that wait for the group are looked at again. `reason` (who and why) goes into the history.
        """
        ...
