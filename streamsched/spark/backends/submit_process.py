"""`spark-submit` as a process that only submits: settings and variables in a file, none in its arguments."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.process.os_user import OsUser, give
from streamsched.spark.backends.backend import DriverSubmission
from streamsched.spark.backends.requests import after_submission, before_submission
from streamsched.spark.child import Child
from streamsched.spark.command import proxy_options
from streamsched.spark.files import failure_reason

#: Seconds after which a submission is given up; the driver may have been submitted.
_LONGEST_S: Final = 300.0


class SubmitProcess:
    """Runs `spark-submit --deploy-mode cluster`.

    Args:
        program: path of `spark-submit`.
        environ: variables of the process, such as `HADOOP_CONF_DIR`.
        log_path: gets what it prints.
        user: as whom it runs; None: as this process.
    """

    def __init__(self, program: Path, environ: Mapping[str, str], log_path: Path, user: OsUser | None = None) -> None:
        self._program = program
        self._environ = environ
        self._log_path = log_path
        self._user = user

    async def submit(
        self,
        submission: DriverSubmission,
        conf: Mapping[str, str],
        find: Callable[[], Awaitable[str | None]],
        *,
        absent: str,
    ) -> str:
        """The driver that `find` returns, before the process or after it. Raises as `Backend.submit`; `absent` ends the
        message when the process has not failed and there is no driver.
        """
        with before_submission():
            if (found := await find()) is not None:
                return found
        try:
            code = await self.run(submission, conf)
        except OSError as exc:
            raise ConfigurationError(f"spark-submit cannot be started: {exc}") from exc
        with after_submission():
            found = await find()
        if found is not None:
            return found
        if code <= 0:
            raise UnavailableError(f"spark-submit ended with {code}, and {absent}")
        raise ConfigurationError(f"spark-submit failed with exit code {code}: {failure_reason(self._log_path)}")

    async def run(self, submission: DriverSubmission, conf: Mapping[str, str]) -> int:
        """Its exit code; negative when it was killed or took too long. It ends with the runner.

        Raises:
            OSError: it cannot be started.
        """
        handle, name = tempfile.mkstemp(prefix="spark-", suffix=".properties")  # for this user only
        path = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(properties({**submission.conf, **conf}))
                give(handle, self._user)
            with self._log_path.open("ab") as output:
                child = await Child.start(
                    command_line(self._program, submission, path),
                    env=self._environ,
                    output=output.fileno(),
                    user=self._user,
                )
            try:
                async with asyncio.timeout(_LONGEST_S):
                    return await child.wait()
            except TimeoutError:
                return -9
            finally:
                await child.close()
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


def command_line(program: Path, submission: DriverSubmission, settings: Path) -> tuple[str, ...]:
    """The arguments of the process."""
    return (
        *(str(program), "--master", submission.master, "--deploy-mode", "cluster", "--name", submission.run),
        *("--properties-file", str(settings), "--load-spark-defaults"),
        *proxy_options(submission.master, submission.proxy_user),
        *submission.options,
        submission.main,
        *submission.arguments,
    )


def properties(conf: Mapping[str, str]) -> str:
    """The settings as a Java properties file."""
    return "".join(f"{_escape(name, key=True)}={_escape(value)}\n" for name, value in conf.items())


def _escape(text: str, *, key: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if key:
        for sign in " =:#!":
            escaped = escaped.replace(sign, f"\\{sign}")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
