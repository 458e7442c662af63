"""A run's files in the data directory: its log, the run file for its program, and the note with its end."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from streamsched.codec.views import trigger_context
from streamsched.domain.events.event import LOG_TAIL
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.run import RunState, file_name
from streamsched.emit.destination import SPOOLS
from streamsched.ports.runs import Assignment, RunEnd
from streamsched.process.files import write_atomically
from streamsched.process.os_user import OsUser, give, private_folder
from streamsched.spark.drivers.spark_submit import DriverPython
from streamsched.spark.run_log import end_of
from streamsched.wire.runs import METRICS, stored_metrics

log = structlog.get_logger()

_LOG: Final = ("logs", ".log")
_RUNNER_LOG: Final = ("logs", ".runner.log")
_RUN_FILE: Final = ("runs", ".json")
_NOTE: Final = ("runs", ".exit")
_PRIVATE_CONF: Final = ("runs", ".conf")
_PYTHON: Final = ("runs", ".python")
_PYTHON_EXIT: Final = ("runs", ".python-exit")
#: Folder and suffix of each kind of file; a longer suffix precedes a shorter one that it ends with.
_KINDS: Final = (_RUNNER_LOG, _LOG, _RUN_FILE, _NOTE, _PRIVATE_CONF, _PYTHON, _PYTHON_EXIT)
#: All folders with files of runs.
FOLDERS: Final = tuple(dict.fromkeys(folder for folder, _ in _KINDS))
#: The one with their logs.
LOGS: Final = _LOG[0]
_ERROR: Final = re.compile(r"^[\w.$]*(Error|Exception|Interrupt|Exit|Failure)\b")
#: Lines that say nothing of a failure: stack frames, messages and warnings, and what Spark prints at its start.
_NOISE: Final = re.compile(
    r"^\s*(at |\.\.\. \d+ more|Traceback|File \"|\^+$|~)|\b(INFO|DEBUG|TRACE|WARN)\b|^WARNING: "
    r"|^Setting (default|Spark) log level to |^To adjust logging level |^Using Spark's default log4j profile"
    r"|^Calling System\.exit\(\) with exit code "
)
_TRACEBACK: Final = "Traceback (most recent call last):"
#: The Python side of an exception in the JVM; the Java exception follows.
_PY4J: Final = re.compile(r"^(py4j\.protocol\.)?Py4JJavaError: An error occurred while calling ")
_CAUSES: Final = (": ", "Caused by: ")
_REASON_LENGTH: Final = 500
TAIL_LINES: Final = 20
#: A disk with less room, in bytes, is full: the next block of a log does not fit.
_ROOM: Final = 4096


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The paths of a run's files."""

    data_dir: Path
    run: str

    @property
    def log(self) -> Path:
        """The run's output."""
        return self._path_of(_LOG)

    @property
    def runner_log(self) -> Path:
        """The runner's own output."""
        return self._path_of(_RUNNER_LOG)

    @property
    def run_file(self) -> Path:
        """What the runner tells the program: JSON, read by `current_run()`."""
        return self._path_of(_RUN_FILE)

    @property
    def note(self) -> Path:
        """The end of the run, kept while PostgreSQL cannot store it."""
        return self._path_of(_NOTE)

    @property
    def private_conf(self) -> Path:
        """Settings of a Spark program that are secrets, while the run is active."""
        return self._path_of(_PRIVATE_CONF)

    @property
    def driver_python(self) -> DriverPython:
        """What starts the Python of a Spark program, while the run is active."""
        return DriverPython(self._path_of(_PYTHON), self._path_of(_PYTHON_EXIT))

    @property
    def event_log(self) -> Path:
        """The folder of Spark's event logs, while the run's metrics are read from it."""
        return self.data_dir / "runs" / f"{file_name(self.run)}.events"

    @property
    def spool(self) -> Path:
        """The folder for events that the run could not send; its name is what says whose they are."""
        return self.data_dir / SPOOLS / file_name(self.run)

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file of the run, whether it exists or not."""
        return tuple(self._path_of(kind) for kind in _KINDS)

    def make_folders(self) -> None:
        """Makes the folders, and closes them to other users. Users of programs get to those files that are theirs."""
        if not self.data_dir.exists():
            private_folder(self.data_dir)
        for folder in (*FOLDERS, SPOOLS):
            private_folder(self.data_dir / folder, passable=folder in (_RUN_FILE[0], SPOOLS))
        private_folder(self.spool)

    def _path_of(self, kind: tuple[str, str]) -> Path:
        folder, suffix = kind
        return self.data_dir / folder / f"{file_name(self.run)}{suffix}"


def run_of(name: str) -> str | None:
    """The run id in a file name, or what stands for a long one (`file_name`); None when it is not a file of a run."""
    suffix = next((suffix for _, suffix in _KINDS if name.endswith(suffix)), None)
    return None if suffix is None else name.removesuffix(suffix)


def write_run_file(files: RunFiles, assignment: Assignment, user: OsUser | None = None) -> Path:
    """Writes the run file, which only its owner can read: this process's user, or `user`. `current_run()` reads it:

    {"run", "attempt", "program", "arguments",
     "trigger": `codec.views.trigger_context.native` or null, "triggeringScheduleInfo": CDAP's shape or null}
    """
    ready, schedule = assignment.ready, assignment.schedule
    content: dict[str, Any] = {
        "run": assignment.run,
        "attempt": assignment.attempt,
        "program": str(assignment.program.ref),
        "arguments": dict(assignment.arguments),
        "trigger": None if ready is None else trigger_context.native(ready, trigger=schedule and schedule.trigger),
        "triggeringScheduleInfo": None,
    }
    if ready is not None and schedule is not None and (ready.contributions or not ready.is_by_person):
        content["triggeringScheduleInfo"] = trigger_context.triggering_schedule_info(
            ready, trigger=schedule.trigger, description=schedule.description, properties=schedule.properties
        )
    _write(files.run_file, orjson.dumps(content, option=orjson.OPT_INDENT_2), user)
    return files.run_file


def full_disk(files: RunFiles) -> str:
    """A sentence when the disk of the run's log is full, of which its program may have failed; "" when it has room."""
    folder = files.log.parent
    try:
        found = os.statvfs(folder)
    except OSError:
        return ""
    return "" if found.f_bavail * found.f_frsize >= _ROOM else f"the disk with the log's folder, {folder}, is full"


def write_note(files: RunFiles, ending: RunEnd) -> None:
    """Writes the run's end to disk, before it is stored in PostgreSQL, so that it survives a crash of the runner.

    Raises:
        OSError: the file cannot be written.
    """
    _write(
        files.note,
        orjson.dumps(
            {
                "state": ending.state,
                "reason": ending.reason,
                "at": ending.at,
                "exit_code": ending.exit_code,
                "failure": ending.failure,
                "log_tail": ending.log_tail,
                "may_live": ending.may_live,
                "metrics": None if ending.metrics is None else METRICS.write(ending.metrics),
            }
        ),
    )


def read_note(files: RunFiles) -> RunEnd | None:
    """The run's end from its note; None without a readable note.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        found = orjson.loads(files.note.read_bytes())
        at = datetime.fromisoformat(found["at"])
        measured = stored_metrics(found.get("metrics"))
        failure = None if found.get("failure") is None else Failure(found["failure"])
        return RunEnd(
            RunState(found["state"]),
            found["reason"],
            at,
            found["exit_code"],
            found["log_tail"],
            failure=failure,
            metrics=measured,
            may_live=found.get("may_live") is True,
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as exc:
        log.error("run.note_unreadable", run=files.run, reason=repr(exc))
        return None


def log_tail(path: Path) -> str:
    """The last `TAIL_LINES` lines of a log, at most the last `LOG_TAIL` characters; "" if it cannot be read."""
    lines = end_of(path).splitlines()[-TAIL_LINES:]
    return "\n".join(line.rstrip() for line in lines).strip("\n")[-LOG_TAIL:]


def failure_reason(path: Path) -> str:
    """The line of a log that most likely has the cause of the failure: the exception after the last Python traceback,
    or the Java exception if that is a failed call into the JVM. Without a traceback, the last line that names an error,
    else the last line that is neither a stack frame nor an informational message. Empty when there is none, or the log
    cannot be read.
    """
    lines = [line.rstrip() for line in end_of(path).splitlines() if line.strip()]
    raised = _raised_exception(lines)
    if raised:
        return raised[:_REASON_LENGTH]
    relevant = [line for line in lines if not _NOISE.search(line)]
    errors = [line for line in relevant if _ERROR.match(line)]
    return (errors or relevant or [""])[-1].strip()[:_REASON_LENGTH]


def _raised_exception(lines: Sequence[str]) -> str:
    """The exception of the last Python traceback; empty without a traceback or without its exception."""
    begin = max((at for at, line in enumerate(lines) if line.endswith(_TRACEBACK)), default=None)
    if begin is None:
        return ""
    rest = lines[begin + 1 :]
    at = next((at for at, line in enumerate(rest) if not line[0].isspace()), None)
    if at is None or _NOISE.search(rest[at]):
        return ""
    if _PY4J.match(rest[at]):
        causes = [line[len(sign) :] for line in rest[at + 1 :] for sign in _CAUSES if line.startswith(sign)]
        # the first is the JVM's exception, the last its root cause
        return causes[-1].strip() if causes else rest[at]
    message = rest[at]
    if message.endswith(":") and at + 1 < len(rest) and not _NOISE.search(rest[at + 1]):
        message = f"{message} {rest[at + 1].strip()}"
    return message


def _write(path: Path, content: bytes, user: OsUser | None = None) -> None:
    """Writes the file atomically and durably, for its owner only."""
    with write_atomically(path) as file:
        os.fchmod(file.fileno(), 0o600)
        give(file.fileno(), user)
        file.write(content)
