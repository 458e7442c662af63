"""A run's files below the data directory: its log, what it is told, and the note of how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from streamsched.codec import facts
from streamsched.domain.run import RunState
from streamsched.durable import whole
from streamsched.ports.runs import Assignment, Ending

log = structlog.get_logger()

_LOG: Final = ("logs", ".log")
_RUNNER_LOG: Final = ("logs", ".runner.log")
_TOLD: Final = ("runs", ".json")
_NOTE: Final = ("runs", ".exit")
#: The folder of each file of a run, and what follows the run in its name; the longer before what it ends with.
_KINDS: Final = (_RUNNER_LOG, _LOG, _TOLD, _NOTE)
#: The folders in which files of runs are.
FOLDERS: Final = tuple(dict.fromkeys(folder for folder, _ in _KINDS))
_TAIL: Final = 64 * 1024
_ERROR: Final = re.compile(r"^[\w.$]*(Error|Exception|Interrupt|Exit|Failure)\b")
_NOISE: Final = re.compile(r"^\s*(at |\.\.\. \d+ more|Traceback|File \"|\^+$|~)|\b(INFO|DEBUG|TRACE)\b")
_REASON_LENGTH: Final = 500


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where the files of a run are."""

    data_dir: Path
    run: str

    @property
    def log(self) -> Path:
        return self._at(_LOG)

    @property
    def runner_log(self) -> Path:
        """What the runner itself says, when something is wrong with it."""
        return self._at(_RUNNER_LOG)

    @property
    def told(self) -> Path:
        return self._at(_TOLD)

    @property
    def note(self) -> Path:
        return self._at(_NOTE)

    @property
    def all(self) -> tuple[Path, ...]:
        return tuple(self._at(kind) for kind in _KINDS)

    def make_folders(self) -> None:
        for folder in (*FOLDERS, "spool"):
            (self.data_dir / folder).mkdir(parents=True, exist_ok=True)

    def _at(self, kind: tuple[str, str]) -> Path:
        folder, suffix = kind
        return self.data_dir / folder / f"{self.run}{suffix}"


def run_of(name: str) -> str | None:
    """The run whose file has that name; None when it is no file of a run."""
    suffix = next((suffix for _, suffix in _KINDS if name.endswith(suffix)), None)
    return None if suffix is None else name.removesuffix(suffix)


def write_told(files: RunFiles, assignment: Assignment) -> Path:
    """What the program is told, for `streamsched.spark.current_run()`:

    {"run", "attempt", "program", "arguments",
     "trigger": `codec.facts.native` or null, "triggeringScheduleInfo": CDAP's shape or null}
    """
    ready, schedule = assignment.ready, assignment.schedule
    told: dict[str, Any] = {
        "run": assignment.run,
        "attempt": assignment.attempt,
        "program": str(assignment.program.ref),
        "arguments": dict(assignment.arguments),
        "trigger": None if ready is None else facts.native(ready, trigger=schedule and schedule.trigger),
        "triggeringScheduleInfo": None,
    }
    if ready is not None and schedule is not None:
        told["triggeringScheduleInfo"] = facts.triggering_schedule_info(
            ready, trigger=schedule.trigger, description=schedule.description, properties=schedule.properties
        )
    _write(files.told, orjson.dumps(told, option=orjson.OPT_INDENT_2))
    return files.told


def write_note(files: RunFiles, ending: Ending) -> None:
    """How the run ended, on disk before anybody else is told: it outlives the runner and an absent PostgreSQL.

    Raises:
        OSError: the disk does not take it.
    """
    _write(
        files.note,
        orjson.dumps({"state": ending.state, "reason": ending.reason, "at": ending.at, "exit_code": ending.exit_code}),
    )


def read_note(files: RunFiles) -> Ending | None:
    """The note, or None when the runner left none that says anything.

    Raises:
        OSError: it cannot be read.
    """
    try:
        found = orjson.loads(files.note.read_bytes())
        at = datetime.fromisoformat(found["at"])
        return Ending(RunState(found["state"]), found["reason"], at, found["exit_code"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as exc:
        log.error("run.note_says_nothing", run=files.run, reason=repr(exc))
        return None


def last_words(path: Path) -> str:
    """The line of a log that most likely says what went wrong: the last one that names an error, else the last one that
    is no stack frame and no chatter. Empty when there is none, or no log that can be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            said = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if not _NOISE.search(line)]
    errors = [line for line in telling if _ERROR.match(line)]
    return (errors or telling or [""])[-1].strip()[:_REASON_LENGTH]


def _write(path: Path, content: bytes) -> None:
    """All or nothing, also when the machine stops."""
    with whole(path) as file:
        file.write(content)
