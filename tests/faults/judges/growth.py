"""Whether what was measured again and again grows: memory, tables, topics, files. Pure.

The first part of the samples is the warm-up and does not count. The rest is cut into eight windows of as many samples,
each with their mean, so that what goes up and down with each round of the load is not taken for growth.
The slope is that of least squares through the eight means. Something grows when it is nearly certain that the slope is
positive (the slope less 5.2 standard errors, a one-sided error of one in a thousand) and what it grew by in the whole
time is more than a tolerance of its unit and more than a twentieth of what it was. What is neither certain to grow nor
certain to grow by less than that is unsure: a longer soak tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import fmean
from typing import Final, NamedTuple

WINDOWS: Final = 8
#: Standard errors of a slope through so many means, for an error of 0.001 on one side (Student's t, 6 degrees).
_CERTAIN: Final = 5.2
#: What something may have grown by in all the time, as a part of its mean.
_PART: Final = 0.05
_HOUR_S: Final = 3600.0


class Sample(NamedTuple):
    """At so many seconds after the beginning."""

    at_s: float
    value: float


class Verdict(StrEnum):
    FLAT = "flat"
    GROWS = "grows"
    UNSURE = "unsure"


class Unit(NamedTuple):
    """How values are shown, and by how much one may grow that does not."""

    name: str
    per: float
    tolerance: float

    def shown(self, value: float) -> str:
        """
        >>> BYTES.shown(3_250_000)
        '3.2 MB'
        """
        scaled = value / self.per
        return f"{scaled:,.{0 if self.per == 1 else 1}f} {self.name}"


BYTES: Final = Unit("MB", 1e6, 1e6)
ROWS: Final = Unit("rows", 1, 100)
RECORDS: Final = Unit("records", 1, 100)
FILES: Final = Unit("files", 1, 20)
DESCRIPTORS: Final = Unit("open", 1, 4)


@dataclass(frozen=True, slots=True)
class Growth:
    """What became of one series after its warm-up.

    Attributes:
        first, last: means of the first and the last window.
        per_hour, error_per_hour: the slope and its standard error.
    """

    verdict: Verdict
    unit: Unit
    first: float
    last: float
    per_hour: float
    error_per_hour: float

    def __str__(self) -> str:
        """
        >>> str(judge_growth([Sample(n, 1e6 * n) for n in range(100)], BYTES, warm_s=20))
        'grows 3,600.0 MB/h'
        >>> str(judge_growth([Sample(n, 7e6) for n in range(100)], BYTES, warm_s=20))
        'flat'
        """
        match self.verdict:
            case Verdict.GROWS:
                return f"grows {self.unit.shown(self.per_hour)}/h"
            case Verdict.UNSURE:
                most = self.per_hour + _CERTAIN * self.error_per_hour
                return f"unsure: at most {self.unit.shown(most)}/h"
            case Verdict.FLAT:
                return "flat"


def judge_growth(samples: Sequence[Sample], unit: Unit, *, warm_s: float) -> Growth:
    """Of one series, in the order of time.

    Raises:
        ValueError: there are too few samples.
    """
    means = _window_means([each for each in samples if each.at_s >= warm_s])
    slope, error = _least_squares(means)
    usual = abs(sum(each.value for each in means) / WINDOWS)
    tolerated = max(unit.tolerance, _PART * usual)
    span_s = (means[-1].at_s - means[0].at_s) * WINDOWS / (WINDOWS - 1)
    grown, unsure = slope * span_s, _CERTAIN * error * span_s
    if grown - unsure > 0 and grown > tolerated:
        verdict = Verdict.GROWS
    else:
        verdict = Verdict.FLAT if grown + unsure <= tolerated else Verdict.UNSURE
    return Growth(verdict, unit, means[0].value, means[-1].value, slope * _HOUR_S, error * _HOUR_S)


def _window_means(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The mean time and the mean value of each window."""
    if len(samples) < WINDOWS:
        raise ValueError(f"{len(samples)} samples after the warm-up; {WINDOWS} are needed at least")
    cuts = [round(number * len(samples) / WINDOWS) for number in range(WINDOWS + 1)]
    windows = [samples[start:stop] for start, stop in pairwise(cuts)]
    return [Sample(fmean(each.at_s for each in some), fmean(each.value for each in some)) for some in windows]


def _least_squares(samples: Sequence[Sample]) -> tuple[float, float]:
    """The slope in a second, and its standard error."""
    middle, mean = fmean(each.at_s for each in samples), fmean(each.value for each in samples)
    spread = sum((at - middle) ** 2 for at, _ in samples)
    slope = sum((at - middle) * (value - mean) for at, value in samples) / spread
    residual = sum((value - mean - slope * (at - middle)) ** 2 for at, value in samples)
    return slope, math.sqrt(residual / (len(samples) - 2) / spread)
