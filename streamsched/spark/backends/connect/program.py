"""A run's program beside the runner, with a session of its own on a Spark Connect server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import orjson
import structlog

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.template import fill_path, fill_template
from streamsched.ports.runs import Assignment
from streamsched.process.cancellation import cancel
from streamsched.spark.backends.connect.server import Use, connect_folder, event_log_folder, use_server
from streamsched.spark.backends.connect.session import check_server, operation_tag, release, remote_url, session_id
from streamsched.spark.child import RunProcesses
from streamsched.spark.command import PYTHON_CALL, Command, RunEnvironment, environment
from streamsched.spark.files import RunFiles
from streamsched.spark.needs.options import check_files, importable_files, other_files
from streamsched.spark.warm.child import ProcessStarter

log = structlog.get_logger()

#: The kind of task that runs a file on a Spark Connect server.
_CALL: Final = "streamsched.spark.calls.connect_call"
#: Seconds an external server may be unreachable, and between two attempts.
_REACH_S: Final = 30.0
_PAUSE_S: Final = 1.0
_NOT_STARTED: Final = -15


class ConnectProgram(RunProcesses):
    """Starts with its creation, in a task of its own, since the server may have to be started first.

    Args:
        measure: gets, before the program starts, the folder of the event log of this machine's server, and with what
            the tags of the session's operations begin; None: it is not measured.
        reach_s: seconds an external server may be unreachable.
    """

    def __init__(
        self,
        assignment: Assignment,
        job: SparkJob,
        runtime: RunEnvironment,
        files: RunFiles,
        starter: ProcessStarter,
        *,
        measure: Callable[[Path, str], None] | None = None,
        reach_s: float = _REACH_S,
    ) -> None:
        super().__init__(0)
        self._assignment = assignment
        self._job = job
        self._runtime = runtime
        self._files = files
        self._starter = starter
        self._external = job.master or runtime.connect.url
        self._measure = measure
        self._reach_s = reach_s
        self._use: Use | None = None
        self._child: RunProcesses | None = None
        self._failure: str | None = None
        self._killed = False
        self.begun = False
        self._task = asyncio.ensure_future(self._execute())

    async def wait(self) -> int:
        return await asyncio.shield(self._task)

    async def kill(self, *, grace: float) -> None:
        """Ends the process; its session ends with it (`close`)."""
        self._killed = True
        if self._child is None:
            await asyncio.wait({self._task}, timeout=grace + 1.0)
        if self._child is not None:
            await self._child.kill(grace=grace)
        elif not self._task.done():  # it waits for a server
            await cancel(self._task)
            self._task = asyncio.ensure_future(_code(_NOT_STARTED))

    async def close(self) -> None:
        await cancel(self._task)
        if self._child is not None:
            await self._child.close()
        if self._use is not None:
            self._use.close()  # its keeper ends the session
        elif self._external and self.begun:
            with suppress(UnavailableError, ConfigurationError):
                await asyncio.to_thread(release, self._external, "", session_id(self._assignment.run))

    def verdict(self, code: int) -> tuple[RunState, str] | None:
        return None if self._failure is None else (RunState.FAILED, self._failure)

    async def _execute(self) -> int:
        try:
            url, token = await self._server()
            program = self._command(url, token)
            if self._killed:
                return _NOT_STARTED
            with self._files.log.open("ab") as output:
                starting = asyncio.ensure_future(self._starter.start_python(program, output.fileno()))
                child = await asyncio.shield(starting)
                self._child = child
        except (ConfigurationError, OSError) as exc:
            self._failure = f"the program cannot be started: {exc}"
            with suppress(OSError):
                self._files.log.write_text(f"{self._failure}\n")
            return 1
        self.begun = True
        return await child.wait()

    async def _server(self) -> tuple[str, str]:
        """URL and token of the server. No query of an earlier attempt runs there any more.

        Raises:
            ConfigurationError: there is none.
        """
        if not self._external:
            if self._runtime.user is not None:
                raise ConfigurationError(
                    f"it runs as user {self._runtime.user.name}, and all share this machine's Spark Connect server: "
                    "name a server by `master` or STREAMSCHED_SPARK_CONNECT, or choose another deploy mode"
                )
            folder = connect_folder(self._runtime.data_dir)
            self._use = await use_server(folder, self._runtime.connect, self._assignment.run, self._runtime.environ)
            event_log = event_log_folder(folder, self._use.server.id)
            if self._measure is not None and self._runtime.spark_metrics and event_log.is_dir():
                with suppress(OSError):  # metrics are never worth a run
                    self._measure(event_log, operation_tag(self._assignment.run))
            return self._use.server.url, self._use.server.token
        check_server(self._external)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._reach_s
        former = _former(self._assignment)
        while True:
            try:
                session = str(uuid4()) if former is None else session_id(former)
                await asyncio.to_thread(release, self._external, "", session)
                return self._external, ""
            except UnavailableError as exc:
                if loop.time() > deadline:
                    raise ConfigurationError(str(exc)) from exc
                log.warning("connect.unreachable", reason=str(exc))
            await asyncio.sleep(_PAUSE_S)

    def _command(self, url: str, token: str) -> Command:
        """Raises:
        ConfigurationError: a file does not exist.
        """
        job, assignment = self._job, self._assignment
        main = fill_path(job.main, assignment.arguments)
        if not Path(main).is_file():
            raise ConfigurationError(f"the program's main file {main} does not exist")
        check_files(job)
        described = {
            "remote": remote_url(url, assignment.run),
            "token": token,
            "run": assignment.run,
            "conf": dict(job.conf),
            "importable": importable_files(job),
            "files": other_files(job),
        }
        env = {
            "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a zygote has no threads
            **environment(assignment, self._runtime, self._files.run_file),
            **job.env,
            "SPARK_CONNECT_MODE_ENABLED": "1",
            "STREAMSCHED_CONNECT": orjson.dumps(described).decode(),
        }
        call = (_CALL, main, *(fill_template(each, assignment.arguments) for each in job.arguments))
        user = self._runtime.user
        cold = "" if user is None else f"it runs as user {user.name}"
        return Command((sys.executable, "-m", PYTHON_CALL, *call), env, call, cold, user=user)


def _former(assignment: Assignment) -> str | None:
    """The attempt before; None of the first one."""
    if assignment.attempt == 1:
        return None
    return f"{assignment.run.removesuffix(f'.r{assignment.attempt}')}.r{assignment.attempt - 1}"


async def _code(code: int) -> int:
    return code
