"""A run's processes: a session of their own, which ends when the runner ends, also by SIGKILL.

Two mechanisms: the kernel kills the first process when its parent dies (Linux), and a guard (`spark.guard`) kills the
whole session, grandchildren included, when the pipe from the runner closes.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from streamsched.domain.jobs.run import RunState
from streamsched.domain.programs.driver import Driver
from streamsched.process.closed_process import plain_environ
from streamsched.process.os_user import OsUser, identity

_PR_SET_PDEATHSIG: Final = 1
_GUARD: Final = Path(__file__).with_name("guard.py")


class RunProcesses(ABC):
    """The processes of one run, a session led by process `pid`. Always call `close`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    #: The driver that a cluster has for the run; None of processes of this machine.
    driver: Driver | None = None
    #: Whether the program may live on, since it could not be ended.
    may_live = False
    #: Whether the program itself has been started.
    begun = True

    def verdict(self, code: int) -> tuple[RunState, str] | None:
        """The end and its reason, where others than the exit code know it."""
        return None

    @abstractmethod
    async def wait(self) -> int:
        """The exit code of the first process; negative: minus the signal that ended it."""

    @abstractmethod
    async def close(self) -> None:
        """Kills the rest of the session and returns when it has ended. Idempotent."""

    async def kill(self, *, grace: float) -> None:
        """Sends SIGTERM to the process group, and SIGKILL after `grace` seconds; with 0 only SIGKILL."""
        self._signal(signal.SIGTERM if grace > 0 else signal.SIGKILL)
        try:
            async with asyncio.timeout(grace):
                await self.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            return  # the whole group has ended already


class Child(RunProcesses):
    """Processes that are started anew, by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, guard: asyncio.subprocess.Process) -> None:
        super().__init__(process.pid)
        self._process = process
        self._guard = guard

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        output: int,
        inherited: Sequence[int] = (),
        private: Path | None = None,
        user: OsUser | None = None,
    ) -> Self:
        """Starts `argv` with its output appended to the file descriptor `output`, and with the descriptors `inherited`.
        Call it in the main thread: the parent-death signal is bound to the thread that forks. `private`: a file that is
        removed when the session has ended, also if this process is killed. `user`: as whom; None: as this process.

        Raises:
            OSError: the program cannot be executed.
        """
        removed = () if private is None else (str(private),)
        guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_GUARD), *removed),
            stdin=asyncio.subprocess.PIPE,
            env=plain_environ(os.environ),
            start_new_session=True,
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(env),
                pass_fds=inherited,
                start_new_session=True,
                preexec_fn=parent_death_signal(),
                **identity(user),
            )
        except OSError:
            _close_pipe(guard)
            await guard.wait()
            raise
        assert guard.stdin is not None
        guard.stdin.write(f"{process.pid}\n".encode())
        return cls(process, guard)

    async def wait(self) -> int:
        return await self._process.wait()

    async def close(self) -> None:
        _close_pipe(self._guard)
        await self._guard.wait()
        await self._process.wait()


def _close_pipe(guard: asyncio.subprocess.Process) -> None:
    if guard.stdin is not None:
        guard.stdin.close()


def parent_death_signal() -> Callable[[], None] | None:
    """A `preexec_fn` that sets the parent-death signal. Loads libc here, because the forked child must not."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)

    return set_signal
