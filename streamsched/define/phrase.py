"""Triggers put together: `(partitions("clicks") & partitions("orders")).per("date").within("2d", then="fire")`.

Names without a namespace are those of the app that uses the trigger, so a `When` becomes a trigger there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from streamsched.define.quantity import Duration, choice, duration, whole
from streamsched.domain.correlation import AT_MOST, EXPIRES, Per
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.grain import Grain
from streamsched.domain.names import AppRef
from streamsched.domain.trigger import (
    AtLeast,
    CustomEvent,
    OnExpiry,
    Partitions,
    ProgramStatus,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Total,
    Trigger,
    Unless,
    Within,
)

#: Columns that are named after the period their values name.
_GRAINS = {**{grain.value: grain for grain in Grain}, "date": Grain.DAY}


@dataclass(frozen=True, slots=True)
class When:
    """A trigger in its owner's words. `&`: both hold; `|`: either holds; nesting has no limit."""

    text: str
    build: Callable[[AppRef], Trigger] = field(repr=False, compare=False)

    def __and__(self, other: When | Trigger) -> When:
        right = as_when(other)
        return When(f"({self} & {right})", lambda app: self.build(app) & right.build(app))

    def __or__(self, other: When | Trigger) -> When:
        right = as_when(other)
        return When(f"({self} | {right})", lambda app: self.build(app) | right.build(app))

    def __rand__(self, other: Trigger) -> When:
        return as_when(other) & self

    def __ror__(self, other: Trigger) -> When:
        return as_when(other) | self

    def __str__(self) -> str:
        return self.text

    def within(self, limit: Duration, *, then: str = "reset") -> When:
        """Complete within that long of its first event; else it starts over (`"reset"`), or fires with what there is
        (`"fire"`).
        """
        return _over(
            f"{self}.within({str(limit)!r}, then={then!r})",
            lambda only: Within(only, duration(limit, "$.limit"), choice(OnExpiry, then, "$.then")),
            self,
        )

    def quiet(self, rest: Duration, *, at_most: Duration | None = None) -> When:
        """Once it holds and no more of its events came for that long, or `at_most` after it held at first."""
        return _over(
            f"{self}.quiet({str(rest)!r}{_named('at_most', at_most)})",
            lambda only: Quiet(only, duration(rest, "$.rest"), _duration(at_most, "$.at_most")),
            self,
        )

    def unless(self, veto: When | Trigger, *, within: Duration | None = None) -> When:
        """Without `veto`: one that comes before this holds, or up to `within` later, makes both start over."""
        other = as_when(veto)
        return _over(
            f"{self}.unless({other}{_named('within', within)})",
            lambda wanted, against: Unless(wanted, against, _duration(within, "$.within")),
            self,
            other,
        )

    def per(
        self, *columns: str, grain: str | None = None, expires: Duration | None = None, at_most: int | None = None
    ) -> PerKey:
        """One accumulation for each value of these columns (attributes of an event, arguments of a run), so that a join
        waits for the same day of each input.

        `expires`: how long a value may stay incomplete (30 days). `at_most`: how many may be open (10,000).
        `grain`: the period a column's values name (hour, day, month, year); its name says so unless you do.
        """
        said = {"grain": grain, "expires": expires, "at_most": at_most}
        return PerKey(
            f"{self}.per({', '.join(map(repr, columns))}{''.join(_named(*each) for each in said.items())})",
            self,
            lambda only: Per(
                only,
                columns,
                None if grain is None else choice(Grain, grain, "$.grain"),
                expires=EXPIRES if expires is None else duration(expires, "$.expires"),
                at_most=AT_MOST if at_most is None else whole(at_most, "$.at_most"),
            ),
        )


