"""Tasks of a graph as JSON, by name:

{"report": {"job_id": "{date}_{client}", "components"?: {"date": "date"}, "delimiter"?: "_",
  "validations"?: name, "arrives"?: text, "title"?: text,
  "depends_on"?: ENTRY or {group: ENTRY or [ENTRY, …]}, "autofill_values"?: {component: [value, …] or "min:max[:step]"},
  "valid_if_or"?: {component: [value, …], "_func"?: name}, "exit_codes"?: {code: [task, …] or "skip"},
  "arguments"?: {name: {"of": component, "format": "%Y-%m-%d", "timeZone"?, "back"?: "1d", "ahead"?: "1d",
    "previous"? or "next"?: {"cronExpression", "timeZone"?}}}}}

ENTRY: {"task": [name, …], component: [value, …] or "all", "job_id"?: [job id, …], "ends"?: ["complete", …]} or
{"task": [name, …], "function": name}, or with fields of `codec.graph.arrival` beside `task` or in its place. A value
is a text or a whole number, which becomes its decimal digits. The upper bound of a range is excluded, as in Python: "3"
is 0, 1, 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from streamsched.codec.graph import reaction
from streamsched.codec.graph.arrival import ArrivalReader
from streamsched.codec.json.reading import Fields, format_value, kind
from streamsched.domain.errors import DecodeError
from streamsched.domain.graph.job_template import DELIMITER, ComponentKind, JobTemplate
from streamsched.domain.graph.node import ParentOutcome
from streamsched.domain.graph.task import (
    ALL,
    DEFAULT_GROUP,
    MOST_VALUES,
    DependencyGroup,
    Entry,
    TaskTemplate,
    ValidIf,
    Values,
)
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.limits import check_most

#: The field of an entry that names the tasks: ours, and that of a `tasks.json`.
TASK_FIELD: Final = "task"
FUNCTION: Final = "_func"
ENDS: Final = "ends"
_RANGE: Final = re.compile(r"\s*(-?[0-9]{1,18})\s*(?::\s*(-?[0-9]{1,18})\s*(?::\s*(-?[0-9]{1,18})\s*)?)?")


def tasks_from_json(value: object, path: str = "$.tasks") -> tuple[TaskTemplate, ...]:
    """The tasks, in the order of the document. They are not compared with each other; `domain.graph.graph.Graph` does.

    Raises:
        DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    fields = Fields(value, path)
    return tuple(task_from_json(name, fields.object(name)) for name in fields.names())


