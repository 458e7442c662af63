"""Ancestors of an event as JSON, in events, jobs and cells; programs and jobs are digests.

{"jobs": {program: [job, …]}, "reruns"?: {job: milliseconds}}

A program without jobs has too many; `*` stands for all programs that are not named.
"""

from __future__ import annotations

import re
from typing import Any, Final

from streamsched.codec.json.scalar import integer, mapping, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.ancestors import (
    JOB_DIGITS,
    MOST_ANCESTORS,
    NO_ANCESTORS,
    OTHERS,
    PROGRAM_DIGITS,
    Ancestors,
)
from streamsched.domain.limits import abridge

_DIGEST: Final = re.compile(r"[0-9a-f]*")


def to_json(ancestors: Ancestors) -> dict[str, Any]:
    """The JSON of ancestors that there are."""
    jobs = {program: list(named) for program, named in ancestors.jobs.items()}
    return {"jobs": jobs, **({"reruns": dict(ancestors.reruns)} if ancestors.reruns else {})}


def from_json(value: object, path: str) -> Ancestors:
    """Decodes ancestors; None are none.

    Raises:
        DecodeError: something is no digest, or there are more than `MOST_ANCESTORS`.
    """
    if value is None:
        return NO_ANCESTORS
    found = mapping(value, path)
    listed = mapping(found.get("jobs"), path, ".jobs")
    jobs = {
        program if program == OTHERS else _digest(program, PROGRAM_DIGITS, f"{path}.jobs"): tuple(
            _digest(job, JOB_DIGITS, f"{path}.jobs") for job in sequence(some, path, ".jobs")[: MOST_ANCESTORS + 1]
        )
        for program, some in listed.items()
    }
    if sum(max(1, len(some)) for some in jobs.values()) > MOST_ANCESTORS:
        raise DecodeError(f"{path}.jobs", f"names more than {MOST_ANCESTORS} ancestors")
    numbers = mapping(found.get("reruns", {}), path, ".reruns")
    if len(numbers) > MOST_ANCESTORS:
        raise DecodeError(f"{path}.reruns", f"names more than {MOST_ANCESTORS} ancestors")
    if not numbers:
        return Ancestors(jobs)
    at = f"{path}.reruns"
    return Ancestors(jobs, {_digest(job, JOB_DIGITS, at): integer(number, at) for job, number in numbers.items()})


def _digest(value: object, digits: int, path: str) -> str:
    found = text(value, path)
    if len(found) != digits or not _DIGEST.fullmatch(found):
        raise DecodeError(path, f"must be a digest of {digits} hexadecimal digits but is {abridge(found)}")
    return found
