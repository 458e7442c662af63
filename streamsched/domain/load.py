"""Load of a cluster: what a probe read, and gates that open and shut by it without flapping.

>>> terms = Load("main", free_cores=Band(8, 4))
>>> gate = Gate()
>>> for cores in (6, 8, 5, 3, 6):
...     gate = gate.turned(terms, Reading(free_cores=cores), datetime.fromisoformat("2013-01-08T12:00:00Z"))
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

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.group import check_group_name

#: A reading that is older says nothing any more.
STALE: Final = timedelta(seconds=30)
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Reading:
    """What a cluster says of itself; None: it does not say. Memory in bytes."""

    free_cores: float | None = None
    free_memory: int | None = None
    running: int | None = None

    def __str__(self) -> str:
        said = (
            None if self.free_cores is None else f"{self.free_cores:g} cores free",
            None if self.free_memory is None else f"{self.free_memory // _MEGABYTE} MB free",
            None if self.running is None else f"{self.running} applications running",
        )
        return ", ".join(filter(None, said)) or "nothing"


@dataclass(frozen=True, slots=True)
class Band:
    """A gate opens when `enter` is reached and stays open until `leave` is passed."""

    enter: int
    leave: int


@dataclass(frozen=True, slots=True)
class Load:
    """The cluster has room; every measure that is named does.

    Attributes:
        free_cores, free_memory: opens with so much or more, shuts with less than `leave`. Memory in bytes.
        running: opens with so many applications or fewer, shuts with more than `leave`.
        starts: how many runs one reading lets start: a run shows in the next reading at the earliest.
    """

    cluster: str
    free_cores: Band | None = None
    free_memory: Band | None = None
    running: Band | None = None
    starts: int = 1
    wait: bool = True

    def __post_init__(self) -> None:
        check_group_name(self.cluster, "$.cluster")
        if not 1 <= self.starts <= 1000:
            raise InvalidDefinitionError("$.starts", f"must be 1 to 1000 but is {self.starts}")
        if self.free_cores is None and self.free_memory is None and self.running is None:
            raise InvalidDefinitionError("$", "measures nothing: name free cores, free memory or running applications")
        for name, band in (("free_cores", self.free_cores), ("free_memory", self.free_memory)):
            if band is not None and not 0 <= band.leave <= band.enter:
                raise InvalidDefinitionError(f"$.{name}", f"must not shut above {band.enter}, where it opens")
        if self.running is not None and not 0 <= self.running.enter <= self.running.leave:
            raise InvalidDefinitionError("$.running", f"must not shut below {self.running.enter}, where it opens")

    def __str__(self) -> str:
        terms = (
            _terms(self.free_cores, "{} cores or more free", "fewer than {}"),
            _terms(self.free_memory, "{} MB or more free", "fewer than {} MB", _MEGABYTE),
            _terms(self.running, "{} applications or fewer running", "more than {}"),
        )
        return f"{', '.join(filter(None, terms))} on cluster {self.cluster}"


@dataclass(frozen=True, slots=True)
class Gate:
    """What the readings so far mean for one `Load`.

    Attributes:
        open: as the last reading left it.
        since: when it opened or shut; None: it never saw a reading.
        reading, at: the last one, and when it was taken (UTC).
        started: runs that it let start.
        failed: why the probe brings nothing, and `failing` since when.
    """

    open: bool = False
    since: datetime | None = None
    reading: Reading | None = None
    at: datetime | None = None
    started: int = 0
    failed: str | None = None
    failing: datetime | None = None

    def turned(self, load: Load, reading: Reading, at: datetime) -> Gate:
        """The gate after a further reading."""
        opened = _held(load, reading, opened=self.open)
        since = self.since if self.since is not None and opened == self.open else at
        return Gate(opened, since, reading, at)

    def passed(self) -> Gate:
        """The gate after a run."""
        return replace(self, started=self.started + 1)


def _held(load: Load, reading: Reading, *, opened: bool) -> bool:
    free = ((load.free_cores, reading.free_cores), (load.free_memory, reading.free_memory))
    for band, have in free:
        if band is not None and (have is None or have < (band.leave if opened else band.enter)):
            return False
    band, have = load.running, reading.running
    return band is None or (have is not None and have <= (band.leave if opened else band.enter))


def _terms(band: Band | None, opens: str, shuts: str, unit: int = 1) -> str | None:
    if band is None:
        return None
    text = opens.format(band.enter // unit)
    return text if band.leave == band.enter else f"{text} (until {shuts.format(band.leave // unit)})"
