"""Correlation: one accumulation for each value of a key, so that a join waits for the same day of each input.

    (partitions("clicks") & partitions("orders")).per("date")
    partitions("clicks").per("hour").rolled_up_to("day") & partitions("orders").per("date")
    partitions("prices").per("date").fanned_out_to("hour") & partitions("clicks").per("hour")
    (program("clean") & program("rates")).per_run_of("extract")

The key consists of the named columns (of a partition), attributes (of a custom event) or arguments (of a program's
run). The runs of a key have its columns as arguments, so the key goes on along a chain of programs (ADR 47). A commit
of several partitions counts under the key of each. Events without such a value, or with an empty one, do not count.
Stream sizes and ticks have no key, so a trigger that correlates cannot contain them.

With `run_of` the key is a run that the ends of programs descend from (`domain.triggers.run_keys`).

Every leaf of a trigger correlates, or none does. A key is open from the first event that counts under it until it has
fired, started over or expired and is empty; silences are measured from its opening. A roll-up waits for every finer
period of the coarser one, each counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import CustomHappened, Event, PartitionsAdded, ProgramReached
from streamsched.domain.limits import LONGEST_NAME, abridged, check_duration, check_most
from streamsched.domain.names import ProgramRef
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.grain import Grain, named, started, within
from streamsched.domain.triggers.composite import Composable, at_least_one
from streamsched.domain.triggers.event_slice import chosen
from streamsched.domain.triggers.run_keys import run_slices

if TYPE_CHECKING:
    from streamsched.domain.triggers.trigger import Trigger

SEPARATOR: Final = "/"
EXPIRES: Final = timedelta(days=30)
AT_MOST: Final = 10_000
#: Most keys of one schedule under which one event counts; an event with more is refused. Folding an event is a single
#: step, so this bounds its duration (about half a second).
KEYS_AT_ONCE: Final = 10_000
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
        grain: the period the value names; required to roll up or fan out, and only with one column.
        rolled_up_to: the coarser period used as the key; each leaf waits for all finer ones, or for `of`.
        fanned_out_to: the finer periods used as keys; an event counts under each of them.
        of: number of finer periods that suffice; None: all.
        expires: how long a key may stay open; its accumulation is dropped then, and counted as lost.
        at_most: how many keys may be open.
        full: the policy for an event that would open more keys.
        run_of: the program whose jobs are the keys; then there are no columns and no periods.
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
    run_of: ProgramRef | None = None

    def __post_init__(self) -> None:
        if self.run_of is not None:
            if self.by or self.grain or self.of:
                raise InvalidDefinitionError("$.by", "cannot be together with `per_run_of`, whose keys are runs")
        elif not self.by or not all(self.by):
            raise InvalidDefinitionError("$.by", "must name at least one column")
        if len(set(self.by)) < len(self.by):
            raise InvalidDefinitionError("$.by", "names a column twice")
        check_most(len(self.by), MOST_COLUMNS, "$.by", "columns")
        for place, column in enumerate(self.by):
            if not isinstance(column, str):
                raise InvalidDefinitionError(f"$.by[{place}]", f"must be a text but is {abridged(column)}")
            check_most(len(column), LONGEST_NAME, f"$.by[{place}]", "characters")
        check_duration(self.expires, "$.expires")
        at_least_one("at_most", self.at_most)
        if self.of is not None:
            at_least_one("of", self.of)
        _check_grains(self)

    def __str__(self) -> str:
        period = "".join(
            f", {how} {grain}s"
            for how, grain in (("rolled up to", self.rolled_up_to), ("fanned out to", self.fanned_out_to))
            if grain is not None
        )
        enough = "" if self.of is None else f", {self.of} are enough"
        open_for = "" if self.expires == EXPIRES else f", for at most {duration_text(self.expires)}"
        room = "" if self.at_most == AT_MOST else f", at most {self.at_most} of them"
        how = "dropping the oldest" if self.full is OnFull.DROP_OLDEST else "refusing more"
        full = "" if self.full is usual_policy(self.run_of) else f", {how}"
        key = " and ".join(self.by) if self.run_of is None else f"run of {self.run_of}"
        return f"({self.trigger}) for each {key}{period}{enough}{open_for}{room}{full}"

    def wanted(self, cell: str) -> int | None:
        """How many finer periods a leaf needs under this key; None when it does not roll up."""
        if self.grain is None or self.rolled_up_to is None:
            return None
        start = started(cell, self.rolled_up_to)
        all_ = len(within(start, self.rolled_up_to, self.grain)) if start else 1
        return all_ if self.of is None else min(self.of, all_)


def event_slices(per: Per, event: Event, *, most: int | None = None) -> Iterator[tuple[str, str, Event]]:
    """Yields (key, value, part of the event under that key); nothing for an event without such a value.

    Texts that name the same period are the same value. Stops after `most` + 1 values.
    """
    if per.run_of is not None:
        yield from ((key, key, part) for key, part in run_slices(per.run_of, event))
        return
    match event.fact:
        case PartitionsAdded(partitions=partitions) as fact:
            places: dict[str, list[int]] = {}
            for place, partition in enumerate(partitions):
                if (value := _value(per, partition.values)) is not None:
                    places.setdefault(value, []).append(place)
                    if most is not None and len(places) > most:
                        break
            for value, some in places.items():
                part = chosen(event, fact, some)
                yield from ((cell, value, part) for cell in _cells(per, value))
        case CustomHappened(attributes=values) | ProgramReached(arguments=values):
            if (value := _value(per, values)) is not None:
                yield from ((cell, value, event) for cell in _cells(per, value))
        case _:
            return


def _value(per: Per, values: Mapping[str, str]) -> str | None:
    found = [text for name in per.by if (text := values.get(name))]
    if len(found) < len(per.by):
        return None
    if per.grain is None:
        return SEPARATOR.join(map(_plain, found))
    start = started(found[0], per.grain)
    return None if start is None else named(start, per.grain)


def _plain(value: str) -> str:
    """Escapes separators and unprintable characters as in URLs, so that a key is one line of text and `unquote` gives
    the value back.
    """
    if value.isprintable() and "%" not in value and SEPARATOR not in value:
        return value
    return "".join(_escaped(each) if each in "%/" or not each.isprintable() else each for each in value)


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))


def _cells(per: Per, value: str) -> tuple[str, ...]:
    start = None if per.grain is None else started(value, per.grain)
    if per.grain is None or start is None:
        return (value,)
    if per.rolled_up_to is not None:
        return (named(start, per.rolled_up_to),)
    if per.fanned_out_to is not None:
        return within(start, per.grain, per.fanned_out_to)
    return (value,)


def _check_grains(per: Per) -> None:
    coarse, fine = per.rolled_up_to, per.fanned_out_to
    if coarse is not None and fine is not None:
        raise InvalidDefinitionError("$.fanned_out_to", "cannot be together with a roll-up")
    if (coarse or fine) and per.grain is None:
        raise InvalidDefinitionError("$.grain", "is missing: hour, day, month or year, whichever the values name")
    if per.grain is not None and len(per.by) > 1:
        raise InvalidDefinitionError("$.by", "must be one column, whose values name a period")
    if coarse is not None and per.grain is not None and coarse.rank <= per.grain.rank:
        raise InvalidDefinitionError("$.rolled_up_to", f"must be coarser than the {per.grain} but is {coarse}")
    if fine is not None and per.grain is not None and fine.rank >= per.grain.rank:
        raise InvalidDefinitionError("$.fanned_out_to", f"must be finer than the {per.grain} but is {fine}")
    if per.of is not None and coarse is None:
        raise InvalidDefinitionError("$.of", "says how many periods of a roll-up are enough; nothing is rolled up")
