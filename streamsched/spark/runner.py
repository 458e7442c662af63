"""A runner: one process that claims one run, executes its program, and stores its end.

The end is written to disk first, then stored in PostgreSQL with retries. So it is not lost when PostgreSQL is
unreachable or the runner dies after its program ended. A failed write to disk is tolerated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

import structlog

from streamsched.domain.backoff import double_pause
from streamsched.domain.errors import ConfigurationError, ConflictError, UnavailableError
from streamsched.domain.jobs.failure import Failure, classify, signal_of
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.programs.driver import Driver
from streamsched.domain.programs.inherited_environment import environment_hint
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.schedule import Executable
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Assignment, RunEnd, RunStore, StopRequest
from streamsched.process.cancellation import cancel
from streamsched.process.memory_kills import memory_kills
from streamsched.process.os_user import private_folder
from streamsched.spark.backends.cluster import cluster_backend, cluster_master, driver_event_log
from streamsched.spark.backends.connect.program import ConnectProgram
from streamsched.spark.backends.remote_driver import RemoteDriver
from streamsched.spark.child import Child, RunProcesses
from streamsched.spark.command import Command, RunEnvironment, command
from streamsched.spark.drivers.spark_submit import SparkSubmit
from streamsched.spark.files import RunFiles, failure_reason, full_disk, log_tail, write_note, write_run_file
from streamsched.spark.metrics.event_log_files import EventLogFiles
from streamsched.spark.metrics.reading import MetricsReader
from streamsched.spark.metrics.session_log import SessionLog
from streamsched.spark.metrics.source import MetricsSource
from streamsched.spark.needs.deployable import check_prepared
from streamsched.spark.needs.log_output import LogOutput
from streamsched.spark.needs.preparation import Preparation, Prepared
from streamsched.spark.needs.private_conf import write_private
from streamsched.spark.processes import this_process
from streamsched.spark.run_log import LogBound, create_log, end_of
from streamsched.spark.warm.child import ProcessStarter
from streamsched.telemetry.traces.onward import add_program_context

log = structlog.get_logger()

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals of a runner.

    Attributes:
        heartbeat: between two heartbeats.
        grace: from SIGTERM to SIGKILL.
        log: between two looks at the size of its log.
        metrics: between two readings of the run's metrics.
        last_metrics: how long the last reading may take, after the program has ended.
        claim, store: how long claiming the run, or storing its end, is retried while PostgreSQL is unreachable.
    """

    heartbeat: timedelta = timedelta(seconds=2)
    grace: timedelta = timedelta(seconds=10)
    log: timedelta = timedelta(seconds=0.5)
    metrics: timedelta = timedelta(seconds=2)
    last_metrics: timedelta = timedelta(seconds=10)
    claim: timedelta = timedelta(minutes=1)
    store: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class _Disowned:
    """The run was marked lost: its processes are killed and its end is not stored."""


