"""The environment of a run's program, without an installation."""

from __future__ import annotations

import json
from itertools import count
from typing import Final

from streamsched.spark.context import RUN_CONTENT


def run_environ(job: str = "default.sc.w.1.1", attempt: int = 1, *, by_hand: bool = False) -> dict[str, str]:
    """Of an attempt of a job, or of a run that was started by hand."""
    trigger = {"job": job, "schedule": "default.sc.w", "leaves": []}
    content = {
        "run": f"{job}.r{attempt}",
        "attempt": attempt,
        "program": "default.sc.w",
        "arguments": {},
        "trigger": None if by_hand else trigger,
    }
    return {RUN_CONTENT: json.dumps(content)}


_PROCESSES: Final = count(1)


def process_environ(job: str = "default.sc.w.1.1", attempt: int = 1) -> dict[str, str]:
    """As `run_environ`, of a process that is another one than those of earlier calls, also for the same attempt."""
    blanks = " " * next(_PROCESSES)
    return {name: value + blanks for name, value in run_environ(job, attempt).items()}
