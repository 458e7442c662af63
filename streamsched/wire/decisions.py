"""Decisions about jobs and runs, as their stream has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.codec.shape.json_shape import JsonShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happened to a job or a run.

    Attributes:
        number: grows with each decision; `after` of a later reading.
        action: such as `job.waits`; `reason`: why.
        state: that the job or run has entered; None: it stays as it was.
        job: of a run; of a job itself.
    """

    number: int
    at: datetime
    kind: str
    subject: str
    action: str
    state: str | None
    reason: str
    schedule: str | None
    program: str | None
    job: str | None
    attempt: int | None


DECISION: Final = JsonShape(Decision)
