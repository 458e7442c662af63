"""A run's processes, forked from the zygote of its program or in a prepared driver; a Python program else cold."""

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

from streamsched.domain.jobs.run import RunState
from streamsched.spark import guard
from streamsched.spark.child import Child, RunProcesses
from streamsched.spark.command import Command
from streamsched.spark.drivers.plan import DriverPlan
from streamsched.spark.warm.messages import content_of, file_of, next_message, pair, send

#: Seconds to wait for a zygote's offer; then the run starts cold.
_PATIENCE: Final = 2.0
#: What Python does with the environment of a run while it starts; a zygote has started without it.
_OF_RUNS: Final = "STREAMSCHED_"


class WarmChild(RunProcesses):
    """Processes that are forked from a zygote, or in a prepared driver, by `offered` and `agree`."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(0)
        self._beside = 0
        self._program: int | None = None
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
        child._pid, child._beside = started["pid"], started.get("beside", 0)
        child._exit = asyncio.ensure_future(child._handle_end())
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

    def verdict(self, code: int) -> tuple[RunState, str] | None:
        """A program in a prepared driver has completed when its Python has, whatever happens to the JVM afterwards."""
        return (RunState.COMPLETED, "exit code 0") if self._program == 0 else None

    def _signal(self, number: signal.Signals) -> None:
        super()._signal(number)
        if self._beside and number is signal.SIGKILL:
            with suppress(ProcessLookupError):
                os.killpg(self._beside, number)

    async def _handle_end(self) -> int:
        while (message := await next_message(self._control)) is not None:
            if "exit" in message:
                return message["exit"]
            self._program = message["ended"]
        for session in filter(None, (self._pid, self._beside)):  # the keeper was killed, or has killed the session
            await asyncio.to_thread(guard.kill, session)
        return -int(signal.SIGKILL)


class ProcessStarter:
    """Starts the process of one run where its libraries are imported already; belongs to its runner.

    Args:
        server: the fork server; None when the runner was not forked from one.
        cold: why there is none.
    """

    def __init__(self, server: socket.socket | None = None, *, cold: str = "") -> None:
        self._server = server
        self._cold = cold
        self._learn: Callable[[], Awaitable[None]] | None = None
        self.how = ""

    async def start_python(self, program: Command, output: int) -> RunProcesses:
        """Starts a Python program. Afterwards `how` says how: `warm`, or `cold: ` and the reason.

        Raises:
            OSError: it cannot be started.
        """
        if self._server is None or program.cold:
            self.how = f"cold: {program.cold or self._cold}"
            return await Child.start(program.argv, env=program.env, output=output, user=program.user)
        key, described = _describe_program(program)
        content = {"env": dict(program.env), "arguments": program.python}
        answer = await self._ask_fork_server(self._server, {"key": key}, content, output)
        if isinstance(answer, socket.socket):
            self.how = "warm"
            return await WarmChild.agree(answer)
        self.how = f"cold: {answer}"
        return await self._start_cold_and_learn(self._server, {"key": key, **described}, program, output)

    async def learn(self) -> None:
        """After a cold run that completed: its libraries are imported for the next one."""
        if self._learn is not None:
            await self._learn()

    async def start_prepared(self, program: Command) -> RunProcesses | None:
        """Starts a Spark program in a prepared driver; None when there is none. Afterwards `how` is `prepared`, or
        `cold: ` and the reason. The next run may have one after this one has completed.

        Raises:
            OSError: as `WarmChild.agree`.
        """
        if self._server is None or program.driver is None:
            self.how = f"cold: {program.cold or self._cold}"
            return None
        server, plan, report = self._server, program.driver, file_of(None)
        self._learn = _lesson(server, plan, report)
        answer = await self._ask_fork_server(server, {"key": plan.key, "driver": True}, plan.run, report)
        if isinstance(answer, str):
            self.how = f"cold: {answer}"
            return None
        self.how = "prepared"
        return await WarmChild.agree(answer)

    async def _ask_fork_server(
        self, server: socket.socket, asked: Mapping[str, Any], run: Mapping[str, Any], file: int
    ) -> socket.socket | str:
        """The connection to a keeper that offers to start, or why there is none. `file`: for the run's process."""
        control, theirs = pair()
        content = file_of(run)
        try:
            with theirs:
                send(server, asked, (theirs.fileno(), file, content))
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

    async def _start_cold_and_learn(
        self, server: socket.socket, program: dict[str, Any], command: Command, output: int
    ) -> RunProcesses:
        report = file_of(None)
        env = {**command.env, "STREAMSCHED_LIBRARIES": str(report)}

        async def learn() -> None:
            with suppress(OSError, ValueError, KeyError, TypeError):  # no server, no report, garbage
                found = content_of(report)
                described = {**program, **_check_report(found)}
                content = file_of(described)
                try:
                    send(server, {"learn": True, "key": program["key"]}, (content,))
                finally:
                    os.close(content)

        self._learn = learn
        return await Child.start(command.argv, env=env, output=output, inherited=(report,))


def _lesson(server: socket.socket, plan: DriverPlan, report: int) -> Callable[[], Awaitable[None]]:
    """What prepares the next driver of the profile. `report`: where a run in a driver has written its libraries."""

    async def learn() -> None:
        libraries: list[str] = []
        with suppress(OSError, ValueError, KeyError, TypeError):  # no report, garbage
            libraries = [str(each) for each in content_of(report)["libraries"]]
        content = file_of({**plan.profile, "libraries": libraries})
        with suppress(OSError):
            send(server, {"learn": True, "driver": True, "key": plan.key}, (content,))
        os.close(content)

    return learn


def _check_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the code of a user may have written.

    Raises:
        KeyError, TypeError, ValueError: it is no report.
    """
    return {
        "libraries": [str(each) for each in report["libraries"]],
        "own": {str(path): [int(number) for number in stamp] for path, stamp in report["own"].items()},
        "refused": str(report["refused"]),
    }


def _describe_program(program: Command) -> tuple[str, dict[str, Any]]:
    """The program as its zygote is started, and a name of it; the same for all runs of one definition."""
    env = {name: value for name, value in program.env.items() if not name.startswith(_OF_RUNS)}
    described = {"target": program.python[0], "env": env, "cwd": str(Path.cwd())}
    return hashlib.sha256(orjson.dumps(described, option=orjson.OPT_SORT_KEYS)).hexdigest(), described
