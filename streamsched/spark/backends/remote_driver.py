"""A run's driver in a cluster, as the runner supervises it: found or submitted, polled, killed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from streamsched.domain.errors import ConfigurationError, ConflictError, UnavailableError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.programs.driver import Driver
from streamsched.process.cancellation import cancel
from streamsched.spark.backends.backend import Backend, DriverState, DriverStatus
from streamsched.spark.backends.requests import NotSentError
from streamsched.spark.child import RunProcesses

log = structlog.get_logger()

#: Exit codes that stand for the ends of drivers whose cluster names none.
_FAILED: Final = 1
_KILLED: Final = -9


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTiming:
    """Seconds.

    Attributes:
        poll: between two queries of the driver's state.
        reach: how long a cluster may be unreachable before the first submission; then the run fails.
        settle: from a submission that may have been made, and has no answer, to the search for its driver: a busy
            cluster may execute the request that late.
        kill: how long a cluster may take to end a driver, beyond the grace.
    """

    poll: float = 1.0
    reach: float = 60.0
    settle: float = 20.0
    kill: float = 60.0


class RemoteDriver(RunProcesses):
    """Starts with its creation, in a task of its own. Its end in the runner (`close`) does not end the driver.

    Args:
        log_path: gets what the driver prints, from its beginning.
        master: the cluster's URL.
        known: the driver, when it was stored.
        taken_over: an earlier runner may have submitted it.
        confirm: raises ConflictError when the run is no longer this runner's; asked before each submission.
    """

    def __init__(
        self,
        backend: Backend,
        log_path: Path,
        confirm: Callable[[], Awaitable[object]],
        *,
        master: str = "",
        known: Driver | None = None,
        taken_over: bool = False,
        timing: RemoteTiming | None = None,
    ) -> None:
        super().__init__(0)
        self._backend = backend
        self._log_path = log_path
        self._confirm = confirm
        self._search = taken_over
        self._timing = timing or RemoteTiming()
        self._killing = asyncio.Event()
        self._read: dict[str, int] = {}
        self._status: DriverStatus | None = None
        self._master = master
        self.driver = known
        self.begun = known is not None
        self._task = asyncio.ensure_future(self._follow())

    async def wait(self) -> int:
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        await cancel(self._task)

    async def kill(self, *, grace: float) -> None:
        """Asks the cluster to end the driver and waits until it has; gives up when the cluster does not answer."""
        self._killing.set()
        try:
            async with asyncio.timeout(grace + self._timing.kill):
                await self.wait()
        except TimeoutError:
            why = f"the cluster did not end driver {self.driver.id}" if self.driver else "the cluster did not answer"
            log.error("driver.kill_failed", driver=self.driver and self.driver.id, reason=why)
            self._status = DriverStatus(DriverState.KILLED, f"{why}; it may still run")
            self.may_live = True
            await cancel(self._task)
            self._task = asyncio.ensure_future(_code(_KILLED))

    def verdict(self, code: int) -> tuple[RunState, str] | None:
        status = self._status
        if status is None:
            return None
        match status.state:
            case DriverState.SUCCEEDED:
                return RunState.COMPLETED, status.why or "its driver succeeded"
            case DriverState.KILLED:
                return RunState.KILLED, status.why or "its driver was killed in the cluster"
            case _:
                return RunState.FAILED, status.why or "its driver failed"

    async def _follow(self) -> int:
        with suppress(OSError):
            await asyncio.to_thread(self._log_path.write_bytes, b"")
        try:
            driver = await self._submit() if self.driver is None else self.driver.id
        except ConfigurationError as exc:
            self._status = DriverStatus(DriverState.FAILED, str(exc))
            return _FAILED
        except ConflictError:
            await asyncio.Event().wait()  # the next heartbeat finds the same, and nothing is stored
            raise
        if driver is None:
            self._status = DriverStatus(DriverState.KILLED, "it was not submitted")
            return _KILLED
        self.driver, self.begun = self.driver or Driver(driver, self._master), True
        while True:
            status = await self._poll(driver)
            if status is not None and status.logs:
                self.driver = Driver(driver, self._master, status.logs)
            if status is not None and status.state.is_ended:
                self._status = status
                break
            await self._pause(self._timing.poll)
        if status.state is DriverState.SUCCEEDED:
            return 0
        failed = _FAILED if status.state is DriverState.FAILED else _KILLED
        return failed if status.exit_code is None else status.exit_code

    async def _submit(self) -> str | None:
        """The run's driver: the one the cluster has, or else a new one; None when the run is to end before.

        Raises:
            ConfigurationError: it cannot be submitted.
            ConflictError: the run is no longer this runner's.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timing.reach
        if self._search:
            await asyncio.sleep(self._timing.settle)
        while True:
            try:
                if self._search and (found := await self._backend.find()) is not None:
                    log.info("driver.found", driver=found)
                    return found
                if self._killing.is_set():
                    return None
                await self._confirm()
                driver = await self._backend.submit()
                log.info("driver.submitted", driver=driver)
                return driver
            except NotSentError as exc:  # without a search before, the cluster has nothing of this run
                log.warning("driver.not_submitted", reason=str(exc))
                if not self._search and loop.time() > deadline:
                    raise ConfigurationError(f"the program cannot be submitted: {exc}") from exc
                if self._killing.is_set() and not self._search:
                    return None
                await self._pause(self._timing.poll)
            except UnavailableError as exc:
                self._search = True
                log.warning("driver.unknown", reason=str(exc))
                await asyncio.sleep(self._timing.settle)

    async def _poll(self, driver: str) -> DriverStatus | None:
        """Asks for an end that was requested, copies what was printed, and returns the state; None when unknown."""
        try:
            if self._killing.is_set():
                await self._backend.kill(driver)
            status = await self._backend.status(driver)
        except UnavailableError as exc:
            log.warning("driver.state_unknown", driver=driver, reason=str(exc))
            return None
        with suppress(UnavailableError, OSError):  # the output is for people; the state decides
            for stream, content in (await self._backend.logs(driver, self._read)).items():
                self._read[stream] = self._read.get(stream, 0) + len(content)
                await asyncio.to_thread(_append, self._log_path, content)
        return status

    async def _pause(self, seconds: float) -> None:
        if self._killing.is_set():
            await asyncio.sleep(min(seconds, 0.5))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._killing.wait()


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


async def _code(code: int) -> int:
    return code
