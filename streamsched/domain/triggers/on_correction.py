"""Corrections: what a schedule does when a part of a key is written again after the key's job was made (ADR 10)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import LONGEST
from streamsched.domain.time.duration import duration_text


@dataclass(frozen=True, slots=True)
class OnCorrection:
    """A key that has fired stays *finished*: what comes for it later is a correction of its job.

    Attributes:
        quiet: a job is made of the corrections of a key when none has come for so long; zero: at once. None:
            corrections are said and make no job.
    """

    quiet: timedelta | None

    def __post_init__(self) -> None:
        if self.quiet is not None and not timedelta(0) <= self.quiet <= LONGEST:
            raise InvalidDefinitionError("$.on_correction", f"must be from 0 to {LONGEST} but is {self.quiet}")

    def __str__(self) -> str:
        match self.quiet:
            case None:
                return "ignored"
            case quiet if quiet:
                return f"make a job after {duration_text(quiet)} of quiet"
            case _:
                return "make a job at once"

    @property
    def policy(self) -> CorrectionPolicy:
        return CorrectionPolicy.IGNORE if self.quiet is None else CorrectionPolicy.RERUN


class CorrectionPolicy(StrEnum):
    """As definitions name them. REOPEN: a key that has fired is forgotten, and what comes later opens it again."""

    RERUN = "rerun"
    IGNORE = "ignore"
    REOPEN = "reopen"


IGNORE: Final = OnCorrection(None)
RERUN: Final = OnCorrection(timedelta(0))
#: Of a roll-up that does not say: a corrected day is usually written again hour by hour.
_USUAL: Final = OnCorrection(timedelta(minutes=10))


def default_on_correction(expires: timedelta) -> OnCorrection:
    """What a roll-up does that does not say, and whose keys expire after that time."""
    return _USUAL if _USUAL.quiet is not None and _USUAL.quiet <= expires else RERUN
