"""The builder users write: an app, its programs, its schedules.

>>> from streamsched import App, partitions, program
>>> app = App("flights")
>>> join = app.spark("join", main="join.py", arguments=["--out", "{out}"])
>>> weekly = app.schedule("weekly", join, when=partitions("flights", 7) & partitions("weather", 7), max_concurrent=1)
>>> print(app.definition().schedules[0].trigger)
7 new partitions of default.flights and 7 new partitions of default.weather
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path

from streamsched.codec.reading import anchored, below
from streamsched.define.again import failures
from streamsched.define.phrase import When, as_when
from streamsched.define.quantity import Duration, choice, duration, texts, time_of_day, whole
from streamsched.domain.app import AppDefinition
from streamsched.domain.catchup import UNBOUNDED, CatchUp
from streamsched.domain.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.consumption import Consumption
from streamsched.domain.deadline import Deadline
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.lateness import Late, OnLate
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef, EventName, ProgramRef, ScheduleRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.pause import PauseAfter
from streamsched.domain.retry import Retry
from streamsched.domain.schedule import (
    BashJob,
    Executable,
    HttpJob,
    Misfire,
    OnChange,
    OnTimeout,
    Program,
    PublishJob,
    Schedule,
    SparkJob,
)
from streamsched.domain.trigger import Trigger
from streamsched.domain.window import TimeWindow

#: ("22:00", "06:00"), in UTC, or ("22:00", "06:00", "Europe/Berlin").
Window = tuple[str | time, str | time] | tuple[str | time, str | time, str]
#: "6h", or ("6h", "side").
Lateness = Duration | tuple[Duration, OnLate | str]


class App:
    """Programs and schedules that are deployed together.

    A mistake is told where it is made: an `InvalidError` whose path names the program or schedule and the field.
    """

    def __init__(self, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        with anchored("$.application"):
            self.ref = AppRef(namespace, name)
        self._programs: dict[str, Program] = {}
        self._schedules: dict[str, Schedule] = {}
        self._enabled: set[str] = set()
        self._keeping: set[str] = set()

    def __repr__(self) -> str:
        return f"App({str(self.ref)!r}, {len(self._programs)} programs, {len(self._schedules)} schedules)"

    def spark(
        self,
        name: str,
        *,
        main: str | Path,
        arguments: Iterable[str] = (),
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> ProgramRef:
        """A PySpark application, run by `spark-submit`.

        Args:
            name: unique among the app's programs.
            main: the Python file; a relative path counts from the folder of the file that defines the app. A URL is
                fetched by `spark-submit` when the run starts: `https://…`, or of a filesystem whose jars Spark has.
            arguments: its command line; `{name}` is replaced by the run's argument of that name.
            master: Spark master URL; left out, the installation's.
            conf: `--conf` settings.
            defaults: arguments of every run, which schedules may override.
        """
        path = below("$.programs", name)
        if not str(main).strip():
            raise InvalidDefinitionError(f"{path}.main", "is empty")
        if isinstance(arguments, str):
            raise InvalidDefinitionError(f"{path}.arguments", "must be a list of texts but is one text")
        job = SparkJob(str(main), tuple(str(each) for each in arguments), master, texts(conf, f"{path}.conf"))
        return self._add(name, job, texts(defaults, f"{path}.defaults"))

    def bash(self, name: str, command: str, *, defaults: Mapping[str, str] | None = None) -> ProgramRef:
        """A shell command; the run's arguments are in its environment as `STREAMSCHED_ARG_<NAME>`."""
        path = below("$.programs", name)
        if not command.strip():
            raise InvalidDefinitionError(f"{path}.command", "is empty")
        return self._add(name, BashJob(command), texts(defaults, f"{path}.defaults"))

    def http(
        self,
        name: str,
        url: str,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        timeout: Duration = "30s",
        defaults: Mapping[str, str] | None = None,
    ) -> ProgramRef:
        """A request that launchers send themselves, without a process: 2xx is success.

        Args:
            name: unique among the app's programs.
            url: `{name}` is replaced by the run's argument of that name, percent-encoded.
            method: GET, HEAD, POST, PUT, PATCH or DELETE.
            headers: of the request; a repeated run has the same `Idempotency-Key`.
            body: `{name}` is replaced; left out, what the run is, as JSON: `run`, `job`, `attempt`, `program`,
                `schedule`, `arguments`.
            timeout: how long the answer may take.
            defaults: arguments of every run, which schedules may override.
        """
        path = below("$.programs", name)
        with anchored(path):
            given = texts(headers, "$.headers")
            job = HttpJob(url, method.upper(), given, body, duration(timeout, "$.timeout"))
        return self._add(name, job, texts(defaults, f"{path}.defaults"))

    def publish(
        self,
        name: str,
        event: str,
        *,
        attributes: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> ProgramRef:
        """An event of your own, once for each run that completes; no process is started.

        Args:
            name: unique among the app's programs.
            event: what `event("…")` of a trigger waits for; of the app's namespace where it names none.
            attributes: `{name}` in their values is replaced by the run's argument of that name.
            defaults: arguments of every run, which schedules may override.
        """
        path = below("$.programs", name)
        with anchored(f"{path}.event"):
            named = EventName.parse(event, self.ref.namespace)
        job = PublishJob(named, texts(attributes, f"{path}.attributes"))
        return self._add(name, job, texts(defaults, f"{path}.defaults"))

    def schedule(
        self,
        name: str,
        program: ProgramRef | str,
        *,
        when: When | Trigger,
        max_concurrent: int | None = None,
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
        """Starts `program` whenever `when` is satisfied and the constraints allow it.

        Args:
            name: unique among the app's schedules.
            program: what `spark`, `bash`, `http` or `publish` returned, or its name.
            when: such as `partitions("flights", 7) & cron("0 6 * * *", "Europe/Berlin")`.
            max_concurrent: so many runs of the program may be active, whoever started them.
            delay: time to pass after the satisfaction; always waits.
            since_last_run: time to pass after the program's last completed run; an active run blocks.
            window: opening and closing time of day and their zone (UTC when left out); may cross midnight.
            wait: until all of these hold. False: a job ends when one does not, except for `delay`.
            constraints: further ones, each saying for itself whether it waits.
            properties: arguments this schedule gives to its runs.
            description: for people.
            overlap: a satisfaction while a job still waits: `"coalesce"` joins it, `"queue"` is a job of its own,
                `"latest"` takes its place, `"skip"` goes, also while a run of the schedule is active.
                `"cancel_running"` and `"kill_running"` take its place too, and end the schedule's active runs as soon
                as all else allows the new one to start.
            misfire: ticks missed while nobody looked: fire `"all"`, `"one"` for all, or `"skip"` them.
            timeout: how long a job may wait for its constraints; left out, for ever.
            on_timeout: `"discard"` the job then, or `"launch"` it all the same.
            consumption: what a job uses up of what has come. `"cumulative"`: all of it. `"paired"`: the oldest, exactly
                as much as was asked; the rest stays and may start another job at once (with `overlap="queue"`, a run of
                its own). `"latest"`: the newest, as much as was asked; older ones are dropped.
            late: events that come later than this after they happened do not count: `"6h"`. `("6h", "side")` puts them
                aside on topic `late` too, `("6h", "accept")` counts them and says so in their verdict.
            on_change: what becomes of what it has accumulated, and of its waiting jobs, when a deployment changes it:
                `"reset"` starts anew, `"keep"` goes on with all that still fits.
            retry: what becomes of a job whose run failed, such as `retry(3, on=("lost", "error"), delay="1m")`; left
                out, lost runs are repeated as the installation has it, and failed ones are not.
            catch_up: how far misfire goes back, how many it fires and how fast: `catch_up(window="6h", spacing="30s")`.
            deadlines: such as `start_by("30m")`, `finish_by("06:00", "Europe/Berlin", then="cancel")` or
                `takes_at_most("2h", then=rescue)`.
            pause_after: how many runs in a row may fail until it pauses itself: `3`, keeping what comes until somebody
                resumes it, or `failures(3, keep=False, lasting="1h")`.
            max_duration: a run that takes longer is asked to end; for `retry` it has failed by `"timeout"`.
            enabled: whether it counts events from its deployment on.
        """
        path = below("$.schedules", name)
        if name in self._schedules:
            raise InvalidDefinitionError(path, "is defined twice")
        with anchored(path):
            ref = ScheduleRef(self.ref.namespace, self.ref.app, name)
        with anchored(f"{path}.program"):
            started = self._known(program)
        with anchored(f"{path}.when"):
            trigger = as_when(when).build(self.ref)
        limits: list[Constraint] = []
        if max_concurrent is not None:
            with anchored(f"{path}.max_concurrent", limit=""):
                limits.append(Concurrency(whole(max_concurrent, "$"), wait=wait))
        if delay is not None:
            with anchored(f"{path}.delay", delay=""):
                limits.append(Delay(duration(delay, "$")))
        if since_last_run is not None:
            with anchored(f"{path}.since_last_run", interval=""):
                limits.append(LastRun(duration(since_last_run, "$"), wait=wait))
        if window is not None:
            with anchored(f"{path}.window"):
                limits.append(_window(window, wait=wait))
        with anchored(path):
            self._schedules[name] = Schedule(
                ref,
                started,
                trigger,
                constraints=(*limits, *constraints),
                properties=texts(properties, "$.properties"),
                description=description,
                overlap=choice(Overlap, overlap, "$.overlap"),
                misfire=choice(Misfire, misfire, "$.misfire"),
                timeout=None if timeout is None else duration(timeout, "$.timeout"),
                on_timeout=choice(OnTimeout, on_timeout, "$.on_timeout"),
                consumption=choice(Consumption, consumption, "$.consumption"),
                retry=retry,
                max_duration=None if max_duration is None else duration(max_duration, "$.max_duration"),
                catch_up=catch_up,
                late=None if late is None else _late(late, "$.late"),
                deadlines=tuple(deadlines),
                pause_after=failures(pause_after) if isinstance(pause_after, int) else pause_after,
            )
        if choice(OnChange, on_change, f"{path}.on_change") is OnChange.KEEP:
            self._keeping.add(name)
        if enabled:
            self._enabled.add(name)
        return ref

    def definition(self, base: Path | None = None) -> AppDefinition:
        """The app as it is deployed; relative main files become absolute, counted from the folder `base`.

        Raises:
            InvalidDefinitionError: a trigger waits for a program of this app that it does not define.
        """
        programs = (located(program, base) if base else program for program in self._programs.values())
        return AppDefinition(
            self.ref,
            tuple(programs),
            tuple(self._schedules.values()),
            frozenset(self._enabled),
            frozenset(self._keeping),
        )

    def _add(self, name: str, executable: Executable, defaults: dict[str, str]) -> ProgramRef:
        path = below("$.programs", name)
        if name in self._programs:
            raise InvalidDefinitionError(path, "is defined twice")
        with anchored(path):
            ref = ProgramRef(self.ref.namespace, self.ref.app, name)
        self._programs[name] = Program(ref, executable, defaults)
        return ref

    def _known(self, program: ProgramRef | str) -> ProgramRef:
        for known in self._programs.values():
            if program in (known.ref, known.ref.name):
                return known.ref
        names = ", ".join(self._programs) or "none yet"
        raise InvalidDefinitionError("$", f"'{program}' is no program of {self.ref} (known: {names})")


def located(program: Program, base: Path) -> Program:
    """The program with its main file as an absolute path, counted from `base`; URLs stay as they are."""
    executable = program.executable
    if not isinstance(executable, SparkJob) or "://" in executable.main:
        return program
    return replace(program, executable=replace(executable, main=str((base / executable.main).resolve())))


def _late(late: Lateness, path: str) -> Late:
    if isinstance(late, str | timedelta):
        late = late, OnLate.DROP
    if not isinstance(late, tuple) or len(late) != 2:
        raise InvalidDefinitionError(path, f"must be a duration, or (duration, 'drop') or the like, but is {late!r}")
    after, then = late
    with anchored(path, after=""):
        return Late(duration(after, "$"), choice(OnLate, then, "$"))


def _window(window: Window, *, wait: bool) -> TimeWindow:
    if isinstance(window, str) or len(window) not in (2, 3):
        raise InvalidDefinitionError("$", f"must be (opening, closing) or (opening, closing, zone) but is {window!r}")
    start, end, zone = window if len(window) == 3 else (*window, "UTC")
    return TimeWindow(time_of_day(start, "$.start"), time_of_day(end, "$.end"), zone, wait=wait)
