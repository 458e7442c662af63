"""Reads the `tasks.json` of Stolos, and reports what means something else here.

{name: {"job_type"?: "bash" | "pyspark" | plug-in, "bash_cmd"?: text, "job_id"?: template, "depends_on"?: …,
  "autofill_values"?: …, "valid_if_or"?: …, "pymodule"?: text, "spark_conf"?: {name: text}, "env"?: {name: text},
  "env_from_os"?: [name, …], "uris"?: [path or URL, …], "options"?: [text, …]}}

As `codec.graph.task`, with `app_name` for `task`; `partitions`, `event` and `cron` of an entry are ours. `bash_opts` is
the former name of `bash_cmd`. `options` are what Stolos takes from the command line of a run; it does not read the
field.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from streamsched.codec.graph.arrival import Arrival, ArrivalReader
from streamsched.codec.graph.task import autofill_from_json, groups_from_json, valid_if_from_json
from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.errors import DecodeError
from streamsched.domain.graph.job_template import DELIMITER, ComponentKind, JobTemplate
from streamsched.domain.graph.task import DependencyGroup, Entry, TaskTemplate
from streamsched.domain.json_value import member_path
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef
from streamsched.domain.schedules.process_job import NOTHING, BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.schedule import Executable
from streamsched.domain.schedules.shell_command import fill_for_shell

#: The default of STOLOS_JOB_ID_DEFAULT_TEMPLATE in its documentation.
DEFAULT_TEMPLATE: Final = "{date}_{client_id}_{collection_name}"
_ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")
#: The former name of the argument `task` of a node's run.
_APP_NAME: Final = re.compile(r"\{app_name\}")
_KNOWN: Final = frozenset(
    ("job_type", "bash_cmd", "bash_opts", "job_id", "depends_on", "autofill_values", "valid_if_or", "options")
)
_OF_SPARK: Final = frozenset(("pymodule", "spark_conf", "env", "env_from_os", "uris"))


@dataclass(frozen=True, slots=True)
class StolosDifference:
    """What means something else here than there, at the path in the document."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class StolosTask:
    """A task, and what it runs. `folder` of a module is `.`: that of the document."""

    task: TaskTemplate
    executable: Executable


@dataclass(frozen=True, slots=True)
class StolosTasks:
    """The tasks of a document in its order, the differences, and what the tasks wait for beside parents. `names`: those
    of the tasks here, by their name there.
    """

    tasks: tuple[StolosTask, ...]
    differences: tuple[StolosDifference, ...]
    arriving: tuple[Arrival, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict[str, str])


