"""Ancestors of an event: the jobs whose runs led to it.

The end of a run has its own job as an ancestor, and those of the ends of programs that started it (ADR 11). So two
programs that the end of a third one started can be joined again for each run of that one
(`domain.triggers.run_keys`). Other events have none.

Programs and jobs are named by digests: an event reaches schedules of other namespaces, which learn no names from it.
Attempts of a job, and its reruns, are one ancestor; what a later rerun led to has a greater number (`reruns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from streamsched.domain.names import ProgramRef

#: Most ancestors of one event. Beyond, those of the programs with the most are left out, and the event says so.
MOST_ANCESTORS: Final = 1000
#: In place of a program: of all that are not named, jobs were left out.
OTHERS: Final = "*"
#: Characters of the digests.
PROGRAM_DIGITS: Final = 16
JOB_DIGITS: Final = 24
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ancestors:
    """The ancestors of an event.

    Attributes:
        jobs: program → its jobs, each as a digest, sorted; without jobs: there were too many.
        reruns: job → when the rerun was made that led here, in milliseconds since 1970; the first job is not in it.
    """

    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    reruns: Mapping[str, int] = field(default_factory=lambda: _NOTHING)

    def __bool__(self) -> bool:
        return bool(self.jobs)

    def jobs_of(self, program: ProgramRef) -> tuple[str, ...] | None:
        """The jobs of the program, as digests; None: there were too many."""
        named = self.jobs.get(program_digest(program))
        if named is None:
            return None if OTHERS in self.jobs else ()
        return named or None

    def narrow_to_job(self, program: ProgramRef, job: str) -> Ancestors:
        """With only this job of the program."""
        jobs = {**self.jobs, program_digest(program): (job,)}
        return Ancestors(jobs, _select_reruns(self.reruns, jobs) if self.reruns else _NOTHING)

    def extend_by_job(self, program: ProgramRef, job: str, rerun: int = 0) -> Ancestors:
        """Those of the run of a job of the program that what has these ancestors started. `job`: the first of a chain
        of reruns. Earlier jobs of the same program are no ancestors: in a chain that returns to a program, each of its
        runs begins anew.
        """
        own = job_digest(job)
        rest = {each: jobs for each, jobs in self.jobs.items() if each != program_digest(program)}
        jobs = {program_digest(program): (own,), **_limit_jobs(rest, MOST_ANCESTORS - 1)}
        kept = _select_reruns(self.reruns, jobs) if self.reruns else _NOTHING
        return Ancestors(jobs, {**kept, own: rerun} if rerun else kept or _NOTHING)


NO_ANCESTORS: Final = Ancestors()


@lru_cache(1 << 14)
def program_digest(program: ProgramRef) -> str:
    """The digest that names a program."""
    return sha256(str(program).encode()).hexdigest()[:PROGRAM_DIGITS]


def job_digest(job: str) -> str:
    """The digest that names a job, or a run without a job, by its id."""
    return sha256(job.encode(errors="surrogatepass")).hexdigest()[:JOB_DIGITS]


def unite_ancestors(some: Iterable[Ancestors]) -> Ancestors:
    """The ancestors of what several events start together. The result does not depend on their order."""
    found: dict[str, set[str] | None] = {}
    reruns: dict[str, int] = {}
    for each in some:
        for program, jobs in each.jobs.items():
            known = found.setdefault(program, set())
            if not jobs:
                found[program] = None
            elif known is not None:
                known.update(jobs)
        for job, number in each.reruns.items():
            reruns[job] = max(number, reruns.get(job, 0))
    jobs = _limit_jobs({program: tuple(sorted(named or ())) for program, named in found.items()}, MOST_ANCESTORS)
    return Ancestors(jobs, _select_reruns(reruns, jobs) if reruns else _NOTHING) if jobs else NO_ANCESTORS


def _limit_jobs(jobs: Mapping[str, tuple[str, ...]], most: int) -> Mapping[str, tuple[str, ...]]:
    """At most so many jobs and programs without jobs: the programs with the most jobs lose all of them first."""
    size = sum(max(1, len(named)) for named in jobs.values())
    left = dict(jobs)
    for program, named in sorted(jobs.items(), key=lambda each: (-len(each[1]), each[0])):
        if size <= most:
            return left
        size -= max(0, len(named) - 1)
        left[program] = ()
    return left if size <= most else {**dict.fromkeys(sorted({*left} - {OTHERS})[: most - 1], ()), OTHERS: ()}


def _select_reruns(reruns: Mapping[str, int], jobs: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    """Of the jobs that are there."""
    named = {job for some in jobs.values() for job in some}
    return {job: number for job, number in reruns.items() if job in named} or _NOTHING
