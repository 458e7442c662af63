"""The builder of an app with its programs and schedules.

>>> from streamsched import App, partitions, program
>>> app = App("flights")
>>> join = app.spark("join", main="join.py", arguments=["--out", "{out}"])
>>> weekly = app.schedule("weekly", join, when=partitions("flights", 7) & partitions("weather", 7), max_concurrent=1)
>>> print(app.definition().schedules[0].trigger)
7 new partitions of default.flights and 7 new partitions of default.weather
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import time, timedelta
from pathlib import Path
from typing import Any, Final

from streamsched.codec.graph.arrival import Arrival, ArrivalReader
from streamsched.codec.graph.task import task_from_json
from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.define.combinators import TriggerExpression, to_expression
from streamsched.define.expectations import ExpectationBuilder, Notified
from streamsched.define.programs import resolve_paths
from streamsched.define.retries import failures
from streamsched.define.units import (
    Duration,
    check_integer,
    check_kind,
    check_members,
    choice,
    duration,
    texts,
    time_of_day,
)
from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint, Delay, LastRun
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.graph.job_template import JobTemplate
from streamsched.domain.graph.release import node_trigger
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.json_value import member_path
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.schedules.deadline import Deadline
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import PauseAfter
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Misfire, OnChange, OnTimeout, Schedule, usual_constraints
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Trigger

#: ("22:00", "06:00") in UTC, or ("22:00", "06:00", "Europe/Berlin").
Window = tuple[str | time, str | time] | tuple[str | time, str | time, str]
#: "6h", or ("6h", "side").
Lateness = Duration | tuple[Duration, OnLate | str]


#: The namespace of apps that name none, while a file is loaded for it.
loading_namespace: Final[ContextVar[str]] = ContextVar("loading_namespace", default=DEFAULT_NAMESPACE)


class App(ExpectationBuilder):
    """Programs, schedules and expectations that are deployed together.

    Every method checks its arguments and raises an `InvalidError` whose path names the program or schedule and the
    field.
    """

    def __init__(
        self, name: str, *, namespace: str | None = None, on_failure: Notified | Iterable[Notified] = ()
    ) -> None:
        """`namespace`: default: the one for which the file is loaded (`deploy --namespace`), else `default`.
        `on_failure`: who is notified, as of the method `on_failure`.
        """
        with prefix_errors("$.application"):
            super().__init__(AppRef(loading_namespace.get() if namespace is None else namespace, name))
        if isinstance(on_failure, Iterable) and not isinstance(on_failure, str):
            self.on_failure(*on_failure)
        else:
            self.on_failure(on_failure)
        self._schedules: dict[str, Schedule] = {}
        self._enabled: set[str] = set()
        self._keeping: set[str] = set()
        self._tasks: list[TaskTemplate] = []
        self._arriving = ArrivalReader(self.ref)

    def __repr__(self) -> str:
        return f"App({str(self.ref)!r}, {len(self._programs)} programs, {len(self._schedules)} schedules)"

    def schedule(
        self,
        name: str,
        program: ProgramRef | str,
        *,
        when: TriggerExpression | Trigger,
        max_concurrent: int | None = None,
        of: ConcurrencyScope | str = ConcurrencyScope.PROGRAM,
        delay: Duration | None = None,
        since_last_run: Duration | None = None,
        window: Window | None = None,
        wait: bool = True,
        constraints: Iterable[Constraint] = (),
        properties: Mapping[str, str] | None = None,
        description: str = "",
        overlap: Overlap | str = Overlap.COALESCE,
        misfire: Misfire | str = Misfire.ONE,
        timeout: Duration | None = None,
        on_timeout: OnTimeout | str = OnTimeout.DISCARD,
        consumption: Consumption | str = Consumption.CUMULATIVE,
        retry: Retry | None = None,
        max_duration: Duration | None = None,
        late: Lateness | None = None,
        on_change: OnChange | str = OnChange.RESET,
        catch_up: CatchUp = UNBOUNDED,
        deadlines: Iterable[Deadline] = (),
        pause_after: int | PauseAfter | None = None,
        enabled: bool = True,
    ) -> ScheduleRef:
        """Adds a schedule: it starts `program` when `when` is satisfied and all constraints hold.

        Args:
            name: unique among the app's schedules.
            program: the return value of `spark`, `bash`, `http`, `publish` or `enqueue`, or the program's name.
            when: the trigger, such as `partitions("flights", 7) & cron("0 6 * * *", "Europe/Berlin")`.
            max_concurrent: most active runs of the program, including runs of other schedules and manual runs.
            of: whose active runs `max_concurrent` counts. `"program"` (default): those of the program. `"schedule"`,
                `"key"`: those of this schedule, or of one key of it; jobs start in the order of their satisfactions,
                and jobs of other keys do not wait for them.
            delay: time between the satisfaction and the start. A job always waits for it.
            since_last_run: least time since the program's last completed run. An active run blocks.
            window: start and end time of day and their zone (default UTC) in which runs can start. It can cross
                midnight.
            wait: whether a job waits until `max_concurrent`, `since_last_run` and `window` hold. False: it ends as
                ABORTED when one of them does not hold.
            constraints: further constraints; each has its own `wait`.
            properties: arguments of this schedule's runs. They override the program's defaults and preferences. Not
                the name of a column of `per`, which each run has from its key.
            description: text for people.
            overlap: what a satisfaction does while an earlier job of the schedule waits. `"coalesce"`: it joins the
                waiting job. `"queue"`: it becomes a job of its own. `"latest"`: it replaces the waiting job. `"skip"`:
                it is dropped, also while a run of the schedule is active. `"cancel_running"` and `"kill_running"`: it
                replaces the waiting job, and the schedule's active runs are ended when all other constraints hold.
            misfire: ticks that were missed: more than a minute late, as after a time without a launcher. `"all"`: fire
                each of them. `"one"`: fire once for all of them. `"skip"`: fire none. Missed ticks that fire together
                follow `overlap` as if they had waited: with `"coalesce"` one job has all of them, with `"latest"`
                the newest makes the only job.
            timeout: longest time a job waits for its constraints. Default: no limit.
            on_timeout: `"discard"`: the job ends as TIMED_OUT. `"launch"`: it starts without its constraints.
            consumption: the accumulated events that a satisfaction uses up. `"cumulative"`: all. `"paired"`: the oldest
                ones, exactly the required number; the rest stays and can satisfy the trigger again at once (with
                `overlap="queue"`, as a job of its own). `"latest"`: the newest ones, exactly the required number; older
                ones are dropped.
            late: longest time between an event's time and its arrival, such as `"6h"`; later events do not count. With
                `("6h", "side")` they are also copied to topic `late`; with `("6h", "accept")` they count and their
                verdict is marked as late.
            on_change: when a deployment changes the trigger, consumption, late policy or program, `"reset"` drops
                accumulated events and ends waiting jobs; `"keep"` keeps the jobs and the events that fit the new
                trigger. Every other change keeps both.
            retry: retries of failed runs, such as `retry(3, on=("lost", "error"), delay="1m")`. Default: lost runs are
                retried as the installation is configured, failed runs are not.
            catch_up: limits of `misfire`: age, number and spacing of missed ticks, such as
                `catch_up(window="6h", spacing="30s")`.
            deadlines: such as `start_by("30m")`, `finish_by("06:00", "Europe/Berlin", then="cancel")` or
                `takes_at_most("2h", then=rescue)`.
            pause_after: number of consecutive failed runs after which the schedule pauses itself. `3` keeps events and
                jobs until the schedule is resumed; `failures(3, keep=False, lasting="1h")` drops them and resumes after
                an hour.
            max_duration: longest duration of a run. A longer one is ended and counts for `retry` as failed by
                `"timeout"`.
            enabled: whether the schedule is enabled when it is created.
        """
        path = member_path("$.schedules", name)
        if name in self._schedules:
            raise InvalidDefinitionError(path, "is defined twice")
        with prefix_errors(path):
            ref = ScheduleRef(self.ref.namespace, self.ref.app, name)
        with prefix_errors(f"{path}.program"):
            program_ref = self._find_program(program)
        with prefix_errors(f"{path}.when"):
            trigger = to_expression(when).build(self.ref)
        limits: list[Constraint] = []
        scope = choice(ConcurrencyScope, of, f"{path}.of")
        if max_concurrent is not None:
            with prefix_errors(f"{path}.max_concurrent", limit=""):
                limits.append(Concurrency(check_integer(max_concurrent, "$"), wait=wait, of=scope))
        elif scope is not ConcurrencyScope.PROGRAM:
            raise InvalidDefinitionError(f"{path}.of", "says whose runs max_concurrent counts, which is not given")
        if delay is not None:
            with prefix_errors(f"{path}.delay", delay=""):
                limits.append(Delay(duration(delay, "$")))
        if since_last_run is not None:
            with prefix_errors(f"{path}.since_last_run", interval=""):
                limits.append(LastRun(duration(since_last_run, "$"), wait=wait))
        if window is not None:
            with prefix_errors(f"{path}.window"):
                limits.append(_window(window, wait=wait))
        with prefix_errors(path):
            self._schedules[name] = Schedule(
                ref,
                program_ref,
                trigger,
                constraints=usual_constraints(
                    trigger,
                    (*limits, *check_members(constraints, Constraint, "$.constraints", "pool('nightly', 2)")),
                ),
                properties=texts(properties, "$.properties"),
                description=description,
                overlap=choice(Overlap, overlap, "$.overlap"),
                misfire=choice(Misfire, misfire, "$.misfire"),
                timeout=None if timeout is None else duration(timeout, "$.timeout"),
                on_timeout=choice(OnTimeout, on_timeout, "$.on_timeout"),
                consumption=choice(Consumption, consumption, "$.consumption"),
                retry=check_kind(retry, Retry | None, "$.retry", "a policy such as retry(3)"),
                max_duration=None if max_duration is None else duration(max_duration, "$.max_duration"),
                catch_up=check_kind(catch_up, CatchUp, "$.catch_up", "limits such as catch_up(window='6h')"),
                late=None if late is None else _read_lateness(late, "$.late"),
                deadlines=check_members(deadlines, Deadline, "$.deadlines", "start_by('30m')"),
                pause_after=failures(pause_after) if isinstance(pause_after, int) else pause_after,
            )
        if choice(OnChange, on_change, f"{path}.on_change") is OnChange.KEEP:
            self._keeping.add(name)
        if check_kind(enabled, bool, f"{path}.enabled", "True or False"):
            self._enabled.add(name)
        return ref

    def task(
        self,
        name: str,
        program: ProgramRef | str,
        *,
        job_id: str,
        depends_on: str | TriggerExpression | Sequence[str | TriggerExpression] | Mapping[str, Any] | None = None,
        autofill_values: Mapping[str, Any] | None = None,
        valid_if_or: Mapping[str, Any] | None = None,
        components: Mapping[str, str] | None = None,
        validations: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        exit_codes: Mapping[int, str | Sequence[str]] | None = None,
        **schedule: Any,
    ) -> ScheduleRef:
        """Adds a task of the app's graph: `program` runs once for each job id that is submitted or needed, when its
        parents have completed. The task has a schedule of its name.

        Args:
            name: unique among the app's schedules.
            program: as of `schedule`. Its runs have the parts of the job id, `job_id` and `task` as arguments.
            job_id: the template, such as `"{date}_{client}"`.
            depends_on: tasks by name, or as in `tasks.json` with `task` for `app_name`. Beside names there may be
                what arrives, such as `partitions("sales").per("date")`; without `per` its key has all components.
            autofill_values: lists or ranges of values by component.
            valid_if_or: values of which a job id needs one to have work to do.
            components: `"date"`, `"time"`, `"integer"` or `"text"` by component; default text.
            validations: entry point of group `streamsched.job_id_validations`, with a function for each component whose
                values it checks and converts.
            arguments: arguments of its runs made from times of the job id, such as
                `{"yesterday": {"of": "date", "back": "1d", "format": "%Y-%m-%d"}}`.
            exit_codes: what exit codes of its runs mean: `"skip"`, or the tasks among its children that go on. The
                program names codes other than 0 in `success_codes`.
            schedule: further arguments of `schedule`, such as `max_concurrent`, `retry` or `constraints`.
        """
        path = member_path("$.tasks", name)
        if isinstance(depends_on, str | TriggerExpression):
            depends_on = [depends_on]
        if depends_on is not None and not isinstance(depends_on, Mapping):
            depends_on = {"task": list(depends_on)}
        values = {"autofill_values": autofill_values, "valid_if_or": valid_if_or, "components": components}
        values |= {"arguments": arguments, "validations": validations}
        values["exit_codes"] = None if exit_codes is None else {str(code): each for code, each in exit_codes.items()}
        alone = task_from_json(name, Fields({"job_id": job_id, "components": components}, path))
        needed = self._name_triggers(depends_on, alone.template, member_path(path, "depends_on"))
        task = task_from_json(name, Fields({"job_id": job_id, "depends_on": needed, **values}, path), self._arriving)
        return self.add_task(task, program, **schedule)

    def _name_triggers(self, needed: Any, child: JobTemplate, path: str) -> Any:
        """`depends_on` with the name of the task in place of each trigger."""
        match needed:
            case TriggerExpression():
                with prefix_errors(path):
                    trigger = needed.build(self.ref)
                return self._arriving.add(trigger, child, path)
            case Mapping():
                return {
                    name: self._name_triggers(each, child, member_path(path, name)) for name, each in needed.items()
                }
            case list() | tuple():
                return [self._name_triggers(each, child, member_path(path, index)) for index, each in enumerate(needed)]
            case _:
                return needed

    def add_arrival_tasks(self, arriving: Iterable[Arrival]) -> None:
        """Adds what tasks that were read elsewhere wait for."""
        self._arriving.found |= {each.task.name: each for each in arriving}

    def add_task(self, task: TaskTemplate, program: ProgramRef | str, **schedule: Any) -> ScheduleRef:
        """Adds a task that was read elsewhere, as `task`."""
        when = node_trigger(self.ref, task)
        ref = self.schedule(task.name, program, when=when, **{"overlap": Overlap.QUEUE, **schedule})
        self._tasks.append(task)
        return ref

    def definition(self, base: Path | None = None) -> AppDefinition:
        """The immutable definition that is deployed. Relative main files are resolved against the folder `base`.

        Raises:
            InvalidDefinitionError: a trigger waits for a program of this app that is not defined.
        """
        programs = (resolve_paths(program, base) if base else program for program in self._programs.values())
        arriving = self._arriving.found.values()
        return AppDefinition(
            self.ref,
            (*programs, *(each.program for each in arriving)),
            (*self._schedules.values(), *(each.schedule for each in arriving)),
            frozenset((*self._enabled, *self._arriving.found)),
            frozenset(self._keeping),
            (*self._tasks, *(each.task for each in arriving)),
            expectations=tuple(self._expectations.values()),
            on_failure=tuple(self._recipients),
        )


def _read_lateness(late: Lateness, path: str) -> Late:
    if isinstance(late, str | timedelta):
        late = late, OnLate.DROP
    if not isinstance(late, tuple) or len(late) != 2:
        raise InvalidDefinitionError(path, f"must be a duration or a pair such as ('6h', 'side') but is {late!r}")
    after, then = late
    with prefix_errors(path, after=""):
        return Late(duration(after, "$"), choice(OnLate, then, "$"))


def _window(window: Window, *, wait: bool) -> TimeWindow:
    if isinstance(window, str) or len(window) not in (2, 3):
        raise InvalidDefinitionError("$", f"must be (start, end) or (start, end, zone) but is {window!r}")
    start, end, zone = window if len(window) == 3 else (*window, "UTC")
    return TimeWindow(time_of_day(start, "$.start"), time_of_day(end, "$.end"), zone, wait=wait)
