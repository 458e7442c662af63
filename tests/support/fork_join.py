"""A fork and its join, as steps that are drawn and as a naive model: what happens between `a` and `d`.

`a` starts `b` and `c`, each by a schedule of its own: several ends of `a` may become one job of `b` (coalesced), jobs
may fail, be retried, be run again, be skipped, or be started by hand; so may those of `a`. Time passes, keys expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from hypothesis import strategies as st

from streamsched.domain.events.ancestors import NO_ANCESTORS, Ancestors, unite_ancestors
from streamsched.domain.events.event import Event, Outcome, ProgramReached
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put, Signal
from streamsched.domain.triggers.correlation import OnFull
from streamsched.domain.triggers.trigger import Per, ProgramStatus

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C, D = (ProgramRef("default", "shop", name) for name in "abcd")
JOIN: Final = ScheduleRef("default", "shop", "d")
EXPIRES: Final = timedelta(hours=10)
TRIGGER: Final = Per(ProgramStatus(B) & ProgramStatus(C), (), expires=EXPIRES, full=OnFull.DROP_OLDEST, run_of=A)

Branch = Literal["b", "c"]


class Step(NamedTuple):
    """What happens: `kind`, in which branch, with which of the jobs there are, and how many."""

    kind: Literal["a", "again a", "start", "skip", "again", "hand", "pass"]
    branch: Branch = "b"
    which: int = 0
    number: int = 1
    fails: bool = False


def steps() -> st.SearchStrategy[list[Step]]:
    kinds = st.sampled_from(["a", "a", "again a", "start", "start", "start", "start", "skip", "again", "hand", "pass"])
    branch = st.sampled_from(["b", "c"])
    step = st.builds(Step, kinds, branch, st.integers(0, 5), st.integers(1, 3), st.booleans())
    return st.lists(step, max_size=40)


class Root(NamedTuple):
    """A job of `a`, and the number of its rerun; 0: the first."""

    job: int
    rerun: int


@dataclass
class Job:
    """A job of `b` or `c`: what it descends from, as the model and as the product have it."""

    name: str
    roots: frozenset[Root]
    before: Ancestors
    runs: int = 0


@dataclass
class Open:
    """What the model has under a key."""

    rerun: int
    since: datetime
    events: dict[str, list[str]] = field(default_factory=lambda: {"b": [], "c": []})


@dataclass
class Fork:
    """Follows steps: the log that `d` reads, and what it is to start for each job of `a`: the ids of the events."""

    at: datetime = START
    log: list[tuple[datetime, Signal]] = field(default_factory=lambda: [(START, Put(JOIN, 1, True, TRIGGER))])
    started: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    open: dict[int, Open] = field(default_factory=dict)
    lost: int = 0
    waiting: dict[str, list[tuple[Root, Ancestors]]] = field(default_factory=lambda: {"b": [], "c": []})
    jobs: dict[str, list[Job]] = field(default_factory=lambda: {"b": [], "c": []})
    roots: int = 0
    reruns: int = 0

    def follow(self, wanted: Sequence[Step]) -> None:
        for step in wanted:
            self.at += timedelta(minutes=7)
            match step.kind:
                case "a":
                    self.roots += 1
                    self._ended_a(Root(self.roots, 0))
                case "again a" if self.roots:
                    self.reruns += 1
                    self._ended_a(Root(step.which % self.roots + 1, self.reruns))
                case "start" if self.waiting[step.branch]:
                    self._start(step)
                case "skip":
                    del self.waiting[step.branch][: step.number]
                case "again" if self.jobs[step.branch]:
                    self._end(step.branch, self.jobs[step.branch][step.which % len(self.jobs[step.branch])], step)
                case "hand":
                    self._end(step.branch, Job(f"hand{len(self.log)}", frozenset(), NO_ANCESTORS), step)
                case "pass":
                    self.at += timedelta(hours=3 * step.number)
                case _:
                    pass

    def _ended_a(self, root: Root) -> None:
        """A job of `a` succeeds, and both branches have another satisfaction."""
        ancestors = NO_ANCESTORS.extend_by_job(A, job_of_a(root.job), root.rerun)
        for waiting in self.waiting.values():
            waiting.append((root, ancestors))

    def _start(self, step: Step) -> None:
        """The oldest satisfactions become one job. It may fail at first: a retry is a run of the same job."""
        taken, self.waiting[step.branch] = (
            self.waiting[step.branch][: step.number],
            self.waiting[step.branch][step.number :],
        )
        job = Job(
            f"{step.branch}{len(self.jobs[step.branch])}",
            frozenset(root for root, _ in taken),
            unite_ancestors(ancestors for _, ancestors in taken),
        )
        self.jobs[step.branch].append(job)
        self._end(step.branch, job, step)

    def _end(self, branch: Branch, job: Job, step: Step) -> None:
        """A run of the job ends; of one that fails no schedule is told."""
        job.runs += 1
        if step.fails:
            return
        name = f"{job.name}.r{job.runs}"
        program = B if branch == "b" else C
        fact = ProgramReached(program, name, Outcome.SUCCEEDED, ancestors=job.before.extend_by_job(program, job.name))
        self.log.append((self.at, Occurred(Event(name, "test", self.at, fact))))
        newest: dict[int, int] = {}
        for root in job.roots:
            newest[root.job] = max(root.rerun, newest.get(root.job, 0))
        for key, rerun in newest.items():
            self._count(branch, key, rerun, name)

    def _count(self, branch: Branch, key: int, rerun: int, event: str) -> None:
        known = self.open.get(key)
        if known is not None and self.at >= known.since + EXPIRES:
            self.lost += 1
            known = None
        if known is not None and rerun < known.rerun:
            return
        if known is None or rerun > known.rerun:
            known = self.open[key] = Open(rerun, self.at)
        known.events[branch].append(event)
        if all(known.events.values()):
            self.started.append((key, frozenset(each for some in known.events.values() for each in some)))
            del self.open[key]

    def end(self, at: datetime) -> None:
        """Nothing more happens until then."""
        for key, known in list(self.open.items()):
            if at >= known.since + EXPIRES:
                del self.open[key]
                self.lost += 1


def job_of_a(number: int) -> str:
    return f"default.shop.a.1.{number}"
