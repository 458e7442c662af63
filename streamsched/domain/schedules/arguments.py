"""The arguments of a job's run: program defaults, overridden by preferences of the namespace, by schedule properties
and by those a person gave with a submission, in this order; plus facts of the trigger.

Runs of ticks have the argument `day`: the date of the latest tick's due time in the zone of its trigger. Everything
else that has this name goes before it.

Arguments of the runs that started it are arguments where property `triggering.properties.mapping` says so
(`argument_mapping`). They override properties.

Each column of the key of a `per` is an argument twice: `key.<column>`, and `<column>`. So the end of the run has them,
and a schedule that correlates by the column counts it under the same key. They override defaults and preferences. A
schedule with a property of such a name is refused (`check_properties`); the property of one stored before counts.

Trigger facts have the prefix `trigger.` and never overwrite other arguments:

| argument                        | of which jobs | value                                                            |
|---------------------------------|---------------|------------------------------------------------------------------|
| `job`, `schedule`, `satisfied_at` | all         | ids (`schedule` not of a submission to a program); an instant    |
| `key`                           | `per`         | the correlation key, its columns joined by `/`                   |
| `corrects`, `corrected`         | corrections   | the job whose data was written again; the partitions that were   |
| `missing`                       | roll-ups      | the periods of the key that have not come, where there are any   |
| `logical_start_time`, `day`     | clocks        | the latest tick's due time, and its date in the trigger's zone   |
| `program`, `run`, `outcome`     | programs      | of the last run that failed or was killed, else of the last run  |
| `error`, `log_tail`             | programs      | of the same run: its reason and the end of its log; else ""      |

A rerun has the facts of the job it repeats, except `job`.

`error` has at most 500 characters, `log_tail` the last 2,000 of the log, and neither has control characters other than
tab and line feed. Other than those characters, `log_tail` is what the program wrote.

CDAP's argument `logical.start.time` is set too: milliseconds since 1970 as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.events.event import LOG_TAIL, Outcome, PartitionsAdded, ProgramReached, Ticked
from streamsched.domain.jobs.argument_mapping import PROPERTY, mapped_arguments, read_mapping
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.limits import LONGEST_NAME, MOST_PARTS, check_most
from streamsched.domain.schedules.key_columns import all_column_names, key_columns
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.schedules.template import replace_unprintable
from streamsched.domain.time.zone import zone_or_utc
from streamsched.domain.triggers.completeness import completeness
from streamsched.domain.triggers.time_leaf import zone_name
from streamsched.domain.triggers.trigger import (
    At,
    Cron,
    Every,
    Partitions,
    SinceLastRun,
    Trigger,
    leaf_id,
    leaves,
    leaves_with_per,
)

PREFIX: Final = "trigger."
KEY_PREFIX: Final = "key."
#: Most characters of the value of an argument that a person gives.
LONGEST_VALUE: Final = 32_768
#: CDAP's argument: the due time of the latest tick; without a tick, when the trigger was satisfied.
LOGICAL_START_TIME: Final = "logical.start.time"
#: The argument of runs of ticks, plain and after `trigger.`.
DAY: Final = "day"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_UNSUCCESSFUL: Final = (Outcome.FAILED, Outcome.KILLED)
#: Most characters of an error or a run id; external emitters may send longer ones.
_ERROR: Final = 500


def arguments(program: Program, schedule: Schedule, ready: ReadyJob) -> Mapping[str, str]:
    """A submission's arguments override mapped ones, these override schedule properties, these override key columns,
    and these the program's arguments (`preferences.with_preferences`); trigger facts are added. Times as ISO 8601, UTC.
    """
    by_person: Mapping[str, str] = {} if ready.submission is None else ready.submission.arguments
    facts, columns = dict(_facts(ready)), key_columns(schedule.trigger, ready.key)
    if missing := _missing_text(schedule.trigger, ready):
        facts[f"{PREFIX}missing"] = missing
    prefixed = {f"{KEY_PREFIX}{name}": value for name, value in columns.items()}
    plain = {name: value for name, value in columns.items() if name not in facts and name not in prefixed}
    day = day_of_tick(schedule.trigger, ready)
    ticked = {} if day is None else {DAY: day, f"{PREFIX}{DAY}": day}
    mapped = mapped_arguments(schedule.properties, ready)
    return {**ticked, **facts, **program.arguments, **plain, **prefixed, **schedule.properties, **mapped, **by_person}


def day_of_tick(trigger: Trigger, ready: ReadyJob) -> str | None:
    """The date of the latest tick of a job in the zone of its leaf, such as `2026-03-29`; None without a tick. In UTC
    when the trigger does not have the leaf any more, or this machine does not know its zone.
    """
    latest = max(_ticks(ready), key=lambda tick: tick.due_at, default=None)
    if latest is None:
        return None
    found = next((leaf for leaf in leaves(trigger) if leaf_id(leaf) == latest.leaf), None)
    zone = zone_name(found) if isinstance(found, Cron | Every | At | SinceLastRun) else "UTC"
    return latest.due_at.astimezone(zone_or_utc(zone)).date().isoformat()


def check_properties(schedule: Schedule) -> None:
    """Checks that no property, and no argument mapped by one, hides a column of the key: the ends of all its runs would
    name the same value, and a schedule that goes on with the key would count every key as one. Not part of `Schedule`
    itself: schedules stored before this rule must still be read.

    Raises:
        InvalidDefinitionError: a property or a mapped argument has the name of a column, or of one after `key.`; or the
            mapping is none.
    """
    mapped = {each.target for each in read_mapping(schedule.properties)}
    for column in all_column_names(schedule.trigger):
        for name in (column, f"{KEY_PREFIX}{column}"):
            if name in mapped:
                raise InvalidDefinitionError(
                    argument_path("$.properties", PROPERTY),
                    f"gives argument '{name}', which each run has from its key: `per` names column '{column}'. "
                    "Give it another target",
                )
            if name in schedule.properties:
                raise InvalidDefinitionError(
                    argument_path("$.properties", name),
                    f"is also an argument that each run has from its key: `per` names column '{column}'. "
                    "Leave the property out or rename it",
                )


def check_texts(texts: Mapping[str, str], path: str, what: str) -> None:
    """Checks arguments, or other texts by name, that a person gave. `what` is their noun.

    Raises:
        InvalidDefinitionError: too many, or a name or a value is too long.
        InvalidError: one holds a character that PostgreSQL cannot store.
    """
    check_most(len(texts), MOST_PARTS, path, what)
    for name, value in texts.items():
        check_most(len(name), LONGEST_NAME, path, "characters in a name")
        check_most(len(value), LONGEST_VALUE, argument_path(path, name), "characters")
        if "\0" in name or "\0" in value:
            raise InvalidError(argument_path(path, name).replace("\0", "\\0"), "must not hold a NUL character")


def argument_path(path: str, name: str) -> str:
    """The path of an argument below `path`."""
    return f"{path}.{name}" if name.isidentifier() else f"{path}['{name}']"


def _facts(ready: ReadyJob) -> Iterator[tuple[str, str]]:
    yield f"{PREFIX}job", ready.id
    if ready.schedule is not None:
        yield f"{PREFIX}schedule", str(ready.schedule)
    yield f"{PREFIX}satisfied_at", ready.logical_at.isoformat()
    if ready.key:
        yield f"{PREFIX}key", ready.key
    if ready.corrects:
        yield f"{PREFIX}corrects", ready.corrects
        yield f"{PREFIX}corrected", _corrected_keys(ready)
    ticks = [tick.due_at for tick in _ticks(ready)]
    yield LOGICAL_START_TIME, str((max(ticks, default=ready.logical_at) - _EPOCH) // _MILLISECOND)
    if ticks:
        yield f"{PREFIX}logical_start_time", max(ticks).isoformat()
    yield from _of_program(ready)


def _missing_text(trigger: Trigger, ready: ReadyJob) -> str:
    """What the key of a roll-up lacks, leaf by leaf, at most `_ERROR` characters; "" for a whole key."""
    if not ready.key or ready.corrects:
        return ""
    events = {part.leaf: part.events for part in ready.contributions}
    found = (
        f"{leaf.dataset if isinstance(leaf, Partitions) else leaf}: {what}"
        for leaf, per in leaves_with_per(trigger)
        if per is not None
        and (what := completeness(per, ready.key, events.get(leaf_id(leaf), ())))
        and what.missing_parts
    )
    return replace_unprintable("; ".join(found))[:_ERROR]


def _corrected_keys(ready: ReadyJob) -> str:
    """The keys of the partitions that were written again, each once, at most `_ERROR` characters."""
    facts = (event.fact for part in ready.contributions for event in part.events)
    named = (each.key for fact in facts if isinstance(fact, PartitionsAdded) for each in fact.partitions)
    text = replace_unprintable(", ".join(islice(dict.fromkeys(named), _ERROR)))
    return text if len(text) <= _ERROR else f"{text[: _ERROR - 1]}…"


def _ticks(ready: ReadyJob) -> Iterator[Ticked]:
    return (event.fact for part in ready.contributions for event in part.events if isinstance(event.fact, Ticked))


def _of_program(ready: ReadyJob) -> Iterator[tuple[str, str]]:
    """Facts of the latest run by event time; an unsuccessful run takes precedence over successful ones."""
    reached = [
        (event.fact.outcome in _UNSUCCESSFUL, event.time, event.fact)
        for part in ready.contributions
        for event in part.events
        if isinstance(event.fact, ProgramReached)
    ]
    if reached:
        _, _, last = max(reached, key=lambda each: each[:2])
        yield f"{PREFIX}program", str(last.program)
        yield f"{PREFIX}run", replace_unprintable(last.run_id[:_ERROR])
        yield f"{PREFIX}outcome", last.outcome.value
        yield f"{PREFIX}error", replace_unprintable((last.error or "")[:_ERROR])
        yield f"{PREFIX}log_tail", replace_unprintable(last.log_tail[-LOG_TAIL:])
