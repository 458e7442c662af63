"""A submission: a satisfaction by a person, where a trigger would need events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.names import ProgramRef, ScheduleRef

#: Most characters of an idempotency key.
LONGEST_KEY: Final = 255
#: Keys that are part of a job's id unchanged; of others a digest is.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGEST: Final = 32


@dataclass(frozen=True, slots=True)
class Submission:
    """What a person asked for.

    Attributes:
        job: id of the job, a function of the request's idempotency key, so a repeat finds the first.
        reason: who asks for it and why; "" when that was not given.
        arguments: override all other arguments of the run.
        columns: values of the columns of the correlation key, as they were given.
    """

    job: str
    reason: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The origin for the history: by a person, and why."""
        return f"by hand: {self.reason}" if self.reason else "by hand"


def submitted_job_id(owner: ScheduleRef | ProgramRef, key: str) -> str:
    """`<schedule or program>.submitted-<key>`: readable, safe in a URL and a file name.

    >>> submitted_job_id(ProgramRef("default", "flights", "join"), "march-7")
    'default.flights.join.submitted-march-7'

    Raises:
        InvalidError: the key is empty or too long.
    """
    return f"{owner}.submitted-{plain_key(key)}"


def plain_key(key: str) -> str:
    """An idempotency key as a part of an id: a digest replaces one that is long or has other characters than letters,
    digits, `-` and `_`.

    Raises:
        InvalidError: the key is empty or too long.
    """
    if not 0 < len(key) <= LONGEST_KEY:
        raise InvalidError("Idempotency-Key", f"must have 1 to {LONGEST_KEY} characters but has {len(key)}")
    return key if _PLAIN.fullmatch(key) else sha256(key.encode(errors="backslashreplace")).hexdigest()[:_DIGEST]
