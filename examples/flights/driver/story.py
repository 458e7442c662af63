"""Values of the demo: the state at one moment and the time line. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

ENDED = {"COMPLETED", "FAILED", "KILLED", "LOST"}
WAITING = {"PENDING_CONSTRAINT", "PENDING_LAUNCH"}


@dataclass(frozen=True)
class Counted:
    """Progress of one input of a trigger."""

    what: str
    have: int
    need: int


@dataclass(frozen=True)
class Commit:
    """A commit of the upstream job, from the file sets' manifests."""

    at: datetime
    dataset: str
    days: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class Happened:
    """A line of the time line."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True)
class Moment:
    """Progress, jobs and runs at one moment."""

    counted: tuple[Counted, ...]
    jobs: tuple[Mapping[str, Any], ...]
    runs: tuple[Mapping[str, Any], ...]

    def failed(self) -> Mapping[str, Any] | None:
        return next((run for run in self.runs if run["state"] in ENDED - {"COMPLETED"}), None)

    def complete(self, weeks: int) -> bool:
        """Whether every week has a job of the join (coalesced ones count), a report was created after the end of the
        last join, and no job or run is pending.
        """
        joins = [run for run in self.runs if program(run) == "join"]
        reports = [run for run in self.runs if program(run) == "report"]
        if any(job["state"] in WAITING for job in self.jobs) or any(run["state"] != "COMPLETED" for run in self.runs):
            return False
        if sum(job["schedule"].endswith("weekly-join") for job in self.jobs) < weeks:
            return False
        return bool(joins and reports) and max(r["createdAt"] for r in reports) > max(r["endedAt"] for r in joins)


def counted(schedule: Mapping[str, Any]) -> tuple[Counted, ...]:
    """Each leaf of the schedule's trigger: `3 of 7 new partitions of default.flights`."""
    progress = schedule.get("progress")
    if not progress:
        return ()
    leaves = progress.get("children") or [progress]
    return tuple(Counted(leaf["text"].rpartition(".")[2], leaf["have"], leaf["need"]) for leaf in leaves)


def program(run: Mapping[str, Any]) -> str:
    return str(run["program"]).rpartition(".")[2]


def short(id_: str) -> str:
    """A job's or run's id without namespace and app."""
    return id_.removeprefix("default.flights.")


def time_line(commits: Sequence[Commit], moment: Moment) -> list[Happened]:
    """Events, jobs and runs in chronological order."""
    return sorted([*_landed(commits), *_fired(moment), *_ran(moment)], key=lambda each: each.at)


def _landed(commits: Sequence[Commit]) -> Iterator[Happened]:
    for commit in commits:
        days = commit.days[0] if len(commit.days) == 1 else f"{commit.days[0]} … {commit.days[-1]}"
        yield Happened(commit.at, "event", f"{commit.dataset}: {days} ({commit.rows:,} rows)")


def _fired(moment: Moment) -> Iterator[Happened]:
    for job in moment.jobs:
        yield Happened(when(job["satisfiedAt"]), "job", f"{short(job['id'])} is ready")


def _ran(moment: Moment) -> Iterator[Happened]:
    for run in moment.runs:
        if run["startedAt"]:
            yield Happened(when(run["startedAt"]), "run", f"{short(run['id'])} starts")
        if run["endedAt"]:
            yield Happened(when(run["endedAt"]), "run", f"{short(run['id'])} {run['state'].lower()}")


def when(instant: str) -> datetime:
    return datetime.fromisoformat(instant)
