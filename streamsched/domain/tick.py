"""Time leaves: values that say when a clock ticks. `domain.cron` knows how to read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from streamsched.domain.composite import Composable
from streamsched.domain.dialect import Dialect, InGap, InOverlap
from streamsched.domain.errors import InvalidDefinitionError


@dataclass(frozen=True, slots=True)
class Cron(Composable):
    """A tick at every instant the expression matches in an IANA zone (all judged by `domain.cron`).

    Attributes:
        in_gap: what a time does that the clock skips; None: as `domain.cron` has it for the dialect.
        in_overlap: … that the clock shows twice.
    """

    expression: str
    zone: str = "UTC"
    dialect: Dialect = Dialect.UNIX
    in_gap: InGap | None = None
    in_overlap: InOverlap | None = None

    def __str__(self) -> str:
        dialect = "" if self.dialect is Dialect.UNIX else f"{self.dialect} "
        return f"{dialect}cron '{self.expression}' in {self.zone}"


@dataclass(frozen=True, slots=True)
class Every(Composable):
    """A tick each `interval` of real time, counted from `start` (UTC), or from the schedule's creation when None."""

    interval: timedelta
    start: datetime | None = None

    def __post_init__(self) -> None:
        if self.interval < timedelta(seconds=1):
            raise InvalidDefinitionError("$.interval", f"must be at least one second but is {self.interval}")
        if self.start is not None and self.start.tzinfo is None:
            raise InvalidDefinitionError("$.start", "must name its offset from UTC")

    def __str__(self) -> str:
        return f"every {self.interval}"


@dataclass(frozen=True, slots=True)
class At(Composable):
    """One tick at an instant (UTC)."""

    instant: datetime

    def __post_init__(self) -> None:
        if self.instant.tzinfo is None:
            raise InvalidDefinitionError("$.instant", "must name its offset from UTC")

    def __str__(self) -> str:
        return f"at {self.instant.isoformat()}"


TimeLeaf = Cron | Every | At


def tick_id(leaf: TimeLeaf) -> str:
    """A time leaf's identity, as `leaf_id`. What is as by default says nothing, so ids of older definitions stay."""
    match leaf:
        case Cron():
            chosen = {
                "dialect": None if leaf.dialect is Dialect.UNIX else leaf.dialect,
                "gap": leaf.in_gap,
                "overlap": leaf.in_overlap,
            }
            return f"cron:{leaf.expression}@{leaf.zone}{_chosen(chosen)}"
        case Every(interval=interval, start=start):
            return f"every:{interval.total_seconds():.15g}s" + (f"@{start.isoformat()}" if start else "")
        case At(instant=instant):
            return f"at:{instant.isoformat()}"
        case _:
            assert_never(leaf)


def _chosen(choices: dict[str, str | None]) -> str:
    return "".join(f";{name}={value}" for name, value in choices.items() if value is not None)
