"""How the tasks of a graph react to ends, and the arguments that they make from times, as JSON. `codec.graph.task` has
the fields.
"""

from __future__ import annotations

import re
from typing import Any, Final

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.domain.errors import DecodeError
from streamsched.domain.graph.node import ParentOutcome
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.graph.time_argument import NearTick, TimeArgument
from streamsched.domain.json_value import member_path
from streamsched.domain.time.duration import duration_text, parse_duration

#: The ends of parents that an entry can want.
WANTED: Final = tuple(outcome.value for outcome in ParentOutcome if outcome is not ParentOutcome.MISSING)
#: What an exit code means that skips the node.
SKIP: Final = "skip"
_CODE: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


def ends_from_json(fields: Fields, name: str) -> tuple[ParentOutcome, ...]:
    """The ends in a field, in the order of `WANTED`."""
    named = fields.text_list(name)
    for number, each in enumerate(named):
        if each not in WANTED:
            raise DecodeError(
                member_path(fields.path_of(name), number),
                f"must be one of {', '.join(WANTED)} but is {format_value(each)}",
            )
    return tuple(outcome for outcome in ParentOutcome if outcome.value in named)


def arguments_from_json(fields: Fields | None) -> dict[str, TimeArgument]:
    """Arguments that are made from times of the job id, by name."""
    return {} if fields is None else {name: _argument(fields.object(name)) for name in fields.names()}


def _argument(fields: Fields) -> TimeArgument:
    of, form, zone = fields.text("of"), fields.text("format"), fields.optional_text("timeZone") or "UTC"
    back, ahead = (
        parse_duration(fields.optional_text(name) or "0s", fields.path_of(name)) for name in ("back", "ahead")
    )
    if fields.has("previous") and fields.has("next"):
        fields.fail("next", "is given beside previous; an argument shows one of the ticks")
    tick = _tick(fields.optional_object("previous"), after=False) or _tick(fields.optional_object("next"), after=True)
    fields.check_all_read()
    with prefix_errors(fields.path):
        return TimeArgument(of, form, zone, tick, back, ahead)


def _tick(fields: Fields | None, *, after: bool) -> NearTick | None:
    if fields is None:
        return None
    expression, zone = fields.text("cronExpression"), fields.optional_text("timeZone") or "UTC"
    fields.check_all_read()
    with prefix_errors(fields.path):
        return NearTick(expression, zone, after)


def _argument_to_json(argument: TimeArgument) -> dict[str, Any]:
    tick = argument.tick
    zone = {} if argument.zone == "UTC" else {"timeZone": argument.zone}
    near = {} if tick is None else {"cronExpression": tick.expression, "timeZone": tick.zone}
    moved = {name: each for name, each in (("back", argument.back), ("ahead", argument.ahead)) if each}
    return {
        "of": argument.component,
        "format": argument.format,
        **zone,
        **({} if tick is None else {"next" if tick.after else "previous": near}),
        **{name: duration_text(each) for name, each in moved.items()},
    }


def exit_codes_from_json(fields: Fields | None) -> dict[int, tuple[str, ...] | None]:
    """What exit codes mean: the text `skip`, or a list of tasks."""
    if fields is None:
        return {}
    found: dict[int, tuple[str, ...] | None] = {}
    for name in fields.names():
        if not _CODE.fullmatch(name):
            fields.fail(name, "must be an exit code, from 0 to 125")
        if isinstance(fields.required_value(name), str):
            if fields.text(name) != SKIP:
                fields.fail(name, f'must be a list of tasks or the text "{SKIP}"')
            found[int(name)] = None
        else:
            found[int(name)] = fields.text_list(name)
    return found


def to_json(task: TaskTemplate) -> dict[str, Any]:
    """The fields of a task; what is empty is left out."""
    made = {name: _argument_to_json(each) for name, each in task.arguments.items()}
    codes = {str(code): SKIP if children is None else list(children) for code, children in task.exit_codes.items()}
    return {**({"arguments": made} if made else {}), **({"exit_codes": codes} if codes else {})}
