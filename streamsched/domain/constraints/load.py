"""Load of a cluster: the readings of its probe, and load gates with hysteresis that open and close by them.

>>> load = Load("main", free_cores=Hysteresis(8, 4))
>>> gate = LoadGate()
>>> for cores in (6, 8, 5, 3, 6):
...     gate = gate.update(load, ClusterReading(free_cores=cores), datetime.fromisoformat("2013-01-08T12:00:00Z"))
...     print(cores, "open" if gate.open else "shut")
6 shut
8 open
5 open
3 shut
6 shut
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.constraints.group import check_group_name
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_count

#: Maximum age of a usable reading.
STALE: Final = timedelta(seconds=30)
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """One reading of a cluster's probe; None: the cluster does not report it. Memory in bytes."""

    free_cores: float | None = None
    free_memory: int | None = None
    running: int | None = None

    def __str__(self) -> str:
        measures = (
            None if self.free_cores is None else f"{self.free_cores:g} cores free",
            None if self.free_memory is None else f"{self.free_memory // _MEGABYTE} MB free",
            None if self.running is None else f"{self.running} applications running",
        )
        return ", ".join(filter(None, measures)) or "nothing"


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """A load gate opens when `enter` is reached and stays open until `leave` is passed."""

    enter: int
    leave: int

    def __post_init__(self) -> None:
        check_count(self.enter, "$.enter", least=0)
        check_count(self.leave, "$.leave", least=0)


@dataclass(frozen=True, slots=True)
class Load:
    """The cluster has capacity by every measure named.

    Attributes:
        free_cores, free_memory: opens at `enter` or more, closes below `leave`. Memory in bytes.
        running: number of applications; opens at `enter` or fewer, closes above `leave`.
        starts: runs admitted for each reading, because a new run appears in the next reading at the earliest.
    """

    cluster: str
    free_cores: Hysteresis | None = None
    free_memory: Hysteresis | None = None
    running: Hysteresis | None = None
    starts: int = 1
    wait: bool = True

    def __post_init__(self) -> None:
        check_group_name(self.cluster, "$.cluster")
        check_count(self.starts, "$.starts", most=1000)
        if self.free_cores is None and self.free_memory is None and self.running is None:
            raise InvalidDefinitionError("$", "measures nothing: name free cores, free memory or running applications")
        for name, band in (("free_cores", self.free_cores), ("free_memory", self.free_memory)):
            if band is not None and not band.leave <= band.enter:
                raise InvalidDefinitionError(f"$.{name}", f"must not shut above {band.enter}, where it opens")
        if self.running is not None and not self.running.enter <= self.running.leave:
            raise InvalidDefinitionError("$.running", f"must not shut below {self.running.enter}, where it opens")

    def __str__(self) -> str:
        terms = (
            _terms(self.free_cores, "{} cores or more free", "fewer than {}"),
            _terms(self.free_memory, "{} MB or more free", "fewer than {} MB", _MEGABYTE),
            _terms(self.running, "{} applications or fewer running", "more than {}"),
        )
        return f"{', '.join(filter(None, terms))} on cluster {self.cluster}"


@dataclass(frozen=True, slots=True)
class LoadGate:
    """The state of one `Load` after the readings so far.

    Attributes:
        open: after the last reading.
        since: when it last opened or closed (UTC); None before the first reading.
        reading, at: the last reading, and when it was taken (UTC).
        started: runs started since the last reading.
        failed: why the probe fails now; `failing`: since when (UTC).
    """

    open: bool = False
    since: datetime | None = None
    reading: ClusterReading | None = None
    at: datetime | None = None
    started: int = 0
    failed: str | None = None
    failing: datetime | None = None

    def update(self, load: Load, reading: ClusterReading, at: datetime) -> LoadGate:
        """The gate after a further reading."""
        opened = _is_within_thresholds(load, reading, opened=self.open)
        since = self.since if self.since is not None and opened == self.open else at
        return LoadGate(opened, since, reading, at)

    def with_started_runs(self, runs: int) -> LoadGate:
        """The gate after that many more runs have started."""
        return replace(self, started=self.started + runs)


def _is_within_thresholds(load: Load, reading: ClusterReading, *, opened: bool) -> bool:
    free = ((load.free_cores, reading.free_cores), (load.free_memory, reading.free_memory))
    for band, have in free:
        if band is not None and (have is None or have < (band.leave if opened else band.enter)):
            return False
    band, have = load.running, reading.running
    return band is None or (have is not None and have <= (band.leave if opened else band.enter))


def _terms(band: Hysteresis | None, opens: str, shuts: str, unit: int = 1) -> str | None:
    if band is None:
        return None
    text = opens.format(band.enter // unit)
    return text if band.leave == band.enter else f"{text} (until {shuts.format(band.leave // unit)})"