def task_from_json(name: str, fields: Fields, arriving: ArrivalReader | None = None) -> TaskTemplate:
    """One task. `arriving`: takes what it waits for beside parents; a stored task names it like other tasks.

    Raises:
        DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    kinds = {} if (found := fields.optional_object("components")) is None else component_kinds(found)
    delimiter = fields.optional_text("delimiter")
    text = fields.text("job_id")
    template = JobTemplate.parse(text, DELIMITER if delimiter is None else delimiter, kinds, fields.path_of("job_id"))
    template = replace(template, validations=fields.optional_text("validations") or "")
    task = TaskTemplate(
        name,
        template,
        groups_from_json(fields.optional_value("depends_on"), fields.path_of("depends_on"), template, arriving),
        autofill_from_json(fields.optional_value("autofill_values"), fields.path_of("autofill_values")),
        valid_if_from_json(fields.optional_value("valid_if_or"), fields.path_of("valid_if_or")),
        fields.optional_text("arrives") or "",
        reaction.arguments_from_json(fields.optional_object("arguments")),
        reaction.exit_codes_from_json(fields.optional_object("exit_codes")),
        fields.optional_text("title") or "",
    )
    fields.check_all_read()
    return task


def component_kinds(fields: Fields) -> dict[str, ComponentKind]:
    """The kinds of components by name."""
    return {name: fields.choice(name, ComponentKind) for name in fields.names()}


def groups_from_json(
    value: object, path: str, template: JobTemplate, arriving: ArrivalReader | None = None, *, word: str = TASK_FIELD
) -> tuple[DependencyGroup, ...]:
    """The groups of a `depends_on`; none for null.

    Args:
        template: of the task that depends.
        arriving: as of `task_from_json`.
        word: the field that names the tasks.
    """
    if value is None:
        return ()

    def entry(fields: Fields) -> Entry:
        wanted = word == TASK_FIELD and ENDS not in template.components and fields.has(ENDS)
        ends = reaction.ends_from_json(fields, ENDS) if wanted else None
        return _entry(fields, word, () if arriving is None else arriving.read(fields, template), ends)

    fields = Fields(value, path)
    if word in fields.names() or (arriving is not None and arriving.conditions(fields)):
        return (DependencyGroup(DEFAULT_GROUP, (entry(fields),)),)
    groups: list[DependencyGroup] = []
    for name in fields.names():
        found, where = fields.required_value(name), fields.path_of(name)
        if isinstance(found, Mapping):
            groups.append(DependencyGroup(name, (entry(Fields(found, where)),)))
        elif isinstance(found, list | tuple):
            entries = (Fields(each, member_path(where, index)) for index, each in enumerate(found))
            groups.append(DependencyGroup(name, tuple(entry(each) for each in entries)))
        else:
            raise DecodeError(
                where, f"must be a group, an object or a list of objects with field '{word}', but is {kind(found)}"
            )
    return tuple(groups)


def _entry(fields: Fields, word: str, arriving: tuple[str, ...], ends: tuple[ParentOutcome, ...] | None) -> Entry:
    names: tuple[str, ...] = ()
    if fields.has(word) or not arriving:
        tasks = fields.required_value(word)
        if not isinstance(tasks, list | tuple):
            raise DecodeError(fields.path_of(word), f"must be a list of names of tasks but is {kind(tasks)}")
        names = fields.text_list(word)
    function = fields.optional_text("function")
    job_ids = _values(fields.required_value("job_id"), fields.path_of("job_id")) if fields.has("job_id") else None
    conditions = ArrivalReader.conditions(fields) if arriving else ()
    others = [name for name in fields.names() if name not in (word, "function", "job_id", *conditions)]
    if ends is not None:
        others.remove(ENDS)
    values = {name: _read_values(fields.required_value(name), fields.path_of(name)) for name in others}
    return Entry((*names, *arriving), values, job_ids, function, ends)


def _read_values(value: Json, path: str) -> Values:
    if isinstance(value, str):
        if value != ALL.value:
            raise DecodeError(path, f'must be a list of values or the text "all" but is {format_value(value)}')
        return ALL
    return _values(value, path)


def _values(value: Json, path: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise DecodeError(path, f"must be a list of values but is {kind(value)}")
    check_most(len(value), MOST_VALUES, path, "values")
    return tuple(_value(each, member_path(path, index)) for index, each in enumerate(value))


def _value(value: object, path: str) -> str:
    match value:
        case bool():
            raise DecodeError(path, "must be a text or a whole number but is a boolean")
        case int():
            if abs(value) >= 10**40:
                raise DecodeError(path, "is a number of more than 40 digits; write it as a text")
            return str(value)
        case str():
            return value
        case _:
            raise DecodeError(path, f"must be a text or a whole number but is {kind(value)}")


def autofill_from_json(value: object, path: str) -> dict[str, tuple[str, ...]]:
    """The values of components by name: lists, and ranges written out; none for null."""
    if value is None:
        return {}
    fields = Fields(value, path)
    return {name: _autofill(fields.required_value(name), fields.path_of(name)) for name in fields.names()}


def _autofill(value: Json, path: str) -> tuple[str, ...]:
    if not isinstance(value, str):
        return _values(value, path)
    found = _RANGE.fullmatch(value)
    if found is None:
        raise DecodeError(
            path, f'must be a list of values or a range such as "1:5" or "0:100:10" but is {format_value(value)}'
        )
    first, last, step = (None if each is None else int(each) for each in found.groups())
    assert first is not None
    if step == 0:
        raise DecodeError(path, "has step 0")
    numbers = range(first) if last is None else range(first, last, 1 if step is None else step)
    if not numbers:
        raise DecodeError(path, f"is a range without values: {format_value(value)}")
    if numbers[-1] - numbers[0] > MOST_VALUES * abs(numbers.step):  # len() fails for the largest
        raise DecodeError(path, f"has more than {MOST_VALUES} values")
    return tuple(map(str, numbers))


def valid_if_from_json(value: object, path: str) -> ValidIf | None:
    """Which job ids have work to do; None for null: all."""
    if value is None:
        return None
    fields = Fields(value, path)
    function = fields.optional_text(FUNCTION)
    names = [name for name in fields.names() if name != FUNCTION]
    return ValidIf({name: _values(fields.required_value(name), fields.path_of(name)) for name in names}, function)


def task_to_json(task: TaskTemplate) -> dict[str, Any]:
    """The task as a plain JSON value; what is empty is left out."""
    template = task.template
    valid = task.valid_if
    return {
        "job_id": str(template),
        **({"title": task.title} if task.title else {}),
        **({"arrives": task.arrives} if task.arrives else {}),
        **({} if template.delimiter == DELIMITER else {"delimiter": template.delimiter}),
        **({"components": {name: each.value for name, each in template.kinds.items()}} if template.kinds else {}),
        **({"validations": template.validations} if template.validations else {}),
        **({"depends_on": _groups_to_json(task.groups)} if task.groups else {}),
        **({"autofill_values": {name: list(each) for name, each in task.autofill.items()}} if task.autofill else {}),
        **(
            {}
            if valid is None
            else {
                "valid_if_or": {
                    **{name: list(each) for name, each in valid.values.items()},
                    **({} if valid.function is None else {FUNCTION: valid.function}),
                }
            }
        ),
        **reaction.to_json(task),
    }


def _groups_to_json(groups: tuple[DependencyGroup, ...]) -> dict[str, Any]:
    if len(groups) == 1 and groups[0].name == DEFAULT_GROUP and len(groups[0].entries) == 1:
        return _entry_to_json(groups[0].entries[0])
    return {group.name: [_entry_to_json(entry) for entry in group.entries] for group in groups}


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    return {
        TASK_FIELD: list(entry.tasks),
        **{name: ALL.value if each is ALL else list(each) for name, each in entry.values.items()},  # type: ignore[arg-type]
        **({} if entry.job_ids is None else {"job_id": list(entry.job_ids)}),
        **({} if entry.function is None else {"function": entry.function}),
        **({} if entry.ends is None else {ENDS: [each.value for each in entry.ends]}),
    }
