"""Submissions and reruns: jobs that a person asks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.schedules.submission_request import RerunRequest, SubmissionRequest


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """The job of a submission. `repeated`: an earlier request with the same idempotency key made it."""

    job: str
    repeated: bool


class SubmissionStore(Protocol):
    """Makes jobs of requests. Idempotent by the request's token, as long as the history keeps the job."""

    async def submit(self, request: SubmissionRequest, *, now: datetime) -> SubmittedJob:
        """Stores the job, which waits for its constraints like any other, and notifies the launchers. A schedule that
        is paused keeps it waiting.

        Raises:
            NotFoundError: no such schedule or program.
            InvalidError: the key does not fit the schedule; a program has schedules in several pools.
            ConflictError: the schedule is disabled, or the token belongs to another request.
            UnavailableError: PostgreSQL is unavailable; a repeat finds what was stored.
        """
        ...

    async def rerun(self, request: RerunRequest, *, now: datetime) -> SubmittedJob:
        """Stores a job with the events, key and logical time of an earlier one, as `submit`; it waits by itself. Both
        jobs have it in their history.

        Raises:
            NotFoundError: no such job or run, or its schedule or program was removed.
            InvalidError: the token is empty or too long.
            ConflictError: the job has had no run, or the run has not ended; the schedule is disabled; the token belongs
                to another request.
            UnavailableError: PostgreSQL is unavailable; a repeat finds what was stored.
        """
        ...
