"""Timed triggers: order, absence, deadlines, quiet periods. All are evaluated by log time.

then(a, b, within=2h)       b after a, within two hours of it
a.unless(b, within=1h)      a, and no b before it was complete nor for an hour after
a.within(6h, then="fire")   a; or an incomplete a, six hours after its first event
a.quiet(10m, at_most=1h)    a, once ten minutes have passed without another of its events
silence(e, 1d)              a day has passed since the last e, or since the schedule listens
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_duration
from streamsched.domain.time.duration import duration_text
from streamsched.domain.triggers.composite import Composable
from streamsched.domain.triggers.leaf import EventLeaf, needed_amount

if TYPE_CHECKING:
    from streamsched.domain.triggers.trigger import Trigger


class OnExpiry(StrEnum):
    """The policy for an accumulation that is not complete in time: start over, or fire incomplete."""

    RESET = "reset"
    FIRE = "fire"


@dataclass(frozen=True, slots=True)
class Then(Composable):
    """`second` after `first`: events of `second` count only after the event that made `first` hold.

    Attributes:
        within: `second` must hold this soon after `first`; otherwise both start over. None: no limit.
    """

    first: Trigger
    second: Trigger
    within: timedelta | None = None

    def __post_init__(self) -> None:
        _positive("within", self.within)

    def __str__(self) -> str:
        limit = "" if self.within is None else f" within {duration_text(self.within)}"
        return f"({self.first}) then{limit} ({self.second})"


@dataclass(frozen=True, slots=True)
class Unless(Composable):
    """`wanted` without `veto`: when `veto` holds first, both start over.

    Attributes:
        within: how long a veto is awaited after `wanted` held; None: not at all.
    """

    wanted: Trigger
    veto: Trigger
    within: timedelta | None = None

    def __post_init__(self) -> None:
        _positive("within", self.within)

    def __str__(self) -> str:
        limit = "" if self.within is None else f" within {duration_text(self.within)}"
        return f"({self.wanted}) unless{limit} ({self.veto})"


@dataclass(frozen=True, slots=True)
class Within(Composable):
    """`trigger`, complete within `duration` of the first event that counts in it."""

    trigger: Trigger
    duration: timedelta
    then: OnExpiry = OnExpiry.RESET

    def __post_init__(self) -> None:
        _positive("duration", self.duration)

    def __str__(self) -> str:
        else_ = "start over" if self.then is OnExpiry.RESET else "with what there is"
        return f"({self.trigger}) within {duration_text(self.duration)}, else {else_}"


@dataclass(frozen=True, slots=True)
class Quiet(Composable):
    """`trigger`, once it holds and none of its events arrived for `duration`; at the latest `at_most` after it held."""

    trigger: Trigger
    duration: timedelta
    at_most: timedelta | None = None

    def __post_init__(self) -> None:
        _positive("duration", self.duration)
        _positive("at_most", self.at_most)
        if self.at_most is not None and self.at_most < self.duration:
            raise InvalidDefinitionError("$.at_most", f"is shorter than the {duration_text(self.duration)} of quiet")

    def __str__(self) -> str:
        limit = "" if self.at_most is None else f", at most {duration_text(self.at_most)}"
        return f"({self.trigger}) and then {duration_text(self.duration)} of quiet{limit}"


@dataclass(frozen=True, slots=True)
class Silence(Composable):
    """`duration` has passed since the last event that `of` would count, or since the schedule listens.

    A silence holds once: after a satisfaction it took part in, it restarts with the next such event. Other
    satisfactions do not affect it.
    """

    of: EventLeaf
    duration: timedelta

    def __post_init__(self) -> None:
        _positive("duration", self.duration)
        if needed_amount(self.of) != 1:
            raise InvalidDefinitionError("$.of", f"must want one event, for any breaks the silence, but is: {self.of}")

    def __str__(self) -> str:
        return f"{duration_text(self.duration)} without {self.of}"


Timed = Then | Unless | Within | Quiet | Silence


def _positive(name: str, duration: timedelta | None) -> None:
    if duration is not None:
        check_duration(duration, f"$.{name}")
