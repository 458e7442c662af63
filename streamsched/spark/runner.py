"""A runner: one process that claims one run, executes its program, and stores how it ended.

The end is written to disk first and then stored in PostgreSQL, for as long as that takes; so neither an absent
PostgreSQL nor the runner's own death after its program ended changes what is known of the run. A disk that takes
nothing does not either, while PostgreSQL is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

import structlog

from streamsched.cancellation import cancel
from streamsched.domain.errors import ConfigurationError, ConflictError, UnavailableError
from streamsched.domain.run import RunState
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Assignment, Ending, RunBook, Stop
from streamsched.spark.child import Child
from streamsched.spark.command import Site, command
from streamsched.spark.files import RunFiles, last_words, write_note, write_told
from streamsched.spark.processes import this_process

log = structlog.get_logger()

_LONGEST_PAUSE: Final = 30.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How often a live run says so, how long its processes may take to end when asked, and for how many seconds a
    run is claimed or its end stored against an absent PostgreSQL.
    """

    heartbeat: timedelta = timedelta(seconds=2)
    grace: timedelta = timedelta(seconds=10)
    claim: timedelta = timedelta(minutes=1)
    store: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class _Disowned:
    """The run was given up as lost: its processes must go, its end is not ours to tell."""


class Runner:
    """Executes one run; made anew for each. `stop` may be called at any time, from a signal handler too."""

    def __init__(self, book: RunBook, clock: Clock, site: Site, timing: Timing | None = None) -> None:
        self._book = book
        self._clock = clock
        self._site = site
        self._timing = timing or Timing()
        self._id = str(this_process())
        self._stop: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()

    def stop(self, why: str) -> None:
        """Kills the run's processes, gently at first; the run ends KILLED."""
        if not self._stop.done():
            self._stop.set_result(Stop(why))

    async def execute(self, run: str) -> Ending | None:
        """Claims, executes and stores; returns the end, or None when the run was (or became) somebody else's.

        Raises:
            UnavailableError: PostgreSQL stayed away for too long; a note on disk tells the end, if there was one.
        """
        files = RunFiles(self._site.data_dir, run)
        files.make_folders()
        assignment = await _patiently(
            lambda: self._book.claim(run, runner=self._id, log_path=str(files.log), now=self._clock.now()),
            self._timing.claim,
        )
        if assignment is None:
            log.info("run.not_ours", run=run)
            return None
        log.info("run.claimed", run=run, runner=self._id)
        ending = await self._executed(files, assignment)
        if ending is None:
            log.error("run.disowned", run=run)
            return None
        try:
            write_note(files, ending)
        except OSError as exc:
            log.error("run.not_noted", run=run, state=ending.state, reason=str(exc))
        await _patiently(lambda: self._book.finish(run, ending), self._timing.store)
        log.info("run.ended", run=run, state=ending.state, reason=ending.reason)
        with suppress(OSError):  # nobody asks for it any more
            files.note.unlink()
        return ending

    async def _executed(self, files: RunFiles, assignment: Assignment) -> Ending | None:
        try:
            what = command(assignment, self._site, write_told(files, assignment))
            with files.log.open("ab") as output:
                child = await Child.start(what.argv, env=what.env, output=output.fileno())
        except (ConfigurationError, OSError) as exc:
            why = f"the program cannot be started: {exc}"
            with suppress(OSError):  # who opens the log finds the reason there too, if there is a log
                files.log.write_text(f"{why}\n")
            return Ending(RunState.FAILED, why, self._clock.now())
        try:
            return await self._supervised(child, files, assignment.run)
        finally:
            await child.close()

    async def _supervised(self, child: Child, files: RunFiles, run: str) -> Ending | None:
        exited = asyncio.ensure_future(child.wait())
        beating = asyncio.ensure_future(self._beat(run))
        try:
            await asyncio.wait({exited, beating, self._stop}, return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                return self._ended(exited.result(), files)
            word = self._stop.result() if self._stop.done() else beating.result()
            if isinstance(word, _Disowned):
                return None
            await child.kill(grace=0.0 if word.at_once else self._timing.grace.total_seconds())
            return Ending(RunState.KILLED, word.why, self._clock.now(), await exited)
        finally:
            await cancel(exited, beating)

    async def _beat(self, run: str) -> Stop | _Disowned:
        """Says that the run runs, then that it is alive, until told otherwise; an absent PostgreSQL is no reason."""
        announced = False
        while True:
            try:
                if not announced:
                    await self._book.started(run, runner=self._id, now=self._clock.now())
                    announced = True
                stop = await self._book.beat(run, runner=self._id, now=self._clock.now())
                if stop is not None:
                    return stop
            except ConflictError:
                return _Disowned()
            except UnavailableError as exc:
                log.warning("run.heartbeat_missed", run=run, reason=str(exc))
            await asyncio.sleep(self._timing.heartbeat.total_seconds())

    def _ended(self, code: int, files: RunFiles) -> Ending:
        now = self._clock.now()
        if code == 0:
            return Ending(RunState.COMPLETED, "exit code 0", now, code)
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        words = last_words(files.log)
        return Ending(RunState.FAILED, f"{how}: {words}" if words else how, now, code)


async def _patiently(call: Callable[[], Awaitable[_T]], patience: timedelta) -> _T:
    """Calls until PostgreSQL answers, pausing ever longer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience.total_seconds()
    pause = 0.25
    while True:
        try:
            return await call()
        except UnavailableError as exc:
            if loop.time() + pause > deadline:
                raise
            log.warning("runner.waits_for_store", reason=str(exc), again_in_s=pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
