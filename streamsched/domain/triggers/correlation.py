"""Correlation: one accumulation for each value of a key, so that a join waits for the same day of each input.

    (partitions("clicks") & partitions("orders")).per("date")
    partitions("clicks").per("hour").rolled_up_to("day") & partitions("orders").per("date")
    partitions("prices").per("date").fanned_out_to("hour") & partitions("clicks").per("hour")
    partitions("clicks").per("hour").each("region", ["eu", "us"]).rolled_up_to("day", calendar=workdays)
    (program("clean") & program("rates")).per_run_of("extract")

The key consists of the named columns (of a partition), attributes (of a custom event) or arguments (of a program's
run). The runs of a key have its columns as arguments, so the key goes on along a chain of programs (ADR 9). A commit
of several partitions counts under the key of each. Events without a key do not count, and their verdict says why.
Stream sizes and ticks have no key, so a trigger that correlates cannot contain them.

With a grain, values are periods (`domain.triggers.keys.key_value`): all spellings of one instant are one key.
With `run_of` the key is a run that the ends of programs descend from (`domain.triggers.run_keys`).

Every leaf of a trigger correlates, or none does. A key is open from the first event that counts under it until it has
fired, started over or expired and is empty; silences are measured from its opening.

A key may have parts: the finer periods of a roll-up, the values of a known set (`KnownSet`), or each value in each
finer period. A leaf waits for every part, each counted once. A calendar says on which days periods are expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import LONGEST_NAME, abridge, check_duration, check_most, enumeration
from streamsched.domain.names import ProgramRef
from streamsched.domain.time.calendar import Calendar
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE, Period, count_of_parts, keys_of_parts, period
from streamsched.domain.time.zone import check_zone
from streamsched.domain.triggers.composite import Composable, at_least_one
from streamsched.domain.triggers.keys.key_value import (
    COMPOSED,
    GRAIN_NAMES,
    NoKey,
    column_grains,
    grain_by_name,
    key_value,
)
from streamsched.domain.triggers.keys.known_set import KnownSet, divided_part, joined_part
from streamsched.domain.triggers.on_correction import OnCorrection, default_on_correction

if TYPE_CHECKING:
    from streamsched.domain.triggers.trigger import Trigger

EXPIRES: Final = timedelta(days=30)
AT_MOST: Final = 10_000
_DATE: Final = len("2001-01-01")
#: Begins a day, a week, a month and a year that have as many finer periods as most.
_USUAL: Final = "2001-01-01"
#: Most keys of one schedule under which one event counts; an event with more is refused. Folding an event is a single
#: step, so this bounds its duration (about half a second).
KEYS_AT_ONCE: Final = 10_000
#: Most parts of a key, and most rules of its calendar. A schedule keeps an event for each part.
MOST_PARTS: Final = 10_000
MOST_DAYS: Final = 1_000
#: Most columns of a key.
MOST_COLUMNS: Final = 100


class OnFull(StrEnum):
    """The policy for an event that would open more keys than allowed."""

    #: The event does not count in this schedule and becomes a dead letter, which can be replayed.
    REFUSE = "refuse"
    #: The event counts, and the keys open longest are dropped with their accumulation.
    DROP_OLDEST = "drop_oldest"


def usual_policy(run_of: ProgramRef | None) -> OnFull:
    """The policy where none is given. Of runs the oldest are dropped: some never complete, such as those of which a
    part was skipped, and must not keep the others from counting.
    """
    return OnFull.REFUSE if run_of is None else OnFull.DROP_OLDEST


@dataclass(frozen=True, slots=True)
class Per(Composable):
    """`trigger`, accumulated separately for each value of its key.

    Attributes:
        by: the columns, attributes or arguments whose values are the key, in that order.
        grain: the period the value names, of one column or composed of several; required to roll up or fan out.
        rolled_up_to: the coarser period used as the key; each leaf waits for all finer ones, or for `of`.
        fanned_out_to: the finer periods used as keys; an event counts under each of them.
        of: number of parts of a key that suffice; None: all.
        expires: how long a key may stay open; its accumulation is dropped then, and counted as lost.
        at_most: how many keys may be open.
        full: the policy for an event that would open more keys.
        zone: of the periods; `NO_ZONE` reads wall-clock time as it is.
        on_correction: what becomes of what comes for a key after its job; None: it opens the key again.
        run_of: the program whose jobs are the keys; then there are no columns and no periods.
        each: a known set, each of whose values belongs to each key, in a roll-up to each finer period.
        calendar: its closed days have no period: what comes for one has no key, and no key waits for it.
    """

    trigger: Trigger
    by: tuple[str, ...]
    grain: Grain | None = None
    rolled_up_to: Grain | None = None
    fanned_out_to: Grain | None = None
    of: int | None = None
    expires: timedelta = EXPIRES
    at_most: int = AT_MOST
    full: OnFull = OnFull.REFUSE
    zone: str = NO_ZONE
    on_correction: OnCorrection | None = None
    run_of: ProgramRef | None = None
    each: KnownSet | None = None
    calendar: Calendar | None = None

    def __post_init__(self) -> None:
        if self.run_of is not None:
            periods = self.grain or self.rolled_up_to or self.fanned_out_to or self.zone != NO_ZONE
            if self.by or periods or self.of or self.on_correction or self.each or self.calendar:
                place = "$.on_correction" if self.on_correction else "$.by"
                raise InvalidDefinitionError(place, "cannot be together with `per_run_of`, whose keys are runs")
        elif not self.by or not all(self.by):
            raise InvalidDefinitionError("$.by", "must name at least one column")
        if len(set(self.by)) < len(self.by):
            raise InvalidDefinitionError("$.by", "names a column twice")
        check_most(len(self.by), MOST_COLUMNS, "$.by", "columns")
        for place, column in enumerate(self.by):
            if not isinstance(column, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's value
                raise InvalidDefinitionError(f"$.by[{place}]", f"must be a text but is {abridge(column)}")
            check_most(len(column), LONGEST_NAME, f"$.by[{place}]", "characters")
        check_duration(self.expires, "$.expires")
        at_least_one("at_most", self.at_most)
        if self.of is not None:
            at_least_one("of", self.of)
        quiet = None if self.on_correction is None else self.on_correction.quiet
        if quiet is not None and quiet > self.expires:
            raise InvalidDefinitionError("$.on_correction", "waits longer than a key is kept (`expires`)")
        _check_grains(self)
        _check_parts(self)

    def __str__(self) -> str:
        period = "".join(
            f", {how} {grain}s"
            for how, grain in (("rolled up to", self.rolled_up_to), ("fanned out to", self.fanned_out_to))
            if grain is not None
        )
        named = grain_by_name(self.by) if len(self.by) == 1 else None
        if not period and self.grain is not named:
            period = f" ({self.grain or 'as text'})"
        if self.zone != NO_ZONE:
            period += f" in {self.zone}"
        if self.calendar is not None:
            period += f" on the open days of {self.calendar}"
        if self.each is not None:
            period += f", each {self.each}"
        enough = "" if self.of is None else f", {self.of} are enough"
        open_for = "" if self.expires == EXPIRES else f", for at most {duration_text(self.expires)}"
        room = "" if self.at_most == AT_MOST else f", at most {self.at_most} of them"
        how = "dropping the oldest" if self.full is OnFull.DROP_OLDEST else "refusing more"
        full = "" if self.full is usual_policy(self.run_of) else f", {how}"
        unsaid = self.on_correction in (None, default_on_correction(self.expires) if self.has_parts else None)
        corrected = "" if unsaid else f"; corrections {self.on_correction}"
        key = " and ".join(self.by) if self.run_of is None else f"run of {self.run_of}"
        return f"({self.trigger}) for each {key}{period}{enough}{open_for}{room}{full}{corrected}"

    @property
    def key_grain(self) -> Grain | None:
        """Of the periods that are its keys; None where keys are texts."""
        return self.rolled_up_to or self.fanned_out_to or self.grain

    @property
    def parts_of_key(self) -> int:
        """How many values a key joins. Keys of different numbers are never equal."""
        return len(self.by) if self.grain is None else 1

    @property
    def has_parts(self) -> bool:
        """Whether a leaf waits for parts of a key, each counted once."""
        return self.rolled_up_to is not None or self.each is not None

    def wanted_parts(self, cell: str) -> int | None:
        """How many parts a leaf needs under this key, of no key the usual number; None when keys have none."""
        if not self.has_parts:
            return None
        values = 1 if self.each is None else len(self.each.values)
        all_ = self.count_periods(cell) * values
        return all_ if self.of is None else min(self.of, all_)

    def parts(self, cell: str) -> tuple[str, ...] | None:
        """The parts of a key, value by value, periods in order of time; None when it has none, or names no period."""
        periods: tuple[str, ...] = (cell,)
        if self.grain is not None and self.rolled_up_to is not None:
            found = keys_of_parts(cell, self.rolled_up_to, self.grain, self.zone, self.calendar)
            if found is None:
                return None
            periods = found
        elif self.each is None:
            return None
        if self.each is None:
            return periods
        return tuple(joined_part(each, value) for value in self.each.parts.values() for each in periods)

    def value(self, columns: Mapping[str, str]) -> str | NoKey:
        """The value of its columns, on an open day."""
        found = key_value(self.by, columns, self.grain, self.zone)
        if self.calendar is None or isinstance(found, NoKey):
            return found
        if (closed := closing_reason(self.calendar, found)) is not None:
            return NoKey(f"{found} is closed by {self.calendar}: {closed}", closed=True)
        if self.fanned_out_to is not None and not self._keys(found):
            return NoKey(f"{self.calendar} closes all of {found}", closed=True)
        return found

    def part(self, columns: Mapping[str, str]) -> str | NoKey:
        """The part of a key of which they are; the value where keys have no known set."""
        value = self.value(columns)
        if self.each is None or isinstance(value, NoKey):
            return value
        own = self.each.part(columns)
        return own if isinstance(own, NoKey) else joined_part(value, own)

    def cells(self, part: str) -> tuple[str, ...]:
        """The keys of which this is a part; of one without parts, under which the value counts."""
        return self._keys(part if self.each is None else divided_part(part)[0])

    def _keys(self, value: str) -> tuple[str, ...]:
        if self.grain is None or self.grain is self.key_grain:
            return (value,)
        found = period(value, self.grain, self.zone)
        if not isinstance(found, Period):
            return (value,)
        if self.rolled_up_to is not None:
            return (found.containing_period(self.rolled_up_to).key,)
        return tuple(part.key for part in found.parts(self.key_grain or self.grain) if self._is_open(part.key))

    def _is_open(self, key: str) -> bool:
        return self.calendar is None or closing_reason(self.calendar, key) is None

    def count_periods(self, cell: str) -> int:
        """How many periods belong to a key; of no key those of usual weeks."""
        if self.grain is None or self.rolled_up_to is None:
            return 1
        days = self.calendar
        if not cell and days is not None:
            days = Calendar(weekdays=days.weekdays) if days.weekdays and self.rolled_up_to is not Grain.DAY else None
        return count_of_parts(cell or _USUAL, self.rolled_up_to, self.grain, self.zone, days) or 1


def closing_reason(calendar: Calendar, key: str) -> str | None:
    """What closes the day of a period, which is a day or an hour; None: nothing does, or it is a longer one."""
    return _closing_reason(calendar, key[:_DATE]) if key[_DATE : _DATE + 1] in ("", "T") and len(key) >= _DATE else None


@lru_cache(maxsize=4096)
def _closing_reason(calendar: Calendar, day: str) -> str | None:
    return calendar.closed_by(date.fromisoformat(day))


def _check_grains(per: Per) -> None:
    coarse, fine, grain = per.rolled_up_to, per.fanned_out_to, per.grain
    if coarse is not None and fine is not None:
        raise InvalidDefinitionError("$.fanned_out_to", "cannot be together with a roll-up")
    if per.of is not None and not per.has_parts:
        raise InvalidDefinitionError("$.of", "says how many periods of a roll-up are enough; nothing is rolled up")
    if grain is None:
        if coarse or fine:
            raise InvalidDefinitionError("$.grain", f"is missing: {_which_grain(per)}")
        if per.zone != NO_ZONE:
            raise InvalidDefinitionError("$.zone", f"is of periods, so it needs a grain: {_which_grain(per)}")
        return
    check_zone(per.zone, "$.zone")
    _check_composed(per, grain)
    if coarse is not None and not grain.divides(coarse):
        raise InvalidDefinitionError(
            "$.rolled_up_to", _division_error(grain, coarse, "coarser", fits=coarse.rank > grain.rank)
        )
    if fine is not None and not fine.divides(grain):
        raise InvalidDefinitionError(
            "$.fanned_out_to", _division_error(grain, fine, "finer", fits=fine.rank < grain.rank)
        )


def _check_parts(per: Per) -> None:
    if per.calendar is not None:
        if not isinstance(per.calendar, Calendar):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's value
            raise InvalidDefinitionError("$.calendar", f"must be a calendar but is {abridge(per.calendar)}")
        if (per.fanned_out_to or per.grain) not in (Grain.HOUR, Grain.DAY):
            raise InvalidDefinitionError("$.calendar", "has days, so it needs hours or days as `grain`")
        found = per.calendar.size
        check_most(found, MOST_DAYS, "$.calendar", "days and spans of days")
    if per.each is None:
        return
    if per.each.column in per.by:
        raise InvalidDefinitionError("$.each.column", f"is {per.each.column}, which is a column of the key already")
    values, periods = len(per.each.values), per.count_periods("")
    if periods > 1:
        what = f"parts ({periods} {per.grain}s of a {per.rolled_up_to}, each with {values} values)"
        check_most(values * periods, MOST_PARTS, "$.each.values", what)


def _check_composed(per: Per, grain: Grain) -> None:
    """Checks that the columns can compose a period."""
    known = COMPOSED[grain]
    if len(per.by) > len(known):
        raise InvalidDefinitionError(
            "$.by", f"must be at most {len(known)} columns that name one {grain}: {enumeration(known)}"
        )
    parts = column_grains(grain, len(per.by))
    for name, part in zip(per.by, parts, strict=True):
        if len(parts) > 1 and GRAIN_NAMES.get(name, part) is not part:
            raise InvalidDefinitionError(
                "$.by",
                f"must name one {grain} from coarse to fine, as {enumeration(parts)}; "
                f"but {name} is where its {part} is",
            )


def _which_grain(per: Per) -> str:
    name = f"{per.by[0]} names" if len(per.by) == 1 else f"{enumeration(per.by)} name together"
    return f"{', '.join(tuple(Grain)[:-1])} or {tuple(Grain)[-1]}, whichever {name}"


def _division_error(grain: Grain, other: Grain, side: str, *, fits: bool) -> str:
    if not fits:
        return f"must be {side} than the {grain} but is {other}"
    return f"is {other}, but weeks do not divide months and years: use days or hours in place of weeks"
