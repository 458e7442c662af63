"""The ancestors of a job, from the ends of programs that satisfied it, as JSON text (`codec.events.ancestors`).

Intake copies thousands of records at a time, so of these only such events are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from streamsched.codec.events import ancestors, native
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.ancestors import Ancestors, unite_ancestors
from streamsched.domain.events.event import ProgramReached
from streamsched.domain.jobs.job import ReadyJob

_MARK: Final = f'"{native.PROGRAM_STATUS}"'


def ancestors_of_record(ready: str) -> str | None:
    """Of a job as `codec.records.launch` writes it; None where there are none."""
    if _MARK not in ready:
        return None
    return _text(found for event in orjson.loads(ready)["events"] if (found := known_ancestors(event)) is not None)


def ancestors_of_job(job: ReadyJob) -> str | None:
    """Of a job; None where there are none."""
    facts = (event.fact for part in job.contributions for event in part.events)
    return _text(fact.known_ancestors for fact in facts if isinstance(fact, ProgramReached))


def known_ancestors(event: Mapping[str, Any]) -> Ancestors | None:
    """Of an end of a program in native JSON; None of another event, or of one that cannot be decoded."""
    if event.get("type") != native.PROGRAM_STATUS:
        return None
    try:
        fact = native.fact_from_json(native.PROGRAM_STATUS, event.get("data"), "$")
    except DecodeError:
        return None
    return fact.known_ancestors if isinstance(fact, ProgramReached) else None


def _text(found: Iterable[Ancestors]) -> str | None:
    known = unite_ancestors(found)
    return orjson.dumps(ancestors.to_json(known)).decode() if known else None
