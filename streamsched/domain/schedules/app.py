"""An application as it is deployed: its programs and schedules together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.graph.graph import check_graph
from streamsched.domain.graph.release import node_trigger
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.json_value import member_path
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.notices.recipient import MOST_RECIPIENTS, ProgramRecipient, Recipient
from streamsched.domain.schedules.arguments import check_properties
from streamsched.domain.schedules.process_job import (
    BashJob,
    PythonJob,
    SparkJob,
    check_file_names,
    check_spark_deployment,
)
from streamsched.domain.schedules.schedule import (
    EnqueueJob,
    Executable,
    HttpJob,
    Program,
    PublishJob,
    Schedule,
    check_host,
)
from streamsched.domain.triggers.removal import awaited_programs
from streamsched.domain.triggers.trigger import check_key_grains

#: The most programs, schedules, tasks, expectations and recipients of one app.
MOST_IN_APP: Final[Mapping[str, int]] = {
    "programs": 10_000,
    "schedules": 20_000,
    "tasks": 5_000,
    "expectations": 10_000,
    "onFailure": MOST_RECIPIENTS,
}
#: Most names of one error.
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class AppDefinition:
    """Programs, schedules and expectations of one app.

    Attributes:
        enabled: names of the schedules that are created enabled.
        keeping: names of those that keep compatible accumulations when they are changed.
        tasks: tasks of the app's graph; each has a schedule of its name.
        prunes: whether what the app has besides is deleted when this is deployed.
        on_failure: who is notified of its failures.
    """

    ref: AppRef
    programs: tuple[Program, ...]
    schedules: tuple[Schedule, ...]
    enabled: frozenset[str] = frozenset()
    keeping: frozenset[str] = frozenset()
    tasks: tuple[TaskTemplate, ...] = ()
    prunes: bool = True
    expectations: tuple[Expectation, ...] = ()
    on_failure: tuple[Recipient, ...] = ()

    def __post_init__(self) -> None:
        named = (("programs", self.programs), ("schedules", self.schedules), ("expectations", self.expectations))
        for kind, things in named:
            seen: set[str] = set()
            for index, thing in enumerate(things):
                if thing.ref.owner != self.ref:
                    raise InvalidDefinitionError(f"$.{kind}[{index}]", f"{thing.ref} is not of app {self.ref}")
                if thing.ref.name in seen:
                    raise InvalidDefinitionError(f"$.{kind}[{index}]", f"'{thing.ref.name}' is defined twice")
                seen.add(thing.ref.name)
        _check_deployments(self.programs)
        known = {program.ref for program in self.programs}
        programs = {ref.name for ref in known}
        for index, schedule in enumerate(self.schedules):
            _check_keys(schedule, index)
            path, named = f"$.schedules[{index}]", f"schedule '{schedule.ref.name}'"
            if schedule.program not in known:
                raise _unknown_program(f"{path}.program", f"{named} starts", schedule.program.name, programs)
            for number, deadline in enumerate(schedule.deadlines):
                if deadline.program is not None and deadline.program not in programs:
                    at = f"{path}.deadlines[{number}].program"
                    raise _unknown_program(at, f"{named} starts", deadline.program, programs)
            for program in sorted(awaited_programs(schedule.trigger)):
                # A program of another app may be deployed later; one of this app must be deployed with it.
                if program.owner == self.ref and program not in known:
                    raise _unknown_program(f"{path}.trigger", f"{named} waits for", program.name, programs)
        names = {schedule.ref.name for schedule in self.schedules}
        for field, listed in (("enabled", self.enabled), ("keeping", self.keeping)):
            if unknown := listed - names:
                raise InvalidDefinitionError(f"$.{field}", f"names unknown schedules: {', '.join(sorted(unknown))}")
        self._check_tasks()
        self._check_expectations()
        self._check_recipients()

    def _check_expectations(self) -> None:
        programs = {program.ref.name for program in self.programs}
        schedules = {schedule.ref for schedule in self.schedules}
        for index, each in enumerate(self.expectations):
            path, named = f"$.expectations[{index}]", f"expectation '{each.ref.name}'"
            if each.program is not None and each.program not in programs:
                raise _unknown_program(f"{path}.program", f"{named} starts", each.program, programs)
            subject = each.subject
            if isinstance(subject, ScheduleRef) and subject.owner == self.ref and subject not in schedules:
                raise InvalidDefinitionError(f"{path}.schedule", f"{named} is about unknown schedule '{subject.name}'")

    def _check_recipients(self) -> None:
        programs = {program.ref.name for program in self.programs}
        schedules = {schedule.ref.name for schedule in self.schedules}
        for index, each in enumerate(self.on_failure):
            path = f"$.onFailure[{index}]"
            if each in self.on_failure[:index]:
                raise InvalidDefinitionError(path, f"is there twice: {each}")
            if isinstance(each, ProgramRecipient) and each.program not in programs:
                raise _unknown_program(f"{path}.program", "is", each.program, programs)
            if unknown := each.schedules - schedules:
                raise InvalidDefinitionError(
                    f"{path}.schedules", f"names unknown schedules: {', '.join(sorted(unknown))}"
                )

    def awaited_programs(self) -> frozenset[ProgramRef]:
        """The programs that its schedules wait for."""
        return frozenset(program for schedule in self.schedules for program in awaited_programs(schedule.trigger))

    def _check_tasks(self) -> None:
        check_graph(self.tasks)
        triggers = {schedule.ref.name: schedule.trigger for schedule in self.schedules}
        programs = {program.ref.name: program.executable for program in self.programs}
        arriving = {task.name: task.template for task in self.tasks if task.arrives}
        for index, program in enumerate(self.programs):
            if isinstance(job := program.executable, ArrivalJob) and arriving.get(program.ref.name) != job.template:
                raise InvalidDefinitionError(f"$.programs[{index}]", "completes nodes of a task that there is not")
        started = {schedule.ref.name: schedule.program.name for schedule in self.schedules}
        for task in self.tasks:
            path = member_path("$.tasks", task.name)
            if task.name not in triggers:
                raise InvalidDefinitionError(path, "has no schedule of its name")
            own = triggers[task.name] == node_trigger(self.ref, task)
            if task.arrives:
                if own or started[task.name] != task.name or not isinstance(programs.get(task.name), ArrivalJob):
                    raise InvalidDefinitionError(path, "arrives, but its schedule completes no nodes of it")
                continue
            _check_exit_codes(task, programs.get(started[task.name]), path)
            if not own:
                raise InvalidDefinitionError(
                    path, f"schedule '{task.name}' has a trigger of its own; give it or the task another name"
                )


def _unknown_program(path: str, said: str, name: str, known: Set[str]) -> InvalidDefinitionError:
    """The error for a program that the app does not have, with those that it has: first those of nearly this name."""
    near = get_close_matches(name, sorted(known), n=_NAMED)
    names = [*near, *sorted(known - {*near})]
    listed = ", ".join(names[:_NAMED]) or "none"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return InvalidDefinitionError(path, f"{said} unknown program '{name}' (known: {listed}{more})")


def _check_exit_codes(task: TaskTemplate, executable: Executable | None, path: str) -> None:
    """A run completes only with those exit codes that its program names."""
    named = executable.success_codes if isinstance(executable, BashJob | PythonJob) else ()
    for code in task.exit_codes:
        if code and code not in named:
            raise InvalidDefinitionError(
                member_path(f"{path}.exit_codes", str(code)),
                "is not among success_codes of the program, so its runs would fail",
            )


def _check_keys(schedule: Schedule, index: int) -> None:
    try:
        check_key_grains(schedule.trigger)
        check_properties(schedule)
    except InvalidDefinitionError as exc:
        where = f"$.schedules[{index}]{exc.path.removeprefix('$')}"
        raise InvalidDefinitionError(where, f"{exc.reason}, in schedule '{schedule.ref.name}'") from exc


def _check_deployments(programs: Iterable[Program]) -> None:
    for index, program in enumerate(programs):
        path = f"$.programs[{index}]"
        match program.executable:
            case SparkJob() as job:
                check_file_names(job, path)
                check_spark_deployment(job, path)
            case PythonJob() as job:
                check_file_names(job, path)
            case HttpJob() as job:
                check_host(job, path)
            case BashJob() | PublishJob() | EnqueueJob() | ArrivalJob():
                pass
            case _:
                assert_never(program.executable)
