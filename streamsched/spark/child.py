"""A run's processes: a session of their own, which ends with the runner whatever kills it.

Two nets: the first process gets SIGKILL from the kernel when its parent dies (Linux), and a guard (`spark.guard`) kills
the whole session when the pipe from the runner closes. The second reaches what the first cannot: grandchildren.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

_PR_SET_PDEATHSIG: Final = 1
_GUARD: Final = Path(__file__).with_name("guard.py")


class Child:
    """The processes of one run. Made by `start`, ended by `close`, whatever happens."""

    def __init__(self, process: asyncio.subprocess.Process, guard: asyncio.subprocess.Process) -> None:
        self._process = process
        self._guard = guard

    @classmethod
    async def start(cls, argv: Sequence[str], *, env: Mapping[str, str], output: int) -> Self:
        """Starts `argv` with its output appended to the file descriptor `output`. Must be called in the main thread:
        the kernel's death signal belongs to the thread that forks.

        Raises:
            OSError: the program cannot be executed.
        """
        guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_GUARD)), stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(env),
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        except OSError:
            _hang_up(guard)
            await guard.wait()
            raise
        assert guard.stdin is not None
        guard.stdin.write(f"{process.pid}\n".encode())
        return cls(process, guard)

    async def wait(self) -> int:
        """The exit code of the first process; negative: the signal that ended it."""
        return await self._process.wait()

    async def kill(self, *, grace: float) -> None:
        """Asks all to end, and after `grace` seconds makes them; without any grace they are not asked."""
        self._signal(signal.SIGTERM if grace > 0 else signal.SIGKILL)
        try:
            async with asyncio.timeout(grace):
                await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._process.wait()

    async def close(self) -> None:
        """Kills what is left of the session and returns when it is gone. Idempotent."""
        _hang_up(self._guard)
        await self._guard.wait()
        await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return  # all of the group has ended already


def _hang_up(guard: asyncio.subprocess.Process) -> None:
    if guard.stdin is not None:
        guard.stdin.close()


def _die_with_parent() -> Callable[[], None] | None:
    """What the forked child does before it becomes the program; loaded before the fork, where nothing may be loaded."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask_for_death() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask_for_death
