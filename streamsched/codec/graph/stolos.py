"""Reads the `tasks.json` of Stolos, and reports what means something else here.

{name: {"job_type"?: "bash" | "pyspark", "bash_cmd"?: text, "job_id"?: template, "depends_on"?: …,
  "autofill_values"?: …,
  "valid_if_or"?: …, "pymodule"?: text, "spark_conf"?: {name: text}}}

As `codec.graph.task`, with `app_name` for `task`. `bash_opts` is the former name of `bash_cmd`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamsched.codec.graph.task import autofill_from_json, groups_from_json, valid_if_from_json
from streamsched.codec.json.reading import Fields
from streamsched.domain.errors import DecodeError
from streamsched.domain.graph.job_template import DELIMITER, ComponentKind, JobTemplate
from streamsched.domain.graph.task import DependencyGroup, Entry, TaskTemplate, at

#: The default of STOLOS_JOB_ID_DEFAULT_TEMPLATE in its documentation.
DEFAULT_TEMPLATE: Final = "{date}_{client_id}_{collection_name}"
_ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")
_QUOTED: Final = re.compile(r"'[^']*\{[A-Za-z][A-Za-z0-9_]*\}[^']*'|\"[^\"]*\{[A-Za-z][A-Za-z0-9_]*\}[^\"]*\"")


@dataclass(frozen=True, slots=True)
class StolosDifference:
    """What means something else here than there, at the path in the document."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class StolosTask:
    """A task, and what it runs: a shell command, or a Python file for Spark with its settings.

    Attributes:
        command: with the values of the job id as environment variables; None for `main`.
    """

    task: TaskTemplate
    command: str | None
    main: str | None = None
    conf: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StolosTasks:
    """The tasks of a document in its order, and the differences."""

    tasks: tuple[StolosTask, ...]
    differences: tuple[StolosDifference, ...]


def stolos_from_json(
    value: object,
    *,
    default_template: str = DEFAULT_TEMPLATE,
    delimiter: str = DELIMITER,
    kinds: Mapping[str, ComponentKind] | None = None,
) -> StolosTasks:
    """The tasks, not yet compared with each other.

    Args:
        value: the parsed document.
        default_template: of tasks without `job_id`.
        delimiter: STOLOS_JOB_ID_DELIMITER.
        kinds: kinds of components, in place of STOLOS_JOB_ID_VALIDATIONS.

    Raises:
        DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    document = Fields(value, "$")
    names: dict[str, str] = {}
    differences: list[StolosDifference] = []
    for name in document.names():
        plain = _ODD.sub("-", name)
        if plain in names.values():
            raise DecodeError(at("$", name), f"has the name of another task once it is written '{plain}'")
        if plain != name:
            differences.append(
                StolosDifference(at("$", name), f"is named '{plain}': names have letters, digits, '-' and '_'")
            )
        names[name] = plain
    tasks = []
    for name in document.names():
        fields = document.object(name)
        text = fields.optional_text("job_id") or default_template
        template = JobTemplate.parse(text, delimiter, kinds, fields.at("job_id"))
        tasks.append(_task(names, name, template, fields, differences))
    return StolosTasks(tuple(tasks), tuple(differences))


def _task(
    names: Mapping[str, str], name: str, template: JobTemplate, fields: Fields, differences: list[StolosDifference]
) -> StolosTask:
    path = fields.at("depends_on")
    groups = groups_from_json(fields.optional("depends_on"), path, word="app_name")
    if len(groups) > 1:
        differences.append(
            StolosDifference(path, "one complete group is enough; Stolos waits for all groups that fit a job id")
        )
    if any(entry.job_ids is not None for group in groups for entry in group.entries):
        differences.append(
            StolosDifference(
                path, "a literal job_id is a parent of job ids with the same values of the components both have"
            )
        )
    valid = valid_if_from_json(fields.optional("valid_if_or"), fields.at("valid_if_or"))
    if valid is not None and valid.function is not None:
        differences.append(
            StolosDifference(
                f"{fields.at('valid_if_or')}._func", f"'{valid.function}' is found by an entry point of this name"
            )
        )
    autofill = autofill_from_json(fields.optional("autofill_values"), fields.at("autofill_values"))
    task = TaskTemplate(names[name], template, tuple(_renamed(group, names) for group in groups), autofill, valid)
    found = _program(task, name, fields, differences)
    for unknown in fields.names():
        if unknown not in _KNOWN:
            differences.append(StolosDifference(fields.at(unknown), "is not used"))
    return found


_KNOWN: Final = frozenset(
    ("job_type", "bash_cmd", "bash_opts", "job_id", "depends_on", "autofill_values", "valid_if_or", "pymodule")
) | {"spark_conf"}


def _renamed(group: DependencyGroup, names: Mapping[str, str]) -> DependencyGroup:
    entries = (
        Entry(tuple(names.get(each, each) for each in entry.tasks), entry.values, entry.job_ids, entry.function)
        for entry in group.entries
    )
    return DependencyGroup(group.name, tuple(entries))


def _program(task: TaskTemplate, name: str, fields: Fields, differences: list[StolosDifference]) -> StolosTask:
    kind = fields.optional_text("job_type") or "bash"
    if kind == "pyspark":
        module = fields.text("pymodule")
        main = module.replace(".", "/") + ".py"
        differences.append(
            StolosDifference(
                fields.at("pymodule"), f"runs {main} as a program; Stolos calls its main(sc, ns) in its own process"
            )
        )
        conf: dict[str, Any] = dict(found.raw()) if (found := fields.optional_object("spark_conf")) is not None else {}
        return StolosTask(task, None, main, tuple((key, str(each)) for key, each in conf.items()))
    where = fields.at("bash_cmd")
    command = fields.optional_text("bash_cmd") or fields.optional_text("bash_opts")
    if kind != "bash":
        differences.append(
            StolosDifference(fields.at("job_type"), f"plug-in '{kind}' is not run: the program does nothing")
        )
        command = "true"
    elif command is None:
        differences.append(
            StolosDifference(
                where, "is missing: the program does nothing; Stolos takes the command from its command line"
            )
        )
        command = "true"
    if _QUOTED.search(command):
        differences.append(
            StolosDifference(where, "has a placeholder within quotes: check how the shell reads its variable there")
        )
    return StolosTask(task, _command(command, task, name, where))


def _command(command: str, task: TaskTemplate, name: str, path: str) -> str:
    """The command with `"$STREAMSCHED_ARG_DATE"` for `{date}`, so a value is never read as shell syntax."""

    def variable(found: re.Match[str]) -> str:
        if found[1] == "app_name":
            return name
        if found[1] not in ("job_id", *task.template.components):
            raise DecodeError(path, f"names {{{found[1]}}}, which is no component of {task.template}")
        return f'"$STREAMSCHED_ARG_{found[1].upper()}"'

    return _PLACEHOLDER.sub(variable, command)
