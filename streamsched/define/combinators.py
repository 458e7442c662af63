"""Composite triggers: `(partitions("clicks") & partitions("orders")).per("date").within("2d", then="fire")`.

A `TriggerExpression` becomes a trigger when an app uses it, because names without a namespace belong to that app's
namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from streamsched.define.units import Duration, choice, duration, whole
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import AT_MOST, EXPIRES, OnFull, Per, usual_policy
from streamsched.domain.triggers.trigger import (
    AllOf,
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

#: Column names that imply the grain of their values.
_GRAINS = {**{grain.value: grain for grain in Grain}, "date": Grain.DAY}


@dataclass(frozen=True, slots=True)
class TriggerExpression:
    """A trigger whose names are resolved when an app uses it. `a & b` holds when both hold, `a | b` when either does;
    expressions can be nested to any depth.

    Attributes:
        text: the source of the expression, for error messages.
        build: makes the trigger for an app.
    """

    text: str
    build: Callable[[AppRef], Trigger] = field(repr=False, compare=False)

    def __and__(self, other: TriggerExpression | Trigger) -> TriggerExpression:
        right = as_when(other)
        return TriggerExpression(f"({self} & {right})", lambda app: self.build(app) & right.build(app))

    def __or__(self, other: TriggerExpression | Trigger) -> TriggerExpression:
        right = as_when(other)
        return TriggerExpression(f"({self} | {right})", lambda app: self.build(app) | right.build(app))

    def __rand__(self, other: Trigger) -> TriggerExpression:
        return as_when(other) & self

    def __ror__(self, other: Trigger) -> TriggerExpression:
        return as_when(other) | self

    def __str__(self) -> str:
        return self.text

    def within(self, limit: Duration, *, then: str = "reset") -> TriggerExpression:
        """Must be complete within `limit` of its first event. Otherwise it drops its events (`then="reset"`) or fires
        with the events it has (`"fire"`).
        """
        return _over(
            f"{self}.within({str(limit)!r}, then={then!r})",
            lambda only: Within(only, duration(limit, "$.limit"), choice(OnExpiry, then, "$.then")),
            self,
        )

    def quiet(self, rest: Duration, *, at_most: Duration | None = None) -> TriggerExpression:
        """Fires when it holds and no further event arrived for `rest`, at the latest `at_most` after it first held."""
        return _over(
            f"{self}.quiet({str(rest)!r}{_named('at_most', at_most)})",
            lambda only: Quiet(only, duration(rest, "$.rest"), _duration(at_most, "$.at_most")),
            self,
        )

    def unless(self, veto: TriggerExpression | Trigger, *, within: Duration | None = None) -> TriggerExpression:
        """Holds when `veto` does not: if `veto` holds first, or up to `within` later, both drop their events."""
        other = as_when(veto)
        return _over(
            f"{self}.unless({other}{_named('within', within)})",
            lambda wanted, against: Unless(wanted, against, _duration(within, "$.within")),
            self,
            other,
        )

    def per(
        self,
        *columns: str,
        grain: str | None = None,
        expires: Duration | None = None,
        at_most: int | None = None,
        then: str | None = None,
    ) -> PerKey:
        """Accumulates separately for each value (key) of the columns, so that a join waits for the same day of each
        input. Columns are partition columns, attributes of an event or arguments of a run.

        Runs have the columns of their key as arguments (`date`, and `key.date` in templates), so another schedule can
        go on with `program(…).per("date")`. A property of the schedule with such a name is refused.

        Args:
            columns: their values together are the key; at most 100.
            grain: the period of the values: hour, day, month or year. Default: taken from the column's name.
            expires: time after which an incomplete key is dropped. Default: 30 days.
            at_most: most open keys. Default: 10,000.
            then: what happens to an event that would open more keys. `"refuse"` (default): it does not count here and
                becomes a dead letter that can be replayed. `"drop_oldest"`: it counts, and the oldest keys are dropped.
        """
        options = {"grain": grain, "expires": expires, "at_most": at_most, "then": then}
        return PerKey(
            f"{self}.per({', '.join(map(repr, columns))}{''.join(_named(*each) for each in options.items())})",
            self,
            lambda only: Per(
                only,
                columns,
                None if grain is None else choice(Grain, grain, "$.grain"),
                expires=EXPIRES if expires is None else duration(expires, "$.expires"),
                at_most=AT_MOST if at_most is None else whole(at_most, "$.at_most"),
                full=OnFull.REFUSE if then is None else choice(OnFull, then, "$.then"),
            ),
        )

    def per_run_of(
        self,
        ancestor: ProgramRef | str,
        *,
        expires: Duration | None = None,
        at_most: int | None = None,
        then: str | None = None,
    ) -> TriggerExpression:
        """Counts ends of programs separately for each run of a program that they descend from:
        `(program("clean") & program("rates")).per_run_of("extract")` starts once for each run of `extract`, when both
        programs that it led to have ended.

        A deployment adds this to an `&` of programs with one nearest common ancestor; `mixed_runs` prevents it. Ends
        that descend from no run of `ancestor`, such as those of runs started by hand, do not count.

        Args:
            ancestor: as `ref` of `program`.
            expires, at_most, then: as of `per`; the default of `then` is `"drop_oldest"`.
        """
        options = {"expires": expires, "at_most": at_most, "then": then}

        def build(app: AppRef) -> Trigger:
            only, program = self.build(app), program_named(ancestor, app)
            per = replace(self.per("run", **options)._make(only), by=(), run_of=program)
            return per if then is not None else replace(per, full=usual_policy(program))

        named = "".join(_named(*each) for each in options.items())
        return quoted(f"{self}.per_run_of({str(ancestor)!r}{named})", build)

    def mixed_runs(self) -> TriggerExpression:
        """Of an `&` of programs: each counts whatever run it descends from, so the ends that start a run may be of
        different runs of a common ancestor. A deployment adds no `per_run_of`.
        """

        def mixed(only: Trigger) -> Trigger:
            if not isinstance(only, AllOf):
                raise InvalidDefinitionError("$", "must be an `&`, such as (program('a') & program('b')).mixed_runs()")
            return replace(only, mixed_runs=True)

        return _over(f"{self}.mixed_runs()", mixed, self)


class PerKey(TriggerExpression):
    """A correlating trigger. Its keys can be replaced by coarser or finer periods."""

    __slots__ = ("_make", "_only")

    def __init__(self, text: str, only: TriggerExpression, make: Callable[[Trigger], Per]) -> None:
        expression = _over(text, make, only)
        super().__init__(expression.text, expression.build)
        object.__setattr__(self, "_only", only)
        object.__setattr__(self, "_make", make)

    def rolled_up_to(self, period: str, *, of: int | None = None) -> TriggerExpression:
        """Uses the coarser `period` as the key. It is complete when all of its finer periods have arrived, or `of`."""
        return _over(
            f"{self}.rolled_up_to({period!r}{_named('of', of)})",
            lambda only: replace(self._periodic(only), rolled_up_to=choice(Grain, period, "$.rolled_up_to"), of=of),
            self._only,
        )

    def fanned_out_to(self, period: str) -> TriggerExpression:
        """Uses the finer `period` as the key. One event counts for each of the finer periods it covers."""
        return _over(
            f"{self}.fanned_out_to({period!r})",
            lambda only: replace(self._periodic(only), fanned_out_to=choice(Grain, period, "$.fanned_out_to")),
            self._only,
        )

    def _periodic(self, only: Trigger) -> Per:
        per = self._make(only)
        grain = per.grain or (_GRAINS.get(per.by[0]) if len(per.by) == 1 else None)
        return replace(per, grain=grain)


def as_when(trigger: TriggerExpression | Trigger) -> TriggerExpression:
    """Wraps a domain trigger as an expression; an expression is returned unchanged.

    Raises:
        InvalidDefinitionError: `trigger` is neither.
    """
    if isinstance(trigger, TriggerExpression):
        return trigger
    if not isinstance(trigger, Trigger):
        raise InvalidDefinitionError(
            "$", f"must be a trigger such as partitions('flights', 7) or cron('0 4 * * *') but is {trigger!r}"
        )
    return TriggerExpression(str(trigger), lambda _: trigger)


def at_least(count: int, *triggers: TriggerExpression | Trigger) -> TriggerExpression:
    """Holds when `count` of the triggers hold: `at_least(2, partitions("eu"), partitions("us"), partitions("ap"))`."""
    expressions = [as_when(each) for each in triggers]
    text = f"at_least({', '.join([repr(count), *map(str, expressions)])})"
    return _over(text, lambda *built: AtLeast(whole(count, "$.count"), built), *expressions)


def then(
    first: TriggerExpression | Trigger, second: TriggerExpression | Trigger, *, within: Duration | None = None
) -> TriggerExpression:
    """Holds when `second` holds after `first`, at most `within` later. Events of `second` from before do not count."""
    one, other = as_when(first), as_when(second)
    text = f"then({one}, {other}{_named('within', within)})"
    return _over(text, lambda before, after: Then(before, after, _duration(within, "$.within")), one, other)


def silence(of: TriggerExpression | Trigger, rest: Duration) -> TriggerExpression:
    """Holds when no event of this kind arrived for `rest`: `silence(event("heartbeat"), "1h")`."""
    kind = as_when(of)

    def make(wanted: Trigger) -> Trigger:
        if not isinstance(wanted, Partitions | Total | StreamGrowth | ProgramStatus | CustomEvent):
            raise InvalidDefinitionError("$.of", "must be one kind of event: partitions, program, stream_size or event")
        return Silence(wanted, duration(rest, "$.rest"))

    return _over(f"silence({kind}, {str(rest)!r})", make, kind)


def program_named(ref: ProgramRef | str, app: AppRef) -> ProgramRef:
    """The program of a reference, of a name in the app, or of `"namespace.app.program"`."""
    if isinstance(ref, ProgramRef):
        return ref
    return ProgramRef.parse(ref) if "." in ref else ProgramRef(app.namespace, app.app, ref)


def quoted(text: str, build: Callable[[AppRef], Trigger]) -> TriggerExpression:
    """An expression whose errors quote `text`, because the field alone does not identify one trigger of several."""

    def quoting(app: AppRef) -> Trigger:
        with _quoting(text):
            return build(app)

    return TriggerExpression(text, quoting)


def _over(text: str, make: Callable[..., Trigger], *inside: TriggerExpression) -> TriggerExpression:
    """An expression over other expressions. Errors of the inner ones quote the inner text."""

    def build(app: AppRef) -> Trigger:
        built = [each.build(app) for each in inside]
        with _quoting(text):
            return make(*built)

    return TriggerExpression(text, build)


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
