"""Keys that are runs: `per_run_of` counts the ends of programs for each job of one of their ancestors (ADR 11).

An end counts under the key of each job of that program from which it descends, and under its own if it is of that
program. A job that started another by several of its runs, such as a retry, is one key, and so is a job with its
reruns; what a later rerun led to takes the place of what earlier runs of the job did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streamsched.domain.events.ancestors import MOST_ANCESTORS
from streamsched.domain.events.event import Event, ProgramReached
from streamsched.domain.names import ProgramRef


def run_slices(program: ProgramRef, event: Event) -> Iterator[tuple[str, Event]]:
    """Yields (key, the event as one that descends from no other job of the program); nothing for too many."""
    fact = event.fact
    if not isinstance(fact, ProgramReached):
        return
    known = fact.known_ancestors
    jobs = known.jobs_of(program) or ()
    if len(jobs) == 1:
        yield jobs[0], event
        return
    for job in jobs:
        yield job, replace(event, fact=replace(fact, ancestors=known.narrow_to_job(program, job)))


def rerun_of(event: Event, key: str) -> int:
    """The number of the rerun of the key's job that led to the event; 0: the first job itself."""
    fact = event.fact
    return fact.ancestors.reruns.get(key, 0) if isinstance(fact, ProgramReached) else 0


def too_many_runs_reason(program: ProgramRef | None, event: Event) -> str:
    """Why the event counts under no key of `per_run_of` although it has ancestors; "" when that is not so."""
    fact = event.fact
    if program is None or not isinstance(fact, ProgramReached) or fact.known_ancestors.jobs_of(program) is not None:
        return ""
    return f"it descends from too many runs of {program}: at most {MOST_ANCESTORS} ancestors are kept"


def why_no_run(program: ProgramRef | None, event: Event) -> str:
    """Why the event has no key of `per_run_of`; "" when that is not so."""
    fact = event.fact
    if program is None or not isinstance(fact, ProgramReached) or fact.known_ancestors.jobs_of(program) != ():
        return ""
    return f"it descends from no run of {program}: it was started by hand, or by something else"
