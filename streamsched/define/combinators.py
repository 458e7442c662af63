"""Composite triggers: `(partitions("clicks") & partitions("orders")).per("date").within("2d", then="fire")`.

A `TriggerExpression` becomes a trigger when an app uses it, because names without a namespace belong to that app's
namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import FunctionType
from typing import Any, NoReturn

from streamsched.define.keys import correction_policy, key_grain, known_set
from streamsched.define.units import Duration, check_integer, choice, duration
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.limits import abridge
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.time.calendar import Calendar
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE
from streamsched.domain.triggers.correlation import AT_MOST, EXPIRES, OnFull, Per, usual_policy
from streamsched.domain.triggers.on_correction import OnCorrection, default_on_correction
from streamsched.domain.triggers.trigger import (
    AllOf,
    AtLeast,
    CustomEvent,
    Leaf,
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
    needed_amount,
)


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
        right = to_expression(other)
        return TriggerExpression(f"({self} & {right})", lambda app: self.build(app) & right.build(app))

    def __or__(self, other: TriggerExpression | Trigger) -> TriggerExpression:
        right = to_expression(other)
        return TriggerExpression(f"({self} | {right})", lambda app: self.build(app) | right.build(app))

    def __rand__(self, other: Trigger) -> TriggerExpression:
        return to_expression(other) & self

    def __ror__(self, other: Trigger) -> TriggerExpression:
        return to_expression(other) | self

    def __bool__(self) -> NoReturn:
        """Python's `and`, `or` and `not` ask for it; of `a and b` only `b` would be left.

        Raises:
            InvalidDefinitionError: always.
        """
        raise InvalidDefinitionError("$.when", f"{self} is neither true nor false: write `&` for and, `|` for or")

    def __str__(self) -> str:
        return self.text

    def within(self, limit: Duration, *, then: str = "reset") -> TriggerExpression:
        """Must be complete within `limit` of its first event. Otherwise it drops its events (`then="reset"`) or fires
        with the events it has (`"fire"`).
        """
        return _combine(
            f"{self}.within({str(limit)!r}, then={then!r})",
            lambda only: Within(only, duration(limit, "$.limit"), choice(OnExpiry, then, "$.then")),
            self,
        )

    def quiet(self, rest: Duration, *, at_most: Duration | None = None) -> TriggerExpression:
        """Fires when it holds and no further event arrived for `rest`, at the latest `at_most` after it first held."""
        return _combine(
            f"{self}.quiet({str(rest)!r}{_argument('at_most', at_most)})",
            lambda only: Quiet(only, duration(rest, "$.rest"), _duration(at_most, "$.at_most")),
            self,
        )

    def unless(self, veto: TriggerExpression | Trigger, *, within: Duration | None = None) -> TriggerExpression:
        """Holds when `veto` does not: if `veto` holds first, or up to `within` later, both drop their events, and both
        begin anew. A veto that came before the first event of this trigger stops nothing.

        Raises:
            InvalidDefinitionError: when it is used: without `within`, for a trigger that holds with its first event.
        """
        other = to_expression(veto)
        return _combine(
            f"{self}.unless({other}{_argument('within', within)})",
            lambda wanted, against: _check_veto(Unless(wanted, against, _duration(within, "$.within"))),
            self,
            other,
        )

    def per(
        self,
        *columns: str,
        grain: str | None = None,
        zone: str | None = None,
        expires: Duration | None = None,
        at_most: int | None = None,
        then: str | None = None,
        on_correction: str | OnCorrection | None = None,
        calendar: Calendar | None = None,
    ) -> PerKey:
        """Accumulates separately for each value (key) of the columns, so that a join waits for the same day of each
        input. Columns are partition columns, attributes of an event or arguments of a run.

        Runs have the columns of their key as arguments (`date`, and `key.date` in templates), so another schedule can
        go on with `program(…).per("date")`. A property of the schedule with such a name is refused.

        Args:
            columns: their values together are the key; at most 100.
            grain: the period that the values name: hour, day, week, month or year. All [spellings](#periods) of one
                period are one key. Several columns name one together, from coarse to fine: `per("day", "hour",
                grain="hour")`, or year, month, day and hour. Default: the name of a single column (also `date`), or
                none. `"text"`: none.
            zone: IANA zone of the periods, such as `"Europe/Berlin"`. Default: none; wall-clock time counts as it is.
            expires: time after which an incomplete key is dropped. Default: 30 days.
            at_most: most open keys. Default: 10,000.
            then: what happens to an event that would open more keys. `"refuse"` (default): it does not count here and
                becomes a dead letter that can be replayed. `"drop_oldest"`: it counts, and the oldest keys are dropped.
            on_correction: what becomes of what comes for a key after its job. `"rerun"`: a job at once that is given
                what it corrects; `rerun_after("10m")`: a job of all corrections after so much quiet, the default of a
                roll-up or a known set. `"ignore"`: it is said and makes no job. `"reopen"`: the key is accumulated
                anew, the default of any other. Keys that have fired are known until they expire.
            calendar: closed days, made by `calendar`. Hours and days of a closed day have no key, and say so.
        """
        options = {"grain": grain, "zone": zone, "expires": expires, "at_most": at_most, "then": then}
        options |= {"on_correction": on_correction, "calendar": calendar}
        return PerKey(
            f"{self}.per({', '.join(map(repr, columns))}{''.join(_argument(*each) for each in options.items())})",
            self,
            lambda only: Per(
                only,
                columns,
                key_grain(grain, columns if len(columns) == 1 or zone is not None else ()),
                expires=EXPIRES if expires is None else duration(expires, "$.expires"),
                at_most=AT_MOST if at_most is None else check_integer(at_most, "$.at_most"),
                full=OnFull.REFUSE if then is None else choice(OnFull, then, "$.then"),
                zone=NO_ZONE if zone is None else zone,
                on_correction=correction_policy(on_correction),
                calendar=calendar,
            ),
            lambda per: per.grain or key_grain(grain, per.by, ordered=False),
            said=on_correction is not None,
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

        named = "".join(_argument(*each) for each in options.items())
        return quote_errors(f"{self}.per_run_of({str(ancestor)!r}{named})", build)

    def mixed_runs(self) -> TriggerExpression:
        """Of an `&` of programs: each counts whatever run it descends from, so the ends that start a run may be of
        different runs of a common ancestor. A deployment adds no `per_run_of`.
        """

        def mix_runs(only: Trigger) -> Trigger:
            if not isinstance(only, AllOf):
                raise InvalidDefinitionError("$", "must be an `&`, such as (program('a') & program('b')).mixed_runs()")
            return replace(only, mixed_runs=True)

        return _combine(f"{self}.mixed_runs()", mix_runs, self)


class PerKey(TriggerExpression):
    """A correlating trigger. Its keys can be replaced by coarser or finer periods."""

    __slots__ = ("_grain", "_make", "_only", "_said")

    def __init__(
        self,
        text: str,
        only: TriggerExpression,
        make: Callable[[Trigger], Per],
        grain: Callable[[Per], Grain | None],
        *,
        said: bool,
    ) -> None:
        """`grain`: of the periods of what `make` makes; None where nothing says it. `said`: what becomes of corrections
        was said.
        """
        expression = _combine(text, make, only)
        super().__init__(expression.text, expression.build)
        object.__setattr__(self, "_only", only)
        object.__setattr__(self, "_make", make)
        object.__setattr__(self, "_grain", grain)
        object.__setattr__(self, "_said", said)

    def rolled_up_to(
        self, period: str, *, of: int | None = None, zone: str | None = None, calendar: Calendar | None = None
    ) -> PerKey:
        """Uses the coarser `period` as the key. It is complete when all of its finer periods have arrived, or `of`. In
        a `zone` a day has the hours that its clocks show: 23, 24 or 25. Days that the `calendar` closes are not
        expected: `rolled_up_to("week", calendar=calendar(weekdays=["sat", "sun"]))`.
        """
        return self._change_per(
            f"rolled_up_to({period!r}{_argument('of', of)}{_argument('zone', zone)}{_argument('calendar', calendar)})",
            lambda per: self._set_periods(
                per, zone, calendar, of, rolled_up_to=choice(Grain, period, "$.rolled_up_to")
            ),
        )

    def fanned_out_to(self, period: str, *, zone: str | None = None, calendar: Calendar | None = None) -> PerKey:
        """Uses the finer `period` as the key. One event counts for each of the finer periods it covers, in a `zone`
        those that its clocks show, without days that the `calendar` closes.
        """
        return self._change_per(
            f"fanned_out_to({period!r}{_argument('zone', zone)}{_argument('calendar', calendar)})",
            lambda per: self._set_periods(
                per, zone, calendar, None, fanned_out_to=choice(Grain, period, "$.fanned_out_to")
            ),
        )

    def each(self, column: str, values: Iterable[str], *, of: int | None = None) -> PerKey:
        """Waits under each key for every one of the `values` of `column` (at most 1,000), once; of a roll-up for each
        value in each finer period. `of`: as many suffice. Other values have no key, and say so:
        `partitions("clicks").per("day").each("region", ["eu", "us", "apac"])`.
        """
        some = [*values] if isinstance(values, list | tuple) else values

        def set_known(per: Per) -> Per:
            if per.each is not None:
                raise InvalidDefinitionError("$.each", "is said twice; one column has a known set")
            return self._replace_fields(per, {"each": known_set(column, some)}, of)

        return self._change_per(f"each({column!r}, {abridge(some)}{_argument('of', of)})", set_known)

    def _change_per(self, call: str, change: Callable[[Per], Per]) -> PerKey:
        make = self._make
        return PerKey(f"{self}.{call}", self._only, lambda only: change(make(only)), self._grain, said=self._said)

    def _set_periods(
        self, per: Per, zone: str | None, calendar: Calendar | None, of: int | None, **periods: Grain
    ) -> Per:
        """The `per` with other periods as its keys."""
        if zone is not None and per.zone not in (NO_ZONE, zone):
            raise InvalidDefinitionError("$.zone", f"is {zone}, but `per` says {per.zone}")
        if calendar is not None and per.calendar not in (None, calendar):
            raise InvalidDefinitionError("$.calendar", f"is {calendar}, but `per` says {per.calendar}")
        own = {"zone": per.zone if zone is None else zone, "calendar": calendar or per.calendar}
        return self._replace_fields(per, {"grain": self._grain(per), **own, **periods}, of)

    def _replace_fields(self, per: Per, change: Mapping[str, Any], of: int | None) -> Per:
        if not self._said and not {"rolled_up_to", "each"}.isdisjoint(change):
            change = {**change, "on_correction": default_on_correction(per.expires)}
        return replace(per, **change, of=per.of if of is None else of)


def to_expression(trigger: TriggerExpression | Trigger) -> TriggerExpression:
    """Wraps a domain trigger as an expression; an expression is returned unchanged.

    Raises:
        InvalidDefinitionError: `trigger` is neither.
    """
    if isinstance(trigger, TriggerExpression):
        return trigger
    if not isinstance(trigger, Trigger):
        given = f"the function {trigger.__name__} itself" if isinstance(trigger, FunctionType) else repr(trigger)
        raise InvalidDefinitionError(
            "$", f"must be a trigger such as partitions('flights', 7) or cron('0 4 * * *') but is {given}"
        )
    return TriggerExpression(str(trigger), lambda _: trigger)


def at_least(count: int, *triggers: TriggerExpression | Trigger) -> TriggerExpression:
    """Holds when `count` of the triggers hold: `at_least(2, partitions("eu"), partitions("us"), partitions("ap"))`."""
    expressions = [to_expression(each) for each in triggers]
    text = f"at_least({', '.join([repr(count), *map(str, expressions)])})"
    return _combine(text, lambda *built: AtLeast(check_integer(count, "$.count"), built), *expressions)


def then(
    first: TriggerExpression | Trigger, second: TriggerExpression | Trigger, *, within: Duration | None = None
) -> TriggerExpression:
    """Holds when `second` holds after `first`, at most `within` later. Events of `second` from before do not count.
    What was acknowledged first was first, whatever its key.
    """
    one, other = to_expression(first), to_expression(second)
    text = f"then({one}, {other}{_argument('within', within)})"
    return _combine(text, lambda before, after: Then(before, after, _duration(within, "$.within")), one, other)


def _check_veto(unless: Unless) -> Unless:
    """Raises:
    InvalidDefinitionError: it waits for no veto, because its trigger holds with its first event.
    """
    wanted = unless.wanted
    if unless.within is None and isinstance(wanted, Leaf) and needed_amount(wanted) == 1:
        raise InvalidDefinitionError("$.within", f"is missing: {wanted} holds at once, before any veto can come")
    return unless


def silence(of: TriggerExpression | Trigger, rest: Duration) -> TriggerExpression:
    """Holds when no event of this kind arrived for `rest`: `silence(event("heartbeat"), "1h")`."""
    kind = to_expression(of)

    def make(wanted: Trigger) -> Trigger:
        if not isinstance(wanted, Partitions | Total | StreamGrowth | ProgramStatus | CustomEvent):
            raise InvalidDefinitionError("$.of", "must be one kind of event: partitions, program, stream_size or event")
        return Silence(wanted, duration(rest, "$.rest"))

    return _combine(f"silence({kind}, {str(rest)!r})", make, kind)


def program_named(ref: ProgramRef | str, app: AppRef) -> ProgramRef:
    """The program of a reference, of a name in the app, or of `"namespace.app.program"`."""
    if isinstance(ref, ProgramRef):
        return ref
    return ProgramRef.parse(ref) if "." in ref else ProgramRef(app.namespace, app.app, ref)


def quote_errors(text: str, build: Callable[[AppRef], Trigger]) -> TriggerExpression:
    """An expression whose errors quote `text`, because the field alone does not identify one trigger of several."""

    def quote(app: AppRef) -> Trigger:
        with _quote_in_errors(text):
            return build(app)

    return TriggerExpression(text, quote)


def _combine(text: str, make: Callable[..., Trigger], *inside: TriggerExpression) -> TriggerExpression:
    """An expression over other expressions. Errors of the inner ones quote the inner text."""

    def build(app: AppRef) -> Trigger:
        built = [each.build(app) for each in inside]
        with _quote_in_errors(text):
            return make(*built)

    return TriggerExpression(text, build)


@contextmanager
def _quote_in_errors(text: str) -> Iterator[None]:
    try:
        yield
    except InvalidError as exc:
        raise InvalidDefinitionError(exc.path, f"{exc.reason}, in {text}") from exc


def _duration(value: Duration | None, path: str) -> timedelta | None:
    return None if value is None else duration(value, path)


def _argument(name: str, value: object) -> str:
    return "" if value is None else f", {name}={str(value) if isinstance(value, int) else repr(str(value))}"
