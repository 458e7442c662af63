"""A run's processes, forked from the zygote of its program, or else started cold."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import orjson

from streamsched.spark import guard
from streamsched.spark.child import Child, RunProcesses
from streamsched.spark.command import Command
from streamsched.spark.drivers.spark_submit import SparkSubmit
from streamsched.spark.warm.messages import content_of, file_of, next_message, pair, send

#: Seconds to wait for a zygote's offer; then the run starts cold.
_PATIENCE: Final = 2.0
#: What Python does with the environment of a run while it starts; a zygote has started without it.
_OF_RUNS: Final = "STREAMSCHED_"


class WarmChild(RunProcesses):
    """Processes that are forked from a zygote, by `offered` and `agree`."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(0)
        self._control = control
        self._exit: asyncio.Future[int] | None = None

    @classmethod
    async def agree(cls, control: socket.socket) -> Self:
        """Starts the run's process, which was offered. From here on the run must not start cold.

        Raises:
            OSError: the keeper died meanwhile, and with it the run's process, if there was one.
        """
        child = cls(control)
        send(control, {"agreed": True})
        started = await next_message(control)
        if started is None:
            raise OSError("the process was killed as it started")
        child._pid = started["pid"]
        child._exit = asyncio.ensure_future(child._ended())
        return child

    async def wait(self) -> int:
        assert self._exit is not None
        return await asyncio.shield(self._exit)

    async def close(self) -> None:
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        await self.wait()
        with suppress(OSError):
            while await next_message(self._control) is not None:  # the keeper ends when the session has
                pass
        self._control.close()

    async def _ended(self) -> int:
        message = await next_message(self._control)
        if message is not None:
            return message["exit"]
        await asyncio.to_thread(guard.kill, self._pid)  # the keeper was killed, or has killed the session
        return -int(signal.SIGKILL)


class Starts:
    """Starts the processes of one run; belongs to its runner.

    Args:
        server: the fork server; None when the runner was not forked from one.
        cold: why there is none.
    """

    def __init__(self, server: socket.socket | None = None, *, cold: str = "") -> None:
        self._server = server
        self._cold = cold
        self._learn: Callable[[], Awaitable[None]] | None = None
        self.how = ""

    async def start(self, program: Command, output: int) -> RunProcesses:
        """Starts the command; afterwards `how` says how: `warm`, or `cold: ` and the reason; empty of a program of
        another kind than Python.

        Raises:
            OSError: it cannot be started.
        """
        private = None if program.private is None else program.private[0]
        if program.driver_python is not None:
            return await SparkSubmit.submit(
                program.argv,
                env=program.env,
                output=output,
                python=program.driver_python,
                private=private,
                user=program.user,
            )
        if not program.python:
            return await Child.start(program.argv, env=program.env, output=output, private=private, user=program.user)
        if self._server is None or program.cold:
            self.how = f"cold: {program.cold or self._cold}"
            return await Child.start(program.argv, env=program.env, output=output, user=program.user)
        key, described = _described(program)
        answer = await self._asked(self._server, key, program, output)
        if isinstance(answer, socket.socket):
            self.how = "warm"
            return await WarmChild.agree(answer)
        self.how = f"cold: {answer}"
        return await self._taught(self._server, {"key": key, **described}, program, output)

    async def learn(self) -> None:
        """After a cold run that completed: its libraries are imported for the next one."""
        if self._learn is not None:
            await self._learn()

    async def _asked(self, server: socket.socket, key: str, program: Command, output: int) -> socket.socket | str:
        """The connection to a keeper that offers to start, or why there is none."""
        control, theirs = pair()
        content = file_of({"env": dict(program.env), "arguments": program.python})
        try:
            with theirs:
                send(server, {"key": key}, (theirs.fileno(), output, content))
            control.setblocking(False)
            async with asyncio.timeout(_PATIENCE):
                answer = await next_message(control)
        except TimeoutError:
            control.close()
            return "the process with its libraries does not answer in time"
        except OSError:
            answer = None
        finally:
            os.close(content)
        if answer is not None and "offered" in answer:
            return control
        control.close()
        return "the process with its libraries has ended" if answer is None else answer["cold"]

    async def _taught(
        self, server: socket.socket, program: dict[str, Any], command: Command, output: int
    ) -> RunProcesses:
        report = file_of(None)
        env = {**command.env, "STREAMSCHED_LIBRARIES": str(report)}

        async def learn() -> None:
            with suppress(OSError, ValueError, KeyError, TypeError):  # no server, no report, garbage
                found = content_of(report)
                described = {**program, **_checked(found)}
                content = file_of(described)
                try:
                    send(server, {"learn": True, "key": program["key"]}, (content,))
                finally:
                    os.close(content)

        self._learn = learn
        return await Child.start(command.argv, env=env, output=output, inherited=(report,))


def _checked(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the code of a user may have written.

    Raises:
        KeyError, TypeError, ValueError: it is no report.
    """
    return {
        "libraries": [str(each) for each in report["libraries"]],
        "own": {str(path): [int(number) for number in stamp] for path, stamp in report["own"].items()},
        "refused": str(report["refused"]),
    }


def _described(program: Command) -> tuple[str, dict[str, Any]]:
    """The program as its zygote is started, and a name of it; the same for all runs of one definition."""
    env = {name: value for name, value in program.env.items() if not name.startswith(_OF_RUNS)}
    described = {"target": program.python[0], "env": env, "cwd": str(Path.cwd())}
    return hashlib.sha256(orjson.dumps(described, option=orjson.OPT_SORT_KEYS)).hexdigest(), described