class Runner:
    """Executes one run. `stop` may be called at any time, also from a signal handler.

    Args:
        log_limit: most bytes of its log on the disk; 0: no limit.
    """

    def __init__(
        self,
        store: RunStore,
        clock: Clock,
        runtime: RunEnvironment,
        timing: Timing | None = None,
        *,
        starter: ProcessStarter | None = None,
        preparation: Preparation | None = None,
        log_limit: int = 0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._runtime = runtime
        self._timing = timing or Timing()
        self._starter = starter or ProcessStarter(cold="its runner has no fork server")
        self._preparation = preparation or Preparation()
        self._log_limit = log_limit
        self._id = str(this_process())
        self._metrics: MetricsReader | None = None
        self._stored: Driver | None = None
        self._memory_kills = memory_kills()
        self._stop: asyncio.Future[StopRequest] = asyncio.get_running_loop().create_future()

    def stop(self, why: str) -> None:
        """Kills the run's processes, first with SIGTERM; the run ends KILLED."""
        if not self._stop.done():
            self._stop.set_result(StopRequest(why))

    async def execute(self, run: str) -> RunEnd | None:
        """Claims and executes the run and stores its end. Returns the end, or None when another runner has the run or
        it was marked lost.

        Raises:
            UnavailableError: PostgreSQL was unreachable for too long; the end, if any, is in the note on disk.
        """
        files = RunFiles(self._runtime.data_dir, run)
        files.make_folders()
        assignment = await _retry(
            lambda: self._store.claim(run, runner=self._id, log_path=str(files.log), now=self._clock.now()),
            self._timing.claim,
        )
        if assignment is None:
            log.info("run.claim_refused", run=run)
            return None
        assignment = add_program_context(assignment, self._runtime.sampler)
        log.info("run.claimed", run=run, runner=self._id)
        bound = asyncio.create_task(self._bound_log(files))
        try:
            ending = await self._execute(files, assignment)
        finally:
            await cancel(bound)
        if ending is None:
            log.error("run.disowned", run=run)
            return None
        try:
            write_note(files, ending)
        except OSError as exc:
            log.error("run.note_failed", run=run, state=ending.state, reason=str(exc))
        await _retry(lambda: self._store.finish(run, ending), self._timing.store)
        log.info("run.ended", run=run, state=ending.state, reason=ending.reason)
        with suppress(OSError):  # no longer needed
            files.note.unlink()
        return ending

    async def _execute(self, files: RunFiles, assignment: Assignment) -> RunEnd | None:
        prepared = Prepared(assignment)
        try:
            self._runtime = self._runtime.for_program(assignment.program.ref)
            self._runtime.make_scratch()
            create_log(files.log, self._runtime.user)
            private_folder(files.spool, self._runtime.user)
            prepared = await self._prepare(assignment)
            child, output = await self._start(files, assignment, prepared)
        except (ConfigurationError, OSError) as exc:
            why = prepared.redaction.text(f"the program cannot be started: {exc}")
            with suppress(OSError):  # shows the reason in the run's log too
                files.log.write_text(f"{why}\n")
            _remove_private(files)
            if self._metrics is not None:  # there is nothing to read
                await self._metrics.finish(within=self._timing.last_metrics.total_seconds())
            return RunEnd(RunState.FAILED, why, self._clock.now())
        try:
            executable = prepared.assignment.program.executable
            ending = await self._supervise(child, files, assignment.run, executable, output)
        finally:
            await child.close()
            if output is not None:
                await output.close()
            _remove_private(files)
        if self._metrics is not None:
            others = ending is None and child.driver is not None  # whose runner it is now reads on
            measured = await self._metrics.finish(within=self._timing.last_metrics.total_seconds(), close=not others)
            ending = None if ending is None else replace(ending, metrics=measured)
        if ending is not None:
            with suppress(ConflictError, UnavailableError):  # the end counts, and is stored with patience
                await self._store_driver(assignment.run, child.driver)
        if ending is not None and ending.state is RunState.COMPLETED:
            await self._starter.learn()
        return None if ending is None else replace(ending, start=self._starter.how)

    async def _bound_log(self, files: RunFiles) -> None:
        """Keeps the log within its limit while the run is active."""
        bound = LogBound(files.log, self._log_limit)
        try:
            while self._log_limit:
                await asyncio.to_thread(bound.keep)
                await asyncio.sleep(self._timing.log.total_seconds())
        finally:
            bound.close()

    async def _prepare(self, assignment: Assignment) -> Prepared:
        """Raises:
        ConfigurationError: what the program needs is not there, or not for its deploy mode.
        """
        try:
            user = self._runtime.user
            prepared = await _retry(lambda: self._preparation.prepare(assignment, user), self._timing.claim)
            check_prepared(assignment, prepared.assignment, self._runtime.spark_master)
            return prepared
        except ConfigurationError as exc:
            if assignment.driver is None:
                raise
            log.warning("run.not_prepared", run=assignment.run, reason=str(exc))
            return Prepared(assignment)  # its driver runs: only the end is awaited

    async def _start(
        self, files: RunFiles, assignment: Assignment, prepared: Prepared
    ) -> tuple[RunProcesses, LogOutput | None]:
        """The processes, and the log where they write to it themselves.

        Raises:
            ConfigurationError, OSError: the program cannot be started.
        """
        run_file = write_run_file(files, assignment, self._runtime.user)
        match prepared.assignment.program.executable:
            case SparkJob(deploy_mode=DeployMode.CLUSTER) as job:
                event_log = await driver_event_log(prepared.assignment, job, self._runtime)
                if event_log is not None:
                    self._measure(EventLogFiles(event_log, self._clock, keep=True), assignment.run)
                driver = RemoteDriver(
                    cluster_backend(prepared.assignment, job, self._runtime, files, event_log),
                    files.log,
                    lambda: self._store.heartbeat(assignment.run, runner=self._id, now=self._clock.now()),
                    master=cluster_master(assignment, job, self._runtime),
                    known=assignment.driver,
                    taken_over=assignment.taken_over,
                )
                return driver, None
            case SparkJob(deploy_mode=DeployMode.CONNECT) as job:
                program = ConnectProgram(
                    prepared.assignment,
                    job,
                    self._runtime,
                    files,
                    self._starter,
                    measure=lambda log, tag: self._measure(SessionLog(log, tag, self._clock), assignment.run),
                )
                return program, None
            case _:
                return await self._start_here(files, prepared, run_file)

    async def _start_here(self, files: RunFiles, prepared: Prepared, run_file: Path) -> tuple[RunProcesses, LogOutput]:
        program = command(prepared.assignment, self._runtime, run_file, prepared.secrets)
        if program.event_log is not None:
            private_folder(program.event_log, program.user)
        if program.private is not None:
            write_private(*program.private, program.user)
        output = LogOutput(files.log, prepared.redaction)
        try:
            child = await self._start_process(program, output.fileno())
        except (ConfigurationError, OSError):
            await output.close()
            raise
        output.close_own_copy()
        if program.event_log is not None:
            self._measure(EventLogFiles(program.event_log, self._clock), prepared.assignment.run)
        return child, output

    async def _start_process(self, program: Command, output: int) -> RunProcesses:
        """Spark in a prepared driver or by spark-submit, Python from a zygote or cold, anything else as it is.

        Raises:
            OSError: it cannot be started.
        """
        private = None if program.private is None else program.private[0]
        if program.driver_python is not None:
            if (prepared := await self._starter.start_prepared(program)) is not None:
                return prepared
            return await SparkSubmit.submit(
                program.argv,
                env=program.env,
                output=output,
                python=program.driver_python,
                private=private,
                user=program.user,
            )
        if program.python:
            return await self._starter.start_python(program, output)
        return await Child.start(program.argv, env=program.env, output=output, private=private, user=program.user)

    async def _supervise(
        self, child: RunProcesses, files: RunFiles, run: str, executable: Executable, output: LogOutput | None
    ) -> RunEnd | None:
        exited = asyncio.ensure_future(child.wait())
        heartbeat = asyncio.ensure_future(self._heartbeats(run, child))
        try:
            await asyncio.wait({exited, heartbeat, self._stop}, return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                await _complete_log(output, child)
                return self._make_end(child, exited.result(), files, executable)
            request = self._stop.result() if self._stop.done() else heartbeat.result()
            if isinstance(request, _Disowned):
                return None
            await child.kill(grace=0.0 if request.at_once else self._timing.grace.total_seconds())
            code = await exited
            await _complete_log(output, child)
            found = child.verdict(code)
            if found is not None and found[0] is RunState.COMPLETED:
                return self._make_end(child, code, files, executable)  # before the cluster got the request
            why = request.why if found is None else f"{request.why}: {found[1]}"
            tail, may_live = log_tail(files.log), child.may_live
            return RunEnd(RunState.KILLED, why, self._clock.now(), code, tail, may_live=may_live)
        finally:
            await cancel(exited, heartbeat)

    async def _heartbeats(self, run: str, child: RunProcesses) -> StopRequest | _Disowned:
        """Stores that the run has started, then heartbeats, until a stop request; retries while PostgreSQL is
        unreachable.
        """
        announced = False
        stored: RunMetrics | None = None
        while True:
            try:
                await self._store_driver(run, child.driver)
                if not announced and child.begun:
                    await self._store.mark_started(run, runner=self._id, now=self._clock.now(), start=self._starter.how)
                    announced = True
                measured = None if self._metrics is None else self._metrics.latest
                new = None if measured == stored else measured
                stop = await self._store.heartbeat(run, runner=self._id, now=self._clock.now(), metrics=new)
                stored = measured
                if stop is not None:
                    return stop
            except ConflictError:
                return _Disowned()
            except UnavailableError as exc:
                log.warning("run.heartbeat_missed", run=run, reason=str(exc))
            await asyncio.sleep(self._timing.heartbeat.total_seconds())

    def _measure(self, source: MetricsSource, run: str) -> None:
        self._metrics = MetricsReader(source, run=run, every=self._timing.metrics.total_seconds())

    async def _store_driver(self, run: str, driver: Driver | None) -> None:
        if driver is not None and driver != self._stored:
            await self._store.store_driver(run, runner=self._id, driver=driver, now=self._clock.now())
            self._stored = driver

    def _make_end(self, child: RunProcesses, code: int, files: RunFiles, executable: Executable) -> RunEnd:
        now = self._clock.now()
        if (found := child.verdict(code)) is not None:
            state, why = found
            if state is RunState.COMPLETED:
                return RunEnd(state, why, now, code)
            cause = failure_reason(files.log) if state is RunState.FAILED else ""
            tail = log_tail(files.log)
            failure = classify(code, f"{why}\n{tail}")
            if state is RunState.KILLED and failure is not Failure.EVICTED:
                failure = Failure.CANCELLED
            why = f"{why}: {cause}" if cause and cause not in why else why
            if state is RunState.FAILED:
                why = "; ".join(word for word in (why, self._environment_hint(executable, files)) if word)
            return RunEnd(state, why, now, code, tail, failure=failure)
        if code == 0 or (isinstance(executable, BashJob | PythonJob) and code in executable.success_codes):
            return RunEnd(RunState.COMPLETED, f"exit code {code}", now, code)
        tail, kills = log_tail(files.log), memory_kills()
        oom_killed = None not in (kills, self._memory_kills) and kills != self._memory_kills
        failure = classify(code, tail, oom_killed=oom_killed)
        how = f"exit code {code}" if (signal := signal_of(code)) is None else f"killed by signal {signal}"
        words = (how, "its memory did not suffice" if failure is Failure.OOM else "", failure_reason(files.log))
        why = ": ".join(word for word in words if word)
        reason = "; ".join(word for word in (why, full_disk(files), self._environment_hint(executable, files)) if word)
        return RunEnd(RunState.FAILED, reason, now, code, tail, failure=failure)

    def _environment_hint(self, executable: Executable, files: RunFiles) -> str:
        """A sentence about variables of the launcher that the failed program misses; empty without any."""
        match executable:
            case BashJob(command=line):
                return environment_hint(self._runtime.withheld, (), (line, end_of(files.log)))
            case PythonJob() as job:
                return environment_hint(self._runtime.withheld, {**job.env, **job.secret_env}, (end_of(files.log),))
            case SparkJob() as job if job.deploy_mode is not DeployMode.CLUSTER:  # a driver elsewhere never had them
                return environment_hint(
                    self._runtime.withheld, {**job.env, **job.needs.secret_env}, (end_of(files.log),)
                )
            case _:
                return ""


async def _complete_log(output: LogOutput | None, child: RunProcesses) -> None:
    """Waits until the log is complete, if it is copied."""
    if output is not None and output.is_copied:
        await child.close()
        await output.close()


def _remove_private(files: RunFiles) -> None:
    with suppress(OSError):  # there is none
        files.private_conf.unlink()


async def _retry(call: Callable[[], Awaitable[_T]], patience: timedelta) -> _T:
    """Retries the call while PostgreSQL is unreachable, with growing pauses, for up to `patience`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience.total_seconds()
    retries = 0
    while True:
        pause = double_pause(_FIRST_PAUSE, retries, longest=_LONGEST_PAUSE)
        try:
            return await call()
        except UnavailableError as exc:
            if loop.time() + pause > deadline:
                raise
            log.warning("runner.store_unavailable", reason=str(exc), retry_in_s=pause)
        await asyncio.sleep(pause)
        retries += 1