def stolos_from_json(
    value: object,
    *,
    app: AppRef | None = None,
    default_template: str = DEFAULT_TEMPLATE,
    delimiter: str = DELIMITER,
    kinds: Mapping[str, ComponentKind] | None = None,
    validations: str = "",
    validated: Collection[str] | None = None,
) -> StolosTasks:
    """The tasks, not yet compared with each other.

    Args:
        value: the parsed document.
        app: to which names in `partitions` and `event` of an entry belong; default: `stolos`.
        default_template: of tasks without `job_id`.
        delimiter: STOLOS_JOB_ID_DELIMITER.
        kinds: kinds of components.
        validations: the name of the validators, in place of STOLOS_JOB_ID_VALIDATIONS; empty: none.
        validated: the components that have one; each that has neither one nor a kind is a difference. None: not known.

    Raises:
        DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    document = Fields(value, "$")
    names: dict[str, str] = {}
    differences: list[StolosDifference] = []
    for name in document.names():
        plain = _ODD.sub("-", name)
        if plain in names.values():
            raise DecodeError(member_path("$", name), f"has the name of another task once it is written '{plain}'")
        if plain != name:
            differences.append(
                StolosDifference(
                    member_path("$", name),
                    f"is task '{plain}', because names have letters, digits, '-' and '_'; its runs and functions get "
                    "the name that it has here",
                )
            )
        names[name] = plain
    arriving = ArrivalReader(AppRef(DEFAULT_NAMESPACE, "stolos") if app is None else app)
    tasks: list[StolosTask] = []
    unchecked: dict[str, Fields] = {}
    for name in document.names():
        fields = document.object(name)
        text = fields.optional_text("job_id") or default_template
        template = JobTemplate.parse(text, delimiter, kinds, fields.path_of("job_id"))
        template = replace(template, validations=validations)
        unchecked.update((each, fields) for each in template.components if each not in {**template.kinds, **unchecked})
        tasks.append(
            _task(
                names,
                TaskTemplate(names[name], template, title="" if names[name] == name else name),
                fields,
                differences,
                arriving,
            )
        )
    for component, fields in unchecked.items():
        if validated is not None and component not in validated:
            where = fields.path_of("job_id") if fields.has("job_id") else fields.path
            differences.append(StolosDifference(where, f"'{component}' has no validator: any text is one"))
    return StolosTasks(tuple(tasks), tuple(differences), tuple(arriving.found.values()), names)


def _task(
    names: Mapping[str, str],
    task: TaskTemplate,
    fields: Fields,
    differences: list[StolosDifference],
    arriving: ArrivalReader,
) -> StolosTask:
    path = fields.path_of("depends_on")
    groups = groups_from_json(fields.optional_value("depends_on"), path, task.template, arriving, word="app_name")
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
    valid = valid_if_from_json(fields.optional_value("valid_if_or"), fields.path_of("valid_if_or"))
    if valid is not None and valid.function is not None:
        differences.append(
            StolosDifference(
                f"{fields.path_of('valid_if_or')}._func", f"'{valid.function}' is found by an entry point of this name"
            )
        )
    autofill = autofill_from_json(fields.optional_value("autofill_values"), fields.path_of("autofill_values"))
    task = replace(task, groups=tuple(_rename(each, names) for each in groups), autofill=autofill, valid_if=valid)
    kind = fields.optional_text("job_type") or "bash"
    known = _KNOWN | _OF_SPARK if kind == "pyspark" else _KNOWN
    for unknown in fields.names():
        if unknown not in known:
            differences.append(StolosDifference(fields.path_of(unknown), "is not used"))
    return StolosTask(task, _read_executable(kind, task, fields, differences))


def _rename(group: DependencyGroup, names: Mapping[str, str]) -> DependencyGroup:
    entries = (
        Entry(tuple(names.get(each, each) for each in entry.tasks), entry.values, entry.job_ids, entry.function)
        for entry in group.entries
    )
    return DependencyGroup(group.name, tuple(entries))


def _read_executable(kind: str, task: TaskTemplate, fields: Fields, differences: list[StolosDifference]) -> Executable:
    options = fields.text_list("options")
    if kind == "pyspark":
        folder, name = _module(fields)
        differences.append(
            StolosDifference(fields.path_of("pymodule"), "gets the parts of the job id as texts, and runs on Python 3")
        )
        conf, env = _texts(fields, "spark_conf"), _texts(fields, "env")
        inherited, uris = fields.text_list("env_from_os"), fields.text_list("uris")
        with prefix_errors(fields.path):
            return SparkJob("", options, None, conf, name, folder, env, inherited, uris)
    if kind != "bash":
        differences.append(
            StolosDifference(
                fields.path_of("job_type"),
                f"'{kind}' is an entry point of group streamsched.task_kinds or a module where the launcher runs; its "
                "main(ns) gets the parts of the job id in ns, as texts",
            )
        )
        with prefix_errors(fields.path, target="job_type"):
            return PythonJob(kind, options, ".")
    where = fields.path_of("bash_cmd" if fields.has("bash_cmd") else "bash_opts")
    command = fields.optional_text("bash_cmd") or fields.optional_text("bash_opts") or ""
    if options:
        command = f"{command} {' '.join(options)}".strip()
    if not command:
        differences.append(
            StolosDifference(
                fields.path_of("bash_cmd"),
                "is missing: the program does nothing. Stolos takes the command from its command line: give it here or "
                "in options",
            )
        )
        return BashJob(NOTHING)
    components = task.template.components
    plain = _APP_NAME.sub("{task}", command) if "task" not in components else command
    return BashJob(fill_for_shell(plain, ("job_id", "task", *components), where))


def _module(fields: Fields) -> tuple[str, str]:
    """The folder and the name of `pymodule`: a module, or a path of a Python file."""
    text = fields.text("pymodule")
    if not text.endswith(".py") and "/" not in text:
        return ".", text
    path = PurePosixPath(text.removesuffix(".py"))
    return str(path.parent), path.name


def _texts(fields: Fields, name: str) -> dict[str, str]:
    """A field with values by name; numbers and booleans become texts, as Spark reads them."""
    found = fields.optional_object(name)
    return {} if found is None else {key: _text(found, key) for key in found.names()}


def _text(fields: Fields, name: str) -> str:
    match fields.required_value(name):
        case bool() as value:
            return str(value).lower()
        case str() | int() | float() as value:
            return str(value)
        case _:
            return fields.text(name)
