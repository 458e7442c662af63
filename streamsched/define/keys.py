"""Parameters of correlation keys: grains, corrections and known sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from streamsched.define.units import Duration, choice, duration
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.keys.key_value import grain_by_name
from streamsched.domain.triggers.keys.known_set import MOST_VALUES, KnownSet
from streamsched.domain.triggers.on_correction import IGNORE, RERUN, CorrectionPolicy, OnCorrection

#: As a grain: the values are no periods, also where the name of the column says so.
_TEXT: Final = "text"


def rerun_after(quiet: Duration) -> OnCorrection:
    """For `on_correction`: one job of all corrections of a key, when none has come for so long."""
    return OnCorrection(duration(quiet, "$.on_correction"))


def correction_policy(said: str | OnCorrection | None) -> OnCorrection | None:
    """The policy as given; None where nothing is, and for `"reopen"`."""
    if said is None or isinstance(said, OnCorrection):
        return said
    match choice(CorrectionPolicy, said, "$.on_correction"):
        case CorrectionPolicy.REOPEN:
            return None
        case CorrectionPolicy.IGNORE:
            return IGNORE
        case CorrectionPolicy.RERUN:
            return RERUN


def key_grain(grain: str | None, columns: Sequence[str], *, ordered: bool = True) -> Grain | None:
    """The grain as given; by default the one that the names of the columns say (`grain_by_name`)."""
    if grain is None:
        return grain_by_name(columns, ordered=ordered)
    return None if grain == _TEXT else choice(Grain, grain, "$.grain")


def known_set(column: str, values: Iterable[str]) -> KnownSet:
    """The set as given; a `set` of Python in the order of its texts, so that equal ones are deployed once."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidDefinitionError("$.values", f"must be a list of texts but is {abridge(values)}")
    some = values if isinstance(values, list | tuple) else tuple(islice(values, MOST_VALUES + 1))
    return KnownSet(column, tuple(sorted(some, key=str) if isinstance(values, set | frozenset) else some))
