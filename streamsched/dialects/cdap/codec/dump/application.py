"""An application of CDAP as it is read: its programs, workflows and schedules, before it becomes an app."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streamsched.codec.moving.draft import Report
from streamsched.dialects.cdap.codec.dump.answers import CdapAnswers, answer_path, list_of, object_of, text_of
from streamsched.dialects.cdap.codec.dump.programs import KINDS, REFUSED_KINDS, Artifact, CdapKind
from streamsched.dialects.cdap.codec.dump.workflow import WorkflowError, WorkflowNode, nodes_of
from streamsched.domain.errors import InvalidError
from streamsched.domain.json_value import Json, member_path

#: Levels of JSON in a trigger below which its programs are not looked for.
DEEPEST_TRIGGER: Final = 150


@dataclass(frozen=True, slots=True)
class CdapProgram:
    """A program, or a workflow with its nodes; None: they are not understood."""

    kind: CdapKind
    name: str
    path: str
    specification: Mapping[str, Json]
    nodes: tuple[WorkflowNode, ...] | None = None


@dataclass
class CdapApplication:
    """An application.

    Attributes:
        path: of its detail among the answers.
        programs: workflows first, then the others in the order of the detail.
        schedules: as CDAP shows them, each with its path.
    """

    namespace: str
    name: str
    path: str
    artifact: Artifact = field(default_factory=Artifact)
    programs: list[CdapProgram] = field(default_factory=list[CdapProgram])
    schedules: list[tuple[Json, str]] = field(default_factory=list[tuple[Json, str]])

    @property
    def id(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


def read_application(
    answers: CdapAnswers, namespace: str, name: str, schedules: list[Any], report: Report
) -> CdapApplication:
    """Reads an application; a row for each part that cannot be read.

    Args:
        schedules: those of the namespace, in place of its own list where there is none.

    Raises:
        UnavailableError: the server does not answer.
    """
    at = ("namespaces", namespace, "apps", name)
    app = CdapApplication(namespace, name, answer_path(*at))
    detail: Mapping[str, Json] = {}
    try:
        detail = object_of(answers.read(*at), app.path)
    except InvalidError as exc:
        report.cannot(app.path, f"its programs are left out: {exc.reason}")
    else:
        if not detail:
            report.cannot(app.path, "its programs are left out: there is no such answer")
    app.artifact = Artifact.read(detail)
    found = [
        _program(answers, app, each, path, report) for each, path in _members(detail, "programs", app.path, report)
    ]
    known = [each for each in found if each is not None]
    app.programs = sorted(known, key=lambda each: each.kind is not CdapKind.WORKFLOW)
    _note_rest(detail, app.path, report)
    path = answer_path(*at, "schedules")
    try:
        own = answers.read(*at, "schedules")
        listed = list_of(own, path) if own is not None else [each for each in schedules if _owner(each) == name]
        app.schedules = [(each, member_path(path, index)) for index, each in enumerate(listed)]
    except InvalidError as exc:
        report.cannot(path, f"its schedules are left out: {exc.reason}")
    return app


def _owner(schedule: Json) -> Json:
    return schedule.get("application") if isinstance(schedule, dict) else None


def _members(detail: Mapping[str, Json], name: str, path: str, report: Report) -> Iterator[tuple[Json, str]]:
    found = detail.get(name)
    if found is not None and not isinstance(found, list):
        report.cannot(member_path(path, name), "is not a list")
    elif found is not None:
        yield from ((each, member_path(member_path(path, name), at)) for at, each in enumerate(found))


def _program(answers: CdapAnswers, app: CdapApplication, given: Json, path: str, report: Report) -> CdapProgram | None:
    found = given if isinstance(given, dict) else {}
    name, kind = text_of(found, "name"), text_of(found, "type").lower().replace("_", "")
    if not name:
        report.cannot(path, "a program without a name")
        return None
    if kind not in KINDS:
        why = REFUSED_KINDS.get(kind, "the type is none that CDAP 4.2 to 6.11 has")
        report.cannot(path, f"program {name[:100]} of type {kind[:40] or 'none'}: {why}")
        return None
    at = ("namespaces", app.namespace, "apps", app.name, KINDS[kind].value, name)
    where, nodes = answer_path(*at), None
    specification: Mapping[str, Json] = {}
    try:
        specification = object_of(answers.read(*at), where)
        if KINDS[kind] is CdapKind.WORKFLOW:
            nodes = nodes_of(specification.get("nodes"), f"{where}.nodes")
    except WorkflowError as exc:
        report.cannot(exc.path, f"workflow {name[:100]} is a placeholder: {exc.reason}")
    except InvalidError as exc:
        report.cannot(where, f"{KINDS[kind].word} {name[:100]} is a placeholder: {exc.reason}")
    return CdapProgram(KINDS[kind], name, where, specification, nodes)


def _note_rest(detail: Mapping[str, Json], path: str, report: Report) -> None:
    for name in ("datasets", "streams"):
        found = detail.get(name)
        if found:
            count = len(found) if isinstance(found, list) else 1
            report.differs(
                member_path(path, name), f"{count} {name} are not made: their commits announce themselves by events"
            )
    if detail.get("plugins"):
        report.cannot(
            member_path(path, "plugins"), "plugins are CDAP's; a program brings its libraries, by `jars` or `packages`"
        )


def awaited_programs(app: CdapApplication) -> Iterator[tuple[str, str, str]]:
    """The programs whose ends the schedules wait for, as namespace, application and program of CDAP."""
    for schedule, _ in app.schedules:
        for found in statuses(schedule):
            program = found.get("programId")
            if isinstance(program, dict):
                yield program_id(program, app)


def program_id(program: Mapping[str, Json], app: CdapApplication) -> tuple[str, str, str]:
    """Whom a `programId` in a schedule of `app` names."""
    given = (program.get("namespace"), program.get("application"), program.get("program"))
    parts = [
        each if isinstance(each, str) and each else default for each, default in zip(given, (*app.id, ""), strict=True)
    ]
    return parts[0], parts[1], parts[2]


def statuses(value: Json, depth: int = 0) -> Iterator[Mapping[str, Json]]:
    """The triggers on the ends of programs in a value, at any depth that a trigger may have."""
    if depth > DEEPEST_TRIGGER:
        return
    if isinstance(value, dict):
        if str(value.get("type", "")).upper() == "PROGRAM_STATUS":
            yield value
        else:
            for each in value.values():
                yield from statuses(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from statuses(each, depth + 1)
