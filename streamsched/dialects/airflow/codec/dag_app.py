"""An app that is made of a DAG: a schedule, a graph of tasks, and their programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamsched.codec.graph.reaction import to_json as reactions_to_json
from streamsched.codec.moving.draft import NoteKind, free_name, placeholder
from streamsched.codec.schedules.schedule import program_from_json
from streamsched.dialects.airflow.codec.answers import AirflowAnswers
from streamsched.dialects.airflow.codec.branches import choose_branch
from streamsched.dialects.airflow.codec.dag import DagSchedule, arrival_program
from streamsched.dialects.airflow.codec.jinja import DUE
from streamsched.dialects.airflow.codec.mail import MailReader
from streamsched.dialects.airflow.codec.operators import ProgramReader
from streamsched.dialects.airflow.codec.policies import PoolSizes, policies_of, priority_weights, weighted_pools
from streamsched.dialects.airflow.codec.rules import ALWAYS, DEFAULT, DIFFERENCES, RuleError, depends_on, rule_name
from streamsched.dialects.airflow.codec.source.dag_task import DagTask, TaskProgram
from streamsched.dialects.airflow.codec.source.keywords import ImportTable
from streamsched.dialects.airflow.codec.source.literal import is_dictionary, source_of
from streamsched.dialects.airflow.codec.source.order import TaskOrder
from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.job_template import JobTemplate
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.names import AppRef

_JOB: Final = {"job_id": f"{{{DUE}}}", "components": {DUE: "time"}}


class DagApp:
    """Makes the app of one DAG.

    Args:
        order: of the tasks.
        answers: pools and programs.
    """

    def __init__(
        self, ref: AppRef, tasks: Mapping[str, DagTask], order: TaskOrder, table: ImportTable, answers: AirflowAnswers
    ) -> None:
        self._answers = answers
        self._ref = ref
        self._tasks = tasks
        self._order = order
        self._table = table
        self._pools = PoolSizes(answers.pools, weighted_pools(tasks), priority_weights(tasks, order))
        self._arrival = free_name(ref.app, tasks)
        self._rules = {name: self._rule(task) for name, task in tasks.items()}

    def document(self, dag: DagSchedule, programs: ProgramReader) -> dict[str, Any]:
        """The app as the JSON of an app file."""
        found = {name: programs.read(task) for name, task in self._tasks.items()}
        besides = self._find_overruled(found)
        made: dict[str, Any] = {self._arrival: arrival_program()}
        mail = MailReader()
        graph: dict[str, Any] = {self._arrival: {**_JOB, "arrives": f"{self._ref.app} {{key}}"}}
        for name, task in self._tasks.items():
            own = found[name]
            codes: dict[int, Any] = dict.fromkeys(own.skip_codes)
            if own.branch is not None:
                children = [each for each in self._order.children[name] if self._rules[each] != ALWAYS]
                children += [each for each, shorts in besides.items() if name in shorts]
                choice = choose_branch(own.branch, task, children, self._order, self._ids())
                own.program, codes = choice.program, dict(choice.exit_codes)
                own.waits_for_person = own.waits_for_person or choice.waits_for_person
                for keyword in ("python_callable", "follow_task_ids_if_true", "follow_task_ids_if_false"):
                    task.keywords.refuse(keyword, choice.waits_for_person or "see the task")
            needed = self._depends_on(task, own, besides.get(name, ()))
            made[name] = self._check_program(name, task, own, codes)
            if own.waits_for_person or self._answers.program(self._ref.app, name) is not None:
                own.arguments = programs.usual_arguments
            reactions = TaskTemplate(name, JobTemplate((DUE,)), arguments=own.arguments, exit_codes=codes)
            mail.read(name, task.keywords)
            policies = policies_of(task, self._pools)
            policies.constraints += dag.task_constraints
            schedule = policies.as_json()
            graph[name] = {
                **_JOB,
                "program": name,
                "depends_on": needed,
                **reactions_to_json(reactions),
                **({"schedule": schedule} if schedule else {}),
            }
            self._summarise(task, own)
        schedules = {self._arrival: {"program": self._arrival, **dag.schedule}}
        return {
            "namespace": self._ref.namespace,
            "application": self._ref.app,
            "programs": made,
            "schedules": schedules,
            "tasks": graph,
            **({"onFailure": recipients} if (recipients := mail.recipients()) else {}),
        }

    def _rule(self, task: DagTask) -> str:
        keywords = task.keywords
        if "trigger_rule" not in keywords:
            return DEFAULT
        value = keywords.values().get("trigger_rule", source_of(keywords.node("trigger_rule")))
        try:
            rule = rule_name(value)
        except RuleError as exc:
            keywords.refuse("trigger_rule", f"{exc}; the task is a placeholder")
            task.doubt = task.doubt or str(exc)
            return DEFAULT
        if rule in DIFFERENCES:
            keywords.change("trigger_rule", DIFFERENCES[rule])
        keywords.carry("trigger_rule", rule)
        return rule

    def _find_overruled(self, found: Mapping[str, TaskProgram]) -> dict[str, list[str]]:
        """The tasks, not directly after a condition, that it skips whatever their rules say, with the conditions."""
        besides: dict[str, list[str]] = {}
        for name, own in found.items():
            if own.branch is None or not own.branch.short or not own.branch.overrules:
                continue
            for each in self._order.names(self._order.tasks_below(name)):
                if self._rules[each] not in (DEFAULT, ALWAYS) and name not in self._tasks[each].after:
                    besides.setdefault(each, []).append(name)
        return besides

    def _depends_on(self, task: DagTask, own: TaskProgram, besides: Any) -> dict[str, Any]:
        rule = self._rules[task.name]
        if rule == ALWAYS or not task.after:
            return depends_on(DEFAULT, [self._arrival])
        try:
            return depends_on(rule, list(task.after), taken={*self._tasks, self._arrival}, besides=besides)
        except RuleError as exc:
            task.keywords.refuse("trigger_rule", f"{exc}; the task is a placeholder")
            own.program = placeholder(f"{task.id}: {exc}")
            own.waits_for_person = str(exc)
            return depends_on("all_done", list(task.after))

    def _ids(self) -> Mapping[str, str]:
        """Airflow's ids of tasks by name, without the numbers of elements."""
        return {name: task.id.partition("[")[0] for name, task in self._tasks.items()}

    def _check_program(self, name: str, task: DagTask, own: TaskProgram, codes: Mapping[int, Any]) -> dict[str, Any]:
        """The program, or the given one in its place; a placeholder when it is none that is accepted."""
        given = self._answers.program(self._ref.app, name)
        if is_dictionary(given):
            own.program, own.waits_for_person = dict(given), ""
            success = [code for code in codes if code]
            if success and own.program.get("type") in ("bash", "python"):
                own.program.setdefault("success_codes", success)
        try:
            program_from_json({"name": name, **own.program}, app=self._ref)
        except InvalidError as exc:
            own.waits_for_person = f"{exc.path.removeprefix('$.')}: {exc.reason}"
            own.program = placeholder(f"{task.id}: {own.waits_for_person}")
        if own.skip_codes and own.program.get("type") == "bash":
            own.program.setdefault("success_codes", list(own.skip_codes))
        return own.program

    def _summarise(self, task: DagTask, own: TaskProgram) -> None:
        after = f" after {', '.join(list(task.after)[:5])}" if task.after else ""
        if len(task.after) > 5:
            after += f" and {len(task.after) - 5} more"
        if self._answers.program(self._ref.app, task.name) is not None and not own.waits_for_person:
            text = f"runs the given program of type {own.program['type']}{after}"
            self._table.note(NoteKind.CARRIED, task.line, task.name, text, app=self._ref.app)
        elif own.waits_for_person:
            text = f"is a placeholder that fails{after}: {own.waits_for_person}"
            self._table.note(NoteKind.REFUSED, task.line, task.name, text, app=self._ref.app)
        else:
            text = f"program of type {own.program['type']}{after}"
            self._table.note(NoteKind.CARRIED, task.line, task.name, text, app=self._ref.app)
        task.keywords.finish(
            f"has no counterpart here: {task.kind}" if not own.waits_for_person else "is for the program to do"
        )
        if task.given is not None:
            task.given.finish("is an argument of the function, which is a placeholder")
