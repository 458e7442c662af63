"""`streamsched dev` as a person runs it: a process of its own in a folder, and the command line beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_COMMAND: Final = (sys.executable, "-c", "from streamsched.cli.main import main; main()")


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class DevProcess:
    """One folder: its scheduler, and commands run in it. `identity`: options of `subprocess` with its user."""

    def __init__(self, folder: Path, identity: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self._identity = identity or {}
        self.state = folder / ".streamsched"
        self.said_at_end = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def token(self) -> str:
        """The token that `dev` wrote for its commands."""
        return (self.state / "token").read_text().strip()

    @property
    def authorization(self) -> dict[str, str]:
        """The header of a request with that token."""
        return {"Authorization": f"Bearer {self.token}"}

    def environ(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSCHED_")}
        return {**kept, **more}

    def start(self, *options: str, **environ: str) -> str:
        """Starts it and returns what it says once its API answers."""
        self._process = subprocess.Popen(
            (*_COMMAND, "dev", "--port", "0", *options),
            cwd=self.folder,
            env=self.environ(**environ),
            stdout=subprocess.PIPE,
            stderr=(self.folder / "stderr").open("w"),
            text=True,
            **self._identity,
        )
        assert self._process.stdout is not None
        said = ""
        while "log: " not in said:
            line = self._process.stdout.readline()
            if not line:
                raise AssertionError(f"dev ended: {said}\n{(self.folder / 'stderr').read_text()}")
            said += line
        return said

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ends it and returns its exit code. `said_at_end` is what it printed since it had started."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self.said_at_end = _unread(self._process.stdout.fileno())
        self._process.stdout.close()
        self._process = None
        return code

    def close(self) -> None:
        if self._process is not None:
            self.stop()

    def run(self, *arguments: str, stdin: str | None = None, within: float = 60.0, **environ: str) -> CommandOutput:
        """A command in the folder, which ends within so many seconds."""
        done = subprocess.run(
            (*_COMMAND, *arguments),
            cwd=self.folder,
            env=self.environ(**environ),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
            **self._identity,
        )
        return CommandOutput(done.returncode, done.stdout, done.stderr)

    def until(self, found: Callable[[], Any], *, within: float = 60.0) -> Any:
        """What `found` returns as soon as it is true."""
        deadline = time.monotonic() + within
        while not (value := found()):
            if time.monotonic() > deadline:
                log = (self.state / "dev.log").read_text()[-3000:]
                raise AssertionError(f"not within {within:g} s; {log}")
            time.sleep(0.2)
        return value

    def completed(self, *runs: str, **environ: str) -> bool:
        """Whether these runs, and no others of any schedule, have completed."""
        found = self.run("run", "list", "-o", "json", within=60.0, **environ).json
        return {each["id"] for each in found if each["schedule"] and each["state"] == "COMPLETED"} == set(runs)


def _unread(pipe: int) -> str:
    """What a pipe holds; runs that outlive the process may keep it open."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, 65536).decode()
    except BlockingIOError:
        return ""
