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

from streamsched.domain.backoff import doubled
from streamsched.domain.errors import ConfigurationError, ConflictError, UnavailableError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Assignment, RunEnd, RunStore, StopRequest
from streamsched.process.cancellation import cancel
from streamsched.spark.child import RunProcesses
from streamsched.spark.command import RunEnvironment, command
from streamsched.spark.files import RunFiles, failure_reason, full_disk, log_tail, write_note, write_run_file
from streamsched.spark.metrics.event_log_files import EventLogFiles
from streamsched.spark.metrics.reading import MetricsReader
from streamsched.spark.needs.log_output import LogOutput
from streamsched.spark.needs.preparation import Preparation, Prepared
from streamsched.spark.needs.private_conf import write_private
from streamsched.spark.processes import this_process
from streamsched.spark.warm.child import Starts

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
        metrics: between two readings of the run's metrics.
        last_metrics: how long the last reading may take, after the program has ended.
        claim, store: how long claiming the run, or storing its end, is retried while PostgreSQL is unreachable.
    """

    heartbeat: timedelta = timedelta(seconds=2)
    grace: timedelta = timedelta(seconds=10)
    metrics: timedelta = timedelta(seconds=2)
    last_metrics: timedelta = timedelta(seconds=10)
    claim: timedelta = timedelta(minutes=1)
    store: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class _Disowned:
    """The run was marked lost: its processes are killed and its end is not stored."""


class Runner:
    """Executes one run. `stop` may be called at any time, also from a signal handler."""

    def __init__(
        self,
        store: RunStore,
        clock: Clock,
        runtime: RunEnvironment,
        timing: Timing | None = None,
        *,
        starts: Starts | None = None,
        preparation: Preparation | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._runtime = runtime
        self._timing = timing or Timing()
        self._starts = starts or Starts(cold="its runner has no fork server")
        self._preparation = preparation or Preparation()
        self._id = str(this_process())
        self._metrics: MetricsReader | None = None
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
        assignment = await _retried(
            lambda: self._store.claim(run, runner=self._id, log_path=str(files.log), now=self._clock.now()),
            self._timing.claim,
        )
        if assignment is None:
            log.info("run.claim_refused", run=run)
            return None
        log.info("run.claimed", run=run, runner=self._id)
        ending = await self._executed(files, assignment)
        if ending is None:
            log.error("run.disowned", run=run)
            return None
        try:
            write_note(files, ending)
        except OSError as exc:
            log.error("run.note_failed", run=run, state=ending.state, reason=str(exc))
        await _retried(lambda: self._store.finish(run, ending), self._timing.store)
        log.info("run.ended", run=run, state=ending.state, reason=ending.reason)
        with suppress(OSError):  # no longer needed
            files.note.unlink()
        return ending

    async def _executed(self, files: RunFiles, assignment: Assignment) -> RunEnd | None:
        prepared, output = Prepared(assignment), None
        try:
            prepared = await _retried(lambda: self._preparation.prepare(assignment), self._timing.claim)
            run_file = write_run_file(files, assignment)
            program = command(prepared.assignment, self._runtime, run_file, prepared.secrets)
            if program.event_log is not None:
                program.event_log.mkdir(mode=0o700, parents=True, exist_ok=True)
            if program.private is not None:
                write_private(*program.private)
            output = LogOutput(files.log, prepared.redaction)
            child = await self._starts.start(program, output.fileno())
        except (ConfigurationError, OSError) as exc:
            why = prepared.redaction.text(f"the program cannot be started: {exc}")
            with suppress(OSError):  # shows the reason in the run's log too
                files.log.write_text(f"{why}\n")
            if output is not None:
                await output.close()
            _remove_private(files)
            return RunEnd(RunState.FAILED, why, self._clock.now())
        output.started()
        self._metrics = None if program.event_log is None else self._measuring(program.event_log, assignment.run)
        try:
            ending = await self._supervised(child, files, assignment.run, output)
        finally:
            await child.close()
            await output.close()
            _remove_private(files)
        if self._metrics is not None:
            measured = await self._metrics.finish(within=self._timing.last_metrics.total_seconds())
            ending = None if ending is None else replace(ending, metrics=measured)
        if ending is not None and ending.state is RunState.COMPLETED:
            await self._starts.learn()
        return None if ending is None else replace(ending, start=self._starts.how)

    async def _supervised(self, child: RunProcesses, files: RunFiles, run: str, output: LogOutput) -> RunEnd | None:
        exited = asyncio.ensure_future(child.wait())
        heartbeat = asyncio.ensure_future(self._heartbeats(run))
        try:
            await asyncio.wait({exited, heartbeat, self._stop}, return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                await _complete(output, child)
                return self._ended(exited.result(), files)
            request = self._stop.result() if self._stop.done() else heartbeat.result()
            if isinstance(request, _Disowned):
                return None
            await child.kill(grace=0.0 if request.at_once else self._timing.grace.total_seconds())
            code = await exited
            await _complete(output, child)
            return RunEnd(RunState.KILLED, request.why, self._clock.now(), code, log_tail(files.log))
        finally:
            await cancel(exited, heartbeat)

    async def _heartbeats(self, run: str) -> StopRequest | _Disowned:
        """Stores that the run has started, then heartbeats, until a stop request; retries while PostgreSQL is
        unreachable.
        """
        announced = False
        stored: RunMetrics | None = None
        while True:
            try:
                if not announced:
                    await self._store.started(run, runner=self._id, now=self._clock.now(), start=self._starts.how)
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

    def _measuring(self, event_log: Path, run: str) -> MetricsReader:
        source = EventLogFiles(event_log, self._clock)
        return MetricsReader(source, run=run, every=self._timing.metrics.total_seconds())

    def _ended(self, code: int, files: RunFiles) -> RunEnd:
        now = self._clock.now()
        if code == 0:
            return RunEnd(RunState.COMPLETED, "exit code 0", now, code)
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        why = ": ".join(word for word in (how, failure_reason(files.log)) if word)
        reason = "; ".join(word for word in (why, full_disk(files)) if word)
        return RunEnd(RunState.FAILED, reason, now, code, log_tail(files.log))


async def _complete(output: LogOutput, child: RunProcesses) -> None:
    """Waits until the log is complete, if it is copied."""
    if output.copied:
        await child.close()
        await output.close()


def _remove_private(files: RunFiles) -> None:
    with suppress(OSError):  # there is none
        files.private_conf.unlink()


async def _retried(call: Callable[[], Awaitable[_T]], patience: timedelta) -> _T:
    """Retries the call while PostgreSQL is unreachable, with growing pauses, for up to `patience`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience.total_seconds()
    retries = 0
    while True:
        pause = doubled(_FIRST_PAUSE, retries, longest=_LONGEST_PAUSE)
        try:
            return await call()
        except UnavailableError as exc:
            if loop.time() + pause > deadline:
                raise
            log.warning("runner.store_unavailable", reason=str(exc), retry_in_s=pause)
        await asyncio.sleep(pause)
        retries += 1
