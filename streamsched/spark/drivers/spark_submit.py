"""The processes of `spark-submit` in client mode, which end when the program's Python has ended.

The JVM does not start Python itself but a small executable of the run, which starts Python and writes down its exit
code. A JVM that is still there some time later, for a thread of a library or a hook that hangs, is killed: all that the
program does is done, and its outcome is Python's.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from streamsched.domain.jobs.run import RunState
from streamsched.process.os_user import OsUser, give
from streamsched.spark.child import Child

log = structlog.get_logger()

#: Spark's variable, and ours with what it names where it names our executable.
DRIVER_PYTHON: Final = "PYSPARK_DRIVER_PYTHON"
REAL_PYTHON: Final = "STREAMSCHED_DRIVER_PYTHON"
#: Seconds that a JVM has to end after its Python, and between two looks.
LEFTOVER_S: Final = 20.0
_LOOK_S: Final = 0.25
_SCRIPT: Final = f"""#!/bin/sh
"${REAL_PYTHON}" "$@"
code=$?
echo "$code" >{{ended}}
exit "$code"
"""


@dataclass(frozen=True, slots=True)
class DriverPython:
    """The executable of a run that starts its Python, and the file with Python's exit code."""

    executable: Path
    ended: Path

    def write(self, user: OsUser | None) -> None:
        """Writes both, for `user` only; None: for this process's.

        Raises:
            OSError: they cannot be written.
        """
        script = _SCRIPT.format(ended=shlex.quote(str(self.ended)))
        for path, content, mode in ((self.executable, script, 0o700), (self.ended, "", 0o600)):
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "w") as file:
                file.write(content)
                os.fchmod(descriptor, mode)
                give(descriptor, user)

    def exit_code(self) -> int | None:
        """That of Python; None while it runs."""
        with suppress(OSError, ValueError):
            text = self.ended.read_bytes()[:16]
            return int(text) if text.endswith(b"\n") else None
        return None

    def remove(self) -> None:
        """Idempotent."""
        for path in (self.executable, self.ended):
            with suppress(OSError):
                path.unlink()


class SparkSubmit(Child):
    """Started by `submit`. `wait` gives the exit code of Python where the JVM's own says nothing else."""

    _python: DriverPython
    _leftover_s: float
    _exit: asyncio.Future[int]
    _killed = False

    @classmethod
    async def submit(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        output: int,
        python: DriverPython,
        private: Path | None = None,
        user: OsUser | None = None,
        leftover_s: float = LEFTOVER_S,
    ) -> Self:
        """As `start`. `python`: written here. `leftover_s`: seconds that a JVM has to end after its Python.

        Raises:
            OSError: the program cannot be executed.
        """
        python.write(user)
        env = {**env, REAL_PYTHON: env[DRIVER_PYTHON], DRIVER_PYTHON: str(python.executable)}
        child = await cls.start(argv, env=env, output=output, private=private, user=user)
        child._python, child._leftover_s = python, leftover_s
        child._exit = asyncio.ensure_future(child._handle_end())
        return child

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    def verdict(self, code: int) -> tuple[RunState, str] | None:
        """A program whose Python ended well has completed, whatever happened to its JVM afterwards."""
        if self._python.exit_code() != 0:
            return None
        left = f"; its JVM was killed when it had not ended {self._leftover_s:.0f} s later" if self._killed else ""
        return RunState.COMPLETED, f"exit code 0{left}"

    async def close(self) -> None:
        await super().close()
        await self._exit
        self._python.remove()

    async def _handle_end(self) -> int:
        jvm = asyncio.ensure_future(self._process.wait())
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        while not (await asyncio.wait({jvm}, timeout=_LOOK_S))[0]:
            if deadline is None and self._python.exit_code() is not None:
                deadline = loop.time() + self._leftover_s
            if deadline is not None and loop.time() > deadline and not self._killed:
                log.warning("run.jvm_left", jvm=self._process.pid, seconds=self._leftover_s)
                self._killed = True
                self._signal(signal.SIGKILL)
        code, python = jvm.result(), self._python.exit_code()
        return code if python is None or not (self._killed or python == 0) else python
