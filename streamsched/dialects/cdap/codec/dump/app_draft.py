"""An application of CDAP as an app: programs, graphs of workflows, and arguments that were preferences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streamsched.codec.moving.draft import AppDraft, Report, free_name, placeholder
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.dialects.cdap.codec.bulk import add_schedule
from streamsched.dialects.cdap.codec.dump.application import CdapApplication, CdapProgram
from streamsched.dialects.cdap.codec.dump.names import CdapNames, concurrency_of, properties_of, starts
from streamsched.dialects.cdap.codec.dump.preferences import overridden_preferences
from streamsched.dialects.cdap.codec.dump.programs import CdapKind, ReadProgram, program_of
from streamsched.dialects.cdap.codec.dump.workflow import WorkflowAction, WorkflowTasks, actions_of, arrival_program
from streamsched.domain.errors import InvalidError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.limits import MOST_SLOTS

_KINDS_OF_ACTIONS: Final = {"SPARK": CdapKind.SPARK, "MAPREDUCE": CdapKind.MAPREDUCE}


@dataclass
class CdapAppDraft:
    """Makes the app of one application.

    Args:
        jars: the folder or URL of jars.
        given: programs in place of those of the dump, by `app.program` or `program`.
        awaited: programs of CDAP whose end a schedule of the dump waits for: namespace, application, program.
        preferences: those of the app and of its programs, by the name of the program here.
        namespace_preferences: those of the namespace here.
    """

    app: CdapApplication
    names: CdapNames
    report: Report
    jars: str
    given: Mapping[str, Json]
    awaited: set[tuple[str, str, str]]
    preferences: Mapping[str, Mapping[str, str]]
    namespace_preferences: Mapping[str, str]
    schedules: int = 0
    draft: AppDraft = field(init=False)
    _read: dict[str, ReadProgram] = field(default_factory=dict[str, ReadProgram])
    _tasks: set[str] = field(default_factory=set[str])
    _graphs: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.draft = AppDraft(self.names.apps[self.app.id], self.report)

    def add_programs(self) -> None:
        """Adds all programs, and the tasks of workflows."""
        if self.app.programs and str(self.app.artifact):
            self.report.carries(self.app.path, f"application {self.app.name} of artifact {self.app.artifact}")
        self._tasks = {text for schedule, _ in self.app.schedules if (text := _schedule_name(schedule))}
        self._tasks |= {self._name(each) for each in self.app.programs}
        for program in self.app.programs:
            if program.kind is not CdapKind.WORKFLOW:
                self._read[self._name(program)] = self._read_program(program)
        for program in self.app.programs:
            match program:
                case CdapProgram(kind=CdapKind.WORKFLOW, nodes=nodes) if nodes is not None:
                    self._add_workflow(program)
                case CdapProgram(kind=CdapKind.WORKFLOW):
                    self._add(program, ReadProgram(placeholder(f"workflow {program.name} of CDAP is not understood")))
                case _:
                    self._add(program, self._read[self._name(program)])

    def add_schedules(self) -> None:
        """Adds the schedules; the names of all programs of the dump must be known."""
        for item, path in self.app.schedules:
            found = self.names.schedule(item, self.app, path, self.report)
            name = starts(found)
            if isinstance(found, dict) and name not in self._graphs:
                lost = overridden_preferences(self.preferences.get(name, {}), self.namespace_preferences)
                more = {key: value for key, value in lost.items() if key not in properties_of(found)}
                given = found.get("properties") or {}
                if more and isinstance(given, Mapping):
                    found = {**found, "properties": {**given, **more}}
                    self.report.differs(
                        member_path(path, "properties"),
                        f"has also {', '.join(sorted(more))[:200]} of program {name}, which the preferences of the "
                        "namespace would override; a run by hand has those of the namespace",
                    )
            self.schedules += add_schedule(self.draft, found, path, self.given, self.draft.ref.namespace)

    def document(self) -> dict[str, Any]:
        """The app, which is valid whatever the input was: else without its tasks, or its schedules."""
        for lost in ("", "tasks", "schedules"):
            if lost == "tasks":
                self._replace_graphs()
            elif lost == "schedules":
                self.draft.schedules.clear()
                self.schedules = 0
            try:
                app_from_json(self.draft.document())
            except InvalidError as exc:
                self.report.cannot(self.app.path, f"{exc.path}: {exc.reason}"[:500])
            else:
                return self.draft.document()
        self.draft.programs.clear()
        return self.draft.document()

    def _replace_graphs(self) -> None:
        self.draft.tasks.clear()
        for name in self._graphs:
            self.draft.programs[name] = placeholder(f"workflow {name} of CDAP is no graph that is accepted")

    def _name(self, program: CdapProgram) -> str:
        return self.names.programs[self.app.id, program.kind, program.name]

    def _is_given(self, name: str) -> Mapping[str, Json] | None:
        found = self.given.get(f"{self.draft.ref.app}.{name}", self.given.get(name))
        return found if isinstance(found, Mapping) else None

    def _read_program(self, program: CdapProgram) -> ReadProgram:
        return program_of(program.kind, program.name, program.specification, self.app.artifact, self.jars)

    def _add(self, program: CdapProgram, read: ReadProgram, *, via: str = "") -> None:
        """Adds a program with its arguments, and says what became of it. `via`: the action of a workflow."""
        name, what = self._name(program), f"{program.kind.word} {program.name}"
        given = self._is_given(name)
        body = dict(read.program if given is None else given)
        arguments = dict(self.preferences.get(name, {}))
        defaults = body.get("defaults") or {}
        if arguments and isinstance(defaults, Mapping):
            body["defaults"] = {**arguments, **defaults}
        before = len(self.report.notes)
        if self.draft.add_program(name, body, program.path) != name:
            del self.report.notes[before + 1 :]
            body = placeholder(f"{what} of CDAP cannot be a program")
            self.draft.add_program(name, body, program.path)
            return
        if given is not None:
            self.report.carries(program.path, f"program {name}: the given one")
            return
        for part, why in read.parts.items():
            self.report.cannot(member_path(program.path, part), f"of {what}: {why}")
        if read.refused:
            self.report.cannot(program.path, f"{what} is a placeholder that fails{via}: it {read.refused}")
        elif read.about:
            self.report.differs(program.path, f"{what} is a program of type {body['type']}{via}: {read.about}")

    def _add_workflow(self, program: CdapProgram) -> None:
        name, nodes = self._name(program), program.nodes or ()
        if self._is_given(name) is not None:
            self._add(program, ReadProgram({}))
            return
        match nodes:
            case ():
                self._add(program, ReadProgram(placeholder(f"workflow {program.name}"), refused="has no nodes"))
            case (WorkflowAction() as action,) if not self._is_waited_for(action):
                read = self._program_of_action(action)
                self._add(program, read, via=f", that of its only action {action.program}")
            case _:
                self._add_graph(program)

    def _is_waited_for(self, action: WorkflowAction) -> bool:
        return (*self.app.id, action.program) in self.awaited

    def _program_of_action(self, action: WorkflowAction) -> ReadProgram:
        kind = _KINDS_OF_ACTIONS.get(action.type)
        if kind is None:
            why = f"runs {action.program[:100]}, a {action.type.lower() or 'program'} of Java within CDAP"
            return ReadProgram(placeholder(f"{action.id}: {why}"), refused=why)
        name = self.names.programs.get((self.app.id, kind, action.program))
        if name is None:
            why = f"runs {kind.word} {action.program[:100]}, which the application does not list"
            return ReadProgram(placeholder(f"{action.id}: {why}"), refused=why)
        given = self._is_given(name)
        return self._read[name] if given is None else ReadProgram(dict(given), f"program {name} is the given one")

    def _add_graph(self, program: CdapProgram) -> None:
        name, nodes = self._name(program), program.nodes or ()
        own = dict(self.preferences.get(name, {}))
        tasks = WorkflowTasks(
            self.draft.ref.app, name, self._tasks, self._run, self._add_own, self._task_schedule(program, name, own)
        )
        ends = tasks.build(nodes, awaited=(*self.app.id, program.name) in self.awaited)
        self.draft.add_program(name, arrival_program(), program.path)
        self.draft.tasks |= tasks.tasks
        if not any(_schedule_name(each) == name for each, _ in self.app.schedules):
            self.draft.add_schedule(name, _by_hand(self.draft.ref.app, name), program.path, exact=True)
        self._graphs.add(name)
        if ends[0]:
            self.names.ends[*self.app.id, program.name] = ends
        for path, text in tasks.placeholders:
            self.report.cannot(path, text)
        count = len(actions_of(nodes))
        self.report.carries(
            program.path, f"workflow {program.name}: a graph of {len(tasks.tasks) - 1} tasks, {count} actions"
        )
        self.report.differs(
            program.path,
            f"a run of program {name} begins the graph and ends at once; runs that begin within one second are one. "
            f"`graph status {self.draft.ref.namespace}.{self.draft.ref.app}` has the state of the whole",
        )

    def _task_schedule(self, program: CdapProgram, name: str, own: dict[str, str]) -> dict[str, Any]:
        """What the schedules of all tasks of a workflow have: its arguments, and its limit of runs at a time."""
        schedules = [(each, path) for each, path in self.app.schedules if starts(each) == program.name]
        properties = [properties_of(each) for each, _ in schedules]
        if properties and all(each == properties[0] for each in properties):
            own |= properties[0]
        else:
            for each, path in schedules:
                if properties_of(each):
                    self.report.cannot(
                        member_path(path, "properties"),
                        f"other schedules of {name} have others: tasks of a graph have one set",
                    )
        found: dict[str, Any] = {"properties": own} if own else {}
        limits = [(limit, path) for each, path in schedules if (limit := concurrency_of(each)) is not None]
        if limits and 0 < (most := min(limit for limit, _ in limits)) <= MOST_SLOTS:
            limit = {"type": "CONCURRENCY", "maxConcurrency": most, "of": "schedule", "waitUntilMet": True}
            found["constraints"] = [limit]
            self.report.differs(
                member_path(limits[0][1], "constraints"),
                f"each task of workflow {name} runs {most} at a time and waits; the workflow as a whole has no limit",
            )
        return found

    def _run(self, action: WorkflowAction) -> str:
        """The program of an action; a placeholder of its own where there is none."""
        kind = _KINDS_OF_ACTIONS.get(action.type)
        name = None if kind is None else self.names.programs.get((self.app.id, kind, action.program))
        if name is not None:
            return name
        read = self._program_of_action(action)
        self.report.cannot(action.path, f"action {action.id[:100]} is a placeholder that fails: it {read.refused}")
        return self._add_own(action.program or action.id, read.program)

    def _add_own(self, wanted: str, program: Mapping[str, Any]) -> str:
        known = {*self.draft.programs, *(self._name(each) for each in self.app.programs)}
        name = free_name(wanted, known)
        if self.draft.add_program(name, program, self.app.path) is None:
            self.draft.add_program(name, placeholder(f"{wanted} of CDAP"), self.app.path)
        return name


def _by_hand(app: str, name: str) -> dict[str, Any]:
    """The schedule that has the name of a graph, which each graph must have; those of CDAP start its program too."""
    return {
        "program": name,
        "description": f"Starts workflow {name} when event {app}-{name}-begin is sent, and it is enabled.",
        "trigger": {"type": "EVENT", "event": f"{app}-{name}-begin"},
        "enabled": False,
    }


def _schedule_name(schedule: Json) -> str:
    name = schedule.get("name") if isinstance(schedule, dict) else None
    return name if isinstance(name, str) else ""