class PerKey(When):
    """A trigger that correlates; its key may be the coarser or the finer period instead."""

    __slots__ = ("_make", "_only")

    def __init__(self, text: str, only: When, make: Callable[[Trigger], Per]) -> None:
        made = _over(text, make, only)
        super().__init__(made.text, made.build)
        object.__setattr__(self, "_only", only)
        object.__setattr__(self, "_make", make)

    def rolled_up_to(self, period: str, *, of: int | None = None) -> When:
        """The key is the coarser period, and complete when each of its finer ones has come, or `of` them."""
        return _over(
            f"{self}.rolled_up_to({period!r}{_named('of', of)})",
            lambda only: replace(self._periodic(only), rolled_up_to=choice(Grain, period, "$.rolled_up_to"), of=of),
            self._only,
        )

    def fanned_out_to(self, period: str) -> When:
        """The keys are the finer periods: one event counts for each of them."""
        return _over(
            f"{self}.fanned_out_to({period!r})",
            lambda only: replace(self._periodic(only), fanned_out_to=choice(Grain, period, "$.fanned_out_to")),
            self._only,
        )

    def _periodic(self, only: Trigger) -> Per:
        per = self._make(only)
        grain = per.grain or (_GRAINS.get(per.by[0]) if len(per.by) == 1 else None)
        return replace(per, grain=grain)


def as_when(trigger: When | Trigger) -> When:
    """A trigger of the domain among those of this module.

    Raises:
        InvalidDefinitionError: it is neither.
    """
    if isinstance(trigger, When):
        return trigger
    if not isinstance(trigger, Trigger):
        raise InvalidDefinitionError(
            "$", f"must be a trigger such as partitions('flights', 7) or cron('0 4 * * *') but is {trigger!r}"
        )
    return When(str(trigger), lambda _: trigger)


def at_least(count: int, *triggers: When | Trigger) -> When:
    """So many of the triggers hold: `at_least(2, partitions("eu"), partitions("us"), partitions("ap"))`."""
    some = [as_when(each) for each in triggers]
    text = f"at_least({', '.join([repr(count), *map(str, some)])})"
    return _over(text, lambda *built: AtLeast(whole(count, "$.count"), built), *some)


def then(first: When | Trigger, second: When | Trigger, *, within: Duration | None = None) -> When:
    """`second` after `first`, and within that long of it; what came of `second` before does not count."""
    one, other = as_when(first), as_when(second)
    text = f"then({one}, {other}{_named('within', within)})"
    return _over(text, lambda before, after: Then(before, after, _duration(within, "$.within")), one, other)


def silence(of: When | Trigger, rest: Duration) -> When:
    """That long has passed without an event of this kind: `silence(event("heartbeat"), "1h")`."""
    kind = as_when(of)

    def make(wanted: Trigger) -> Trigger:
        if not isinstance(wanted, Partitions | Total | StreamGrowth | ProgramStatus | CustomEvent):
            raise InvalidDefinitionError("$.of", "must be one kind of event: partitions, program, stream_size or event")
        return Silence(wanted, duration(rest, "$.rest"))

    return _over(f"silence({kind}, {str(rest)!r})", make, kind)


def quoted(text: str, build: Callable[[AppRef], Trigger]) -> When:
    """A trigger whose mistakes quote it: among many, the field alone would not say which."""

    def quoting(app: AppRef) -> Trigger:
        with _quoting(text):
            return build(app)

    return When(text, quoting)


def _over(text: str, make: Callable[..., Trigger], *inside: When) -> When:
    """A trigger over others; what is wrong inside is quoted there."""

    def build(app: AppRef) -> Trigger:
        built = [each.build(app) for each in inside]
        with _quoting(text):
            return make(*built)

    return When(text, build)


@contextmanager
def _quoting(text: str) -> Iterator[None]:
    try:
        yield
    except InvalidError as exc:
        raise InvalidDefinitionError(exc.path, f"{exc.reason}, in {text}") from exc


def _duration(value: Duration | None, path: str) -> timedelta | None:
    return None if value is None else duration(value, path)


def _named(name: str, value: object) -> str:
    return "" if value is None else f", {name}={str(value) if isinstance(value, int) else repr(str(value))}"
