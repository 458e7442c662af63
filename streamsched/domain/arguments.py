"""The arguments of a scheduled run: what its program, its schedule and its trigger say, the later over the earlier.

Triggering facts come under the prefix `trigger.` and overwrite nothing, whatever a schedule's properties are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from streamsched.domain.event import Ticked
from streamsched.domain.job import ReadyJob
from streamsched.domain.schedule import Program, Schedule

PREFIX: Final = "trigger."


def arguments(program: Program, schedule: Schedule, ready: ReadyJob) -> Mapping[str, str]:
    """Program defaults < schedule properties; then the facts nobody has named yet. Times as ISO 8601, UTC."""
    given = {**program.arguments, **schedule.properties}
    return {**dict(_facts(ready)), **given}


def _facts(ready: ReadyJob) -> Iterator[tuple[str, str]]:
    yield f"{PREFIX}job", ready.id
    yield f"{PREFIX}schedule", str(ready.schedule)
    yield f"{PREFIX}satisfied_at", ready.satisfied_at.isoformat()
    if ready.key:
        yield f"{PREFIX}key", ready.key
    ticks = [
        event.fact.due_at for part in ready.contributions for event in part.events if isinstance(event.fact, Ticked)
    ]
    if ticks:
        yield f"{PREFIX}logical_start_time", max(ticks).isoformat()
