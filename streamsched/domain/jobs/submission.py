"""A submission: a satisfaction by a person, where a trigger would need events; a rerun, which repeats one; and a job of
a backfill.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.names import ProgramRef, ScheduleRef

#: Most characters of an idempotency key.
LONGEST_KEY: Final = 255
#: Keys that are part of a job's id unchanged; of others a digest is.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGEST: Final = 32
#: Characters of an id beyond which a digest replaces its key, of a rerun all between the first job and the key.
_LONGEST_ID: Final = 180
_RERUN: Final = ".rerun-"


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a submission repeats: the events, the key and the logical time of an earlier job.

    Attributes:
        job: that job, which may be a rerun itself.
        run: the run that is repeated.
        satisfied_at: when the first job of the chain was satisfied (UTC).
        submitted: whether a person submitted the first job of the chain.
    """

    job: str
    run: str
    satisfied_at: datetime
    submitted: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """What a person asked for, or a node of a graph.

    Attributes:
        job: id of the job, a function of the request's idempotency key, so a repeat finds the first.
        reason: who asks for it and why; "" when that was not given.
        arguments: override all other arguments of the run.
        columns: values of the columns of the correlation key, as they were given.
        rerun: what it repeats; None: nothing.
        muted: whether its runs' status is kept from all schedules.
        backfill: id of the backfill that it belongs to; None: it belongs to none.
        logical_at: what its runs are about (UTC), for a job of a backfill over ticks; None: when it was submitted.
        node: the job id of the node of a graph that is ready, which asked for it; None: a person did.
    """

    job: str
    reason: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    rerun: Rerun | None = None
    muted: bool = False
    backfill: str | None = None
    logical_at: datetime | None = None
    node: str | None = None

    @property
    def origin(self) -> str:
        """The origin for the history: by a person, what it repeats, and why; or the node of a graph."""
        if self.node is not None:
            return f"node {self.node} is ready"
        by = "by hand" if self.rerun is None else f"by hand, a rerun of {self.rerun.run}"
        by += f", of backfill {self.backfill}" if self.backfill is not None else ""
        by += ", muted" if self.muted else ""
        return f"{by}: {self.reason}" if self.reason else by


def submitted_job_id(owner: ScheduleRef | ProgramRef, key: str) -> str:
    """`<schedule or program>.submitted-<key>`: readable, safe in a URL and a file name.

    >>> submitted_job_id(ProgramRef("default", "flights", "join"), "march-7")
    'default.flights.join.submitted-march-7'

    Raises:
        InvalidError: the key is empty or too long.
    """
    return _shorten_id(f"{owner}.submitted-", key)


def backfill_id(schedule: ScheduleRef, key: str) -> str:
    """`<schedule>.backfill-<key>`: the id of a backfill, with which the ids of its jobs begin.

    Raises:
        InvalidError: the key is empty or too long.
    """
    return _shorten_id(f"{schedule}.backfill-", key)


def backfill_job_id(backfill: str, number: int) -> str:
    """`<backfill>.<number>`: the id of the job of one item."""
    return f"{backfill}.{number}"


def _shorten_id(begin: str, key: str) -> str:
    """An id of a key, or where it would be long of the key's digest."""
    name = begin + plain_key(key)
    return name if len(name) <= _LONGEST_ID else begin + _digest(key)


def _digest(text: str) -> str:
    return sha256(text.encode(errors="backslashreplace")).hexdigest()[:_DIGEST]


def plain_key(key: str) -> str:
    """An idempotency key as a part of an id: a digest replaces one that is long or has other characters than letters,
    digits, `-` and `_`.

    Raises:
        InvalidError: the key is empty or too long.
    """
    if not 0 < len(key) <= LONGEST_KEY:
        raise InvalidError("Idempotency-Key", f"must have 1 to {LONGEST_KEY} characters but has {len(key)}")
    return key if _PLAIN.fullmatch(key) else _digest(key)


def first_job(job: str) -> str:
    """The first job of the chain of reruns that a job belongs to; the job itself when it is no rerun.

    >>> first_job("default.flights.weekly.1.7.rerun-2.rerun-1")
    'default.flights.weekly.1.7'
    """
    return job.partition(_RERUN)[0]


def rerun_job_id(job: str, key: str) -> str:
    """`<job>.rerun-<key>`, of bounded length: where it would be long a digest stands for all after the first job.

    >>> rerun_job_id("default.flights.weekly.1.7", "2")
    'default.flights.weekly.1.7.rerun-2'

    Raises:
        InvalidError: the key is empty or too long.
    """
    name = f"{job}{_RERUN}{plain_key(key)}"
    return name if len(name) <= _LONGEST_ID else f"{first_job(job)}{_RERUN}{_digest(name)}"
