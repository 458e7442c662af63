"""The environment of a run's program, without an installation."""

from __future__ import annotations

import json

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
