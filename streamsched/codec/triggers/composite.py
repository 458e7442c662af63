"""Composite and timed triggers as JSON: CDAP's AND and OR, and our own:

AND       triggers, mixedRuns?: true: ends of programs join whatever runs they descend from
AT_LEAST  count, triggers
THEN      first, second, within?
UNLESS    trigger, veto, within?
WITHIN    trigger, duration, then?: reset or fire
QUIET     trigger, duration, atMost?
SILENCE   of, duration
PER       trigger, by: a list of columns, or runOf: {programId}, also the program itself; grain?, rolledUpTo?,
          fannedOutTo?, of?, expires?, atMost?, then?: refuse (default with `by`) or drop_oldest (with `runOf`), zone?,
          onCorrection?: ignore, reopen or rerun, the last with quiet?; each?: {column, values: a list of texts},
          calendar?: see `codec.triggers.calendar`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, assert_never

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.triggers import calendar as calendars
from streamsched.domain.names import ProgramRef
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE
from streamsched.domain.triggers.correlation import AT_MOST, EXPIRES, OnFull, Per, usual_policy
from streamsched.domain.triggers.keys.known_set import KnownSet
from streamsched.domain.triggers.on_correction import (
    IGNORE,
    RERUN,
    CorrectionPolicy,
    OnCorrection,
    default_on_correction,
)
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    AtLeast,
    Composite,
    CustomEvent,
    OnExpiry,
    Partitions,
    ProgramStatus,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Timed,
    Total,
    Trigger,
    Unless,
    Within,
    check_correlation,
)

#: Decodes a nested trigger: (value, its path).
Read = Callable[[object, str], Trigger]
#: Decodes the program in a field: (fields, name).
ReadProgram = Callable[[Fields, str], ProgramRef]

NAMES: Final = ("AND", "OR", "AT_LEAST", "THEN", "UNLESS", "WITHIN", "QUIET", "SILENCE", "PER")


def to_json(
    trigger: Composite | Timed | Per, write: Callable[[Trigger], dict[str, Any]], *, explicit: bool
) -> dict[str, Any]:
    """The canonical JSON; `write` encodes nested triggers. `explicit`: see `codec.triggers.trigger.to_json`."""
    match trigger:
        case AllOf(triggers=children, mixed_runs=mixed):
            said = {"mixedRuns": True} if mixed else {}
            return {"type": "AND", "triggers": [write(child) for child in children], **said}
        case AnyOf(triggers=children):
            return {"type": "OR", "triggers": [write(child) for child in children]}
        case AtLeast(count=count, triggers=children):
            return {"type": "AT_LEAST", "count": count, "triggers": [write(child) for child in children]}
        case Then(first=first, second=second, within=within):
            return {"type": "THEN", "first": write(first), "second": write(second), **_duration("within", within)}
        case Unless(wanted=wanted, veto=veto, within=within):
            return {"type": "UNLESS", "trigger": write(wanted), "veto": write(veto), **_duration("within", within)}
        case Within(trigger=only, duration=duration, then=then):
            return {"type": "WITHIN", "trigger": write(only), **_duration("duration", duration), "then": then.value}
        case Quiet(trigger=only, duration=duration, at_most=at_most):
            limits = _duration("duration", duration) | _duration("atMost", at_most)
            return {"type": "QUIET", "trigger": write(only), **limits}
        case Silence(of=of, duration=duration):
            return {"type": "SILENCE", "of": write(of), **_duration("duration", duration)}
        case Per():
            return _per_to_json(trigger, write, explicit=explicit)
        case _:
            assert_never(trigger)


def from_json(
    kind: str, fields: Fields, read: Read, program: ReadProgram, *, submitted: bool
) -> Composite | Timed | Per | None:
    """Decodes a trigger of that type; None when the type is not one of `NAMES`. `submitted`: with the defaults of
    definitions of today, not of stored ones.

    Raises:
        DecodeError: a field is missing or of the wrong kind; the path names it.
        InvalidDefinitionError: it could never hold.
    """
    match kind:
        case "AND":
            children, mixed = _read_several(fields, read), fields.optional_boolean("mixedRuns") is True
            with prefix_errors(fields.path, mixed_runs="mixedRuns"):
                return AllOf(children, mixed)
        case "OR":
            return AnyOf(_read_several(fields, read))
        case "AT_LEAST":
            count, children = fields.integer("count", minimum=1), _read_several(fields, read)
            with prefix_errors(fields.path):
                return AtLeast(count, children)
        case "THEN":
            first, second = _read_one(fields, "first", read), _read_one(fields, "second", read)
            within = fields.optional_duration("within")
            with prefix_errors(fields.path):
                return Then(first, second, within)
        case "UNLESS":
            wanted, veto = _read_one(fields, "trigger", read), _read_one(fields, "veto", read)
            within = fields.optional_duration("within")
            with prefix_errors(fields.path):
                return Unless(wanted, veto, within)
        case "WITHIN" | "QUIET" | "SILENCE":
            return _read_timed(kind, fields, read)
        case "PER":
            return _read_per(fields, read, program, submitted=submitted)
        case _:
            return None


def _read_timed(kind: str, fields: Fields, read: Read) -> Timed:
    duration = fields.duration("duration")
    if kind == "SILENCE":
        of = _read_one(fields, "of", read)
        if not isinstance(of, Partitions | Total | StreamGrowth | ProgramStatus | CustomEvent):
            fields.fail("of", "must be one kind of event: partitions, a program, a stream or a custom event")
        with prefix_errors(fields.path):
            return Silence(of, duration)
    trigger = _read_one(fields, "trigger", read)
    if kind == "QUIET":
        at_most = fields.optional_duration("atMost")
        with prefix_errors(fields.path, at_most="atMost"):
            return Quiet(trigger, duration, at_most)
    then = fields.optional_choice("then", OnExpiry) or OnExpiry.RESET
    with prefix_errors(fields.path):
        return Within(trigger, duration, then)


def _read_per(fields: Fields, read: Read, program: ReadProgram, *, submitted: bool) -> Per:
    trigger, by, run_of = _read_one(fields, "trigger", read), fields.text_list("by"), None
    if isinstance(named := fields.optional_value("runOf"), Mapping) and "programId" in named:
        inner = fields.object("runOf")
        run_of = program(inner, "programId")
        inner.check_all_read()
    elif fields.has("runOf"):
        run_of = program(fields, "runOf")
    grain = fields.optional_choice("grain", Grain)
    coarse, fine = fields.optional_choice("rolledUpTo", Grain), fields.optional_choice("fannedOutTo", Grain)
    of = fields.optional_integer("of", minimum=1)
    expires = fields.optional_duration("expires")
    at_most = fields.optional_integer("atMost", minimum=1)
    each, calendar = _read_each(fields), calendars.field(fields)
    full, zone = fields.optional_choice("then", OnFull) or usual_policy(run_of), fields.optional_text("zone") or NO_ZONE
    renamed = {"rolled_up_to": "rolledUpTo", "fanned_out_to": "fannedOutTo", "on_correction": "onCorrection"}
    with prefix_errors(fields.path, at_most="atMost", **renamed):
        longest = EXPIRES if expires is None else expires
        corrected = _on_correction(fields, default_on_correction(longest) if submitted and (coarse or each) else None)
        bounds = longest, at_most or AT_MOST, full
        return Per(trigger, by, grain, coarse, fine, of, *bounds, zone, corrected, run_of, each, calendar)


def _read_each(fields: Fields) -> KnownSet | None:
    inner = fields.optional_object("each")
    if inner is None:
        return None
    column = inner.text("column")
    inner.required_value("values")
    values = inner.unchecked_list("values")
    inner.check_all_read()
    with prefix_errors(inner.path):
        return KnownSet(column, values)


def _on_correction(fields: Fields, default: OnCorrection | None) -> OnCorrection | None:
    said, quiet = fields.optional_choice("onCorrection", CorrectionPolicy), fields.optional_duration("quiet")
    if quiet is not None and said is not CorrectionPolicy.RERUN:
        fields.fail("quiet", "goes with onCorrection 'rerun', and only with that")
    match said:
        case None:
            return default
        case CorrectionPolicy.REOPEN:
            return None
        case CorrectionPolicy.IGNORE:
            return IGNORE
        case CorrectionPolicy.RERUN:
            return RERUN if quiet is None else OnCorrection(quiet)
        case _:
            assert_never(said)


def _on_correction_to_json(per: Per, *, explicit: bool) -> dict[str, str]:
    policy = per.on_correction
    if policy is None:
        reopens = explicit and per.has_parts
        return {"onCorrection": CorrectionPolicy.REOPEN.value} if reopens else {}
    return {"onCorrection": policy.policy.value, **_duration("quiet", policy.quiet or None)}


def _per_to_json(per: Per, write: Callable[[Trigger], dict[str, Any]], *, explicit: bool) -> dict[str, Any]:
    grains = {"grain": per.grain, "rolledUpTo": per.rolled_up_to, "fannedOutTo": per.fanned_out_to}
    return {
        "type": "PER",
        "trigger": write(per.trigger),
        **({"by": list(per.by)} if per.run_of is None else {"runOf": {"programId": program_to_json(per.run_of)}}),
        **{name: grain.value for name, grain in grains.items() if grain is not None},
        **({} if per.of is None else {"of": per.of}),
        **({} if per.expires == EXPIRES else _duration("expires", per.expires)),
        **({} if per.at_most == AT_MOST else {"atMost": per.at_most}),
        **({} if per.full is usual_policy(per.run_of) else {"then": per.full.value}),
        **({} if per.zone == NO_ZONE else {"zone": per.zone}),
        **({} if per.each is None else {"each": {"column": per.each.column, "values": list(per.each.values)}}),
        **({} if per.calendar is None else {"calendar": calendars.to_json(per.calendar)}),
        **_on_correction_to_json(per, explicit=explicit),
    }


def program_to_json(program: ProgramRef) -> dict[str, str]:
    """A program in CDAP's shape."""
    return {
        "namespace": program.namespace,
        "application": program.app,
        "program": program.name,
        "entity": "PROGRAM",
    }


def check_trigger(trigger: Trigger, path: str) -> Trigger:
    """Checks a complete trigger, after decoding.

    Raises:
        InvalidDefinitionError: it correlates in a way that can never hold.
    """
    with prefix_errors(path):
        check_correlation(trigger)
    return trigger


def _read_one(fields: Fields, name: str, read: Read) -> Trigger:
    return read(fields.required_value(name), fields.path_of(name))


def _read_several(fields: Fields, read: Read) -> tuple[Trigger, ...]:
    children = tuple(read(child, path) for child, path in fields.list("triggers"))
    return children or fields.fail("triggers", "must name at least one trigger")


def _duration(name: str, duration: timedelta | None) -> dict[str, str]:
    return {} if duration is None else {name: duration_text(duration)}
