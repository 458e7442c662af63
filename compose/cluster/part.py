"""One process of a local cluster: its command, its log, and how it is found healthy."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

#: Seconds between SIGTERM and SIGKILL.
STOP_SECONDS = 20.0

#: Asks whether a part is healthy: None, or what is wrong.
HealthQuestion = Callable[[httpx.AsyncClient], Awaitable[str | None]]


@dataclass(slots=True)
class Part:
    """Attributes:
    name: unique in the cluster; its log is `NAME.log`.
    purpose: what it does, for the table.
    where: its address, for the table.
    """

    name: str
    purpose: str
    where: str
    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    healthy: HealthQuestion
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process in a session of its own, so that Ctrl-C in a terminal does not reach it. On Linux it is
        ended when this process dies, if this is called from the main thread.
        """
        setpriv = shutil.which("setpriv")
        tied = (setpriv, "--pdeathsig", "TERM") if setpriv else ()
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                (*tied, *self.command),
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """Of the process that was started last."""
        return None if self.process is None else self.process.pid

    @property
    def ended(self) -> int | None:
        """The exit code (negative: a signal's number) of a process that has ended, else None."""
        return None if self.process is None else self.process.poll()

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def ask_to_stop(self) -> None:
        """SIGTERM, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL after a timeout; returns when the process is gone."""
        self.ask_to_stop()
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
            self.kill()

    def last_words(self) -> str:
        """The end of its log."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
        return ""


def answers_ok(url: str) -> HealthQuestion:
    """Healthy while a GET of this URL is answered with 200."""

    async def ask(client: httpx.AsyncClient) -> str | None:
        try:
            answer = await client.get(url)
        except httpx.HTTPError as exc:
            return f"{url}: {type(exc).__name__}"
        return None if answer.status_code == httpx.codes.OK else f"{url} answers {answer.status_code}"

    return ask
