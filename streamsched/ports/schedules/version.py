"""A version of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ScheduleVersion:
    """A definition that a schedule has had, as JSON; `generation` is the first one with it."""

    generation: int
    at: datetime
    reason: str
    definition: Mapping[str, Any]
